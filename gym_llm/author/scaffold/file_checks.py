"""Checks of a verifier that is one file: not installed, and without a folder."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.utils.env_checker import check_env

from gym_llm.author.scaffold.play_checks import EXAMPLES, Check, check_play
from gym_llm.author.scaffold.verifier_checks import run_tests
from gym_llm.core.registry.env_files import dry_run_kwargs, find_env
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.errors import UsageError
from gym_llm.records.failures import reason


def is_file(name: str) -> bool:
    """Whether a name is that of a Python file, with or without an environment in it: `my_env.py:mine/Quiz-v0`."""
    return name.partition(":")[0].endswith(".py")


def check_file(name: str, tasks: str | None = None) -> Iterator[Check]:
    """Make each check of an environment in a file when its result is asked for; see `find_env`.

    Args:
        name: The file, with the environment's name if it has several.
        tasks: A source of tasks; None for the environment's own.
    """
    path = Path(name.partition(":")[0])

    def make() -> Any:
        given: dict[str, Any] = {} if tasks is None else {"tasks": tasks}
        return gym.make(spec, disable_env_checker=True, **dry_run_kwargs(spec), **given).unwrapped

    try:
        spec = find_env(name)
        env = make()
        getattr(env, "tasks", None)  # raises if the class's own `__init__` has not called ours
    except Exception as error:  # the file and its environment may do anything
        sentence = str(error) if isinstance(error, UsageError) else reason(error)
        yield Check("environment", "failed", sentence)
        return
    with contextlib.closing(env):
        if not isinstance(env, VerifierEnv):
            yield Check("environment", "failed", f"{type(env).__name__} is no gym_llm.VerifierEnv.")
            return
        tools = ", ".join(schema["name"] for schema in env.tool_schemas())
        yield Check("environment", "ok", f"{env.env_id}, {f'with the tools {tools}' if tools else 'without tools'}")
        yield _tasks(env)
        yield _contract(env)
        if env.tasks is not None:
            yield from check_play(make, has_stand_in=bool(env.dry_run_kwargs))
    tests = sorted({*path.parent.glob(f"test_{path.stem}.py"), *path.parent.glob(f"tests/test_{path.stem}.py")})
    if tests:
        yield run_tests(path.parent, [str(test.resolve()) for test in tests])
    else:
        yield Check("tests", "missing", f"there are none; {path.with_name(f'test_{path.name}')} is the place")


def _tasks(env: VerifierEnv) -> Check:
    if env.tasks is None:
        return Check("tasks", "missing", "it has none of its own; try it with `--tasks FILE`")
    count = min(env.num_tasks or EXAMPLES, EXAMPLES)
    try:
        for index in range(count):
            env.reset(seed=index, options={"task_index": index})
    except Exception as error:
        return Check("tasks", "failed", f"task {index}: {reason(error)}")
    return Check("tasks", "ok", f"{env.num_tasks or 'generated'}; an episode begins with each of {count}")


def _contract(env: VerifierEnv) -> Check:
    if env.tasks is None:
        return Check("Gymnasium", "missing", "without tasks it cannot be tried")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_env(env, skip_render_check=True)
    except Exception as error:
        return Check("Gymnasium", "failed", reason(error))
    return Check("Gymnasium", "ok", "check_env finds nothing")
