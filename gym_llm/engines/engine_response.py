"""Responses that an engine makes itself: a text with its tokens, or none for a prompt that is too long."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from typing import Any

from gym_llm.types import CONSTRAINED, ROUTED_EXPERTS, WEIGHT_VERSIONS, Item, ResponseDict

SPENT = {"max_tokens_spent": "max_tokens", "max_seconds_spent": "max_seconds", "max_dollars_spent": "max_dollars"}
"""The reason of a response to an episode that has spent a budget, and the budget's name in `RolloutSettings`."""

FULL = frozenset({"context_length_exceeded", *SPENT})
"""The reasons of incomplete responses for which the model was not asked."""


def spent_budget(response: Any) -> str | None:
    """Return the budget that ended the episode of a record's response, e.g. `max_tokens`; None for another end.

    >>> spent_budget({"incomplete_details": {"reason": "max_tokens_spent"}})
    'max_tokens'
    """
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    return SPENT.get(reason) if isinstance(reason, str) else None


def text_response(
    text: str,
    *,
    tokens: tuple[list[int], list[int], list[float]] | None = None,
    model: str = "",
    incomplete: str | None = None,
    is_constrained: bool = False,
    weight_versions: list[list[int]] | None = None,
    routed_experts: str | None = None,
) -> ResponseDict:
    """Return a response with one message, for `Engine.respond`.

    Args:
        text: The message, without the token that ended the turn.
        tokens: The token ids of the prompt, those that were sampled, and the log probability of each sampled one; see
            `gym_llm.types.Item`. The lists are not copied. None if the engine does not know them.
        model: The name to record.
        is_constrained: Whether the tokens were sampled under a constraint (`tool_choice`, `text.format`), and their log
            probabilities are those among the allowed tokens.
        weight_versions: The weights that sampled the tokens (`gym_llm.types.WEIGHT_VERSIONS`); None for version 0.
        routed_experts: The experts of a mixture (`gym_llm.types.ROUTED_EXPERTS`); None if the engine has none.
        incomplete: The reason why the turn was cut off, e.g. `"max_output_tokens"`; None if it was not.

    >>> response = text_response("Four.", tokens=([1, 2], [3], [-0.1]), model="mine")
    >>> response["output"][0]["content"][0]["text"], response["usage"]["output_tokens"]
    ('Four.', 1)
    """
    name = uuid.uuid4().hex
    message: dict[str, Any] = {
        "id": f"msg_{name}",
        "type": "message",
        "role": "assistant",
        "status": "completed" if incomplete is None else "incomplete",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    counts = None
    if tokens is not None:
        message["prompt_token_ids"], message["generation_token_ids"], message["generation_log_probs"] = tokens
        if is_constrained:
            message[CONSTRAINED] = True
        if weight_versions:
            message[WEIGHT_VERSIONS] = weight_versions
        if routed_experts is not None:
            message[ROUTED_EXPERTS] = routed_experts
        counts = len(tokens[0]), len(tokens[1])
    return _response(name, model, [message], incomplete, counts)


def log_prob_entry(
    token: bytes | str, log_prob: float, likeliest: Iterable[tuple[bytes | str, float]] = ()
) -> dict[str, Any]:
    """Return one token's natural log probability as an entry of an output text's `logprobs`.

    A token is given by its bytes, which need not be whole characters, or by its text. `likeliest` are the most likely
    tokens at its position with their log probabilities, for `top_logprobs`.
    """
    return {**_log_prob(token, log_prob), "top_logprobs": [_log_prob(*one) for one in likeliest]}


def _log_prob(token: bytes | str, log_prob: float) -> dict[str, Any]:
    in_bytes = token.encode(errors="replace") if isinstance(token, str) else token
    return {"token": in_bytes.decode(errors="replace"), "logprob": log_prob, "bytes": list(in_bytes)}


def overflow_response(model: str, prompt_tokens: int | None = None) -> ResponseDict:
    """Return the response to a prompt that exceeds the model's context, without output; its length may be unknown."""
    tokens = None if prompt_tokens is None else (prompt_tokens, 0)
    return _response(uuid.uuid4().hex, model, [], "context_length_exceeded", tokens)


def empty_response(model: str, reason: str) -> ResponseDict:
    """Return a response without output, incomplete for one of the reasons `FULL`."""
    return _response(uuid.uuid4().hex, model, [], reason, None)


def _response(
    name: str, model: str, output: list[Item], incomplete: str | None, tokens: tuple[int, int] | None
) -> ResponseDict:
    return {
        "id": f"resp_{name}",
        "object": "response",
        "created_at": time.time(),
        "model": model,
        "status": "completed" if incomplete is None else "incomplete",
        "output": output,
        "incomplete_details": None if incomplete is None else {"reason": incomplete},
        "usage": tokens
        and {"input_tokens": tokens[0], "output_tokens": tokens[1], "total_tokens": tokens[0] + tokens[1]},
    }
