"""A pass through a rollout file whose verifier scores groups: each group is scored again as soon as it is whole."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from gym_llm.core.driver import Driver
from gym_llm.evaluation.reverify.rescoring import Score, can_be_scored, outcome_of, with_ids
from gym_llm.records.failures import Failure
from gym_llm.rollouts.env_slots import EnvSlots
from gym_llm.rollouts.group_scores import GroupScorer, with_details
from gym_llm.types import Rollout

_INCOMPLETE = "cohort_incomplete"


class Member(NamedTuple):
    """A line of the file, and its record."""

    number: int
    line: bytes
    record: Rollout


Verdicts = list[Score | Failure | None]
Write = Callable[[int, bytes, Rollout, Score | Failure | None], None]


class GroupPass:
    """Scores the groups of a file, several at a time, and writes each where its last record stands.

    Args:
        slots: Environments that score the episodes by themselves.
        scorer: It scores the groups.
        score: Scores one episode: `score_items` or `score_replayed`.
        write: Takes each line with its new score, or None where it stays as it was.
        seed: The seed of the run that recorded the file.
        repeats: The number of episodes of a group whose records do not say it; None for all of a task in the file.
    """

    def __init__(
        self,
        slots: EnvSlots,
        scorer: GroupScorer,
        score: Callable[[Driver, Rollout, int], Score],
        write: Write,
        *,
        seed: int,
        repeats: int | None,
    ) -> None:
        self._slots = slots
        self._scorer = scorer
        self._score = score
        self._write = write
        self._seed = seed
        self._repeats = repeats
        self._free = list(range(slots.num_envs - 1, -1, -1))
        self._waiting: deque[tuple[list[Member], asyncio.Task[Verdicts]]] = deque()

    async def run(self, members: Iterable[Member]) -> None:
        """Score and write all lines; a group of which episodes are missing stays as it was.

        Raises:
            NotFromItems: If the episodes cannot be scored from their items.
            DataError: If the file cannot be read.
        """
        groups: dict[int, list[Member]] = {}
        try:
            for member in members:
                index = member.record["rollout_id"]["task_index"]
                group = groups.setdefault(index, [])
                group.append(member)
                if len(group) == self._size(member.record):
                    await self._begin(groups.pop(index))
            for group in groups.values():
                if self._size(group[0].record) is None:
                    await self._begin(group)
            while self._waiting:
                await self._finish_first()
            for group in groups.values():
                if self._size(group[0].record) is not None:
                    for number, line, record in group:
                        self._write(number, line, record, None)
        finally:
            tasks = [task for _, task in self._waiting]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _size(self, record: Rollout) -> int | None:
        """The number of episodes of a record's group."""
        said = record.get("info", {}).get("group")
        size = said.get("size") if isinstance(said, dict) else None
        return size if isinstance(size, int) and size > 0 else self._repeats

    async def _begin(self, group: list[Member]) -> None:
        if not self._free:
            await self._finish_first()
        slot = self._free.pop()
        group.sort(key=lambda member: member.record["rollout_id"]["repeat_index"])
        self._waiting.append((group, asyncio.create_task(self._scored(slot, group))))

    async def _finish_first(self) -> None:
        group, task = self._waiting[0]
        verdicts = await task
        self._waiting.popleft()
        for (number, line, record), verdict in sorted(zip(group, verdicts, strict=True), key=lambda each: each[0][0]):
            self._write(number, line, record, verdict)

    async def _scored(self, slot: int, group: list[Member]) -> Verdicts:
        driver = self._slots.driver(slot)
        driver.verifier.in_group = True
        try:
            own = [await self._alone(driver, record) for _, _, record in group]
        finally:
            self._free.append(slot)
        places = [place for place, score in enumerate(own) if isinstance(score, Score)]
        gained = await self._scorer.score([with_ids(group[place].record) for place in places])
        members = [
            group[place].record["rollout_id"]["repeat_index"]
            for place, gain in zip(places, gained, strict=True)
            if not isinstance(gain, Failure)
        ]
        about = {"group": {"size": len(group), "members": members}}
        for place, gain in zip(places, gained, strict=True):
            score: Any = own[place]
            if isinstance(gain, Failure):
                is_known = gain.kind == _INCOMPLETE == group[place].record.get("failure_kind")
                own[place] = None if is_known else gain
                continue
            info = {**with_details(score.info, gain), **about}
            turns = score.turn_rewards and (*score.turn_rewards[:-1], score.turn_rewards[-1] + gain.reward)
            own[place] = Score(score.reward + gain.reward, score.truncated, info, turns)
        return own

    async def _alone(self, driver: Driver, record: Rollout) -> Score | Failure | None:
        """Score an episode by itself, without its group; None where it stays masked."""
        if not can_be_scored(record):
            return None
        return await outcome_of(driver, driver.run(self._score, driver, record, self._seed))
