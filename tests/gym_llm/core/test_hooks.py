"""Hooks that block: named where they hold others up, and run elsewhere where they are marked."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

import blocking_envs  # noqa: F401 - registers them
import pytest
from testing import function_call, message, response, row

import gym_llm
from gym_llm import VerifierEnv, hook
from gym_llm.engines import Engine
from gym_llm.rollouts import loop_monitor
from gym_llm.rollouts.settings import RolloutSettings


class Says(Engine):
    """Gives the same answers in every episode."""

    model = "says"

    def __init__(self, *answers: Any) -> None:
        self.answers = answers

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        turn = sum(item.get("role") == "assistant" or item.get("type") == "function_call" for item in request["input"])
        return response(*self.answers[min(turn, len(self.answers) - 1)])


ID = "test/InProcesses-v0"


def collect(name: str, *answers: Any, episodes: int = 3, **kwargs: Any) -> list[Any]:
    return gym_llm.collect(f"test/{name}-v0", Says(*answers), tasks=[row()] * episodes, **kwargs)


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_monitor, "_named", set())


@pytest.mark.parametrize(
    "name, function, cure",
    [("Blocking", "Blocking.verify", "@hook(blocking=True)"), ("BlockingTool", "BlockingTool.read", "@tool(blocking")],
)
def test_a_hook_that_blocks_is_named_once_with_the_cure(
    name: str, function: str, cure: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "gym_llm")
    collect(name, [function_call("read")] if "Tool" in name else message("x"), message("done"))
    (warning,) = [one.getMessage() for one in caplog.records if "blocks for more" in one.getMessage()]
    assert function in warning and "blocking_envs.py" in warning and cure in warning


def test_hooks_that_wait_as_they_should_are_not_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "gym_llm")
    assert [record["reward"] for record in collect("Waiting", message("x"))] == [1.0] * 3
    assert "blocks for more" not in caplog.text


def test_hooks_in_threads_run_at_once_and_the_loop_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "gym_llm")
    records = collect("InThreads", message("x"), episodes=8)
    assert [(record["reward"], record["info"]["turn"]) for record in records] == [(1.0, 2)] * 8
    assert "blocks for more" not in caplog.text


def test_a_hook_in_a_process_sees_task_episode_and_the_environment_s_own(tmp_path: Any) -> None:
    records = collect("InProcesses", message(str(os.getpid())), env_kwargs={"bonus": 2.0})
    assert [record["reward"] for record in records] == [3.0] * 3


@pytest.mark.slow
def test_a_hook_that_hangs_in_a_process_is_ended_and_masks_its_episode() -> None:
    with pytest.raises(gym_llm.errors.TooManyFailures, match=r"InProcesses.verify took longer than its deadline"):
        collect("InProcesses", message("hang"), episodes=1)


@pytest.mark.parametrize(
    "answer, kind, error",
    [
        ("judge", "judge_failed", "JudgeError: the judge is down"),
        ("quota", "provider_quota_exhausted", "JudgeError: too many"),
        ("refused", "transport_unreachable", "ConnectionRefusedError: nobody is there"),
        ("bug", "verifier_error", "KeyError: 'city'"),
        ("panic", "verifier_error", "Panic: index out of bounds"),
        ("exit", "verifier_error", "SystemExit: 3"),
    ],
)
def test_what_a_hook_raises_in_a_process_keeps_its_kind_and_its_traceback(answer: str, kind: str, error: str) -> None:
    settings = RolloutSettings(retries=0)

    async def play() -> list[Any]:
        return [r async for r in gym_llm.rollout(ID, Says(message(answer)), tasks=[row()], settings=settings)]

    (record,) = asyncio.run(play())
    assert (record["failure_kind"], record["error_phase"], record["reward"]) == (kind, "verify", None)
    assert record["error"].endswith(f"InProcesses.verify raised {error}")
    assert "blocking_envs.py" in record["traceback"]


def test_a_marked_hook_is_called_where_it_is_outside_of_a_driver() -> None:
    env = gym_llm.VerifierEnv
    assert env is VerifierEnv

    class Here(VerifierEnv):
        @hook(blocking=True)
        def verify(self, task: Any, episode: Any) -> float:
            return 0.5

    here = Here(tasks=[row()])
    here.reset()
    assert here.step(message("x"))[1] == 0.5


def test_marks_that_make_no_sense_are_refused() -> None:
    with pytest.raises(TypeError, match="is async"):

        @hook(blocking=True)
        async def verify() -> None: ...

    with pytest.raises(ValueError, match="blocking is True"):
        hook(blocking="gpu")(lambda self: None)  # type: ignore[call-overload]
