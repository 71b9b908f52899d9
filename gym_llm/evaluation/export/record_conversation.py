"""Chats of records: the lines that OpenAI's fine-tuning and TRL's SFTTrainer read, and the base of other formats.

Format: https://platform.openai.com/docs/guides/supervised-fine-tuning (`messages`, `tools`). On request a message has
`reasoning_content` beside its content, as the chat templates of open models have it; OpenAI's checks refuse it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gym_llm.data.files.atomic import replacing
from gym_llm.errors import EngineError
from gym_llm.protocols.chat.requests import request_to_chat
from gym_llm.types import Item, Rollout
from gym_llm.utils.json_codec import dumps


def items_of_record(record: Rollout) -> tuple[list[Item], list[Item]]:
    """Return an episode's first items, and all items since."""
    given: Any = record.get("responses_create_params", {}).get("input", [])
    if isinstance(given, str):
        given = [{"type": "message", "role": "user", "content": given}]
    return given, record.get("response", {}).get("output") or []  # type: ignore[typeddict-item]


def conversation(record: Rollout) -> dict[str, Any]:
    """Return an episode as the body of a chat: `messages`, and `tools` if it has any.

    An assistant's reasoning is its message's `reasoning_content`.

    Raises:
        EngineError: If it has an item that a chat cannot hold.
    """
    given, said = items_of_record(record)
    params: dict[str, Any] = {**record.get("responses_create_params", {}), "input": [*given, *said]}
    chat = request_to_chat(params)  # type: ignore[arg-type]
    messages = [{name: part for name, part in message.items() if name != "reasoning"} for message in chat["messages"]]
    return {"messages": messages, **({"tools": chat["tools"]} if chat.get("tools") else {})}


def fine_tuning_chat(record: Rollout, *, reasoning: bool = False) -> dict[str, Any]:
    """Return an episode as a line for supervised fine-tuning.

    Args:
        record: The episode.
        reasoning: Whether messages keep their `reasoning_content`.

    Raises:
        EngineError: If a chat cannot hold it, or fine-tuning would refuse it: it ends without an answer of the model.
    """
    chat = conversation(record)
    if not reasoning:
        chat["messages"] = [
            {name: part for name, part in message.items() if name != "reasoning_content"}
            for message in chat["messages"]
        ]
    messages = chat["messages"]
    if not messages or messages[-1]["role"] != "assistant":
        raise EngineError("It does not end with an answer of the model.")
    for message in messages:
        if message["role"] == "assistant" and not (message.get("content") or message.get("tool_calls")):
            raise EngineError("A turn of the model has reasoning alone, or nothing.")
    return chat


def write(records: Iterable[Rollout], output: Path, *, reasoning: bool = False) -> None:
    """Write one chat a line; the caller leaves out masked episodes and those that `fine_tuning_chat` refuses."""
    with replacing(output) as file:
        for record in records:
            file.write(dumps(fine_tuning_chat(record, reasoning=reasoning)))
