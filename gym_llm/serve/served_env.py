"""An environment as a server names and describes it."""

from __future__ import annotations

import inspect
from typing import Any

from gym_llm.env import VerifierEnv
from gym_llm.rollout.factory import EnvFactory
from gym_llm.serve.episode import EpisodeSession
from gym_llm.serve.sessions import Sessions


class ServedEnv:
    """One of a server's environments.

    Args:
        factory: Makes its environments.
        sessions: The server's.

    Attributes:
        env_id: Its id, `gym_llm/Weather-v0`.
        name: Its place in an address, `Weather-v0`.
    """

    def __init__(self, factory: EnvFactory, sessions: Sessions) -> None:
        self.env_id = factory.env_id
        self.name = factory.env_id.rpartition("/")[2]
        self.factory = factory
        self.sessions = sessions
        self._verifier: VerifierEnv | None = None

    def open(self, **more: Any) -> EpisodeSession:
        """A new session of this environment; arguments and errors are those of `Sessions.open`."""
        return self.sessions.open(self.env_id, **more)

    @property
    def verifier(self) -> Any:
        """A `VerifierEnv` of its kind, made as the others are, which plays nothing: for what it can say of itself."""
        if self._verifier is None:
            self._verifier = self.factory.make().unwrapped  # type: ignore[assignment]
        return self._verifier

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
