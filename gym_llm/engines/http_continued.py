"""CutAnswer: a completion that a server aborted to take new weights, and that goes on with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gym_llm.engines.http_failures import parse_body
from gym_llm.engines.http_reading import check_density
from gym_llm.engines.sampling import INT64, turn_seed
from gym_llm.errors import EngineError
from gym_llm.protocols.responses.token_fields import check_tokens
from gym_llm.utils.json_codec import dumps

_CONTINUES = frozenset(
    {
        "add_special_tokens",
        "logprobs",
        "max_tokens",
        "min_p",
        "model",
        "prompt",
        "repetition_penalty",
        "return_token_ids",
        "seed",
        "stop_token_ids",
        "temperature",
        "top_k",
        "top_p",
    }
)
"""Fields of a completion request that mean the same when a part of the answer has moved to the prompt."""


class CutAnswer:
    """The part of an answer that a server sampled before new weights cut it off.

    The next request has these tokens at the end of its prompt. One with a field that needs the whole answer, such as
    `stop`, `min_tokens` or a grammar, begins anew.

    Args:
        body: The fields of a completion request whose prompt is token ids.
        decode: Returns the text of ids.

    Attributes:
        body: The fields of the next request.
        ids: The ids sampled so far.
        restarts: How often the answer began anew.
    """

    def __init__(self, body: dict[str, Any], decode: Callable[[list[int]], str]) -> None:
        self.body = self._whole = body
        self.ids: list[int] = []
        self._decode = decode
        self._log_probs: dict[str, list[Any]] = {}
        self._continues = all(value is None or value is False or name in _CONTINUES for name, value in body.items())
        self.restarts = 0
        self._is_full = False  # aborted with its last token

    def add(self, payload: bytes) -> bool:
        """Take a server's answer into account, and return whether another request has to follow.

        Raises:
            EngineError: If what the server sampled is invalid.
        """
        choice = _aborted(payload)
        if choice is None:
            return False
        if not self._continues:
            self.restarts += 1
            return True
        self._append(choice)
        body, done = self._whole, len(self.ids)
        self.body = {**body, "prompt": body["prompt"] + self.ids}
        if body.get("seed") is not None:
            self.body["seed"] = turn_seed(body["seed"], "", done) % INT64  # else the same random numbers came again
        if (most := body.get("max_tokens")) is not None:
            self.body["max_tokens"] = most - done
            self._is_full = done >= most
        return not self._is_full

    def joined(self, payload: bytes) -> bytes:
        """Return the whole completion, given the server's last answer.

        Raises:
            EngineError: If that is invalid.
        """
        if not self.ids:
            return payload
        try:
            completion = parse_body(payload)
            choice = completion["choices"][0]
            if self._is_full:
                choice["finish_reason"] = "length"
        except (AttributeError, LookupError, TypeError, ValueError):
            raise _invalid("there is no choice") from None
        if not self._is_full:
            self._append(choice)
        ids = self.ids
        text = self._decode(ids[:-1] if choice.get("finish_reason") == "stop" else ids)
        completion["choices"][0] = {**choice, "token_ids": ids, "logprobs": self._log_probs, "text": text}
        return dumps(completion)

    def _append(self, choice: dict[str, Any]) -> None:
        try:
            log_probs, ids = choice["logprobs"], choice["token_ids"]
            if choice.get("finish_reason") == "abort" and not ids:  # before it began
                return
            check_tokens([], ids, log_probs["token_logprobs"])
        except (KeyError, TypeError, ValueError) as error:
            raise _invalid(error) from None
        self.ids = self.ids + ids
        for name, values in log_probs.items():
            if isinstance(values, list):
                self._log_probs.setdefault(name, []).extend(values)


def _invalid(why: object) -> EngineError:
    text = f"A server gave a part of a completion with invalid tokens: {why}"
    return EngineError(text, failure_kind="agent_run_error")


def _aborted(payload: bytes) -> dict[str, Any] | None:
    """Return the choice of a completion that was aborted; None for any other answer."""
    if b'"abort"' not in payload:
        return None
    check_density(payload)
    try:
        choice = parse_body(payload)["choices"][0]
        return choice if choice["finish_reason"] == "abort" else None
    except (LookupError, TypeError, ValueError):
        return None
