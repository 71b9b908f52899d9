"""Mixed: several verifiers in one environment, for training on a blend of data sets."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import ExitStack
from copy import copy
from typing import Any, NamedTuple, Self

import gymnasium as gym

from gym_llm import TaskSampler, VerifierEnv
from gym_llm.core.fork import Randomness
from gym_llm.core.registry.ids import env_ids
from gym_llm.core.tasks import PreparedTask, RowKind
from gym_llm.errors import DataError
from gym_llm.types import Episode, Item, Request, Row, Verdict
from gym_llm.utils.text import nearest


class Mixed(VerifierEnv):
    """Each row names the verifier that plays it, by `env_id` or by NeMo Gym's `agent_ref`.

    `info["env_id"]` says which one it was; everything else is as that verifier gives it.

    Args:
        tasks: As for every `VerifierEnv`; required in the end, though rows may come in `options`.
        verifiers: From the name in the rows to an id, or to `{"env": id, "kwargs": {...}}`. A row whose `env_id` is a
            registered id needs no entry.
        render_mode: As for every `VerifierEnv`.
        sampler: As for every `VerifierEnv`.

    Raises:
        DataError: If a row names no verifier, or an unknown one.
    """

    accepted_findings = dict.fromkeys(
        ("near miss", "all options", "look-alike"),
        "NeMo Gym's rule for FollowUp, whose rows are among the examples: the answer has to be said",
    )

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        verifiers: dict[str, str | dict[str, Any]] | None = None,
        render_mode: str | None = None,
        sampler: TaskSampler | None = None,
    ) -> None:
        self._verifiers = dict(verifiers or {})
        self._members: dict[str, VerifierEnv] = {}
        self._member: VerifierEnv | None = None
        self._turn_limit: int | None = None
        super().__init__(tasks, render_mode=render_mode, sampler=sampler)

    def member(self, name: str) -> VerifierEnv:
        """Return the verifier of this name, which is made when it is first needed.

        Raises:
            DataError: If the name is unknown.
        """
        if name not in self._members:
            recipe = self._verifiers.get(name, name)
            env_id, kwargs = (recipe, {}) if isinstance(recipe, str) else (recipe["env"], recipe.get("kwargs", {}))
            try:
                env = gym.make(env_id, render_mode=self.render_mode, **kwargs).unwrapped
            except gym.error.Error as error:
                known = [*self._verifiers, *env_ids()]
                near = nearest(name, known)
                hint = f" (did you mean {near!r}?)" if near else ""
                meant = f'; `verifiers={{"{name}": "gym_llm/NAME-v0"}}` says which environment it is'
                raise DataError(f"no verifier is named {name!r}{hint}: {str(error).rstrip('.')}{meant}") from None
            if not isinstance(env, VerifierEnv):
                raise DataError(f"{env_id} is no gym_llm.VerifierEnv")
            if env.scores_groups:
                raise DataError(f"{env_id} scores groups of episodes: play it alone, not in gym_llm/Mixed-v0")
            if self._turn_limit is not None:
                env.limit_turns(self._turn_limit)
            self._members[name] = env
        return self._members[name]

    @property
    def env_id(self) -> str:
        """The id of the verifier that plays the current episode."""
        return super().env_id if self._member is None else self._member.env_id

    @property
    def playing(self) -> VerifierEnv:
        """The one that the row names."""
        return self if self._member is None else self._member

    def plays(self, env_id: str | None) -> bool:
        """Any verifier's episode may have been."""
        return True

    def scoring_classes(self) -> list[type[VerifierEnv]]:
        """Return this class and those of the verifiers that its rows name."""
        return [type(self), *dict.fromkeys(type(member) for member in self._members.values())]

    @property
    def episode(self) -> Episode | None:
        """The current verifier's episode."""
        return None if self._member is None else self._member.episode

    @episode.setter
    def episode(self, episode: Episode | None) -> None:
        if self._member is not None:
            self._member.episode = episode

    @property
    def phase(self) -> str:
        """The phase of the current verifier."""
        return "env" if self._member is None else self._member.phase

    @phase.setter
    def phase(self, phase: str) -> None:
        if self._member is not None:
            self._member.phase = phase

    @property
    def open_episode(self) -> Episode | None:  # type: ignore[override]
        """The current verifier's."""
        return None if self._member is None else self._member.open_episode

    def verify(self, task: Any, episode: Episode) -> float | Verdict | Awaitable[float | Verdict]:
        """Score the episode as the current verifier does."""
        assert self._member is not None, "no episode is under way"
        return self._member.verify(task, episode)

    def oracle(self, task: Any) -> str | list[Item] | list[list[Item]] | None:
        """Return the oracle of the verifier whose task this is."""
        members = [member for member in self._members.values() if isinstance(task, type(member).Task)]
        return members[0].oracle(task) if members else None

    def step(self, action: Any) -> tuple[Request, float, bool, bool, dict[str, Any]]:
        """Take one model turn in the verifier that plays the row; see `VerifierEnv.step`."""
        if self._member is None:
            raise gym.error.ResetNeeded("No episode is running: call reset() before step().")
        request, reward, terminated, truncated, info = self._member.step(action)
        info["env_id"] = self._member.env_id
        if self._task_draw is not None:
            self._tell_sampler(reward, terminated or truncated, info)
        return request, reward, terminated, truncated, info

    @property
    def is_over(self) -> bool:
        """Whether the current verifier has no episode under way."""
        return self._member is None or self._member.is_over

    def limit_turns(self, turns: int) -> None:
        """Limit the turns of every verifier; see `VerifierEnv.limit_turns`."""
        self._turn_limit = turns
        for member in self._members.values():
            member.limit_turns(turns)

    def score_truncated(self, info: dict[str, Any]) -> float:
        """End the current verifier's episode; see `VerifierEnv.score_truncated`."""
        assert self._member is not None, "no episode is under way"
        reward = self._member.score_truncated(info)
        if self._task_draw is not None:
            self._tell_sampler(reward, True, info)
        return reward

    def end_episode(self, error: BaseException | None = None) -> None:
        """Give up the current verifier's episode; see `VerifierEnv.end_episode`."""
        if self._member is not None:
            self._member.end_episode(error)

    def fork_once(self, randomness: Randomness) -> Self:
        """Return a fork in which the current verifier's episode goes on; it makes other verifiers anew."""
        if self._member is None:
            raise gym.error.ResetNeeded("No episode is running: call reset() before fork().")
        made = copy(self)
        made._member = member = self._member.fork_once(randomness)
        made._members = {name: member for name, one in self._members.items() if one is self._member}
        made.np_random = member.np_random
        return made

    def close(self) -> None:
        """Close every verifier."""
        with ExitStack() as stack:
            for member in self._members.values():
                stack.callback(member.close)

    def _begin(self, index: int, prepared: PreparedTask) -> tuple[Request, dict[str, Any]]:
        self._member = member = self.member(verifier_name(prepared.row))
        member.np_random = self.np_random
        request, info = member._begin(index, prepared)
        info["env_id"] = member.env_id
        return request, info

    def task_kind(self) -> RowKind:  # type: ignore[override]
        """Return the requirements of the verifiers that the rows name."""
        return _MixedKind(self)


class _MixedKind(NamedTuple):
    mixed: Mixed

    def prepare(self, row: Any) -> PreparedTask:
        member = self.mixed.member(verifier_name(row))
        return member.task_kind().prepare(row)


def verifier_name(row: Any) -> str:
    """The name of the verifier that a row asks for.

    >>> verifier_name({"agent_ref": {"type": "responses_api_agents", "name": "mcqa_simple_agent"}})
    'mcqa_simple_agent'

    Raises:
        DataError: If it names none.
    """
    if isinstance(row, dict):
        name = row.get("env_id")
        if name is None and isinstance(row.get("agent_ref"), dict):
            name = row["agent_ref"].get("name")
        if isinstance(name, str):
            return name
    raise DataError("the row names no verifier: it needs `env_id`, or `agent_ref` with a `name`")
