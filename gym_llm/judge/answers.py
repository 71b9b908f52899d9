"""A judge's answer: its text, and the reason why it cannot hold a verdict.

A verdict is read from a complete answer only. An answer that was cut off, filtered, refused, or that ends inside its
thinking may name a label on the way to another one. `Judge` asks again for such an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import Item
from gym_llm.utils.text import excerpt

_CUT_BY = {
    "max_output_tokens": (
        "The judge's answer was cut off at max_output_tokens: raise it in judge_responses_create_params."
    ),
    "content_filter": "A content filter cut off the judge's answer: use another judge, or leave the task out.",
}


class Answer(NamedTuple):
    """A judge's answer.

    Attributes:
        text: Its message, with the thinking that no parser has taken out.
        response: The response without what differs each time: ids, times, reasoning items.
        problem: The reason why the answer is incomplete, as a sentence; "" if it is complete.
    """

    text: str
    response: dict[str, Any]
    problem: str = ""

    @classmethod
    def read(cls, response: Mapping[str, Any]) -> Answer:
        """Return the answer in a response, or in one that a cache has kept."""
        items = response["output"]
        parts = _last_message(items)
        text = "".join(str(part.get("text") or "") for part in parts)
        refusals = [part for part in parts if part.get("type") == "refusal"]
        content = [{"type": "output_text", "text": text, "annotations": []}, *refusals]
        kept: dict[str, Any] = {
            "object": "response",
            "model": response.get("model", ""),
            "status": response.get("status") or "completed",
            "output": [{"type": "message", "role": "assistant", "content": content}],
        }
        if details := response.get("incomplete_details"):
            kept["incomplete_details"] = details
        if usage := response.get("usage"):
            kept["usage"] = usage
        if refusals:
            problem = "The judge refused to answer: use another judge, or leave the task out."
        else:
            problem = _cut_off(response) or _unfinished(items, text)
        return cls(text, kept, problem)


def _cut_off(response: Mapping[str, Any]) -> str:
    reason = (response.get("incomplete_details") or {}).get("reason")
    statuses = [response.get("status"), *(item.get("status") for item in response["output"])]
    status = next((each for each in statuses if each not in (None, "completed")), None)
    if reason in _CUT_BY:
        return _CUT_BY[reason]
    if reason is None and status is None:
        return ""
    return f"The judge's answer is not complete ({excerpt(reason or status, 40)}): look at the judge's server."


def _unfinished(items: list[Item], text: str) -> str:
    if items and items[-1].get("type") == "function_call":
        return "The judge's answer ends with a tool call: give the judge no tools."
    if not text.strip():
        return "The judge said nothing: look at the judge's server, or raise max_output_tokens."
    if not strip_thinking(text):
        return "The judge's answer ends inside its thinking: raise max_output_tokens."
    return ""


def _last_message(items: list[Item]) -> list[dict[str, Any]]:
    for item in reversed(items):
        if item.get("type", "message") == "message":
            content = item.get("content")
            if isinstance(content, str):
                return [{"type": "output_text", "text": content}]
            return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return []
