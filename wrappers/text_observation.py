"""TextObservation: requests as prompt strings."""

from __future__ import annotations

import functools
import json
from typing import Any, Literal

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from gym_llm.core.spaces import AnyText
from gym_llm.protocols.responses.transcript import transcript
from gym_llm.tokens.template import chat_prompt
from gym_llm.types import Item, Request


class TextObservation(gym.ObservationWrapper[str, Any, Request], RecordConstructorArgs):
    r"""A wrapper that returns the request as one string to complete, for models and loops that take text.

    `"plain"` is a readable transcript: the tools, a paragraph for each item with its speaker, and at the end
    `assistant:` for the model to continue. `"chat"` is the output of a chat template, up to the start of the model's
    turn. The observation space becomes `AnyText`.

    `ToolCallParser` reads the request's tools, so this wrapper goes around it.

    Args:
        env: The environment to wrap.
        format: `"plain"` or `"chat"`.
        tokenizer: For `"chat"`: the name or path of a tokenizer with a chat template, loaded by `transformers`, once
            per process.

    Raises:
        ImportError: If `format="chat"` and `transformers` is not installed.
        OSError: If there is no such tokenizer.
        ValueError: If the arguments do not fit together, or the tokenizer has no chat template.

    Example:
        >>> import gymnasium as gym, gym_llm
        >>> from gym_llm.wrappers import TextObservation
        >>> row = {"responses_create_params": {"input": "2+2?"}, "expected_answer": "4"}
        >>> env = TextObservation(gym.make("gym_llm/FollowUp-v0", tasks=[row]))
        >>> env.reset(seed=0)[0]
        'user: 2+2?\n\nassistant:'
    """

    def __init__(
        self, env: gym.Env[Any, Any], format: Literal["plain", "chat"] = "plain", tokenizer: str | None = None
    ) -> None:
        if format not in ("plain", "chat"):
            raise ValueError(f"format is 'plain' or 'chat', got {format!r}.")
        if (format == "chat") != (tokenizer is not None):
            raise ValueError(
                "format='chat' needs a tokenizer, format='plain' takes none; "
                f"got format={format!r}, tokenizer={tokenizer!r}."
            )
        RecordConstructorArgs.__init__(self, format=format, tokenizer=tokenizer)
        gym.ObservationWrapper.__init__(self, env)
        self.observation_space = AnyText()
        self.format = format
        self.tokenizer = tokenizer
        if tokenizer is not None:
            _load(tokenizer)

    def observation(self, observation: Request) -> str:
        """The request as a prompt."""
        return plain_prompt(observation) if self.tokenizer is None else chat_prompt(observation, _load(self.tokenizer))


def plain_prompt(request: Request) -> str:
    r"""A request as a transcript that ends where the model goes on.

    >>> plain_prompt({"instructions": "Be brief.", "input": [{"role": "user", "content": "2+2?"}]})
    'system: Be brief.\n\nuser: 2+2?\n\nassistant:'
    """
    paragraphs = [f"tool definition: {json.dumps(tool)}" for tool in request.get("tools") or ()]
    items: list[Item] = list(request["input"])
    if request.get("instructions"):
        items.insert(0, {"role": "system", "content": request["instructions"]})
    return "\n\n".join([*paragraphs, transcript(items), "assistant:"])


@functools.cache
def _load(name: str) -> Any:
    from transformers import AutoTokenizer  # takes seconds to import

    tokenizer = AutoTokenizer.from_pretrained(name)
    if tokenizer.chat_template is None:
        raise ValueError(f"The tokenizer {name} has no chat template, so format='chat' cannot be used with it.")
    return tokenizer
