"""A machine without Ray: what needs it says so in one sentence, and nothing else asks for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gym_llm.utils.extras import install

BLOCK = "import sys; sys.modules['ray'] = None\nimport asyncio, gymnasium, gym_llm\n"
SENTENCE = f"Ray is not installed: {install('ray')}, or play in this process (LocalVectorEnv, --workers 0)."


def without_ray(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCK + code], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    "code",
    [
        "gymnasium.make_vec('gym_llm/Weather-v0', num_envs=2)",
        "gym_llm.collect('gym_llm/Weather-v0', 'http://localhost:1/v1', episodes=2, workers=2)",
        "gym_llm.collect('gym_llm/Weather-v0', 'actor:engine', episodes=2)",
        "from gym_llm.rollouts.ray.shared_engine import shared_engine as s; asyncio.run(s('pocket').__aenter__())",
    ],
    ids=["make_vec", "workers", "actor", "shared_engine"],
)
def test_what_needs_ray_says_how_to_install_it(code: str) -> None:
    assert without_ray(code).stderr.splitlines()[-1] == f"gym_llm.errors.RayUnavailable: {SENTENCE}"


@pytest.mark.parametrize("option", [["--workers", "2"], ["--engine", "actor:engine"]], ids=["workers", "actor"])
def test_the_command_line_says_it_too(option: list[str]) -> None:
    arguments = ["rollout", "gym_llm/Weather-v0", "--episodes", "2", *option]
    run = without_ray(f"from gym_llm.cli import main; sys.exit(main({arguments!r}))")
    assert (run.returncode, run.stderr) == (2, f"gym-llm: {SENTENCE}\n")


def test_vector_environments_and_rollouts_of_this_process_need_no_ray() -> None:
    run = without_ray("""
from gym_llm.vector import LocalVectorEnv
with LocalVectorEnv("gym_llm/Weather-v0", 2) as envs:
    envs.reset(seed=0)
    envs.step([[], []])
record, = gym_llm.collect("gym_llm/Weather-v0", "pocket", episodes=1, sampling={"max_output_tokens": 5})
print(record["error"])
""")
    assert (run.returncode, run.stdout) == (0, "None\n"), run.stderr
