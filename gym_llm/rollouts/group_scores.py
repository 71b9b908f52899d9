"""Scoring of groups: the episodes of one task get their rewards together, from `verify_group`.

The protocol, where the environment's class defines `verify_group`:

1. Each episode is played and `verify`ed by itself, in whatever process. Its record waits here.
2. When all records of a task are in, the episodes that have a reward are rebuilt from them. `verify_group` scores
   these, and its rewards are added to theirs. Only then the records leave, one after the other.
3. A masked episode stays masked, and the others are compared without it. If one other is left, it is masked, too
   (`cohort_incomplete`). If `verify_group` fails, all are masked with its failure.

So a group is in a file whole or not at all, unless the process is killed between two of its lines. A resumed run plays
such a group again. In a durable run the journals have the answers to its episodes and to `verify_group` until then.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

import gymnasium as gym

from gym_llm.concurrency import is_cancellation
from gym_llm.concurrency.answered_once import remembering
from gym_llm.core.driver import Driver
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.errors import UsageError
from gym_llm.records.failures import TRANSIENT, Failure
from gym_llm.rollouts.durable.durable_episode import DurableEpisode
from gym_llm.rollouts.durable.journal import Journal
from gym_llm.rollouts.durable.lines import WHOLE_GROUP
from gym_llm.rollouts.env_slots import EnvSlots
from gym_llm.rollouts.factory import EnvFactory, Wrap
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.recorded_task import fill_episode, row_of
from gym_llm.types import Episode, Rollout, Verdict

_CALLS = "judge_evaluations"
_LONGEST_PAUSE = 30.0  # seconds


def check_plays_groups(factory: EnvFactory, wrappers: Sequence[Wrap]) -> None:
    """Raise UsageError if a wrapper would change the rewards of single episodes, which a group's do not pass."""
    env = factory.make(wrappers)
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.RewardWrapper):
            name = type(env).__name__
            raise UsageError(f"{factory.env_id} scores groups, whose rewards {name} cannot change: leave it out.")
        env = env.env


def refuse_single_episodes(env_id: str, scores_groups: bool) -> None:
    """Raise UsageError if an environment scores groups, for a player that does not keep groups together."""
    if scores_groups:
        advice = "play it with gym_llm.rollout(..., group_size=N)"
        raise UsageError(f"{env_id} scores groups of episodes, and they are played one by one here: {advice}.")


class GroupScorer:
    """Scores groups in environments of this process. It belongs to one event loop, and is closed with `aclose`.

    Args:
        factory: Makes the environments.
        concurrency: Groups at once.
        step_timeout: Seconds that `verify_group` may take; None for no limit.
        retries: How often a group is scored again whose judge failed for a temporary reason.
        journal: Where the answers that `verify_group` gets are written, for a durable run.
    """

    def __init__(
        self,
        factory: EnvFactory,
        *,
        concurrency: int = 64,
        step_timeout: float | None = 600.0,
        retries: int = 1,
        journal: Journal | None = None,
    ) -> None:
        self._slots = EnvSlots(factory, concurrency, step_timeout=step_timeout)
        self._free = list(range(concurrency - 1, -1, -1))
        self._places = asyncio.Semaphore(concurrency)
        self._retries = retries
        self._journal = journal

    async def score(self, group: Sequence[Rollout]) -> list[Verdict | Failure]:
        """Return what each episode's group gives it.

        Args:
            group: Records with a reward, of one task, sorted by their repeat index. Not changed.
        """
        if len(group) < 2:
            why = "The other episodes of its group are masked, so there is nothing to compare it with."
            return [Failure("cohort_incomplete", "verify", why, None) for _ in group]
        async with self._places:
            slot = self._free.pop()
            try:
                driver = self._slots.driver(slot)
                durable = None if self._journal is None else DurableEpisode(self._journal, _job_of(group))
                for attempt in range(self._retries + 1):
                    if attempt:
                        await asyncio.sleep(min(2 ** (attempt - 1), _LONGEST_PAUSE))
                    if durable is not None:
                        durable.begin()
                    with remembering(durable):
                        outcome = await _score(driver, group)
                    if not isinstance(outcome, Failure) or outcome.kind not in TRANSIENT:
                        break
                    if durable is not None:
                        durable.keep_for_retry()
            finally:
                self._free.append(slot)
        return [outcome] * len(group) if isinstance(outcome, Failure) else list(outcome)

    async def score_in_place(self, group: Sequence[Rollout]) -> None:
        """Add its group's rewards and details to each record; arguments are those of `score`, masked ones included."""
        members = [record for record in group if record["reward"] is not None]
        outcomes = await self.score(members)
        for record, outcome in zip(members, outcomes, strict=True):
            if isinstance(outcome, Verdict) and not math.isfinite((record["reward"] or 0.0) + outcome.reward):
                outcome = Failure("verifier_error", "verify", "Its reward and its group's add up to infinity.", None)
            if isinstance(outcome, Failure):
                _mask(record, outcome)
            else:
                _pay(record, outcome)
        for record in group:
            record["info"] = {**record.get("info", {}), "group": group_info(group)}

    def recorded(self, group: Sequence[Rollout]) -> None:
        """Let go of a group's journal, if there is one: its records are written."""
        if self._journal is not None:
            self._journal.recorded(_job_of(group))

    async def aclose(self) -> None:
        """Close the environments."""
        await self._slots.aclose()
        if self._journal is not None:
            self._journal.close()


def _job_of(group: Sequence[Rollout]) -> Job:
    return Job(group[0]["rollout_id"]["task_index"], WHOLE_GROUP)


def group_info(group: Sequence[Rollout]) -> dict[str, Any]:
    """Return what the info of each record says of its group: its size, and the repeats that have a reward in it."""
    members = [record["rollout_id"]["repeat_index"] for record in group if record["reward"] is not None]
    return {"size": len(group), "members": members}


def with_details(info: dict[str, Any], verdict: Verdict) -> dict[str, Any]:
    """Return an episode's info with its group's details; calls of judges are listed after the episode's own."""
    calls = [*info.get(_CALLS, []), *verdict.info.get(_CALLS, [])]
    return {**info, **verdict.info, **({_CALLS: calls} if _CALLS in info or _CALLS in verdict.info else {})}


async def scored_groups(
    records: AsyncIterator[Rollout], scorer: GroupScorer, size: int, most_waiting: int = 64
) -> AsyncGenerator[list[Rollout], None]:
    """Collect records by their tasks and score each group as soon as it is whole.

    Args:
        records: In the order of finishing.
        scorer: It scores.
        size: Number of episodes of a group. A task that is played more often has several groups.
        most_waiting: Groups that may be scored or wait for the consumer; then no further record is taken.

    Yields:
        Each group, its records sorted by repeat index, in the order of their scoring.
    """
    ready: asyncio.Queue[list[Rollout] | BaseException | None] = asyncio.Queue(1)
    places = asyncio.Semaphore(most_waiting)
    scoring: set[asyncio.Task[None]] = set()

    async def finish(group: list[Rollout]) -> None:
        try:
            await scorer.score_in_place(group)
            await ready.put(group)
        except Exception as error:
            await ready.put(error)

    def ended(task: asyncio.Task[None]) -> None:
        scoring.discard(task)
        places.release()

    async def collect() -> None:
        playing: dict[tuple[int, int], list[Rollout]] = {}
        try:
            async for record in records:
                job = Job(**record["rollout_id"])
                key = job.task_index, job.repeat_index // size
                group = playing.setdefault(key, [])
                group.append(record)
                if len(group) < size:
                    continue
                group.sort(key=lambda each: each["rollout_id"]["repeat_index"])
                await places.acquire()
                task = asyncio.create_task(finish(playing.pop(key)))
                scoring.add(task)
                task.add_done_callback(ended)
            if scoring:
                await asyncio.wait(set(scoring))
            await ready.put(None)
        except Exception as error:
            await ready.put(error)

    collecting = asyncio.create_task(collect())
    try:
        while (group := await ready.get()) is not None:
            if isinstance(group, BaseException):
                raise group
            yield group
    finally:
        tasks = [collecting, *scoring]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _score(driver: Driver, group: Sequence[Rollout]) -> list[Verdict] | Failure:
    try:
        return await driver.run(_verdicts, driver.verifier, group)
    except BaseException as error:  # a panic in Rust is not an Exception
        if is_cancellation(error):
            raise
        return driver.failure(error)


def _verdicts(verifier: VerifierEnv, group: Sequence[Rollout]) -> list[Verdict]:
    prepared = verifier.task_kind().prepare(row_of(group[0]))
    episodes = []
    for record in group:
        response: Any = record["response"]
        episode: Episode = Episode(record["rollout_id"]["task_index"], prepared.row, prepared.request)
        fill_episode(episode, response, record.get("info", {}))
        episodes.append(episode)
    return verifier.score_group(prepared.task, episodes)


def _pay(record: Rollout, verdict: Verdict) -> None:
    record["reward"] = (record["reward"] or 0.0) + verdict.reward
    record["info"] = with_details(record["info"], verdict)
    if (turns := record.get("turn_rewards")) is not None:
        record["turn_rewards"] = [*turns[:-1], turns[-1] + verdict.reward]
    segments = [segment for segment in record["trajectory"] or () if segment.get("rewards") is not None]
    if segments and 1 in (mask := segments[-1]["loss_mask"]):
        rewards = segments[-1]["rewards"] = list(segments[-1]["rewards"])
        rewards[len(mask) - 1 - mask[::-1].index(1)] += verdict.reward


def _mask(record: Rollout, failure: Failure) -> None:
    record["outcome"], record["reward"] = "masked", None
    record["terminated"] = record["truncated"] = False
    record["failure_kind"], record["error_phase"] = failure.kind, failure.phase
    record["error"], record["traceback"] = failure.reason, failure.traceback
    record.pop("turn_rewards", None)
