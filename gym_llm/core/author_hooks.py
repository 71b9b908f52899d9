"""AuthorHooks: the methods of a verifier that its author writes."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, ClassVar

import numpy as np

from gym_llm.core.hooks import User
from gym_llm.types import Episode, Item, Row, Verdict


class AuthorHooks:
    """The hooks of `VerifierEnv`. Of these only `verify` must be defined.

    Attributes:
        accepted_findings: Findings of `gym-llm env attack` that are intended: the reason, by the check's name or by
            `check/attack`.
    """

    accepted_findings: ClassVar[dict[str, str]] = {}
    user: User | None = None
    episode: Episode | None

    @staticmethod
    def row(text: str | list[Item], **fields: Any) -> Row:
        """Return a task row that asks `text` and has these fields.

        Args:
            text: The user's message, or the items of the request's input.
            **fields: What the class's `Task` reads beside the request.

        >>> VerifierEnv.row("Spell otter.", word="otter")
        {'responses_create_params': {'input': [{'role': 'user', 'content': 'Spell otter.'}]}, 'word': 'otter'}
        """
        items = [{"role": "user", "content": text}] if isinstance(text, str) else text
        return {"responses_create_params": {"input": items}, **fields}

    def generate(self, rng: np.random.Generator) -> Row:
        """Make one task. Override it and the environment has endless tasks; the same `rng` seed gives the same row."""
        raise NotImplementedError

    def setup(self, task: Any) -> Any:
        """Make a new episode's state; tools get it as `state`, the other hooks as `episode.state`. May be async."""

    def opening(self, task: Any, state: Any) -> str | list[Item] | Awaitable[str | list[Item] | None] | None:
        """Return the user's first message, after the row's own input: a game's board, a wish. May be async.

        It becomes the first of `episode.items`. By default the simulated user speaks, if the class has one.
        """
        return None if type(self).user is None else self.user.turn(self, task, self.episode)  # type: ignore

    def user_turn(self, task: Any, episode: Episode) -> str | list[Item] | Awaitable[str | list[Item] | None] | None:
        """Answer, as the user, a model turn that called no tool: a message, items, or None to end. May be async.

        By default the simulated user answers, if the class has one. `respond` is an old name of this hook.
        """
        return None if type(self).user is None else self.user.turn(self, task, episode)  # type: ignore

    respond = user_turn

    def verify(self, task: Any, episode: Episode) -> float | Verdict | Awaitable[float | Verdict]:
        """Score the finished (or truncated) episode with a finite number, beside its turns' rewards. May be async.

        What it raises masks the episode: it has no reward then. `JudgeError` says that it was not the verifier's fault.
        """
        raise NotImplementedError(f"{type(self).__name__} has to define verify(self, task, episode).")

    def teardown(self, task: Any, episode: Episode) -> Any:
        """Put away what `setup` made: runs exactly once for each `setup` that returned, however the episode ends.

        May be async. It goes on while its episode is cancelled, and is given up after 30 seconds. What it raises is the
        episode's error, or, if that has one, a note on it and a line in the log.
        """

    def oracle(self, task: Any) -> str | list[Item] | list[list[Item]] | None:
        """What a model that is right would answer: a text, a turn's items, or those of several turns.

        An attack needs it to tell what else is paid like a right answer. None: it tries what the row's `expected_…`
        fields say, in the usual forms.
        """
        return None

    def near_misses(self, task: Any) -> list[str] | None:
        """Answers that look right and are wrong, as whole messages; None: the usual ones."""
        return None
