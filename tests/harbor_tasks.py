"""Tasks of Harbor for tests, and how they are played."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from testing import function_call, message, outputs

from gym_llm.errors import SandboxUnavailable


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("images"))


def make(cache: str, **kwargs: Any) -> Any:
    try:
        return gym.make("gym_llm/Harbor-v0", cache=cache, disable_env_checker=True, **kwargs).unwrapped
    except SandboxUnavailable as error:
        pytest.skip(str(error))


def play(env: Any, row: dict[str, Any], *commands: str) -> tuple[float, dict[str, Any], list[str]]:
    """(reward, info, what the commands answered) of an episode with these commands."""
    env.reset(options={"task": row})
    said = []
    for command in commands:
        observation, *_ = env.step([function_call("shell", {"command": command})])
        said.append(outputs(observation)[-1])
    _, reward, terminated, _, info = env.step(message("Done."))
    assert terminated
    return reward, info, said


def write_task(folder: Path, test: str, settings: str = "", dockerfile: str = "FROM host\n") -> dict[str, Any]:
    """A task folder with this test, as a row."""
    for name in ("environment", "tests"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "task.toml").write_text(settings or "[agent]\n")
    (folder / "instruction.md").write_text("Do it.\n")
    (folder / "environment" / "Dockerfile").write_text(dockerfile)
    (folder / "tests" / "test.sh").write_text(test)
    return {"task": str(folder)}
