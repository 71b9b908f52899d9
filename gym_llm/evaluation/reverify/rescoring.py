"""Scoring one stored episode again: from its items alone, or with its tools run again."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Mapping
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import gymnasium as gym
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from gym_llm.concurrency import is_cancellation
from gym_llm.core.driver import Driver, Step
from gym_llm.core.tasks import PreparedTask
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.engines.replay import recorded_turns
from gym_llm.errors import DataError, UsageError
from gym_llm.records.failures import Failure
from gym_llm.records.token_spans import SPAN, with_copies
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.recorded_task import fill_episode, row_of
from gym_llm.types import Item, ReverifyMode, Rollout, Row

_UNFINISHED = {"incomplete", "failed", "cancelled"}
_AFTER_THE_END = ("verify", "teardown")
_MOST_CHECKED = 4_096
_CHECKED: WeakKeyDictionary[Any, dict[int, PreparedTask]] = WeakKeyDictionary()
_RERUN = "run the tools again (--rerun-tools)"


class Score(NamedTuple):
    """The new score of an episode."""

    reward: float
    truncated: bool
    info: dict[str, Any]
    turn_rewards: tuple[float, ...] = ()


class NotFromItems(UsageError):
    """Raised when a stored episode cannot be scored here, or not from its items alone."""


async def outcome_of(driver: Driver, score: Awaitable[Score]) -> Score | Failure:
    """Wait for a score; return the failure of a hook or of what it asks.

    Raises:
        NotFromItems: If the record cannot be scored again.
        asyncio.CancelledError: If the pass is cancelled.
    """
    try:
        return await score
    except NotFromItems:
        raise
    except BaseException as error:
        if is_cancellation(error):
            raise
        return driver.failure(error)


def can_be_scored(record: Mapping[str, Any]) -> bool:
    """Whether the record holds the whole episode: it has a reward, or failed after the last turn."""
    if "responses_create_params" not in record or "output" not in record.get("response", {}):
        return False
    return record["reward"] is not None or record.get("error_phase") in _AFTER_THE_END


def check_env(env: gym.Env[Any, Any]) -> None:
    """Raise unless `verify` alone makes an environment's rewards.

    Raises:
        NotFromItems: If a wrapper or an own `step` may change them.
    """
    env_id = Driver(env).verifier.env_id
    while isinstance(env, gym.Wrapper):
        if not isinstance(env, OrderEnforcing | PassiveEnvChecker | TimeLimit):
            raise NotFromItems(
                f"{env_id} is wrapped with {type(env).__name__}, which verify knows nothing of: {_RERUN}."
            )
        env = env.env


def mode_of(env: VerifierEnv) -> ReverifyMode:
    """Return the mode that a verifier's class declares; "stateless" for one without tools, user turns and a `step`."""
    cls = type(env)
    own = cls.step is not VerifierEnv.step or cls.speaks_for_user() or _tool_names(cast(Any, cls))
    return "stateless" if cls.reverify_mode == "unknown" and not own else cls.reverify_mode


def score_items(driver: Driver, record: Rollout, seed: int) -> Score:
    """Score an episode that is rebuilt from its record; `setup` and `teardown` run around `verify`.

    Args:
        driver: An environment's; it plays nothing else meanwhile.
        record: One that `can_be_scored`, perhaps with its token ids written once. Not changed.
        seed: The seed of the run that recorded it, for what `setup` draws.

    Raises:
        NotFromItems: If the verifier needs what tools have done beside their outputs, rewards turns, or has no such
            tasks.
        Exception: What the hooks raise.
    """
    _reset(driver, record, seed)
    playing = driver.verifier.playing
    if "turn_rewards" in record or "reward" in record.get("info", {}):
        raise NotFromItems(f"{playing.env_id} rewards turns, too, which verify does not know: {_RERUN}.")
    response: Any = with_ids(record)["response"]
    _check_declared(playing, response["output"])
    episode: Any = playing.episode
    fill_episode(episode, response, record.get("info", {}))
    info: dict[str, Any] = {
        "task_index": episode.task_index,
        "turn": episode.turn,
        "tool_errors": episode.tool_errors,
    }
    reward = playing.score_truncated(info)
    if playing is not driver.verifier:
        info["env_id"] = playing.env_id
    return Score(reward, _was_truncated(record, episode.items[episode.turn_start :], response), info)


def score_replayed(driver: Driver, record: Rollout, seed: int) -> Score:
    """Play an episode again with its recorded turns: all hooks and tools run, as in a rollout.

    The arguments are those of `score_items`.

    Raises:
        DataError: If the environment wants another turn than those there are.
        NotFromItems: If it has no such tasks, or the policy has played several seats.
        Exception: What hooks and tools raise.
    """
    if sum(seat.get("player") == "policy" for seat in record.get("seats", {}).values()) > 1:
        raise NotFromItems("The policy has played several seats: such episodes cannot be played again from a record.")
    info = _reset(driver, record, seed)
    response: Any = with_ids(record)["response"]
    turns = recorded_turns(response, record.get("info", {}).get("turn"))
    outcome: Step = None, 0.0, False, False, info
    rewards: list[float] = []
    terminated = truncated = False
    for number, items in enumerate(turns, 1):
        last = response if number == len(turns) else {}
        action = {"output": items, "status": last.get("status") or "completed", "usage": last.get("usage")}
        outcome = driver.step(action)
        _, reward, terminated, truncated, info = outcome
        rewards.append(float(reward))
        if terminated or truncated:
            break
    if turn := record.get("info", {}).get("turn"):
        info["turn"] = turn  # without token ids, a turn of reasoning alone is one with the next
    if not (terminated or truncated):
        if not record.get("truncated"):
            raise DataError(f"The environment goes on after the {len(turns)} recorded turns: it has changed since.")
        _, reward, _, truncated, info = driver.score((None, outcome[1], False, True, info))
        rewards[-1:] = [float(reward)]
    driver.end()
    info = {name: value for name, value in info.items() if name != "trajectory"}
    return Score(sum(rewards, 0.0), truncated, info, tuple(rewards))


def _reset(driver: Driver, record: Rollout, seed: int) -> dict[str, Any]:
    number = record["rollout_id"]
    job = Job(number["task_index"], number["repeat_index"])
    try:
        options = {"task": _prepared(driver.verifier, job.task_index, row_of(record)), "task_index": job.task_index}
        _, info = driver.reset(seed=job.env_seed(seed), options=options)
    except DataError as error:
        verifier = driver.verifier
        if verifier.phase != "env":  # raised by a hook
            raise
        raise NotFromItems(f"Task {job.task_index} does not belong to {verifier.env_id}: {error}.") from None
    return info


def _prepared(verifier: VerifierEnv, index: int, row: Row) -> PreparedTask:
    """A row, checked; once for all repeats of a task that are not far from each other."""
    checked = _CHECKED.get(verifier)
    if checked is None:
        checked = _CHECKED[verifier] = {}
    prepared = checked.get(index)
    if prepared is None or prepared.row != row:
        if len(checked) >= _MOST_CHECKED:
            checked.clear()
        prepared = checked[index] = verifier.task_kind().prepare(row)
    return prepared


def with_ids(record: Rollout) -> Rollout:
    """Return a record whose items have their token ids, for hooks that look at them.

    Raises:
        NotFromItems: If its spans are not in its trajectory.
    """
    response: Any = record["response"]
    for item in response["output"]:
        if SPAN in item:
            break
    else:
        return record
    items = [{**item} if SPAN in item else item for item in response["output"]]
    copy: Any = {"response": {**response, "output": items}, "trajectory": record.get("trajectory")}
    try:
        return with_copies(copy)
    except DataError as error:
        number = record["rollout_id"]
        name = f"task {number['task_index']}, repeat {number['repeat_index']}"
        raise NotFromItems(f"The record of {name} is invalid: {error}.") from None


def _was_truncated(record: Rollout, last_turn: list[Item], response: Mapping[str, Any]) -> bool:
    if record["reward"] is not None:
        return record["outcome"] == "truncated"
    if response.get("status") in _UNFINISHED:
        return True
    kinds = {item.get("type") for item in last_turn}
    return "function_call" in kinds or kinds == {"reasoning"}


def _check_declared(env: VerifierEnv, items: list[Item]) -> None:
    """Raise unless the state after `setup` is the one that `verify` saw, by the class's own declaration.

    A class that declares nothing is scored only where nothing but the model took part in the episode.
    """
    cls = type(env)
    if cls.reverify_mode == "stateless":
        return
    if cls.reverify_mode == "unsupported":
        raise NotFromItems(f"{env.env_id} cannot be scored from recorded items (reverify_mode): {_RERUN}.")
    if cls.step is not VerifierEnv.step:
        raise NotFromItems(f"{env.env_id} has a `step` of its own, which may reward, too: {_RERUN}.")
    names = _tool_names(cls)  # type: ignore[arg-type]
    calls_tools = bool(names) and any(
        item.get("type") == "function_call" and item.get("name") in names for item in items
    )
    if calls_tools or cls.speaks_for_user():
        what = "tools" if calls_tools else "the user"
        raise NotFromItems(
            f"{env.env_id}: {what} may have changed the state: {_RERUN}, or declare "
            'reverify_mode = "stateless" in the class.'
        )


@functools.cache
def _tool_names(cls: Any) -> frozenset[str]:
    return frozenset(schema["name"] for schema in cls.tool_schemas())
