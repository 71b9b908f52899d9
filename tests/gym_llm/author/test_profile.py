"""Where a verifier's time goes: counted exactly, shared out completely, waiting told from working."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from played import boxed, play, sum_of
from testing import function_call, row

import gym_llm
from gym_llm import hook, tool
from gym_llm.author.flame import WAITING, Frame, Spent, flame_graph, stacks_under
from gym_llm.author.profile import Profile, profile
from gym_llm.cli import main
from gym_llm.errors import UsageError

BUSY = "test_profile/Busy-v0"


class Busy(gym_llm.VerifierEnv):
    """Works in some hooks and waits in others."""

    def setup(self, task: Any) -> list[int]:
        return [square(1)]

    @tool
    def add(self, state: list[int], number: int) -> str:
        """Add a number.

        Args:
            number: Which.
        """
        state.append(square(number))
        return "added"

    async def verify(self, task: Any, episode: Any) -> float:
        await pause()
        if episode.answer == "broken":
            raise KeyError("broken")
        return float(square(1))

    @hook(blocking=True)
    def teardown(self, task: Any, episode: Any) -> None:
        time.sleep(0.002)


async def pause() -> None:
    await asyncio.sleep(0.01)


def square(number: int) -> int:
    return number * number


@pytest.fixture
def rollouts(tmp_path: Path) -> Any:
    gym.register(id=BUSY, entry_point=Busy)

    def say(request: Any, task: int, repeat: int) -> Any:
        if len(request["input"]) == 1:
            return [function_call("add", {"number": 3}), function_call("add", {"number": 4}, "call_2")]
        return "broken" if task == 2 else "Done."

    yield play(tmp_path / "a.jsonl", BUSY, say, tasks=[row("?")] * 3)
    del gym.registry[BUSY]


def calls(found: Profile) -> dict[str, int]:
    return {one.hook: one.calls for one in found.hooks}


def function(found: Profile, name: str, under: str) -> Any:
    here = (one for one in found.functions if one.hook == under and not one.thread)  # other tests leave threads behind
    (one,) = (one for one in here if one.function.endswith(name))
    return one


def test_hooks_tools_and_functions_are_counted(rollouts: Path) -> None:
    found = profile(rollouts, BUSY)
    assert (found.episodes, found.failed, found.left_out) == (3, 1, 0)
    assert found.first_error == "KeyError: 'broken'"
    assert calls(found) == {"setup": 3, "tool add": 6, "verify": 3, "teardown": 3, "respond": 3}
    assert function(found, "square", "tool").calls == 6
    assert function(found, "square", "setup").calls == 3
    assert function(found, "square", "verify").calls == 2
    assert function(found, "pause", "verify").calls == 3
    numbers = [(one["task_index"], one["repeat_index"]) for one in found.slowest]
    assert sorted(numbers) == [(0, 0), (1, 0), (2, 0)]
    assert [one["seconds"] for one in found.slowest] == sorted((one["seconds"] for one in found.slowest), reverse=True)


def test_waiting_is_told_from_working(rollouts: Path) -> None:
    found = profile(rollouts, BUSY)
    verify = next(one for one in found.hooks if one.hook == "verify")
    assert verify.wall >= 3 * 0.009  # a sleep is never shorter, but for the clock's grain
    assert verify.waiting == pytest.approx(verify.wall - verify.cpu)
    sleep = function(found, "sleep", "verify")
    assert sleep.waiting > 0.02 and sleep.waiting <= sleep.own_wall
    for one in found.functions:
        assert one.waiting >= 0
        assert one.mean_wall * one.calls == pytest.approx(one.total_wall if one.calls else 0)


def test_the_flame_graph_has_all_the_time_of_the_hooks(rollouts: Path, tmp_path: Path) -> None:
    found = profile(rollouts, BUSY)
    file, graph = (json.loads(path.read_bytes()) for path in found.write(tmp_path / "out"))
    assert file["hooks"][0].keys() == {"hook", "calls", "wall", "cpu", "waiting", "mean_wall"}
    check_speedscope(graph)
    (shown,) = graph["profiles"]
    names = [frame["name"] for frame in graph["shared"]["frames"]]
    assert sum(shown["weights"]) == pytest.approx(sum(one.wall for one in found.hooks))
    stacks = [[names[index] for index in sample] for sample in shown["samples"]]
    assert {stack[0] for stack in stacks} <= calls(found).keys()
    waits = next(stack for stack in stacks if "sleep" in stack and stack[-1] == WAITING)
    assert waits == ["verify", "Busy.verify", "pause", "sleep", WAITING]


def check_speedscope(graph: dict[str, Any]) -> None:
    """What the format's schema demands (speedscope's src/lib/file-format-spec.ts)."""
    assert graph["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert graph.keys() <= {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}
    for frame in graph["shared"]["frames"]:
        assert isinstance(frame["name"], str) and frame.keys() <= {"name", "file", "line", "col"}
        assert isinstance(frame.get("file", ""), str) and isinstance(frame.get("line", 0), int)
    for shown in graph["profiles"]:
        assert shown.keys() == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert (shown["type"], shown["unit"], shown["startValue"]) == ("sampled", "seconds", 0)
        assert len(shown["samples"]) == len(shown["weights"])
        assert shown["endValue"] == pytest.approx(sum(shown["weights"]))
        known = range(len(graph["shared"]["frames"]))
        assert all(index in known for sample in shown["samples"] for index in sample)


def test_stacks_share_out_a_function_s_time_and_end_where_it_calls_itself() -> None:
    spent = {name: Spent(Frame(name), total, waiting) for name, total, waiting in
             (("root", 10.0, 0.0), ("a", 6.0, 0.0), ("b", 4.0, 0.5), ("shared", 4.0, 0.0))}  # fmt: skip
    below = {"root": {"a": 6.0, "b": 3.0}, "a": {"shared": 3.0, "a": 2.0}, "b": {"shared": 1.0}, "shared": {"root": 9}}
    stacks = {"/".join(frame.name for frame in stack): seconds for stack, seconds in stacks_under("root", spent, below)}
    assert stacks == pytest.approx({
        "root": 1.0, "root/a": 3.0, "root/a/shared": 3.0, "root/b": 1.125, f"root/b/{WAITING}": 1.125,
        "root/b/shared": 0.75,
    })  # fmt: skip
    at_once = dict(stacks_under("root", spent, {"root": {"a": 6.0, "b": 14.0}}))
    assert sum(at_once.values()) == pytest.approx(10.0)
    assert flame_graph("nothing", [])["profiles"][0]["endValue"] == 0


def test_what_a_worker_process_does_is_named_as_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gym_llm.envs.math_verify.env._MOST_COMPARED", 0)  # else the verdicts are remembered
    math = "gym_llm/MathVerify-v0"
    tasks = [row("?", expected_answer=f"x^2-{number}") for number in (1, 4)]  # numbers need no worker
    path = play(tmp_path / "m.jsonl", math, lambda *_: boxed("(x-1)(x+1)"), tasks=tasks)
    found = profile(path, math)
    call = function(found, "ProcessPool.call", "verify")
    assert call.calls and call.waiting > 0
    assert any("gym_llm.envs.math_verify.grading:grade" in name for name in found.threads)


def test_the_command_prints_and_writes(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    env = "gym_llm/Arithmetic-v0"
    path = str(play(tmp_path / "a.jsonl", env, lambda request, *_: boxed(sum_of(request)), limit=3))
    out = tmp_path / "out"
    assert main(["profile", env, "--rollouts", path, "--output", str(out), "--limit", "2"]) == 0
    said = capsys.readouterr().out
    assert "2 episodes" in said and "Arithmetic.verify  env.py:" in said and "slowest" in said
    assert sorted(file.name for file in out.iterdir()) == ["profile.json", "profile.speedscope.json"]
    assert main(["profile", env, "--rollouts", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == 3
    assert main(["profile", "gym_llm/Counter-v0", "--rollouts", path]) == 2
    assert "gym_llm/Counter-v0" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "yappi", None)
    assert main(["profile", env, "--rollouts", path]) == 2
    assert "needs yappi" in capsys.readouterr().err


def test_a_file_without_episodes_is_refused(tmp_path: Path) -> None:
    def fail(*_: Any) -> str:
        raise ConnectionRefusedError("down")

    path = play(tmp_path / "a.jsonl", "gym_llm/Arithmetic-v0", fail, limit=1, retries=0)
    record = json.loads(path.read_bytes())
    del record["response"]
    path.write_text(json.dumps(record))
    with pytest.raises(UsageError, match="no episode to play"):
        profile(path, "gym_llm/Arithmetic-v0")
