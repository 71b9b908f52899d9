"""Scoring one stored episode again: from its items alone, or with its tools run again."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import gymnasium as gym
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from gym_llm.core.driver import Driver, Step
from gym_llm.core.tasks import PreparedTask
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.engines.replay import is_environments, recorded_turns
from gym_llm.errors import DataError, UsageError
from gym_llm.records.token_spans import SPAN, with_copies
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.recorded_task import row_of
from gym_llm.types import Episode, Item, ReverifyMode, Rollout, Row

_UNFINISHED = {"incomplete", "failed", "cancelled"}
_AFTER_THE_END = ("verify", "teardown")
_MOST_CHECKED = 4_096
_CHECKED: WeakKeyDictionary[Any, dict[int, PreparedTask]] = WeakKeyDictionary()
_RERUN = "run the tools again (--rerun-tools)"


class Score(NamedTuple):
    """What an episode comes to now."""

    reward: float
    truncated: bool
    info: dict[str, Any]
    turn_rewards: tuple[float, ...] = ()


class NotFromItems(UsageError):
    """A stored episode cannot be scored here, or not from its items alone; the message says why, and what to do."""


def can_be_scored(record: Mapping[str, Any]) -> bool:
    """Whether all of an episode is in its record: it has a reward, or failed when all had been said."""
    if "responses_create_params" not in record or "output" not in record.get("response", {}):
        return False
    return record["reward"] is not None or record.get("error_phase") in _AFTER_THE_END


def check_env(env: gym.Env[Any, Any]) -> None:
    """Make sure that `verify` alone makes an environment's rewards.

    Raises:
        NotFromItems: If a wrapper or a `step` of its own may have a part in it.
    """
    env_id = Driver(env).verifier.env_id
    while isinstance(env, gym.Wrapper):
        if not isinstance(env, OrderEnforcing | PassiveEnvChecker | TimeLimit):
            raise NotFromItems(
                f"{env_id} is wrapped with {type(env).__name__}, which verify knows nothing of: {_RERUN}."
            )
        env = env.env


def mode_of(env: VerifierEnv) -> ReverifyMode:
    """Whether every episode of a verifier can be scored from its items alone, also where its class does not say."""
    traits = _traits(cast(Any, type(env)))
    if traits.mode == "unknown" and not (traits.own_step or traits.responds or traits.tools or traits.rewards_turns):
        return "stateless"
    return traits.mode


def score_items(env: gym.Env[Any, Any], record: Rollout, seed: int) -> Score:
    """Have `verify` score an episode that is rebuilt from its record; `setup` and `teardown` run around it.

    Args:
        env: An environment that plays nothing else meanwhile.
        record: One that `can_be_scored`, perhaps with its token ids written once. Not changed.
        seed: The seed of the run that recorded it, for what `setup` draws.

    Raises:
        NotFromItems: If the verifier needs what tools have done beside their outputs, rewards turns, or has no such
            tasks.
        Exception: What the hooks raise.
    """
    driver = Driver(env)
    _reset(driver, record, seed)
    playing = driver.verifier.playing
    was_rewarded = "turn_rewards" in record or "reward" in record.get("info", {})
    if was_rewarded or _traits(cast(Any, type(playing))).rewards_turns:
        raise NotFromItems(f"{playing.env_id} rewards turns, too, which verify knows nothing of: {_RERUN}.")
    response: Any = _with_ids(record)["response"]
    items: list[Item] = response["output"]
    start = len(items)
    while start and not is_environments(items[start - 1]):
        start -= 1
    said = record.get("info", {})
    turn = said.get("turn") or len(recorded_turns(response))
    episode: Any = playing.episode
    kind = Episode if _knows_its_state(playing, items, episode) else _Watched
    episode = kind(
        episode.task_index,
        episode.row,
        episode.request,
        episode.state,
        items,
        turn,
        start,
        said.get("tool_errors", 0),
        response.get("usage"),
        {**response, "output": items[start:]},
    )
    playing.episode = episode
    if playing.open_episode is not None:
        playing.open_episode = episode
    info: dict[str, Any] = {"task_index": episode.task_index, "turn": turn, "tool_errors": episode.tool_errors}
    try:
        reward = playing.score_truncated(info)
    finally:
        if isinstance(episode, _Watched) and episode.was_asked:
            raise NotFromItems(
                f"{playing.env_id}: its verify reads the episode's state, which tools or respond may have changed, and "
                f"that is not in the file: {_RERUN}, or, if it does not matter, say so in the class: "
                'reverify_mode = "stateless".'
            )
    if playing is not driver.verifier:
        info["env_id"] = playing.env_id
    return Score(reward, _was_truncated(record, items[start:], response), info)


def score_replayed(env: gym.Env[Any, Any], record: Rollout, seed: int) -> Score:
    """Play an episode again with its recorded turns: all hooks and tools run, as in a rollout.

    The arguments are those of `score_items`.

    Raises:
        DataError: If the environment wants another turn than those there are.
        NotFromItems: If it has no such tasks.
        Exception: What hooks and tools raise.
    """
    driver = Driver(env)
    info = _reset(driver, record, seed)
    response: Any = _with_ids(record)["response"]
    turns = recorded_turns(response)
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
        info["turn"] = turn  # a turn of nothing but reasoning cannot be told from the beginning of the next
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
    checked = _CHECKED.setdefault(verifier, {})
    prepared = checked.get(index)
    if prepared is None or prepared.row != row:
        if len(checked) >= _MOST_CHECKED:
            checked.clear()
        prepared = checked[index] = verifier.task_kind().prepare(row)
    return prepared


def _with_ids(record: Rollout) -> Rollout:
    """A record whose items have their token ids, for hooks that look at them."""
    response: Any = record["response"]
    for item in response["output"]:
        if SPAN in item:
            break
    else:
        return record
    items = [{**item} if SPAN in item else item for item in response["output"]]
    copy: Any = {"response": {**response, "output": items}, "trajectory": record.get("trajectory")}
    return with_copies(copy)


def _was_truncated(record: Rollout, last_turn: list[Item], response: Mapping[str, Any]) -> bool:
    if record["reward"] is not None:
        return record["outcome"] == "truncated"
    if response.get("status") in _UNFINISHED:
        return True
    kinds = {item.get("type") for item in last_turn}
    return "function_call" in kinds or kinds == {"reasoning"}


class _Watched(Episode):
    """An episode whose state nobody may need: it notes whether it is asked for."""

    __slots__ = ("_state", "was_asked")

    def __init__(self, *fields: Any) -> None:
        self.was_asked = False
        super().__init__(*fields)
        self.was_asked = False

    @property
    def state(self) -> Any:
        """What `setup` made."""
        self.was_asked = True
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        self._state = state


def _knows_its_state(env: VerifierEnv, items: list[Item], episode: Episode) -> bool:
    """Whether the state after `setup` is the one that `verify` saw, or there is none."""
    traits = _traits(cast(Any, type(env)))
    if traits.mode == "stateless":
        return True
    if traits.mode == "unsupported":
        raise NotFromItems(f"{env.env_id} cannot be scored from recorded items (reverify_mode): {_RERUN}.")
    if traits.own_step:
        raise NotFromItems(f"{env.env_id} has a `step` of its own, which may reward, too: {_RERUN}.")
    if traits.responds or any(
        item.get("type") == "function_call" and item.get("name") in traits.tools for item in items
    ):
        if traits.keeps_state_on_itself:
            raise NotFromItems(
                f"{env.env_id}: its setup keeps the episode's state in the environment's attributes, which tools or "
                f'respond may have changed: {_RERUN}, or say in the class: reverify_mode = "stateless".'
            )
        return episode.state is None
    return True


class _Traits(NamedTuple):
    mode: ReverifyMode
    own_step: bool
    responds: bool
    tools: frozenset[str]
    keeps_state_on_itself: bool
    rewards_turns: bool


@functools.cache
def _traits(cls: Any) -> _Traits:
    return _Traits(
        cls.reverify_mode,
        cls.step is not VerifierEnv.step,
        cls.speaks_for_user(),
        frozenset(schema["name"] for schema in cls.tool_schemas()),
        _sets_attributes(cls.setup),
        _rewards_turns(cls),
    )


def _rewards_turns(cls: type) -> bool:
    """Whether some method of a class, or of one it is derived from, has to do with `step_reward`."""
    methods = [method for base in cls.__mro__ if base is not VerifierEnv for method in vars(base).values()]
    codes = [method.__code__ for method in map(inspect.unwrap, filter(inspect.isfunction, methods))]
    while codes:
        code = codes.pop()
        if "step_reward" in code.co_names:
            return True
        codes += [constant for constant in code.co_consts if inspect.iscode(constant)]
    return False


def _sets_attributes(method: Any) -> bool:
    """Whether a method assigns to an attribute of its `self`."""
    code = inspect.unwrap(method).__code__
    name = code.co_varnames[:1]
    before = ""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "STORE_ATTR" and before in name:
            return True
        is_load = instruction.opname.startswith("LOAD_FAST")
        before = instruction.argrepr.rpartition(",")[2].strip() if is_load else ""
    return False
