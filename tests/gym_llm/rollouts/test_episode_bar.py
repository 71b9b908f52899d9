"""The bar of `gym_llm.collect`."""

import contextlib
import os
import pty
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_collect_shows_on_a_terminal_how_far_it_is_after_a_while():
    code = (
        "import gym_llm.rollouts.episode_bar as bar\nbar._PATIENCE_SECONDS = {patience}\n"
        "import gym_llm, gym_llm.engines\n"
        "class Silent(gym_llm.engines.Engine):\n    model = 'silent'\n"
        "    async def respond(self, request, **_): return {{'output': []}}\n"
        "gym_llm.collect('gym_llm/Weather-v0', Silent(), episodes=40, concurrency=2{more})"
    )

    def said(patience, more="", on_terminal=True):
        terminal, ours = pty.openpty()
        command = [sys.executable, "-c", code.format(patience=patience, more=more)]
        process = subprocess.Popen(command, stderr=ours if on_terminal else subprocess.PIPE, text=not on_terminal)
        os.close(ours)
        read = b""
        if on_terminal:
            with contextlib.suppress(OSError):  # Linux's way to say that the other end is closed
                while data := os.read(terminal, 65536):
                    read += data
        os.close(terminal)
        text = read.decode() + (process.communicate(timeout=60)[1] or "")
        assert process.wait(60) == 0, text
        return text

    shown = said(0.0)
    assert "40/40" in shown and "mean reward 0." in shown
    assert said(60.0) == said(0.0, ", progress=False") == said(0.0, on_terminal=False) == ""
    assert "40/40 episodes" in said(60.0, ", progress=True", on_terminal=False)
