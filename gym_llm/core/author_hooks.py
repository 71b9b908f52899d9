"""AuthorHooks: the methods of a verifier that its author writes, and two that help with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic

import numpy as np
from typing_extensions import TypeVar  # with a default: Python 3.13

from gym_llm.concurrency.resources import SharedResources
from gym_llm.core.hooks import User
from gym_llm.core.tasks import BaseTask
from gym_llm.errors import UsageError
from gym_llm.types import Episode, Item, Row, StateT, Verdict

if TYPE_CHECKING:
    from gym_llm.sandbox.machines.machine_place import MachinePlace

TaskT = TypeVar("TaskT", bound=BaseTask, default=Any)
"""The type of an environment's tasks."""


_MADE_BY_INIT = frozenset(("config", "tasks", "max_turns", "render_mode", "sampler", "observation_space", "_over"))


class AuthorHooks(Generic[TaskT, StateT]):
    """The hooks of `VerifierEnv`. Of these only `verify` or `verify_group` must be defined.

    Attributes:
        scores_groups: Whether the class defines `verify_group`.
        accepted_findings: Findings of `gym-llm env attack` that are intended: the reason, by the check's name or by
            `check/attack`.
    """

    scores_groups: ClassVar[bool] = False
    accepted_findings: ClassVar[dict[str, str]] = {}
    user: User | None = None
    episode: Episode[StateT] | None
    _resources: SharedResources | None = None
    fork_state: Callable[[Any], Any] | None = None
    """The hook `fork_state(self, state)`: returns a fork's state, e.g. with a copy of a machine. May be async. Without
    the hook the state is copied; see `gym_llm.fork_env`."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Explain what is missing of an environment whose class does not call `VerifierEnv.__init__`."""
            if name in _MADE_BY_INIT and "config" not in self.__dict__:
                raise UsageError(
                    f"{type(self).__name__}.__init__ has to call super().__init__(tasks, **arguments) first."
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    @staticmethod
    def row(text: str | list[Item], **fields: Any) -> Row:
        """Return a task row that asks `text` and has these fields.

        Args:
            text: The user's message, or the items of the request's input.
            **fields: What the class's `Task` reads beside the request.

        >>> AuthorHooks.row("Spell otter.", word="otter")
        {'responses_create_params': {'input': [{'role': 'user', 'content': 'Spell otter.'}]}, 'word': 'otter'}
        """
        items = [{"role": "user", "content": text}] if isinstance(text, str) else text
        return {"responses_create_params": {"input": items}, **fields}

    def generate(self, rng: np.random.Generator) -> Row:
        """Make one task. An environment that defines it has endless tasks; equal seeds of `rng` make equal rows."""
        raise NotImplementedError

    def setup(self, task: TaskT) -> StateT | Awaitable[StateT]:  # type: ignore[empty-body]
        """Make a new episode's state; tools get it as `state`, the other hooks as `episode.state`. May be async."""

    def opening(self, task: TaskT, state: StateT) -> str | list[Item] | Awaitable[str | list[Item] | None] | None:
        """Return the user's first message, after the row's own input: a game's board, a wish. May be async.

        It becomes the first of `episode.items`. By default the simulated user speaks, if the class has one.
        """
        return None if type(self).user is None else self.user.turn(self, task, self.episode)  # type: ignore

    def user_turn(
        self, task: TaskT, episode: Episode[StateT]
    ) -> str | list[Item] | Awaitable[str | list[Item] | None] | None:
        """Answer, as the user, a model turn that called no tool: a message, items, or None to end. May be async.

        By default the simulated user answers, if the class has one.
        """
        return None if type(self).user is None else self.user.turn(self, task, episode)  # type: ignore

    def verify(self, task: TaskT, episode: Episode[StateT]) -> float | Verdict | Awaitable[float | Verdict]:
        """Score the finished (or truncated) episode with a finite number, beside its turns' rewards. May be async.

        An exception masks the episode, which then has no reward. Raise `JudgeError` if the judge is at fault. A class
        with `verify_group` may leave it out: its value is then 0.0.
        """
        if self.scores_groups:
            return 0.0
        raise NotImplementedError(f"{type(self).__name__} has to define verify(self, task, episode).")

    def verify_group(
        self, task: TaskT, episodes: Sequence[Episode[StateT]]
    ) -> Sequence[float | Verdict] | Awaitable[Sequence[float | Verdict]]:
        """Score the finished episodes of one task against each other. May be async.

        It runs once for each group, after the `teardown` of all its episodes. `state` is None then. A masked episode is
        not among them. An episode that is played alone, with `reset` and `step`, is a group of one.

        Args:
            task: The task that all episodes have played.
            episodes: One or more, sorted by their repeat index.

        Returns:
            One reward for each episode, in order. It is added to the rewards of its turns and of `verify`. An exception
            masks all episodes of the group.
        """
        raise NotImplementedError(f"{type(self).__name__} has no verify_group(self, task, episodes).")

    def teardown(self, task: TaskT, episode: Episode[StateT]) -> Any:
        """Release what `setup` made. Runs exactly once for each `setup` that returned, however the episode ends.

        May be async. It continues when its episode is cancelled, and is abandoned after 30 seconds. Its exception
        becomes the episode's error, or a note on that error and a line in the log.
        """

    def oracle(self, task: TaskT) -> str | list[Item] | list[list[Item]] | None:
        """Return a right answer: a text, the items of a turn, or those of several turns.

        An attack compares it with other answers that are rewarded. If it is None, the attack tries the row's
        `expected_…` fields in the usual forms.
        """
        return None

    def near_misses(self, task: TaskT) -> list[str] | None:
        """Return wrong answers that look right, as whole messages; None for the usual ones."""
        return None

    async def open_machine(self, layers: Sequence[str]) -> MachinePlace | None:
        """Return the machine of the episode under way, for an agent that runs inside; None if the task has none.

        Args:
            layers: Folders of this machine that the agent needs; they are shown in the machine, read-only.
        """
        return None

    async def shared(self, name: Any, make: Callable[[], Any]) -> Any:
        """Return a resource that many episodes share, e.g. a judge's client.

        A hook that is not async calls `wait(self.shared(...))`. The first call makes the resource. All environments on
        the same event loop get it, and the last one to close closes it.

        Args:
            name: A JSON value that identifies the resource with all its arguments: `("judge", self.judge_spec)`.
            make: Returns an async context manager, or an object (or an awaitable of one) that may have an `aclose` or
                a `close`.

        Raises:
            Exception: If `make` raises. The next call tries again.
        """
        self._resources = self._resources or SharedResources()
        return await self._resources.get(name, make)
