"""Hostile actions over every environment and stack of wrappers: nothing but InvalidAction, every record readable.

    python benchmarks/hostile_actions.py --actions 1000000

The actions are tests/hostile.py's, many of them with values changed or exchanged at random; environments are found by
their folders. Each episode's record goes through the record's writer and comes back equal (what JSON cannot say as the
writer says it). What goes wrong is printed with the seed that does it again. Prints one JSON line last; the exit code
is 1 if anything went wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import DependencyNotInstalled, InvalidAction

from gym_llm.core.registry.classes import known_arguments
from gym_llm.core.registry.env_files import dry_run_kwargs
from gym_llm.core.registry.ids import env_ids
from gym_llm.records.record import make_record
from gym_llm.records.record_files import parse_record
from gym_llm.rollouts.settings import DEFAULT_WRAPPERS
from gym_llm.utils.json_codec import dumps, loads
from gym_llm.wrappers import HarmonyParser, TextAction, TokenIdTracking, parser_wrappers

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from hostile import HostileActions, deep

_BATCH = 250
"""Actions of one stack before its turn is over."""
_WRITTEN = ("(nested too deeply", "(cannot be written", "(a part of itself)")
_TAGS = (
    *("<think>", "</think>", "<tool_call>", "</tool_call>", '{"name": "get_weather", "arguments": {', "<|python_tag|>"),
    *("<|channel|>", "analysis", "final", " to=functions.get_weather", "<|message|>", "<|end|>", "<|start|>assistant"),
)
_DEEP = deep(900)
_VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**63, 10**5_000, 0.5, math.nan, math.inf, "", "message", "function_call", "\ud800", b"x"),
    *([], {}, (), [None], {3: 4}, {"a": math.nan}, _DEEP, [_DEEP], np.str_("text"), np.int64(3), np.zeros(2), object()),
    *([1, 2], [-1], ["x"], [10**30], [math.nan], [[1]], [0.5, 0.5], set(), range(3)),
)
_FIELDS = (
    *("type", "id", "role", "content", "name", "arguments", "call_id", "status", "summary", "output", "text", "usage"),
    *("prompt_token_ids", "generation_token_ids", "generation_log_probs", "model", "incomplete_details", "extra"),
)


class Mutated:
    """`HostileActions`, half of them changed.

    Args:
        env_class: The environment's.
        seed: The same seed gives the same actions.
    """

    def __init__(self, env_class: type[Any], seed: int) -> None:
        self._source = HostileActions(env_class, seed)
        self._rng = self._source.rng

    def action(self) -> Any:
        """The next action."""
        if self._rng.random() < 0.3:
            return self._tagged()
        action = self._source.action()
        if isinstance(action, (list, dict)) and self._rng.random() < 0.5:
            action = dict(action) if isinstance(action, dict) else list(action)
            items = action.get("output") if isinstance(action, dict) else action
            if isinstance(items, list) and items and self._rng.random() < 0.9:
                index = self._rng.randrange(len(items))
                if isinstance(item := items[index], dict):
                    items[index] = self._changed(item)
            elif isinstance(action, dict):
                action = self._changed(action)
        return action

    def _tagged(self) -> list[Any]:
        """A message with tags of some format in it."""
        text = "".join(
            self._rng.choices((*_TAGS, *_TAGS, self._source.text()[:5_000], "}", '"'), k=self._rng.randrange(12))
        )
        message: dict[str, Any] = {"type": "message", "role": "assistant", "content": text}
        if self._rng.random() < 0.5:
            message["content"] = [{"type": "output_text", "text": part} for part in (text, text[:50])]
        if self._rng.random() < 0.3:
            message.update(prompt_token_ids=[1, 2], generation_token_ids=[3], generation_log_probs=[-0.5])
        return [self._changed(message) if self._rng.random() < 0.3 else message]

    def _changed(self, value: dict[Any, Any]) -> dict[Any, Any]:
        return {**value, self._rng.choice((*_FIELDS, 3)): self._rng.choice(_VALUES)}


class Texts(Mutated):
    """What `TextAction` takes, and what it does not."""

    def action(self) -> Any:
        """The next text."""
        if self._rng.random() < 0.1:
            return super().action()
        return "".join(self._rng.choices((*_TAGS, self._source.text()), k=self._rng.randrange(12)))


def stacks() -> dict[str, tuple[Callable[[Any], Any], ...]]:
    """The stacks of wrappers by name, innermost first."""
    named: dict[str, tuple[Callable[[Any], Any], ...]] = {
        "none": (),
        "default": DEFAULT_WRAPPERS,
        "tokens": (TokenIdTracking,),
        "named": tuple(parser_wrappers("reasoning", "tool_calls", None) or ()),
        "text": (*DEFAULT_WRAPPERS, TextAction),
    }
    try:
        HarmonyParser(gym.Env())
    except DependencyNotInstalled:
        return named
    return {
        **named,
        "harmony": (HarmonyParser, TokenIdTracking),
        "both": (*DEFAULT_WRAPPERS, HarmonyParser, TextAction),
    }


def environments() -> list[gym.Env[Any, Any]]:
    """An environment of each id and stack."""
    made = []
    for env_id in env_ids():
        arguments: dict[str, Any] = {"max_turns": 6, "deadline": 0.5}
        try:
            dry_run = dry_run_kwargs(env_id)
            cls = type(gym.make(env_id, disable_env_checker=True, **dry_run).unwrapped)
        except DependencyNotInstalled:
            continue
        known = {name: value for name, value in arguments.items() if name in known_arguments(cls)}
        for name, wrappers in stacks().items():
            env = gym.make(env_id, disable_env_checker=True, **dry_run, **known)
            for wrap in wrappers:
                env = wrap(env)
            env.stack = name  # type: ignore[attr-defined]
            made.append(env)
    return made


def same(value: Any, read: Any) -> bool:
    """Whether what was read of a record is what was written.

    As in any JSON: NaN and infinities are null, two halves of a character side by side are the character, an integer
    beyond 64 bits is as exact as the reader reads it, and an object is its text.
    """
    if isinstance(read, str) and read.startswith(_WRITTEN) and not isinstance(value, str):
        return True
    if isinstance(value, dict) and isinstance(read, dict):
        pairs = {key if isinstance(key, str) else str(key): item for key, item in value.items()}
        return pairs.keys() == read.keys() and all(same(item, read[key]) for key, item in pairs.items())
    if isinstance(value, (list, tuple)) and isinstance(read, list):
        return len(value) == len(read) and all(map(same, value, read))
    if isinstance(value, (np.ndarray, np.generic)) and not isinstance(value, str):
        return same(value.tolist(), read)
    if isinstance(value, float) and not math.isfinite(value):
        return read is None
    if isinstance(value, str) and isinstance(read, str) and value != read:
        return value.encode("utf-16", "surrogatepass") == read.encode("utf-16", "surrogatepass")
    if isinstance(value, int) and isinstance(read, float):
        return value.bit_length() > 63 and float(value) == read
    if value is None or isinstance(value, (str, bool, int, float)):
        return (type(value) is type(read) and value == read) or (isinstance(value, str) and str(value) == read)
    return isinstance(read, str)


def record_problem(env: Any, info: dict[str, Any], terminated: bool, truncated: bool) -> str | None:
    """What is wrong with the record of an environment's episode."""
    record = make_record(
        env,
        rollout_id={"task_index": 0, "repeat_index": 0},
        turn_rewards=[0.0],
        terminated=terminated,
        truncated=truncated,
        info=info,
        timing={"total": 0.0},
    )
    line = dumps(record)
    read = loads(line)
    if line.count(b"\n") != 1 or loads(dumps(read)) != read:
        return "its line is not read as it was written"
    parse_record(line)
    return None if same(record, read) else "its values come back otherwise"


def play(env: Any, seed: int, actions: int) -> dict[str, int]:
    """Play hostile actions in one environment.

    Args:
        env: The environment.
        seed: Of the actions.
        actions: How many.

    Returns:
        Counts: `refused` actions, `records`, and `wrong`, what went wrong.
    """
    counts = {"refused": 0, "records": 0, "wrong": 0}
    source = (Texts if isinstance(env, TextAction) else Mutated)(type(env.unwrapped), seed)
    length = random.Random(seed)
    info, left = env.reset(seed=seed)[1], 4
    for number in range(actions):
        try:
            action = source.action()
            terminated = truncated = False
            try:
                _, _, terminated, truncated, info = env.step(action)
            except InvalidAction as error:
                counts["refused"] += 1
                str(error)
            left -= 1
            if terminated or truncated or not left:
                if problem := record_problem(env, info, terminated, truncated):
                    raise ValueError(problem)
                counts["records"] += 1
                info, left = env.reset()[1], length.randrange(1, 8)
        except Exception:
            counts["wrong"] += 1
            print(f"{env.unwrapped.spec.id}, {env.stack}, seed {seed}, action {number}:", file=sys.stderr)
            print(traceback.format_exc(limit=-4)[:2_000], file=sys.stderr, flush=True)
            info, left = env.reset()[1], 4
    return counts


def run(actions: int, seed: int = 0) -> dict[str, Any]:
    """Play so many actions, spread over all environments and stacks; the figures, of which `wrong` has to be 0."""
    envs = environments()
    total: dict[str, Any] = {"actions": 0, "refused": 0, "records": 0, "wrong": 0}
    batch = min(_BATCH, -(-actions // len(envs)))
    while total["actions"] < actions:
        for env in envs:
            counts = play(env, seed, batch)
            total = {name: total[name] + counts.get(name, 0) for name in total} | {"actions": total["actions"] + batch}
            seed += 1
    for env in envs:
        env.close()
    return {**total, "environments": len({env.unwrapped.spec.id for env in envs}), "stacks": len(stacks())}  # type: ignore[union-attr]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actions", type=int, default=20_000, help="how many, at least (default 20000)")
    parser.add_argument("--seed", type=int, default=0, help="of the first batch; one more for each (default 0)")
    options = parser.parse_args()
    started = time.perf_counter()
    figures = run(options.actions, options.seed)
    print(json.dumps({**figures, "seconds": round(time.perf_counter() - started, 1)}))
    sys.exit(1 if figures["wrong"] else 0)


if __name__ == "__main__":
    main()
