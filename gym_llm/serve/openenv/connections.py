"""Connections: the sessions that clients play over WebSockets, and those whose connection was lost.

A session ends when its client closes the connection that opened it, by a message of type close or with code 1000. If
the connection breaks, the session stays for a while. The client may reconnect with `/ws?session_id=` and continue. A
session that was opened over `/mcp` ends when its client closes it there.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

from gym_llm.serve.episode_session import EpisodeSession
from gym_llm.serve.openenv.frames import GOING_AWAY, NORMAL
from gym_llm.serve.openenv.socket import Socket
from gym_llm.serve.served_env import ServedEnv
from gym_llm.serve.sessions import AtCapacity, UnknownSession
from gym_llm.utils.text import excerpt

GRACE_SECONDS = 60.0
"""Seconds that a session is kept after its connection was lost."""
_PING_SECONDS = 2.0


class Connections:
    """The sessions of one environment that came over OpenEnv's protocol.

    Args:
        env: The environment.
    """

    def __init__(self, env: ServedEnv) -> None:
        self._env = env
        self._sockets: dict[EpisodeSession, Socket] = {}
        self._left: OrderedDict[EpisodeSession, asyncio.TimerHandle] = OrderedDict()

    def open(self, *, made_over_mcp: bool = False) -> EpisodeSession:
        """Open a session. If the server is full, it replaces the session whose connection was lost first.

        Args:
            made_over_mcp: Whether the session outlives its connections until it is closed.

        Raises:
            AtCapacity: If the server is full.
        """
        while True:
            try:
                session = self._env.open()
                if made_over_mcp:
                    session.notes["made_over_mcp"] = True
                return session
            except AtCapacity:
                if not self._left:
                    raise
                session, timer = self._left.popitem(last=False)
                timer.cancel()
                self._env.sessions.close_soon(session)

    def find(self, session_id: Any) -> EpisodeSession:
        """The session of this id.

        Raises:
            UnknownSession: If this environment has none of it.
        """
        name = session_id if isinstance(session_id, str) else excerpt(session_id)
        try:
            session = self._env.sessions.get(name)
        except UnknownSession as unknown:
            raise type(unknown)(f"Unknown session_id: {name[:100]}. {unknown}") from None
        if session.env_id != self._env.env_id:
            raise UnknownSession(f"Unknown session_id: {name[:100]}. It belongs to another environment.")
        return session

    async def attach(self, session: EpisodeSession, socket: Socket) -> None:
        """Give a connection a session.

        Raises:
            UnknownSession: If another connection has it, and is alive.
        """
        if (other := self._sockets.get(session)) is not None:
            if await other.is_alive(_PING_SECONDS) or self._sockets.get(session, other) is not other:
                raise UnknownSession("This session already has an attached WebSocket.")
            other.drop()
        if (timer := self._left.pop(session, None)) is not None:
            timer.cancel()
        self._sockets[session] = socket
        session.on_end = lambda: socket.close(GOING_AWAY, "The session has ended.")

    def detach(self, session: EpisodeSession, socket: Socket, code: int) -> None:
        """Note that a connection ends.

        Args:
            session: The connection's session.
            socket: The connection.
            code: The close code.
        """
        if self._sockets.get(session) is not socket:
            return  # another has taken over
        del self._sockets[session]
        session.on_end = None
        is_mine = not session.notes.get("made_over_mcp")
        if session.notes.get("close_when_left") or (is_mine and code == NORMAL):
            self._env.sessions.close_soon(session)
        elif is_mine:
            loop = asyncio.get_running_loop()
            self._left[session] = loop.call_later(GRACE_SECONDS, self._give_up, session)

    def close_when_left(self, session: EpisodeSession) -> bool:
        """Close a session as soon as its connection ends; False if it has none."""
        if session not in self._sockets:
            return False
        session.notes["close_when_left"] = True
        return True

    def _give_up(self, session: EpisodeSession) -> None:
        if self._left.pop(session, None) is not None:
            self._env.sessions.close_soon(session)
