"""Scoring rows of tokens by a vLLM server: `prompt_logprobs` of its completions."""

from __future__ import annotations

import math
from typing import Any

from gym_llm.engines.http_failures import parse_body
from gym_llm.engines.scores import Scores
from gym_llm.errors import EngineError
from gym_llm.protocols.responses.token_fields import ROUNDING
from gym_llm.utils.text import excerpt


def score_body(row: list[int], top_k: int, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a completion request that scores a row; `fields` are those of every request."""
    asked = {"prompt": row, "max_tokens": 1, "temperature": 0, "prompt_logprobs": top_k, "add_special_tokens": False}
    return {**asked, **fields}


def read_scores(body: bytes, row: list[int], top_k: int) -> Scores:
    """Return the scores in the body of a server's completion.

    Raises:
        EngineError: If it has none, or invalid ones.
    """
    completion: Any = body
    try:
        completion = parse_body(body)
        given = completion["choices"][0].get("prompt_logprobs")
        if given is None:
            raise ValueError("it has no `prompt_logprobs`, which vLLM's servers give")
        if len(given) != len(row):
            raise ValueError(f"it has log probabilities of {len(given)} tokens for {len(row)}")
        places = [{int(token): entry["logprob"] for token, entry in place.items()} for place in given[1:]]
        for log_prob in (log_prob for place in places for log_prob in place.values()):
            if type(log_prob) not in (int, float) or not -math.inf < log_prob <= ROUNDING:  # nor NaN
                raise ValueError("a log probability is not a number up to 0")
        log_probs = [float(place[token]) for token, place in zip(row[1:], places, strict=True)]
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        text = f"The server gives no scores ({error}): {excerpt(completion)}"
        raise EngineError(text, failure_kind="agent_run_error") from None
    likeliest = [sorted(place.items(), key=lambda pair: -pair[1])[:top_k] for place in places] if top_k else None
    return Scores(log_probs, likeliest)
