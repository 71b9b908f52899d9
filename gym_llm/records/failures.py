"""The kind and origin of an episode's failure: for records, and once for the log."""

from __future__ import annotations

import asyncio
import errno
import socket
import traceback
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from gym_llm.errors import EngineError, InfrastructureError, InvalidReward, JudgeError
from gym_llm.types import FailureKind, Phase
from gym_llm.utils.author_frames import author_frames
from gym_llm.utils.secrets import redacted_logger
from gym_llm.utils.text import printable

FAILURE_KINDS: tuple[str, ...] = get_args(FailureKind)

TRANSIENT: frozenset[str] = frozenset(
    {
        "transport_unreachable",
        "transport_peer_drop",
        "transport_timeout",
        "judge_failed",
        "provider_unavailable",
        "provider_quota_exhausted",
        "provider_oom_killed",
        "session_lost",
        "session_expired",
        "kill_shaped",
    }
)
"""Failures that may pass: an episode masked for one of these is worth another try; a bug in `verify` stays one."""

QUOTA_SPENT = "The account's quota is spent: no request will be answered."
"""The end of the error of a request that no pause and no other try will mend: it ends a run."""

_LOCAL = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EADDRNOTAVAIL, errno.EAGAIN}
_CLIENTS = ("aiohttp", "httpx", "httpcore", "requests", "urllib3")
_OF_CLIENTS: dict[str, FailureKind] = {
    "ServerDisconnectedError": "transport_peer_drop",
    "ClientPayloadError": "transport_peer_drop",
    "RemoteProtocolError": "transport_peer_drop",
    "ReadError": "transport_peer_drop",
    "WriteError": "transport_peer_drop",
    "ProtocolError": "transport_peer_drop",
    "ConnectError": "transport_unreachable",
    "NewConnectionError": "transport_unreachable",
    "TimeoutException": "transport_timeout",
    "Timeout": "transport_timeout",
}
"""Errors of HTTP clients that are none of Python's own, by their classes' names: nobody has to install them all."""
_MAX_FRAMES = 40
_MAX_CHARACTERS = 16_000
_MAX_MESSAGE = 4_000
_MAX_LOGGED = 100
_MOST_LOGGED_LINES = 8  # the record has all of it
logger = redacted_logger(__name__)
_logged: set[tuple[str, str, str, int]] = set()


class Failure(NamedTuple):
    """The failure that masks an episode; its fields are those of a record."""

    kind: FailureKind
    phase: Phase | None
    reason: str
    traceback: str | None


def failure_of(error: BaseException, phase: Phase | Literal["env"] | None, env_id: str) -> Failure:
    """Return what masks an episode that ended with this error, and log it once.

    Args:
        error: What the engine, a hook or a tool raised.
        phase: Where; None or `env`, an environment's `phase` outside of its hooks, if in none.
        env_id: Whose episode it was, for the log.
    """
    where = None if phase == "env" else phase
    of_engine = where == "engine" and isinstance(error, EngineError)  # these are sentences that say all
    text = None if of_engine else traceback_text(error)
    if text is not None:
        _log_once(error, env_id, where, text)
    return Failure(failure_kind(error, where), where, _message(error) if of_engine else reason(error), text)


def may_pass(record: Mapping[str, Any]) -> bool:
    """Return whether another try of a masked episode may succeed."""
    return record["failure_kind"] in TRANSIENT and not is_quota_spent(record)


def is_quota_spent(record: Mapping[str, Any]) -> bool:
    """Return whether an episode is masked because the provider's account has no credit left."""
    is_quota = record.get("failure_kind") in ("provider_quota_exhausted", "judge_failed")
    return is_quota and QUOTA_SPENT in (record.get("error") or "")


def failure_kind(error: BaseException, phase: Phase | None) -> FailureKind:
    """Return the failure kind of a masked episode.

    Args:
        error: What ended the episode. An `InfrastructureError` says itself what it is. Connections, time limits and
            HTTP statuses are recognised by Python's classes, also where a client's own error has one as its cause.
        phase: Where it arose.

    >>> failure_kind(KeyError("city"), "tool"), failure_kind(ConnectionRefusedError(), "verify")
    ('verifier_error', 'transport_unreachable')
    """
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    cause: BaseException | None = error
    for _ in range(8):
        if cause is None:
            break
        if (kind := _kind(cause)) is not None:
            return kind
        cause = cause.__cause__ or cause.__context__
    if phase == "teardown":
        return "session_release_failed"
    return "agent_run_error" if phase == "engine" else "verifier_error"


def _kind(error: BaseException) -> FailureKind | None:
    if isinstance(error, InfrastructureError):
        return error.failure_kind
    if isinstance(error, (ConnectionRefusedError, socket.gaierror)):
        return "transport_unreachable"
    if isinstance(error, ConnectionError):
        return "transport_peer_drop"
    if isinstance(error, TimeoutError):
        return "transport_timeout"
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _LOCAL):
        return "transport_local_resource"
    if isinstance(error, BaseExceptionGroup):  # a TaskGroup's
        return next((kind for each in error.exceptions if (kind := _kind(each)) is not None), None)
    for each in type(error).__mro__:
        if each.__module__.partition(".")[0] in _CLIENTS and (kind := _OF_CLIENTS.get(each.__name__)) is not None:
            return kind
    try:
        status = getattr(error, "status_code", None) or getattr(error, "status", None)  # openai; aiohttp
        if status is None:
            status = getattr(getattr(error, "response", None), "status_code", None)  # httpx, requests
    except Exception:  # a property that raises: what went wrong is still what is recorded
        return None
    if isinstance(status, int):
        if status == 429:
            return "provider_quota_exhausted"
        if 500 <= status < 600:
            return "provider_unavailable"
    return None


def reason(error: BaseException) -> str:
    """An error in one line or a few, at most 4,000 characters: its class and its message."""
    return f"{type(error).__name__}: {_message(error)}"


def _message(error: BaseException) -> str:
    try:
        return str(error)[:_MAX_MESSAGE]
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as failure:  # whose __str__ raises
        return f"(its message cannot be read: {type(failure).__name__})"


def traceback_text(error: BaseException) -> str:
    """Return an error's traceback as Python prints it; the last part of a long one."""
    try:
        lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-_MAX_FRAMES)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException:  # one whose __str__ or __repr__ raises
        lines = traceback.format_tb(error.__traceback__, limit=-_MAX_FRAMES)
    return "".join(lines)[-_MAX_CHARACTERS:]


class MaskedCauses:
    """Logs the cause of the first masked episode of each kind, as soon as it is known.

    Args:
        is_logged: Whether this process logs what an author's code raises (`failure_of`).
    """

    def __init__(self, is_logged: bool) -> None:
        self._is_logged = is_logged
        self._kinds: set[str] = set()

    def see(self, record: Mapping[str, Any]) -> None:
        """Take a record."""
        kind = record["failure_kind"]
        if kind is None or kind in self._kinds or (self._is_logged and record["traceback"]):
            return
        self._kinds.add(kind)
        logger.warning("masked (%s): %s", kind, printable(record["error"] or ""))


def note_failure(error: BaseException, failure: BaseException) -> None:
    """Add a `teardown`'s error as a note to the error that ended its episode, and log it."""
    note = f"teardown failed, too: {reason(failure)}"
    error.add_note(note)
    logger.warning("After %s: %s", reason(error), note, exc_info=failure)


def _log_once(error: BaseException, env_id: str, phase: Phase | None, text: str) -> None:
    """Log a failure the first time that this line of code raises this kind of error in an environment.

    With the author's lines, or the end of its traceback if it passed through none. The sentence of a judge's
    failure or an invalid reward says all.
    """
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    code = place.tb_frame.f_code.co_filename if place is not None else ""
    key = env_id, type(error).__name__, code, place.tb_lineno if place is not None else 0
    if key in _logged:
        return
    if len(_logged) >= _MAX_LOGGED:
        _logged.clear()  # rather twice than never
    _logged.add(key)
    where = f" in {phase}" if phase else ""
    if isinstance(error, (JudgeError, InvalidReward)):
        what = f" {reason(error)}"
    elif lines := author_frames(error):
        what = "\n".join([f" {reason(error)}", *(f"  {line}" for line in lines)])
    else:
        what = "\n" + "\n".join(text.rstrip().splitlines()[-_MOST_LOGGED_LINES:])
    logger.error("An episode of %s is masked, it failed%s. This is logged once:%s", env_id, where, what)
