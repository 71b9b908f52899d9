"""Deciding whether a turn that a limit cut off is an unfinished thought or an answer.

Chat templates of reasoning models end a prompt with `<think>`. A text that is cut off in such a thought has no tag at
all, and must not be verified as an answer. Only the engine knows the prompt, so the engine decides. Parsers believe the
`phase` of a message (the Responses API's), and take a cut-off text without it for a thought.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from gym_llm.tokens.parsers.thinking import CLOSING_TAGS, closing_tag
from gym_llm.tokens.prompt_tokens import PromptTokens
from gym_llm.types import ANSWER_PHASE, TURN_FIELDS, ResponseDict, message_text

_PROMPT_END = 24  # token ids: a tag and a line break, whatever they are made of


def settle_thought(response: ResponseDict, prompt: list[int], prompts: PromptTokens) -> ResponseDict:
    """Make a reasoning item of a turn that was cut off in the thought that its prompt opened; else mark the answer.

    Args:
        response: A response with one message (`text_response`); it is changed.
        prompt: The ids of the prompt.
        prompts: The builder that made it.
    """
    if response.get("incomplete_details") is None:
        return response
    message: dict[str, Any] = response["output"][-1]
    part = message["content"][0]
    closing = closing_tag(prompts.decode(prompt[-_PROMPT_END:]))
    if closing is None:
        message["phase"] = ANSWER_PHASE
    elif closing not in part["text"] and part["text"]:
        thought: dict[str, Any] = {
            "id": message["id"].replace("msg_", "rs_", 1),
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": part["text"]}],
            "status": "incomplete",
        }
        thought |= {field: message[field] for field in TURN_FIELDS if field in message}
        if "logprobs" in part:
            thought["logprobs"] = part["logprobs"]
        response["output"][-1] = thought
    return response


class SeenThoughts:
    """A memory of whether a server's model thinks, for engines that do not make the prompts."""

    def __init__(self) -> None:
        self._thinks = self._answers = self._warned = False

    def settle(self, response: ResponseDict, usage: Any = None) -> ResponseDict:
        """Learn from an answer, or mark one that was cut off if complete ones have had no thoughts.

        Args:
            response: The answer; it is changed.
            usage: The chat API's counts of tokens. A server that counts thoughts separates them from its texts.
        """
        items = response["output"]
        text = message_text(items)
        details = usage.get("completion_tokens_details") if isinstance(usage, dict) else None
        separates = isinstance(details, dict) and details.get("reasoning_tokens") is not None
        if any(item.get("type") == "reasoning" for item in items) or any(tag in text for tag in CLOSING_TAGS):
            self._thinks = True
        elif response.get("status") != "incomplete":
            self._answers = self._answers or bool(text.strip())
        elif (self._answers or separates) and not self._thinks and items and items[-1].get("type") == "message":
            items[-1] = {"phase": ANSWER_PHASE, **items[-1]}
        elif text.strip() and not (self._thinks or self._warned):
            self._warned = True
            gym.logger.warn(
                "The first answer was cut off, and may be a thought: parsers take it for one. Allow it more tokens."
            )
        return response
