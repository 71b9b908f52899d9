"""Asking the outside world once: what it answered in an episode is kept, and given again when the episode is replayed.

A durable episode (`gym_llm.rollouts.durable`) is restored after a kill by playing it again. Its hooks run again. What
they asked outside must not be asked twice: a judge costs money, and its second answer may differ. So every place where
an episode asks outside goes through `answered_once`:

1. Without a memory (the run is not durable) it asks, and that is all.
2. If the memory has an answer to an equal request, the answer is returned. Equal requests get their answers in order.
3. Otherwise it asks, writes the answer to the memory, and only then returns it.

While it asks, the memory is hidden: what is asked on the way is a part of this answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from typing import Any, Protocol, TypeVar

import gym_llm.errors as errors
from gym_llm.errors import InfrastructureError, ToolError
from gym_llm.utils.json_codec import dumps

T = TypeVar("T")
_ANSWER, _ERROR = "answer", "error"


class Memory(Protocol):
    """The answers of an episode."""

    def recall(self, kind: str, key: str) -> list[Any] | None:
        """Return the next outcome that was kept for this request; None if no more was."""

    def keep(self, kind: str, key: str, outcome: list[Any]) -> None:
        """Write an outcome down. It survives a kill of the process from now on."""


_memory: ContextVar[Memory | None] = ContextVar("gym_llm_memory", default=None)


def current_memory() -> Memory | None:
    """Return the memory of the episode that is being played; None if it is not durable."""
    return _memory.get()


@contextmanager
def remembering(memory: Memory | None) -> Iterator[None]:
    """Use a memory for what is asked in this context; None hides the one outside."""
    token = _memory.set(memory)
    try:
        yield
    finally:
        _show(token)


def _show(token: Token[Memory | None]) -> None:
    with suppress(ValueError):  # closed from another context, at the end of the process
        _memory.reset(token)


async def answered_once(
    kind: str,
    request: Any,
    ask: Callable[[], Awaitable[T]],
    *,
    encode: Callable[[T], Any] | None = None,
    decode: Callable[[Any], T] | None = None,
    again: bool = False,
) -> T:
    """Ask the outside world, or return what it answered before this episode was interrupted.

    ```python
    async def user_turn(self, task, episode):
        query = episode.answer
        return await answered_once("weather", query, lambda: self.client.forecast(query))
    ```

    Args:
        kind: The kind of the request, as a short word.
        request: A JSON value, or bytes, that differs for other requests of this kind.
        ask: Asks, and returns the answer.
        encode: Makes a JSON value of the answer, if it is not one.
        decode: Makes the answer of that value.
        again: Whether to ask in any case, for the effect that the request has (a command in a machine), and return the
            first answer nevertheless.

    Raises:
        InfrastructureError: If the request failed, now or then; also if an effect that it had then fails now.
        ToolError: Likewise.
    """
    memory = _memory.get()
    if memory is None:
        return await ask()
    key = request_key(kind, request)
    outcome = memory.recall(kind, key)
    if outcome is not None:
        if again:
            failures = (ToolError,) if outcome[0] == _ANSWER else (InfrastructureError, ToolError)
            with remembering(None), suppress(*failures):
                await ask()
        return _given(outcome, decode)
    hidden = _memory.set(None)
    try:
        answer = await ask()
    except (InfrastructureError, ToolError) as error:
        failure_kind = getattr(error, "failure_kind", None)
        memory.keep(kind, key, [_ERROR, type(error).__name__, str(error), failure_kind])
        raise
    finally:
        _show(hidden)
    memory.keep(kind, key, [_ANSWER, answer if encode is None else encode(answer)])
    return answer


def request_key(kind: str, request: Any) -> str:
    """Return the name of a request: 24 characters that differ for other requests."""
    data = request if isinstance(request, bytes) else dumps(request)
    return hashlib.blake2b(b"%b\n%b" % (kind.encode(), data), digest_size=12).hexdigest()


def is_failure(outcome: bytes) -> bool:
    """Return whether an outcome, as JSON, is an error that masks the episode; a `ToolError` is an answer."""
    return outcome.startswith(b'["error","') and not outcome.startswith(b'["error","ToolError"')


def _given(outcome: list[Any], decode: Callable[[Any], T] | None) -> T:
    if outcome[0] == _ANSWER:
        value: Any = outcome[1]
        return value if decode is None else decode(value)
    _, name, message, failure_kind = outcome
    kind = getattr(errors, name, None)
    if kind is ToolError:
        raise ToolError(message)
    if not (isinstance(kind, type) and issubclass(kind, InfrastructureError)):
        kind = InfrastructureError  # a class that another package has derived
    raise kind(message, failure_kind=failure_kind)
