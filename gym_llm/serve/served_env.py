"""An environment as a server names and describes it, to one of its wires."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Collection
from copy import copy
from typing import Any

from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.serve.episode_session import EpisodeSession
from gym_llm.serve.sessions import Sessions


class ServedEnv:
    """One of a server's environments, for one wire.

    Args:
        factory: Makes its environments.
        sessions: The server's.
        secret: See below.
        wires: The names of all wires that the server speaks.

    Attributes:
        env_id: Its id, `gym_llm/Weather-v0`.
        name: Its place in an address, `Weather-v0`.
        secret: What keys are derived from that the server's processes share, e.g. those that sign cookies.
        wire: The wire's name, under which is counted what it plays; "" before `over`.
    """

    def __init__(
        self, factory: EnvFactory, sessions: Sessions, *, secret: bytes = b"", wires: Collection[str] = ()
    ) -> None:
        self.env_id = factory.env_id
        self.name = factory.env_id.rpartition("/")[2]
        self.factory = factory
        self.sessions = sessions
        self.secret = secret or secrets.token_bytes(32)
        self.wires = frozenset(wires)
        self.wire = ""
        self._verifiers: list[VerifierEnv] = []  # one, when it is made, for all wires

    def over(self, wire: str) -> ServedEnv:
        """The same for a wire of this name."""
        env = copy(self)
        env.wire = wire
        return env

    def open(self, **more: Any) -> EpisodeSession:
        """A new session of this environment; arguments and errors are those of `Sessions.open`."""
        return self.sessions.open(self.env_id, wire=self.wire, **more)

    @property
    def verifier(self) -> Any:
        """A `VerifierEnv` of its kind, made as the others are, which plays nothing: for what it can say of itself."""
        if not self._verifiers:
            self._verifiers.append(self.factory.make().unwrapped)  # type: ignore[arg-type]
        return self._verifiers[0]

    @property
    def description(self) -> str:
        """What it is, in a few sentences: the first paragraph of its class's docstring."""
        text = inspect.getdoc(type(self.verifier)) or self.env_id
        return " ".join(text.split("\n\n")[0].split())

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The class's function tools, as a Responses request names them; a row may name others."""
        tools: list[dict[str, Any]] = self.verifier.tool_schemas()
        return tools
