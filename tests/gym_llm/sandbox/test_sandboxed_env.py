"""SandboxedEnv: `run_python` is all that a verifier of programs needs."""

from __future__ import annotations

from typing import Any

import pytest
from testing import message, row

from gym_llm import Episode
from gym_llm.concurrency import wait
from gym_llm.sandbox import RunResult, SandboxedEnv


class Runs(SandboxedEnv):
    """Keeps how the program ran that was the answer."""

    run: RunResult

    async def verify(self, task: Any, episode: Episode) -> float:
        self.run = await self.run_python(episode.answer, stdin="7", seconds=1)
        return float(self.run.ok)


class RunsSynchronously(Runs):
    """The same from a hook that is not async."""

    def verify(self, task: Any, episode: Episode) -> float:  # type: ignore[override]
        self.run = wait(self.run_python(episode.answer, stdin=b"7", seconds=1))
        return float(self.run.ok)


@pytest.mark.parametrize("kind", [Runs, RunsSynchronously])
@pytest.mark.parametrize(
    ("code", "text", "error"),
    [
        ("print(int(input()) * 6)", "42\n", None),
        ("print(1)\nraise ValueError('no')", "1\n", "ValueError: no"),
        ("import sys; sys.exit(3)", "", "it ended with 3"),
        ("import os; os.kill(os.getpid(), 9)", "", "signal 9 ended it"),
        ("while True: pass", "", "it passed its limit of cpu"),
    ],
)
def test_a_run_has_its_output_and_the_reason_of_its_failure(
    kind: type[Runs], code: str, text: str, error: str | None
) -> None:
    env = kind([row()])
    env.reset()
    assert env.step(message(code))[1] == (error is None)
    assert (env.run.text, env.run.error) == (text, error)
    env.close()


def test_arguments_are_checked_when_the_environment_is_made() -> None:
    with pytest.raises(ValueError, match="sandbox"):
        Runs([row()], sandbox="sand")
    with pytest.raises(ValueError, match="memory_mib"):
        Runs([row()], memory_mib=0)
