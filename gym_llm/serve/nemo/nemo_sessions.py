"""SessionCookie and NamedSessions: which session a NeMo Gym request is for."""

from __future__ import annotations

import asyncio
import hmac
import re
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from gym_llm.serve.episode_session import BadRequest
from gym_llm.types import Row
from gym_llm.utils.json_codec import dumps

_UNUSABLE = re.compile(r"[^A-Za-z0-9_.-]")
_SIGNATURE_BYTES = 18  # a multiple of 3 needs no padding


class SessionCookie:
    """Reads and writes the cookie of one server's sessions: the session id, signed against forgery.

    Its name is the one that NeMo Gym would use, and is signed, too, so that another server's cookie is invalid here.

    Args:
        class_name: The name of the environment's class.
        name: The server's name.
        secret: The secret from which the key is derived.

    Attributes:
        name: `ClassName___NAME`.
    """

    def __init__(self, class_name: str, name: str, secret: bytes) -> None:
        self.name = _UNUSABLE.sub("_", f"{class_name}___{name}")
        self._key = blake2b(self.name.encode(), key=blake2b(secret).digest(), person=b"gym_llm cookie").digest()
        self._prefix = f"{self.name}="

    def read(self, header: str | None) -> str | None:
        """Return the session's id.

        Args:
            header: The `Cookie` header of a request.

        Returns:
            None if the cookie is missing, or was not signed by this server.
        """
        if header is None:
            return None
        for pair in header.split(";"):
            pair = pair.strip()
            if pair.startswith(self._prefix):
                session_id, _, signature = pair[len(self._prefix) :].strip('"').rpartition(".")
                if hmac.compare_digest(signature.encode(errors="surrogateescape"), self._sign(session_id)):
                    return session_id
        return None

    def written(self, session_id: str) -> str:
        """Return the `Set-Cookie` header of an answer."""
        return f"{self._prefix}{session_id}.{self._sign(session_id).decode()}; Path=/; HttpOnly; SameSite=Lax"

    def _sign(self, session_id: str) -> bytes:
        text = session_id.encode(errors="surrogateescape")
        return urlsafe_b64encode(blake2b(text, key=self._key, digest_size=_SIGNATURE_BYTES).digest())


_NAME = "resources_session_id"
_LONGEST = 256
_KEPT = 65_536
_ROLLOUT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(slots=True, eq=False)
class _Named:
    """A session, or the task that opens it, which returns its id."""

    seed: bytes
    episode: bytes
    opening: asyncio.Task[str]


def is_named(body: dict[str, Any]) -> bool:
    """Whether a request to seed or to close a session is an environment server's."""
    return _NAME in body


class NamedSessions:
    """The sessions by the names that environment servers chose. The same seed, sent twice, opens one session.

    A name cannot be used again after its session's end. The last 65,536 names are remembered, also those that were
    closed before they were seeded.
    """

    def __init__(self) -> None:
        self._named: OrderedDict[str, _Named] = OrderedDict()
        self._closed: OrderedDict[str, None] = OrderedDict()

    async def seed(self, body: dict[str, Any], opened: Callable[[Row], Coroutine[Any, Any, str]]) -> tuple[str, str]:
        """The session of a seed.

        Args:
            body: `{"resources_session_id", "episode_id", "task_id", "task_data"}`.
            opened: Opens one for the task's data; returns its id.

        Returns:
            Its name, and its id.

        Raises:
            BadRequest: If the body is another, or the name another session's.
        """
        name = _check(body, ("episode_id", "task_id", "task_data"))
        if name in self._closed:
            raise BadRequest("This resources_session_id was closed: choose a new one.")
        named = self._named.get(name)
        if named is None:
            task = asyncio.create_task(opened(body["task_data"]))
            named = self._named[name] = _Named(_digest(body), _digest(body["episode_id"]), task)
            task.add_done_callback(lambda ended: self._opened(name, ended))
        elif named.seed != _digest(body):
            raise BadRequest("This resources_session_id is taken by another episode.")
        return name, await asyncio.shield(named.opening)

    async def close(self, body: dict[str, Any]) -> tuple[str, str | None]:
        """Give a name up.

        Returns:
            The name, and the id of the session that had it, if there is one.

        Raises:
            BadRequest: If the session is another episode's.
        """
        name = _check(body, ("episode_id",))
        named = self._named.get(name)
        if named is not None and named.episode != _digest(body["episode_id"]):
            raise BadRequest("This resources_session_id is the session of another episode.")
        self._close(name)
        if named is None:
            return name, None
        await asyncio.wait({named.opening})
        failed = named.opening.cancelled() or named.opening.exception() is not None
        return name, None if failed else named.opening.result()

    def _opened(self, name: str, task: asyncio.Task[str]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._named.pop(name, None)
        elif len(self._named) > _KEPT:
            self._named.popitem(last=False)

    def _close(self, name: str) -> None:
        self._named.pop(name, None)
        self._closed[name] = None
        if len(self._closed) > _KEPT:
            self._closed.popitem(last=False)


def _digest(value: Any) -> bytes:
    return blake2b(dumps(value), digest_size=16).digest()


def _check(body: dict[str, Any], fields: tuple[str, ...]) -> str:
    if body.keys() != {_NAME, *fields}:
        raise BadRequest(f"The body has the fields {_NAME}, {', '.join(fields)}, and no other.")
    name = body[_NAME]
    if not (isinstance(name, str) and 0 < len(name) <= _LONGEST):
        raise BadRequest(f"{_NAME} is a text of at most {_LONGEST} characters.")
    episode = body["episode_id"]
    rollout = episode.get("rollout_id") if isinstance(episode, dict) else None
    attempt = episode.get("attempt", 0) if isinstance(episode, dict) else None
    if not (isinstance(rollout, str) and _ROLLOUT_ID.fullmatch(rollout) and type(attempt) is int and attempt >= 0):
        raise BadRequest('episode_id is {"rollout_id": "...", "attempt": 0}.')
    for field in fields[1:]:
        if not isinstance(body[field], dict):
            raise BadRequest(f"{field} is a JSON object.")
    return name
