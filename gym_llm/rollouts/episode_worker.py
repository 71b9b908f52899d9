"""Playing many episodes in one shard: a slot that has finished takes the next job without waiting for the others."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import gymnasium as gym

from gym_llm.concurrency.answered_once import remembering
from gym_llm.core.step_clock import StepClock
from gym_llm.engines.engine import Engine
from gym_llm.records.failures import TRANSIENT, may_pass
from gym_llm.rollouts.durable.durable_episode import DurableEpisode, DurableModel
from gym_llm.rollouts.durable.journal import Journal
from gym_llm.rollouts.env_slots import EnvSlots
from gym_llm.rollouts.episode import EpisodePhase, play_episode
from gym_llm.rollouts.loop_monitor import LoopMonitor
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.player import player_of
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.types import Rollout

_STARTED_AT_ONCE = 64
_LONGEST_PAUSE = 30.0  # seconds


class EpisodeWorker:
    """Plays jobs in a shard's slots, as many at once as there are slots. Used from one event loop.

    Args:
        shard: The environments; nothing else uses them meanwhile.
        engine: A started engine.
        settings: How they are played.
    """

    def __init__(self, shard: EnvSlots, engine: Engine, settings: RolloutSettings) -> None:
        self.env_id = shard.env_id
        self.num_envs = shard.num_envs
        self._shard = shard
        self._settings = settings
        self._journal = Journal(Path(settings.durable)) if isinstance(settings.durable, str) else None
        self._episodes: dict[str, DurableEpisode] = {}
        if self._journal is not None:
            engine = DurableModel(engine, self._episodes, in_order=settings.agent is None)
        self._engine = player_of(engine, settings, lambda: shard.env(0))
        self._is_own = self._engine is not engine
        self._clock = None if settings.step_timeout is None else StepClock(settings.step_timeout)
        self._jobs: deque[Job] = deque()
        self._free = list(range(shard.num_envs - 1, -1, -1))
        self._finished: list[tuple[Job, Rollout]] = []
        self._changed = asyncio.Event()
        self._released = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._phases: dict[int, EpisodePhase] = {}
        self._failure: BaseException | None = None
        self._monitor: LoopMonitor | None = None
        self._closed = False

    async def submit_and_poll(self, jobs: Sequence[Job]) -> list[tuple[Job, Rollout]]:
        """Take on jobs and wait until at least one, of these or earlier ones, is finished.

        Args:
            jobs: May be empty, if others are under way.

        Returns:
            All that have finished since the last call, in that order. Empty after `release`, if none has.
        """
        self._jobs.extend(jobs)
        if self._monitor is None:
            self._monitor = LoopMonitor()
            if self._is_own:
                await self._engine.start()
        count = 0
        while self._free and len(self._jobs) > count % _STARTED_AT_ONCE:
            task = asyncio.create_task(self._work(self._free.pop()))
            self._tasks.add(task)
            task.add_done_callback(self._ended)
            count += 1
            if count % _STARTED_AT_ONCE == 0:
                await asyncio.sleep(0)  # these send their first requests while the next environments are made
                if self._finished:
                    break  # the rest is started by the next call, at once
        while not self._finished and not self._released:
            if self._failure is not None:
                raise self._failure
            if not self._tasks:
                break
            self._changed.clear()
            await self._changed.wait()
        self._released = False
        finished, self._finished = self._finished, []
        return finished

    def release(self) -> None:
        """Have the call of `submit_and_poll` that waits, or else the next one, return at once."""
        self._released = True
        self._changed.set()

    async def restart(self) -> None:
        """Nothing to do: a shard in this process dies with it."""

    def recorded(self, job: Job) -> None:
        """Let go of a job's journal, if there is one: its record is written."""
        if self._journal is not None:
            self._journal.recorded(job)

    async def waiting(self) -> dict[str, int]:
        """Return the number of episodes in each phase; see `EpisodePhase.name`."""
        return Counter(phase.name for phase in self._phases.values())

    async def aclose(self) -> None:
        """Cancel what is under way."""
        self._closed = True
        if self._monitor is not None:
            self._monitor.stop()
        self._jobs.clear()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._is_own:
            await self._engine.aclose()
        if self._journal is not None:
            self._journal.close()
        if self._settings.tracing is not None:
            await asyncio.to_thread(self._settings.tracing.flush)

    async def _work(self, slot: int) -> None:
        try:
            env = self._shard.env(slot)
            self._phases[slot] = phase = EpisodePhase(env)
            while self._jobs:
                job = self._jobs.popleft()
                record = await self._play(env, job, phase)
                self._finished.append((job, record))
                self._changed.set()
        except asyncio.CancelledError:
            if not self._closed:  # the job is lost, and whoever waits for it would wait for ever
                self._failure = RuntimeError(f"A hook has cancelled the task of its episode, {job.episode_id}.")
            raise
        finally:
            self._phases.pop(slot, None)
            self._free.append(slot)

    async def _play(self, env: gym.Env[Any, Any], job: Job, phase: EpisodePhase) -> Rollout:
        retries = self._settings.retries
        if self._journal is None:
            return await with_retries(lambda: self._play_once(env, job, phase), retries=retries)
        durable = DurableEpisode(self._journal, job)

        async def play() -> Rollout:
            durable.begin()
            with remembering(durable):
                record = await self._play_once(env, job, phase)
                if durable.has_diverged:
                    durable.begin_anew()
                    record = await self._play_once(env, job, phase)
            durable.attempt += 1
            if record["failure_kind"] in TRANSIENT:
                durable.keep_for_retry()
            return record

        self._episodes[job.episode_id] = durable
        try:
            if durable.attempt > retries + 1:
                durable.attempt = 1  # it was masked, and is tried again
            return await with_retries(play, retries=retries, attempt=durable.attempt)
        finally:
            del self._episodes[job.episode_id]

    async def _play_once(self, env: gym.Env[Any, Any], job: Job, phase: EpisodePhase) -> Rollout:
        engine, tracing = self._engine, self._settings.tracing
        if tracing is None:
            return await play_episode(env, engine, job, self._settings, phase, self._clock)
        trace = tracing.episode(env, engine, job)
        record = await play_episode(env, cast(Engine, trace), job, self._settings, phase, self._clock)
        trace.end(record)
        return record

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
        self._changed.set()


async def with_retries(play: Callable[[], Awaitable[Rollout]], *, retries: int, attempt: int = 1) -> Rollout:
    """Play an episode, and once more, after a pause, while it fails for reasons that may pass; at most so often.

    `attempt` is the number of the first attempt here, where others were made before the process was killed.
    """
    record = await play()
    attempts = attempt
    if attempts > 1:
        record["attempts"] = attempts
    while may_pass(record) and attempts <= retries:
        await asyncio.sleep(min(2 ** (attempts - 1), _LONGEST_PAUSE))
        record = await play()
        attempts += 1
        record["attempts"] = attempts
    return record
