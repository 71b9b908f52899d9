"""Playing one episode: an environment and an engine, turn by turn."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any, Literal, cast

import gymnasium as gym
from gymnasium.error import InvalidAction

from gym_llm.concurrency import drive, is_closing
from gym_llm.core.driver import Driver
from gym_llm.core.open_machine import OPEN_MACHINE
from gym_llm.core.step_clock import StepClock
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.engines.engine import Engine, EpisodeReport
from gym_llm.records.failures import Failure, failure_of
from gym_llm.records.record import lost_record, make_record
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.types import Phase, Rollout, TurnTiming


class EpisodePhase:
    """The part of an episode that runs now, for displays of a run.

    Attributes:
        on_engine: Whether the engine has been asked and has not answered yet.
    """

    __slots__ = ("_verifier", "on_engine")

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._verifier = cast(VerifierEnv, env.unwrapped)
        self.on_engine = False

    @property
    def name(self) -> str:
        """A `gym_llm.types.Phase`, or `env` for anything else."""
        return "engine" if self.on_engine else self._verifier.phase


async def play_episode(
    env: gym.Env[Any, Any],
    engine: Engine,
    job: Job,
    settings: RolloutSettings,
    phase: EpisodePhase | None = None,
    clock: StepClock | None = None,
) -> Rollout:
    """Play an episode to its end.

    Args:
        env: An environment that plays nothing else meanwhile.
        engine: A started engine.
        job: The episode's task and repeat index.
        settings: Its `seed` and `sampling` are used.
        phase: Updated while the episode is played.
        clock: Limits the time of each reset and step.

    Returns:
        The episode's record. If the environment or the engine fails, the episode is masked and nothing is raised.
    """
    episode = _Episode(Driver(env, clock), engine, job, settings, phase or EpisodePhase(env))
    failure: Failure | None = None
    try:
        await episode.play()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # one episode's bug is that episode's record; a panic in Rust is not an Exception
        if isinstance(error, GeneratorExit) and is_closing(error):
            raise
        failure = await episode.fail(error)
    return episode.record(failure)


class _Episode:
    """An episode being played, and what its record needs."""

    __slots__ = (
        *(
            "answered",
            "driver",
            "engine",
            "info",
            "job",
            "phase",
            "request_start",
            "sampling",
            "seats",
            "seed",
            "start",
        ),
        *("terminated", "truncated", "turn_rewards", "turn_timing"),
    )

    def __init__(
        self, driver: Driver, engine: Engine, job: Job, settings: RolloutSettings, phase: EpisodePhase
    ) -> None:
        self.driver = driver
        self.engine = engine
        self.job = job
        self.phase = phase
        self.sampling = settings.sampling
        self.seed = job.env_seed(settings.seed)
        self.start = self.request_start = perf_counter()
        self.answered = 0.0
        self.terminated = self.truncated = False
        self.info: dict[str, Any] = {"task_index": job.task_index}
        self.turn_rewards: list[float] = []
        self.turn_timing: list[TurnTiming] = []
        self.seats: dict[str | None, str] = {}

    async def play(self) -> None:
        """Reset, then alternate between the engine and the environment until the episode is over."""
        driver, engine, phase, sampling = self.driver, self.engine, self.phase, self.sampling
        turn_timing, seats, verifier = self.turn_timing, self.seats, driver.verifier
        options = {"task_index": self.job.task_index}
        OPEN_MACHINE.set(verifier.open_machine)
        verifier.in_group = True  # a rollout scores groups itself: see `gym_llm.rollouts.group_scores`
        request, self.info = await driver.run(driver.reset, seed=self.seed, options=options)
        is_over = False
        while not is_over:
            if sampling:
                request = cast(Any, {**request, **sampling})
            self.request_start = perf_counter()
            phase.on_engine = True
            seat = verifier.agent_selection
            if (episode_id := seats.get(seat)) is None:
                episode_id = seats[seat] = self._id_of(seat)
            response = await engine.respond(request, episode_id=episode_id)
            phase.on_engine = False
            self.answered = answered = perf_counter()
            turn_timing.append({"engine": answered - self.request_start, "env": 0.0})
            request, reward, self.terminated, self.truncated, self.info = await driver.run(driver.step, response)
            turn_timing[-1]["env"] = perf_counter() - answered
            self.turn_rewards.append(float(reward))
            is_over = self.terminated or self.truncated
        await self._end()

    def _id_of(self, seat: str | None) -> str:
        """The episode's id for the engine: seats that it plays are episodes of their own."""
        return self.job.episode_id if seat is None else f"{self.job.episode_id}/{seat}"

    async def _end(self, *, failed: bool = False) -> None:
        """Tell the engine that the episode is over, and add what it reports to the info or to the seat."""
        verifier, engine = self.driver.verifier, self.engine
        for seat, episode_id in (self.seats or {None: self._id_of(verifier.agent_selection)}).items():
            rewards = self.turn_rewards if seat is None else verifier.turn_rewards_of(seat)
            report = await (
                engine.end_episode(episode_id, failed=True)
                if failed
                else engine.end_episode(episode_id, rewards=rewards)
            )
            if seat is None:
                self._add_report(report)
            elif report is not None:
                verifier.add_seat_report(seat, report.trajectory, report.info)
        trajectories = verifier.seat_trajectories() if self.seats.keys() - {None} else None
        own = next(iter(trajectories.values()), None) if trajectories else None
        if own is not None and isinstance(self.info, dict):  # what the engine reported on the record's seat, too
            self.info = {**self.info, "trajectory": own}

    async def fail(self, error: BaseException) -> Failure:
        """End the episode, and return what masks it.

        Raises:
            asyncio.CancelledError: If the error is a cancellation of the whole run.
        """
        verifier, where = self.driver.verifier, cast("Phase | Literal['env']", self.driver.verifier.phase)
        if self.phase.on_engine:
            self.phase.on_engine = False
            # The time of a request that failed counts, too.
            self.turn_timing.append({"engine": perf_counter() - self.request_start, "env": 0.0})
            where = "engine"
        elif isinstance(error, InvalidAction) and where == "env":
            where = "engine"  # the response was not a valid action
        if self.turn_timing and where != "engine":
            self.turn_timing[-1]["env"] = perf_counter() - self.answered
        if self.driver.unscored is not None:
            _, reward, self.terminated, self.truncated, self.info = self.driver.unscored
            self.turn_rewards.append(float(reward))
        try:
            await drive(self.driver.end, error)
        finally:
            await self._end(failed=True)
        if isinstance(error, asyncio.CancelledError) and cast(Any, asyncio.current_task()).cancelling():
            raise error  # the run ends; otherwise a hook or the engine had a task of its own cancelled
        return failure_of(error, where, verifier.env_id)

    def record(self, failure: Failure | None) -> Rollout:
        """Return the episode's record."""
        env_id = self.driver.verifier.env_id
        seconds = {
            "total": perf_counter() - self.start,
            "engine": sum([turn["engine"] for turn in self.turn_timing], 0.0),
        }
        try:
            return make_record(
                self.driver.env,
                rollout_id={"task_index": self.job.task_index, "repeat_index": self.job.repeat_index},
                turn_rewards=self.turn_rewards,
                terminated=self.terminated,
                truncated=self.truncated,
                failure=failure,
                info=self.info,
                timing=seconds,
                turn_timing=self.turn_timing,
                sampling=self.sampling,
            )
        except Exception as error:  # a hook has replaced its episode's row or items with something else
            failure = failure_of(error, None, env_id)
            return lost_record(env_id, self.job, failure.reason, failure.kind)

    def _add_report(self, report: EpisodeReport | None) -> None:
        if report is not None and isinstance(self.info, dict):
            trajectory = {} if report.trajectory is None else {"trajectory": report.trajectory}
            self.info = {**self.info, **report.info, **trajectory}
