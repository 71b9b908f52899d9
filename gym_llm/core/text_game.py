"""Games by text: the user shows the board, the model answers with a move, until the game is over."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from gym_llm.core.compat import NemoCompatible
from gym_llm.core.rewards import Metric
from gym_llm.core.tasks import BaseTask
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import Episode, Row, Verdict


class Game(Protocol):
    """A running game. It must pickle."""

    def observation(self) -> str:
        """Return the text that the player sees."""

    def play(self, text: str) -> Move | None:
        """Make the move that a text asks for; None if the text has no move."""


@dataclass
class Move:
    """The result of a move.

    Attributes:
        reward: Its part of the episode's reward.
        over: Whether it ended the game.
        info: The verifier's details, if the episode ends here.
    """

    reward: float
    over: bool
    info: dict[str, Any] = field(default_factory=dict)


@dataclass
class Session:
    """A game, and the rewards and moves so far."""

    game: Game
    total: float = 0.0
    info: dict[str, Any] = field(default_factory=dict)


class SeededTask(BaseTask):
    """A game's start."""

    seed: int | None = None
    """The same seed gives the same game; without one the environment's own generator is asked."""


class TextGame(NemoCompatible):
    """A game: the reward is the sum of its moves' rewards.

    Args:
        no_move: What follows an answer without a move: `"end"` of the game, or that the model is asked again.
        conform: `"nemo"` plays as NeMo Gym does; the README says what differs.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If `no_move` or `conform` is something else.
    """

    Task = SeededTask
    reverify_mode = "unsupported"
    metrics = {"success": Metric("rate")}

    class Config(NemoCompatible.Config):
        """Arguments of the class."""

        no_move: Literal["end", "ask"] = "end"

    config: Config

    def start(self, task: Any, rng: random.Random) -> Game:
        """Begin the task's game; `rng` is seeded with its seed."""
        raise NotImplementedError(f"{type(self).__name__} has to define start(self, task, rng).")

    def setup(self, task: Any) -> Session:
        """Begin a game."""
        seed = int(self.np_random.integers(2**31)) if task.seed is None else task.seed
        return Session(self.start(task, random.Random(seed)))

    def opening(self, task: Any, state: Session) -> str:
        """The game as it is at first."""
        return state.game.observation()

    def user_turn(self, task: Any, episode: Episode) -> str | None:
        """Make the move, and show the game again unless it is over."""
        session: Session = episode.state
        move = session.game.play(episode.answer if self.conform else strip_thinking(episode.answer))
        if move is None:
            return None if self.config.no_move == "end" else session.game.observation()
        session.total += move.reward
        session.info = move.info
        return None if move.over else session.game.observation()

    def verify(self, task: Any, episode: Episode) -> Verdict:
        """The sum of the moves' rewards."""
        session: Session = episode.state
        return Verdict(session.total, {"success": False, **session.info, "total_reward": session.total})


def seeded_row(seed: int, system: str, user: str, **fields: Any) -> Row:
    """A row that begins a game."""
    said = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return {"responses_create_params": {"input": said}, "seed": seed, **fields}
