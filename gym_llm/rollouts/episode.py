"""Playing one episode: an environment and an engine, turn by turn."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from time import perf_counter
from typing import Any, Literal, cast

import gymnasium as gym
from gymnasium.error import InvalidAction

from gym_llm.concurrency import Suspended, begin, drive, is_closing
from gym_llm.core.truncation import with_score
from gym_llm.engines.engine import Engine, EpisodeReport
from gym_llm.records.failures import Failure, failure_of
from gym_llm.records.record import lost_record, make_record
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.rollouts.step_timeout import StepClock
from gym_llm.types import Phase, Rollout, TurnTiming


class Waiting:
    """What an episode is waiting for, for whoever watches the run."""

    __slots__ = ("_verifier", "on_engine")

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._verifier: Any = env.unwrapped
        self.on_engine = False

    @property
    def what(self) -> str:
        """A `gym_llm.types.Phase`, or `env` for anything else."""
        return "engine" if self.on_engine else self._verifier.phase


async def play_episode(
    env: gym.Env[Any, Any],
    engine: Engine,
    job: Job,
    settings: RolloutSettings,
    waiting: Waiting | None = None,
    clock: StepClock | None = None,
) -> Rollout:
    """Play an episode to its end.

    Args:
        env: An environment that plays nothing else meanwhile.
        engine: Answers the requests.
        job: Which task to play.
        settings: Its seed and sampling are the run's.
        waiting: Is told when the engine is asked.
        clock: Cuts off resets and steps that wait too long.

    Returns:
        The episode's record. If the environment or the engine fails it is masked; nothing is raised.
    """
    start = request_start = perf_counter()
    answered = 0.0
    turn_rewards: list[float] = []
    turn_timing: list[TurnTiming] = []
    terminated = truncated = False
    info: dict[str, Any] = {"task_index": job.task_index}
    failure: Failure | None = None
    waiting = waiting or Waiting(env)
    time_limit = nullcontext if clock is None else clock.step
    sampling = settings.sampling
    verifier: Any = env.unwrapped
    verifier.episode, verifier.phase = None, "env"  # should reset fail, the record must not show the episode before
    try:
        seed, options = job.env_seed(settings.seed), {"task_index": job.task_index}
        outcome: Any = begin(env.reset, seed=seed, options=options)
        if isinstance(outcome, Suspended):
            with time_limit(verifier):
                outcome = await outcome.resume()
        request, info = outcome
        while not (terminated or truncated):
            if sampling:
                request = {**request, **sampling}
            request_start = perf_counter()
            waiting.on_engine = True
            response = await engine.respond(request, episode_id=job.episode_id)
            waiting.on_engine = False
            answered = perf_counter()
            turn_timing.append({"engine": answered - request_start, "env": 0.0})
            outcome = begin(env.step, response)
            if isinstance(outcome, Suspended):
                with time_limit(verifier):
                    outcome = await outcome.resume()
            request, reward, terminated, truncated, info = outcome
            turn_timing[-1]["env"] = perf_counter() - answered
            turn_rewards.append(float(reward))
        if not verifier.is_over:  # a wrapper has cut it short
            outcome = begin(with_score, env, outcome)
            if isinstance(outcome, Suspended):
                with time_limit(verifier):
                    outcome = await outcome.resume()
            request, reward, terminated, truncated, info = outcome
            turn_rewards[-1] = float(reward)
            await drive(verifier.end_episode)  # one that a wrapper has terminated, which scores it itself
            turn_timing[-1]["env"] = perf_counter() - answered
        info = _with_report(info, await engine.end_episode(job.episode_id, rewards=turn_rewards))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # one episode's bug is that episode's record; a panic in Rust is no Exception
        if isinstance(error, GeneratorExit) and is_closing(error):
            raise
        if waiting.on_engine:
            waiting.on_engine = False
            # A request that failed was waited for, too.
            turn_timing.append({"engine": perf_counter() - request_start, "env": 0.0})
            phase: Phase | Literal["env"] = "engine"
        elif isinstance(error, InvalidAction) and verifier.phase == "env":
            phase = "engine"  # what it answered is no answer
        else:
            phase = verifier.phase
        if turn_timing and phase != "engine":
            turn_timing[-1]["env"] = perf_counter() - answered
        try:
            if not verifier.is_over or verifier.open_episode is not None:
                await drive(verifier.end_episode, error)
        finally:
            info = _with_report(info, await engine.end_episode(job.episode_id, failed=True))
        if isinstance(error, asyncio.CancelledError) and cast(Any, asyncio.current_task()).cancelling():
            raise  # the run ends; otherwise a hook or the engine had something of its own cancelled
        failure = failure_of(error, phase, verifier.env_id)
    try:
        return make_record(
            env,
            rollout_id={"task_index": job.task_index, "repeat_index": job.repeat_index},
            turn_rewards=turn_rewards,
            terminated=terminated,
            truncated=truncated,
            failure=failure,
            info=info,
            timing={"total": perf_counter() - start, "engine": sum([turn["engine"] for turn in turn_timing], 0.0)},
            turn_timing=turn_timing,
            sampling=sampling,
        )
    except Exception as error:  # a hook has made something else of its episode's row or items
        failure = failure_of(error, None, verifier.env_id)
        return lost_record(verifier.env_id, job, failure.reason, failure.kind)


def _with_report(info: dict[str, Any], report: EpisodeReport | None) -> dict[str, Any]:
    """The last step's info with what the engine knows of the episode, if it knows more than its answers said."""
    if report is None or not isinstance(info, dict):
        return info
    return {**info, **report.info, **({} if report.trajectory is None else {"trajectory": report.trajectory})}
