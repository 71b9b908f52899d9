"""The response of an engine that samples tokens itself."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from typing import Any

from gym_llm.types import Item, ResponseDict


def token_response(
    model: str,
    text: str,
    *,
    prompt: list[int],
    sampled: list[int],
    log_probs: list[float],
    incomplete: str | None = None,
) -> ResponseDict:
    """Return a response with one message: the sampled text without the end-of-turn token, and the turn's tokens.

    The token lists (see `gym_llm.types.Item`) are not copied. `incomplete` is the reason why the turn was cut off, e.g.
    `"max_output_tokens"`, or None. `model` is the name to record.
    """
    name, status = uuid.uuid4().hex, "completed" if incomplete is None else "incomplete"
    message: dict[str, Any] = {
        "id": f"msg_{name}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [{"type": "output_text", "text": text, "annotations": []}],
        "prompt_token_ids": prompt,
        "generation_token_ids": sampled,
        "generation_log_probs": log_probs,
    }
    return _response(name, model, [message], incomplete, (len(prompt), len(sampled)))


def log_prob_entry(token: str, log_prob: float, likeliest: Iterable[tuple[str, float]] = ()) -> dict[str, Any]:
    """Return one token's natural log probability as an entry of an output text's `logprobs`.

    `likeliest` are the most likely tokens at its position with their log probabilities, for `top_logprobs`.
    """
    return {**_log_prob(token, log_prob), "top_logprobs": [_log_prob(*one) for one in likeliest]}


def _log_prob(token: str, log_prob: float) -> dict[str, Any]:
    return {"token": token, "logprob": log_prob, "bytes": list(token.encode(errors="replace"))}


def overflow_response(model: str, prompt_tokens: int | None = None) -> ResponseDict:
    """Return the response to a prompt that exceeds the model's context, without output; its length may be unknown."""
    tokens = None if prompt_tokens is None else (prompt_tokens, 0)
    return _response(uuid.uuid4().hex, model, [], "context_length_exceeded", tokens)


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
