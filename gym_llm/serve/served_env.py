"""ServedEnv: an environment as a server describes it to one of its protocols."""

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
    """An environment of a server, for one protocol.

    Args:
        factory: Makes its environments.
        sessions: The server's sessions.
        secret: The secret from which the server's processes derive keys.
        protocols: The names of all protocols of the server.

    Attributes:
        env_id: The id, `gym_llm/Weather-v0`.
        name: The name in addresses, `Weather-v0`.
        secret: The secret from which the server's processes derive keys, e.g. those that sign cookies.
        protocol: The protocol's name, for the metrics; "" before `over`.
    """

    def __init__(
        self, factory: EnvFactory, sessions: Sessions, *, secret: bytes = b"", protocols: Collection[str] = ()
    ) -> None:
        self.env_id = factory.env_id
        self.name = factory.env_id.rpartition("/")[2]
        self.factory = factory
        self.sessions = sessions
        self.secret = secret or secrets.token_bytes(32)
        self.protocols = frozenset(protocols)
        self.protocol = ""
        self._verifiers: list[VerifierEnv] = []  # one, when it is made, for all protocols

    def over(self, protocol: str) -> ServedEnv:
        """Return a copy for the protocol of this name."""
        env = copy(self)
        env.protocol = protocol
        return env

    def open(self, **more: Any) -> EpisodeSession:
        """Open a session of this environment; arguments and errors are those of `Sessions.open`."""
        return self.sessions.open(self.env_id, protocol=self.protocol, **more)

    @property
    def verifier(self) -> Any:
        """A `VerifierEnv` that plays no episodes and only describes itself."""
        if not self._verifiers:
            self._verifiers.append(self.factory.make().unwrapped)  # type: ignore[arg-type]
        return self._verifiers[0]

    @property
    def description(self) -> str:
        """The first paragraph of the class's docstring."""
        text = inspect.getdoc(type(self.verifier)) or self.env_id
        return " ".join(text.split("\n\n")[0].split())

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The class's function tools, as in a Responses request; a row may have others."""
        tools: list[dict[str, Any]] = self.verifier.tool_schemas()
        return tools
