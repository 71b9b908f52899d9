"""Sessions: the environments that a server's clients play, one for each client, over any protocol."""

from __future__ import annotations

import asyncio
import gc
import re
import secrets
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from time import monotonic
from typing import Any

import gymnasium as gym

from gym_llm.concurrency import drive
from gym_llm.core.step_clock import StepClock
from gym_llm.errors import CallerError, InfrastructureError
from gym_llm.protocols.http.metrics import Histogram, Labels, Metric
from gym_llm.protocols.http.server_memory import MEMORY
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.serve.episode_session import EpisodeSession
from gym_llm.types import FailureKind
from gym_llm.utils.limits import SERVER_BYTES, check_seconds, limit
from gym_llm.utils.secrets import redacted_logger

CAPACITY = 16_384
"""The most sessions at once, by default."""
IDLE_SECONDS = 1_800.0
"""Seconds without a request after which a session expires, by default."""
LOST = "The process that had this session has ended, and the session with it."
_KEPT_IDLE = 256  # environments of each kind whose session has ended, for the next ones
_LOOK_SECONDS = 1.0
_COLLECT_AFTER = 2_048
_LAST_SECONDS = 3.0  # for what is under way when the server ends
_LONGEST_ID = 256
_WORKER = re.compile(r"w(\d{1,4})g\d{1,9}-")
logger = redacted_logger(__name__)


class AtCapacity(InfrastructureError):
    """Raised when there is no room for another session: try again later."""

    failure_kind = "provider_quota_exhausted"


class UnknownSession(CallerError):
    """Raised when no session has this id: it has expired, was closed, or never existed."""


class SessionLost(UnknownSession):
    """Raised when the process of a session has ended, and the session with it."""

    failure_kind: FailureKind = "session_lost"


class SessionCounters(Counter[str]):
    """Counts of an environment's sessions over one protocol.

    Attributes:
        seconds: The durations of the steps.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds = Histogram()


class Sessions:
    """The sessions of a server's environments. Used from one event loop.

    A session's id is the right to play it: ids are random (192 bits) unless a client chose its own. A session ends when
    it is closed or when it had no request for `idle_seconds`. A session with a step under way does not expire.

    Args:
        factories: The environments, by id; the first is the default.
        capacity: The most sessions at once.
        idle_seconds: Seconds without a request after which a session expires.
        step_timeout: Seconds that a reset or a step may wait before its episode fails; None for no limit.
        prefix: The prefix of ids that names this process, if several have sessions (`worker_prefix`).

    Raises:
        ValueError: If a number is out of range.

    Attributes:
        tallies: Counts by environment and protocol: `opened`, `closed`, `expired`, `refused`, `resets`, `steps`; and of
            episodes `scored`, `truncated`, `masked`, `abandoned`.
    """

    def __init__(
        self,
        factories: Mapping[str, EnvFactory],
        *,
        capacity: int = CAPACITY,
        idle_seconds: float = IDLE_SECONDS,
        step_timeout: float | None = 600.0,
        prefix: str = "",
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is 1 or more, got {capacity}.")
        check_seconds("idle_seconds", idle_seconds)
        if step_timeout is not None:
            check_seconds("step_timeout", step_timeout)
        self.factories = dict(factories)
        self.capacity = capacity
        self.idle_seconds = idle_seconds
        self.tallies: defaultdict[tuple[str, str], SessionCounters] = defaultdict(SessionCounters)
        self._prefix = prefix
        self._clock = None if step_timeout is None else StepClock(step_timeout)
        self._sessions: OrderedDict[str, EpisodeSession] = OrderedDict()  # who was asked last is last
        self._idle: dict[str, list[gym.Env[Any, Any]]] = {env_id: [] for env_id in self.factories}
        self._endings: dict[asyncio.Task[None], EpisodeSession] = {}
        self._expiring: asyncio.Task[None] | None = None
        self._ended = 0  # since garbage was last collected

    def __len__(self) -> int:
        """Return the number of sessions."""
        return len(self._sessions)

    @property
    def counts(self) -> Counter[str]:
        """The counts over all environments and protocols."""
        counts: Counter[str] = Counter()
        for tally in self.tallies.values():
            counts.update(tally)
        return counts

    def open(
        self,
        env_id: str | None = None,
        *,
        protocol: str = "",
        session_id: str | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> EpisodeSession:
        """Open a session. Its environment is made at the first reset, or taken from a session that has ended.

        Args:
            env_id: The environment; None for the first.
            protocol: The name of the protocol that opens the session.
            session_id: The client's own id; None for a random one. An id that is taken is refused.
            on_end: Called when the session expires or the server ends, but not when its opener closes it.

        Raises:
            AtCapacity: If there is no room.
            UnknownSession: If the environment is unknown, or the id is taken or invalid.
        """
        if env_id is None:
            env_id = next(iter(self.factories))
        elif env_id not in self.factories:
            raise UnknownSession(f"There is no environment {env_id!r:.80} here; there are {', '.join(self.factories)}.")
        if session_id is None:
            session_id = self._prefix + secrets.token_urlsafe(24)
        elif not (0 < len(session_id) <= _LONGEST_ID and session_id.isprintable()):
            raise UnknownSession(f"A session's id is a printable text of at most {_LONGEST_ID} characters.")
        elif session_id in self._sessions:
            raise UnknownSession("The session id is taken.")
        tally = self.tallies[env_id, protocol]
        if len(self._sessions) >= self.capacity:
            tally["refused"] += 1
            raise AtCapacity(f"All {self.capacity:,} sessions are taken: try again later.")
        if self._expiring is None:
            MEMORY.holders.add(self)
            self._expiring = asyncio.create_task(self._expire())
        idle = self._idle[env_id]
        env = idle.pop() if idle else None
        session = EpisodeSession(session_id, env_id, self.factories[env_id], env, self._clock, tally)
        session.on_end = on_end
        session.asked_at = monotonic()
        self._sessions[session_id] = session
        tally["opened"] += 1
        return session

    def get(self, session_id: str) -> EpisodeSession:
        """Return the session of an id, and renew it.

        Raises:
            UnknownSession: If there is no such session.
        """
        session = self._sessions.get(session_id)
        if session is None:
            if self._prefix and _WORKER.match(session_id) and not session_id.startswith(self._prefix):
                raise SessionLost(LOST)
            raise UnknownSession(
                "The session does not exist: it expired "
                f"(after {self.idle_seconds:g} s idle, or for its memory), was closed, or never opened."
            )
        self.keep(session)
        return session

    def keep(self, session: EpisodeSession) -> None:
        """Renew a session: a client has used it."""
        session.asked_at = monotonic()
        if session.id in self._sessions:
            self._sessions.move_to_end(session.id)

    async def close(self, session: EpisodeSession) -> None:
        """End a session; an episode under way is abandoned. Safe to call twice."""
        if self._sessions.pop(session.id, None) is not None:
            session.tally["closed"] += 1
            await self._end(session)

    def close_soon(self, session: EpisodeSession) -> None:
        """End a session in the background; its place is free at once."""
        if self._sessions.pop(session.id, None) is not None:
            session.tally["closed"] += 1
            self._end_soon(session)

    def relieve(self, needed: int) -> None:
        """End the sessions that hold most of the process's memory, until there is room for some more bytes.

        A session that holds no more than an equal share stays.
        """
        share = limit(SERVER_BYTES) // max(1, len(self._sessions))
        large = [session for session in self._sessions.values() if session.holding.size > share]
        for session in sorted(large, key=lambda each: -each.holding.size):
            if MEMORY.used + needed <= limit(SERVER_BYTES):
                return
            logger.warning("A session of %s was ended: it held %s bytes.", session.env_id, session.holding.size)
            del self._sessions[session.id]
            session.tally["expired"] += 1
            session.holding.clear()
            _tell_end(session)
            self._end_soon(session)

    def dismiss(self) -> None:
        """Call every session's `on_end`: the server is about to end."""
        for session in list(self._sessions.values()):
            _tell_end(session)

    async def aclose(self) -> None:
        """End all sessions and close the environments; a reset or a step under way has a moment to end."""
        MEMORY.holders.discard(self)
        if self._expiring is not None:
            self._expiring.cancel()
        self.dismiss()
        sessions, self._sessions = list(self._sessions.values()), OrderedDict()
        await asyncio.gather(*(each.drain(_LAST_SECONDS) for each in [*sessions, *self._endings.values()]))
        if self._endings:
            await asyncio.wait(self._endings)
        await asyncio.gather(*map(self._end, sessions))
        idle = [env for envs in self._idle.values() for env in envs]
        self._idle = {env_id: [] for env_id in self.factories}
        for env in idle:
            await _close(env)

    def metrics(self) -> Iterator[Metric]:
        """Return the sessions' metrics."""
        labels = {key: {"env": key[0], "wire": key[1]} for key in self.tallies}
        events, outcomes = ("opened", "closed", "expired", "refused"), ("scored", "truncated", "masked", "abandoned")

        def counted(label: str, names: tuple[str, ...]) -> list[tuple[Labels, float]]:
            return [
                ({**labels[key], label: name}, tally[name]) for key, tally in self.tallies.items() for name in names
            ]

        seconds: list[tuple[Labels, Histogram]] = [(labels[key], tally.seconds) for key, tally in self.tallies.items()]
        yield Metric("gym_llm_sessions_open", "gauge", "Sessions that there are.", [({}, len(self))])
        yield Metric("gym_llm_sessions_capacity", "gauge", "Sessions that there may be.", [({}, self.capacity)])
        yield Metric("gym_llm_sessions_total", "counter", "What became of sessions.", counted("event", events))
        yield Metric("gym_llm_episodes_total", "counter", "Episodes by outcome.", counted("outcome", outcomes))
        resets = [(labels[key], tally["resets"]) for key, tally in self.tallies.items()]
        yield Metric("gym_llm_resets_total", "counter", "Episodes begun.", resets)
        yield Metric("gym_llm_step_seconds", "histogram", "How long steps took.", seconds)

    async def _end(self, session: EpisodeSession) -> None:
        """End its episode; its environment serves another session, unless that has failed."""
        idle = self._idle[session.env_id]
        self._ended += 1
        try:
            await session.end()
        except Exception as error:
            logger.warning("A session's episode of %s could not be ended: %r", session.env_id, error, exc_info=error)
            kept = 0
        else:
            kept = _KEPT_IDLE
        if (env := session.release()) is None:
            return
        if len(idle) < kept:
            idle.append(env)
        else:
            await _close(env)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, self.idle_seconds / 4))
            # A connection that breaks leaves a circle of objects, 15 KB, which Python would look for too rarely
            # (`relax_gc`): 16,384 of them, again and again, were 100 MB more each time.
            if self._ended >= max(_COLLECT_AFTER, len(self._sessions)):
                self._ended = 0
                gc.collect()
            oldest = monotonic() - self.idle_seconds
            for session in list(self._sessions.values()):
                if session.asked_at > oldest:
                    break  # the others were asked later
                if session.is_busy:
                    self.keep(session)
                    continue
                del self._sessions[session.id]
                session.tally["expired"] += 1
                _tell_end(session)
                self._end_soon(session)

    def _end_soon(self, session: EpisodeSession) -> None:
        ending = asyncio.create_task(self._end(session))
        self._endings[ending] = session
        ending.add_done_callback(self._endings.pop)


def worker_prefix(worker: int, generation: int) -> str:
    """Return the prefix of a worker's session ids.

    >>> worker_prefix(3, 1)
    'w3g1-'
    """
    return f"w{worker}g{generation}-"


def worker_of(session_id: str, workers: int) -> int:
    """Return the worker that has a session: the id names it, or, for a client's own id, its hash.

    >>> worker_of("w3g1-kJ8", 4), worker_of("mine", 4)
    (3, 2)
    """
    if (own := _WORKER.match(session_id)) and int(own[1]) < workers:
        return int(own[1])
    return int.from_bytes(blake2b(session_id.encode(errors="surrogatepass"), digest_size=8).digest()) % workers


def _tell_end(session: EpisodeSession) -> None:
    tell, session.on_end = session.on_end, None
    if tell is not None:
        tell()


async def _close(env: gym.Env[Any, Any]) -> None:
    try:
        await drive(env.close)
    except Exception as error:
        logger.warning("Closing %s failed: %r", env, error, exc_info=error)
