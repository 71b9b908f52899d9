"""What tests share: building items, and replaying recorded episodes."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from importlib import resources
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import gym_llm  # noqa: F401 - registers the environments

ROOT = Path(__file__).resolve().parent.parent
POCKET = str(resources.files("gym_llm.engines.pocket") / "model")
Item = dict[str, Any]


def often(usually: int, nightly: int) -> int:
    """How many cases a test plays: in `make test`, and in `make test-all`, which has GYM_LLM_TESTS=all."""
    return nightly if os.environ.get("GYM_LLM_TESTS") == "all" else usually


def message_item(text: str) -> Item:
    """A model's message as an output item."""
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def message(text: str) -> list[Item]:
    """An action that says `text` and calls nothing."""
    return [message_item(text)]


def function_call(name: str, arguments: Any = None, call_id: str = "call_1") -> Item:
    """A call as an output item; `arguments` other than a str are written as JSON, None as `{}`."""
    text = arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)
    return {"type": "function_call", "name": name, "arguments": text, "call_id": call_id}


def response(*items: Item, **fields: Any) -> dict[str, Any]:
    """A response dict with these output items; `fields` go over the defaults."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 0.0,
        "model": "test",
        "status": "completed",
        "output": list(items),
        **fields,
    }


def row(text: str = "Go.", **fields: Any) -> dict[str, Any]:
    """A task row that asks `text` and has these verifier fields."""
    return {"responses_create_params": {"input": [{"role": "user", "content": text}]}, **fields}


def cpu_seconds(function: Callable[..., Any], *args: Any) -> float:
    """The processor time of a call in this thread: unlike a clock's, it does not grow with what else runs here."""
    start = time.thread_time()
    function(*args)
    return time.thread_time() - start


def scored(
    env_id: str, action: str | list[Item] | dict[str, Any], kwargs: dict[str, Any] | None = None, **fields: Any
) -> tuple[float, dict[str, Any]]:
    """(reward, info) of an episode of one turn, in which the model says a text, or acts, on a row of these fields."""
    with closing(gym.make(env_id, disable_env_checker=True, **(kwargs or {}))) as env:
        env.reset(options={"task": row(**fields)})
        _, reward, terminated, truncated, info = env.step(message(action) if isinstance(action, str) else action)
    assert terminated or truncated
    return float(reward), info


def outcome_fields(reward: float | None) -> dict[str, Any]:
    """The fields of a record that say how its episode ended: scored, or masked by its judge without a reward."""
    return {
        "outcome": "masked" if reward is None else "scored",
        "reward": reward,
        "terminated": True,
        "truncated": False,
        "failure_kind": None if reward is not None else "judge_failed",
        "error": None if reward is not None else "down",
        "error_phase": None,
        "traceback": None,
    }


@asynccontextmanager
async def pocket_client() -> AsyncIterator[Any]:
    """OpenAI's client of the pocket model, which a model server serves."""
    import openai

    from gym_llm.engines import make_engine
    from gym_llm.engines.model_server import ModelServer

    engine = make_engine("pocket", parsers=["reasoning", "tool_calls"])
    async with ModelServer(engine, port=0) as server, openai.AsyncOpenAI(base_url=server.url, api_key="x") as client:
        yield client


@asynccontextmanager
async def serving(routes: dict[str, Callable[..., Any]], **options: Any) -> AsyncIterator[str]:
    """Serve paths on loopback, each with the function that answers it; the URL. `options` are aiohttp's runner's."""
    from aiohttp import web

    app = web.Application()
    for path, answer in routes.items():
        app.router.add_route("*", path, answer)
    runner = web.AppRunner(app, **options)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def outputs(observation: Any) -> list[str]:
    """The texts of all tool outputs in an observation."""
    return [item["output"] for item in observation["input"] if item.get("type") == "function_call_output"]


def copy_repository(target: Path) -> Path:
    """Copy what git knows of the repository, symbolic links as such; without git the test is skipped."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode:
        pytest.skip("this is no git repository")
    for name in filter(None, listed.stdout.split("\0")):
        source, copy = ROOT / name, target / name
        if source.is_file() or source.is_symlink():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)
    return target


def python_in(root: Path, *args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python with the `gym_llm` of a copy of the repository."""
    env = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-P", *args]
    return subprocess.run(command, cwd=cwd or root, env=env, capture_output=True, text=True, timeout=300)


def vectors_dir() -> Path:
    """Where the conformance vectors are, if they are."""
    return Path(os.environ.get("GYM_LLM_VECTORS") or ROOT.parent / "shared" / "vectors")


def vectors(name: str) -> list[dict[str, Any]]:
    """The conformance vectors of one environment; elsewhere none, so that tests parametrised over them skip."""
    file = vectors_dir() / f"{name}.jsonl"
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def replay(env: gym.Env[Any, Any] | str, vector: dict[str, Any]) -> dict[str, Any]:
    """Play a recorded episode's model turns and check that the environment says and pays what was recorded.

    Args:
        env: An environment, or the id of one.
        vector: `task`, `output` and `reward` (or `library_reward`), as the vectors' README describes.

    Returns:
        The last step's info.
    """
    if isinstance(env, str):
        env = gym.make(env)
    observation, info = env.reset(options={"task": vector["task"]})
    asked = len(observation["input"])
    recorded = vector["output"]
    reward, terminated, truncated = None, False, False
    position = 0
    while position < len(recorded):
        assert not terminated and not truncated, f"the episode ended before item {position}"
        start = position
        while position < len(recorded) and not _is_env_item(recorded[position]):
            position += 1
        observation, reward, terminated, truncated, info = env.step(recorded[start:position])
        while position < len(recorded) and _is_env_item(recorded[position]):
            position += 1
        said = observation["input"][asked:]
        assert [_comparable(item) for item in said] == [_comparable(item) for item in recorded[:position]]
    assert terminated and not truncated
    assert reward == vector.get("library_reward", vector["reward"]), info
    return info


def _is_env_item(item: Item) -> bool:
    return item.get("type") == "function_call_output" or item.get("role") == "user"


def _comparable(item: Item) -> Item:
    fields = {name: value for name, value in item.items() if name not in ("id", "status")}
    if item.get("type") == "function_call_output":  # recorded with a NeMo Gym that still put spaces into its JSON
        fields["output"] = json.dumps(json.loads(item["output"]))
    return fields


def rollout_ids(path: str | Path) -> list[tuple[int, int]]:
    """Task index and repeat index of each record of a file, sorted."""
    ids = [json.loads(line)["rollout_id"] for line in Path(path).read_bytes().splitlines()]
    return sorted((number["task_index"], number["repeat_index"]) for number in ids)


def in_loop(test: Callable[..., Any]) -> Callable[..., Any]:
    """An async test, run in an event loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> Any:
        return asyncio.run(test(*args, **kwargs))

    return run


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until it holds; the test fails if that takes too long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)


def has_lines(path: str, count: int) -> Callable[[], bool]:
    """Whether a file is there and has so many lines; asked again, it reads only what is new."""
    lines = position = 0

    def has() -> bool:
        nonlocal lines, position
        if os.path.exists(path):
            with open(path, "rb") as file:
                file.seek(position)
                new, newline, _ = file.read().rpartition(b"\n")  # an unfinished line may yet be cut off
            lines += new.count(b"\n") + len(newline)
            position += len(new) + len(newline)
        return lines >= count

    return has
