"""A tripwire: whatever reads what a model wrote takes time linear in its length, hostile or not.

What is registered is found, not listed: a new parser, wrapper, verifier or way of grading is timed by itself.
"""

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import pytest
from growth import LARGEST, MOST, PATTERNS, growth
from gymnasium.error import DependencyNotInstalled
from testing import function_call, message

import gym_llm.grading
import gym_llm.wrappers
from gym_llm.core.registry.classes import env_class
from gym_llm.core.registry.ids import env_ids
from gym_llm.errors import DataError
from gym_llm.tokens.parsers import make_parser, parser_names

pytestmark = pytest.mark.slow
SOME = list(PATTERNS)[::6]
"""For what does not itself look for anything in a text."""
ENV_IDS = [env_id for env_id in env_ids() if str(gym.spec(env_id).entry_point).startswith("gym_llm.envs.")]
WRAPPERS = [
    name
    for name in gym_llm.wrappers.__all__
    if inspect.isclass(value := getattr(gym_llm.wrappers, name)) and issubclass(value, gym.Wrapper)
]
TOOL = {"type": "function", "name": "get_weather", "parameters": {}}


def check(function: Callable[[str], object], patterns: Iterable[str] = PATTERNS) -> None:
    """Time a function on hostile texts."""
    too_slow = {pattern: exponent for pattern in patterns if (exponent := growth(function, pattern)[0]) > MOST}
    assert not too_slow


@pytest.mark.parametrize(("power", "found"), [(1.0, False), (1.5, True), (2.0, True)])
def test_what_grows_faster_than_its_text_is_found(power: float, found: bool) -> None:
    def work(text: str) -> None:
        for _ in range(round(1e7 * (len(text) / LARGEST) ** power)):
            pass

    with pytest.raises(AssertionError) if found else nullcontext():
        check(work, ["a"])


@pytest.mark.parametrize("name", [name for name in parser_names() if name != "vllm"])
def test_a_parsers_time_is_linear(name: str) -> None:
    try:
        parser = make_parser(name)
    except DependencyNotInstalled as error:
        pytest.skip(str(error))
    check(lambda text: parser.parse(message(text), {"input": [], "tools": [TOOL]}))


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrappers_time_is_linear(name: str, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {
        "ParseActions": {"name": "reasoning"},
        "RecordRollouts": {"path": str(tmp_path / "rollouts.jsonl")},
        "VLLMParser": {"model": "pocket", "reasoning_parser": "qwen3"},
    }
    try:
        env = getattr(gym_llm.wrappers, name)(gym.make("gym_llm/FollowUp-v0"), **arguments.get(name, {}))
    except DependencyNotInstalled as error:
        pytest.skip(str(error))

    def step(text: str) -> None:
        env.reset(seed=0)
        env.step(text if name == "TextAction" else message(text))

    check(step, SOME)


def some_at_night(names: list[str]) -> list[Any]:
    """One in nine stays in `make test`: what verifiers share is timed by itself, below and above."""
    return [
        name if number % 9 == 2 else pytest.param(name, marks=pytest.mark.nightly) for number, name in enumerate(names)
    ]


def variants(env: Any) -> Iterator[dict[str, Any]]:
    """A row of an environment with each value of its task's fields that have only a few, else as it is."""
    row = env.tasks[0].row
    hints = typing.get_type_hints(type(env).Task)
    choices = {name: typing.get_args(hint) for name, hint in hints.items() if typing.get_origin(hint) is Literal}
    others = [{**row, name: value} for name, values in choices.items() for value in values]
    playable = [other for other in others if _can_be_played(env, other)]  # a field's value may need others' to fit
    yield from playable or [row]


def _can_be_played(env: Any, row: dict[str, Any]) -> bool:
    try:
        env.task_kind().prepare(row)
    except DataError:
        return False
    return True


@pytest.mark.parametrize("env_id", some_at_night(ENV_IDS))
def test_a_graders_time_is_linear(env_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cls = env_class(env_id)
    env = gym.make(env_id, **cls.dry_run_kwargs).unwrapped
    # With a deadline it works in processes, which start anew after each of these texts; here the time is next to none.
    # Constraints, too, read long texts in a worker: their own times are in tests/gym_llm/grading/constraints.
    if has_deadline := hasattr(env, "deadline"):
        env = gym.make(env_id, **cls.dry_run_kwargs, deadline=0.05).unwrapped
    monkeypatch.setattr("gym_llm.grading.constraints.following.DEADLINE", 0.05)
    in_workers = has_deadline or hasattr(importlib.import_module(cls.__module__), "follow_later")
    # What graders share has all texts below; of a verifier's own each has some, and no two neighbours the same.
    patterns = list(PATTERNS)[ENV_IDS.index(env_id) % 3 :: 3]
    rows = list(variants(env))
    for number, row in enumerate(rows):
        few = SOME[::10][number % (share := min(len(rows), 3)) :: share]

        def step(text: str, row: dict[str, Any] = row) -> None:
            env.reset(options={"task": row})
            while not any(env.step(message(text))[2:4]):
                pass

        check(step, few if in_workers else patterns)


@pytest.mark.parametrize("env_id", some_at_night(ENV_IDS))
def test_a_tools_time_is_linear(env_id: str) -> None:
    env = gym.make(env_id, **env_class(env_id).dry_run_kwargs).unwrapped
    tools = env.tool_schemas()
    for number, tool in enumerate(tools):
        # Arguments are read by what all verifiers share; of a verifier's many tools each has some of the texts.
        patterns = SOME[number % (share := min(len(tools), 14)) :: share]

        def step(text: str, name: str = tool["name"], parameters: Any = tool["parameters"]["properties"]) -> None:
            env.reset(seed=0)
            env.step([function_call(name, text), function_call(name, dict.fromkeys(parameters, text))])

        check(step, patterns)


def graders() -> list[Callable[[str], object]]:
    """What `gym_llm.grading` has for texts."""
    modules = [
        importlib.import_module(f"gym_llm.grading.{name}")
        for _, name, _ in pkgutil.iter_modules(gym_llm.grading.__path__)
    ]
    return [
        function
        for module in modules
        for _, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__
        and not function.__name__.startswith("_")
        and list(inspect.signature(function).parameters) == ["text"]
    ]


@pytest.mark.parametrize("function", graders(), ids=lambda function: function.__name__)
def test_what_graders_share_is_linear(function: Callable[[str], object]) -> None:
    def step(text: str) -> None:
        with suppress(ValueError):  # a text that is not what it reads
            function(text)

    check(step)
