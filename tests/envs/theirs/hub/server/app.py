"""The server, with OpenEnv's own package."""

from __future__ import annotations

from typing import Any

from game import Higher
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Guess(Action):  # type: ignore[misc]
    """Guess the number."""

    guess: int


class Said(Observation):  # type: ignore[misc]
    """What the game says."""

    message: str = ""


class HigherEnvironment(Environment):  # type: ignore[misc]
    """OpenEnv's interface of the game."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Said:
        """Draw the number."""
        self._game = Higher(seed or 0)
        return Said(message="Begin", done=False, reward=None)

    def step(self, action: Guess, timeout_s: float | None = None, **_: Any) -> Said:
        """Guess."""
        message, reward, done = self._game.guess(action.guess)
        return Said(message=message, done=done, reward=reward)


app = create_app(HigherEnvironment, Guess, Said, env_name="higher", max_concurrent_envs=8)
