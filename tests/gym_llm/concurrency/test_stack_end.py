"""Native libraries that walk over the C stack, in every hook, played in a child process that they could end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

WALKING = '''
import asyncio, ctypes, os
import torch
from gym_llm import BaseTask, VerifierEnv, hook, tool

def torch_error():
    torch.zeros(3) + torch.zeros(4)

WALKS = {
    "backtrace": lambda: ctypes.CDLL(None).backtrace((ctypes.c_void_p * 64)(), 64),
    "torch": torch_error,
    "C++": lambda: torch._C.parse_schema("x("),
}

class Walking(VerifierEnv):
    """Walks over the stack in one hook."""

    class Task(BaseTask):
        hook: str
        walk: str
        caught: bool

    def fail(self, task, hook):
        if hook == task.hook:
            try:
                WALKS[task.walk]()
            except RuntimeError:
                if not task.caught:
                    raise

    def setup(self, task):
        self.fail(task, "setup")
        return task

    @tool
    async def wait(self) -> str:
        """Wait."""
        await asyncio.sleep(0.001)
        return "waited"

    @tool
    def look(self, state) -> str:
        """Look."""
        self.fail(state, "tool")
        return "seen"

    def user_turn(self, task, episode):
        self.fail(task, "user_turn")
        return None

    def verify(self, task, episode):
        self.fail(task, "verify")
        return torch.ones(2) if task.hook == "two elements" else 1.0

    def teardown(self, task, episode):
        self.fail(task, "teardown")
'''
PLAY = """
import sys
import gym_llm
from played import Scripted
from testing import function_call, message_item, row

def say(request, task, repeat):
    if len(request["input"]) == 1:
        return [function_call("wait", call_id="call_0"), function_call("look")]
    return [message_item("4")]

hooks = "setup", "tool", "user_turn", "verify", "teardown"
cases = [(hook, walk, caught) for hook in hooks for walk in ("backtrace", "torch", "C++") for caught in (True, False)]
cases += [("two elements", "", False)]
tasks = [row("2+2?", hook=hook, walk=walk, caught=caught) for hook, walk, caught in cases]
records = gym_llm.collect(sys.argv[1], Scripted(say), tasks=tasks, repeats=20, retries=0)
for (hook, walk, caught), index in zip(cases, range(len(cases))):
    rewards = {record["reward"] for record in records if record["rollout_id"]["task_index"] == index}
    broken = not caught and walk != "backtrace"
    print(rewards == ({None} if broken else {1.0}) or (hook, walk, caught, rewards))
"""


def test_a_backtrace_or_a_native_error_in_any_hook_ends_no_process(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "vf_walking.py").write_text(WALKING)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "RUST_BACKTRACE": "1"}
    command = [sys.executable, "-c", PLAY, str(tmp_path / "vf_walking.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, set(done.stdout.split("\n"))) == (0, {"True", ""}), done.stderr[-2000:]
