"""Checks of a verifier by playing it: rewards depend on the answer, and no hook blocks the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Literal

from gym_llm.author.attack.attack_play import TooLong, Turn, says, time_limit
from gym_llm.author.attack.gold import prompt_text
from gym_llm.author.attack.right_answers import oracle_turns
from gym_llm.concurrency import drive
from gym_llm.core.driver import Driver
from gym_llm.core.tasks import PreparedTask
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.errors import JudgeError
from gym_llm.records.failures import reason
from gym_llm.rollouts.loop_monitor import LoopMonitor

EXAMPLES = 5
"""Rows in `data/example.jsonl`, as NeMo Gym asks for."""

_SECONDS = 60.0
_MOST_TURNS = 4
_OFTEN = 2
"""A hook that blocks in one episode only may have loaded a package."""
_FAULTY = "setup", "user_turn", "verify"
"""Hooks that fail on purpose, each in an episode of its own."""


@dataclass(frozen=True)
class Check:
    """The result for one thing that a verifier should have."""

    subject: str
    state: Literal["ok", "failed", "missing", "not run"]
    """`missing`: it may do without for now; `not run`: it could not be checked here, so the result is unknown."""
    detail: str
    """A sentence."""


@dataclass
class _Plays:
    """The results of the episodes.

    Attributes:
        rewards: For each task, those of all answers.
        oracles: How many tasks have a right answer.
        errors: Those of masked episodes.
        shared: What episodes have changed that all of them share.
        blocking: In how many episodes each hook blocked.
        swallowed: The hook whose error became a reward, if one's did.
    """

    rewards: list[set[float]] = field(default_factory=list)
    oracles: int = 0
    errors: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    blocking: Counter[CodeType] = field(default_factory=Counter)
    swallowed: str | None = None


def check_play(make: Callable[[], VerifierEnv], *, has_stand_in: bool) -> Iterator[Check]:
    """Play the first tasks with wrong answers, and with those of `oracle`.

    Args:
        make: Makes the environment, which has tasks.
        has_stand_in: Whether it is made with a stand-in for a service: its rewards then say nothing.
    """
    plays = _Plays()
    try:
        with time_limit(_SECONDS):
            asyncio.run(_play_tasks(make, plays))
            asyncio.run(_play_faults(make, plays))
    except TooLong:
        yield Check("rewards", "not run", f"its episodes took longer than {_SECONDS:g} s")
    except Exception as error:  # the environment may raise anything
        yield Check("rewards", "failed", reason(error))
    else:
        stand_in = Check("rewards", "missing", "its dry run has a stand-in for a service")
        yield stand_in if has_stand_in else _rewards(plays)
    if plays.shared:
        yield Check("shared state", "failed", plays.shared[0])
    if plays.rewards:
        yield _event_loop(plays)
    if plays.swallowed is not None:
        cure = "let errors through, so that the episode is masked"
        yield Check("faults", "failed", f"an error of {plays.swallowed} becomes a reward: {cure}")


async def _play_tasks(make: Callable[[], VerifierEnv], plays: _Plays) -> None:
    env = make()
    try:
        for index in range(min(env.num_tasks or EXAMPLES, EXAMPLES)):
            task = env.tasks[index]  # type: ignore[index]
            right = oracle_turns(env, task)
            plays.oracles += right is not None
            wrong = ("", "I do not know.", "zebra lantern", prompt_text(task)[:2_000])
            earned: set[float] = set()
            for turns in [*map(says, wrong), *([] if right is None else [right])]:
                blocking: set[CodeType] = set()
                monitor = LoopMonitor(blocking.add)
                try:
                    earned.add(await _play(Driver(env), index, task, turns))
                except Exception as error:  # masks the episode
                    plays.errors.append(reason(error))
                finally:
                    monitor.stop()
                plays.blocking.update(blocking)
            plays.rewards.append(earned)
    finally:
        plays.shared += env.changed_by_episodes()
        await drive(env.close)


async def _play_faults(make: Callable[[], VerifierEnv], plays: _Plays) -> None:
    for name in _FAULTY:
        env = make()
        reached: set[str] = set()

        def fail(*_: Any, name: str = name, reached: set[str] = reached) -> Any:
            reached.add(name)
            raise JudgeError("A fault on purpose, of `gym-llm env test`.")

        setattr(env, name, fail)
        try:
            await _play(Driver(env), 0, env.tasks[0], says("I do not know."))  # type: ignore[index]
            plays.swallowed = plays.swallowed or next(iter(reached), None)
        except Exception:
            pass
        finally:
            await drive(env.close)


async def _play(driver: Driver, index: int, task: PreparedTask, turns: list[Turn]) -> float:
    total, step = 0.0, None
    try:
        request, _ = await driver.run(driver.reset, seed=index, options={"task": task, "task_index": index})
        for number in range(len(turns) + _MOST_TURNS):
            step = await driver.run(driver.step, turns[min(number, len(turns) - 1)])
            request, total = step[0], total + float(step[1])
            if step[2] or step[3]:
                return total
        return total + float((await driver.run(driver.truncate, request))[1])
    except Exception as error:
        await driver.run(driver.end, error)
        raise


def _rewards(plays: _Plays) -> Check:
    earned = [rewards for rewards in plays.rewards if rewards]
    if plays.errors:
        return Check("rewards", "failed", f"{len(plays.errors)} episodes are masked, the first: {plays.errors[0]}")
    every = sorted(set().union(*earned))
    if any(len(rewards) > 1 for rewards in earned):
        return Check("rewards", "ok", f"{every[0]:g} to {every[-1]:g}, depending on the answer")
    if plays.oracles or any(reward > 0 for reward in every):
        said = "an empty one and the oracle's" if plays.oracles else "an empty one, too"
        return Check("rewards", "failed", f"every answer to a task earns the same ({every[-1]:g}), {said}")
    return Check("rewards", "missing", f"wrong answers earn {every[-1]:g}; `oracle` can give a right one to compare")


def _event_loop(plays: _Plays) -> Check:
    found = [code for code, episodes in plays.blocking.items() if episodes >= _OFTEN]
    if not found:
        return Check("event loop", "ok", "no hook or tool blocks it")
    code = found[0]
    cure = "make it async, or mark it with @hook(blocking=True) or @tool(blocking=True)"
    return Check("event loop", "failed", f"{code.co_qualname}, line {code.co_firstlineno}, blocks all episodes: {cure}")
