"""Requests as chat messages of text alone, for trainers whose own loop knows neither tools nor their outputs."""

from __future__ import annotations

import json
from typing import Any

from gym_llm.protocols.chat.chat_messages import messages_of
from gym_llm.protocols.chat.requests import request_to_chat
from gym_llm.types import Item, Request

_TOOLS = """\
# Tools

You may call one or more functions to assist with the user query. Their signatures, in JSON:
<tools>
{schemas}
</tools>

For each call, write a JSON object with the function's name and its arguments:
<tool_call>
{{"name": <function's name>, "arguments": <JSON object>}}
</tool_call>"""


def first_messages(request: Request) -> list[dict[str, str]]:
    """The messages of an episode's first request; its tools are described in the system message, as Hermes has them.

    >>> first_messages({"instructions": "Be brief.", "input": "Hi"})
    [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Hi'}]
    """
    chat = request_to_chat(request)
    messages = _text_only(chat["messages"])
    if tools := chat.get("tools"):
        described = _TOOLS.format(schemas="\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools))
        if messages and messages[0]["role"] == "system":
            messages[0]["content"] += f"\n\n{described}"
        else:
            messages.insert(0, {"role": "system", "content": described})
    return messages


def next_messages(items: list[Item]) -> list[dict[str, str]]:
    r"""Return the messages after a model's turn from the items that a step added: tools' outputs and users' messages.

    >>> next_messages([{"type": "function_call_output", "call_id": "1", "output": "Rain."}])
    [{'role': 'user', 'content': '<tool_response>\nRain.\n</tool_response>'}]
    """
    return _text_only([message for message in messages_of(items) if message["role"] != "assistant"])


def _text_only(messages: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Messages of role and text; outputs of tools right after each other are one message of a user."""
    plain: list[dict[str, str]] = []
    after_tool = False
    for message in messages:
        role, text = message["role"], _text(message.get("content"))
        if is_tool := role == "tool":
            role, text = "user", f"<tool_response>\n{text}\n</tool_response>"
        if is_tool and after_tool:
            plain[-1]["content"] += f"\n{text}"
        else:
            plain.append({"role": role, "content": text})
        after_tool = is_tool
    return plain


def _text(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    return "".join(part.get("text", "") for part in content)
