"""TALES: text adventures of five frameworks, from your checkout of Microsoft's tale-suite. Some need Java."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Literal

ENV_ID = "gym_llm/Tales-v0"
PACKAGES: tuple[str, ...] = ("gymnasium>=1.0", "numpy", "termcolor")
MODULE = "gymnasium"
FRAMEWORKS = ("tales",)
APART = True  # it is imported from a folder of the user's
PYTHONS = ("3.12", "3.13")  # tale-suite's own `requires-python`
MAX_TURNS = 1_000  # max_episode_steps is the limit
_OF_STORIES = ("textworld[pddl]==1.7.0", "jericho==3.3.1", "llm", "requests", "tqdm")
_PACKAGES = {
    "textworld": _OF_STORIES,
    "textworld_express": ("textworld-express==1.1.0",),
    "alfworld": (*_OF_STORIES, "alfworld==0.4.2"),
    "scienceworld": ("scienceworld==1.2.3",),
    "jericho": _OF_STORIES,
}
_OF_JAVA = ("textworld_express", "scienceworld")
_SAME_ORDER = "-XX:+UnlockExperimentalVMOptions -XX:hashCode=2"  # else sets are listed by addresses
_OF_STORY_FILES = ("textworld", "jericho")
_ABOUT = ("score", "max_score", "won", "lost", "moves")
_SOURCES: set[str] = set()


class Peer:
    """A text adventure; the model's text is the command. Rows are those of NeMo Gym's server `tales`.

    The reward of a command is the framework's own. Of TextWorld, ALFWorld and Jericho it is what the score gains.
    tale-suite downloads their games to `TALES_CACHE_HOME`. Java may start slowly: give `step_seconds` of 120 or more.

    Args:
        framework: Whose games are played.
        task_no: The place of the task in the framework's list.
        split: `train` or `test`; of ScienceWorld also which variations the seed draws from.
        max_episode_steps: After how many commands the episode is truncated.
        expose_admissible_commands: Whether `info` has the commands that the game would accept.
        conform: `"nemo"` pays Jericho's whole score for each command, as NeMo Gym does.
        source: The folder of a checkout of tale-suite; empty for that of TALES_SOURCE.
    """

    blocking = True
    recording = False

    def __init__(
        self,
        framework: Literal["textworld", "textworld_express", "alfworld", "scienceworld", "jericho"] = "textworld",
        task_no: int = 0,
        split: str = "train",
        max_episode_steps: int = 25,
        expose_admissible_commands: bool = False,
        conform: Literal["nemo"] | None = None,
        source: str = "",
    ) -> None:
        packages({"framework": framework})
        check({"source": source, "max_episode_steps": max_episode_steps})
        self._framework, self._split, self._place = framework, split, task_no
        self._most, self._exposes, self._conform = max_episode_steps, expose_admissible_commands, conform
        self._taken, self._score, self._total = 0, 0.0, 0.0
        self._source = source
        self._env: Any = None

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Begin the game of the seed.

        Raises:
            ValueError: If the framework has no such task.
            FileNotFoundError: If Java is missing.
        """
        if self._framework in _OF_JAVA:
            if shutil.which("java") is None:
                raise FileNotFoundError(f"java: {self._framework} needs Java 11 or later on the PATH")
            os.environ.setdefault("JAVA_TOOL_OPTIONS", _SAME_ORDER)
        _import_from(self._source)
        import gymnasium

        module = importlib.import_module(f"tales.{self._framework}")
        tasks = (getattr(module, "train_environments", None) if self._split == "train" else None) or module.environments
        if not isinstance(self._place, int) or not 0 <= self._place < len(tasks):
            raise ValueError(
                f"{self._framework} has tasks 0 to {len(tasks) - 1} in {self._split!r}; got {self._place}."
            )
        of_split: dict[str, Any] = {"split": self._split} if self._framework == "scienceworld" else {}
        name = "-".join(tasks[self._place][:2])
        self._env = gymnasium.make(f"tales/{name}", disable_env_checker=True, admissible_commands=True, **of_split)
        observation, info = self._env.reset(seed=seed)
        return {"say": observation, "observation": observation, "info": self._about(info)}

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Give the game the text as a command."""
        from _gym_llm_theirs_views import REFUSED, story_command

        text = action["text"].encode(errors="replace").decode().strip()
        command = story_command(text) if self._framework in _OF_STORY_FILES else text
        self._taken += 1
        is_cut = self._taken >= self._most
        if command is None:
            return {"say": REFUSED, "observation": REFUSED, "truncated": is_cut, "info": {"invalid_action": True}}
        observation, paid, done, info = self._env.step(command)
        is_sum = self._framework in ("textworld", "alfworld", "jericho")
        if is_sum and (self._framework != "jericho" or self._conform is None):
            paid, self._score = info["score"] - self._score, info["score"]
        self._total += float(paid)
        turn = {"say": observation, "observation": observation, "reward": float(paid), "terminated": bool(done)}
        return {**turn, "truncated": not done and is_cut, "info": self._about(info)}

    def close(self) -> None:
        """End the game, and Java."""
        if self._env is not None:
            self._env.close()

    def _about(self, info: dict[str, Any]) -> dict[str, Any]:
        names = (*_ABOUT, "admissible_commands") if self._exposes else _ABOUT
        about = {name: info[name] for name in names if info.get(name) is not None}
        return {**about, "total_score": self._total, "step_count": self._taken}


def packages(arguments: dict[str, Any]) -> tuple[str, ...]:
    """Return what pip installs: what the framework's part of tale-suite imports.

    Raises:
        ValueError: If there is no such framework.
    """
    name = arguments["framework"]
    if not isinstance(name, str) or name not in _PACKAGES:
        raise ValueError(f"framework is one of {', '.join(_PACKAGES)}; got {str(name)[:60]!r}.")
    return PACKAGES + _PACKAGES[name]


def check(arguments: dict[str, Any]) -> None:
    """Check the folder and the limit when the environment is made.

    Raises:
        ValueError: If there is no checkout, or the limit is below 1.
    """
    _folder(arguments["source"])
    if arguments["max_episode_steps"] < 1:
        raise ValueError("max_episode_steps is 1 or more.")


def _folder(source: str) -> str:
    given = source or os.environ.get("TALES_SOURCE", "")
    if not given:
        raise ValueError("tale-suite is run from a checkout: give its folder as `source`, or in TALES_SOURCE.")
    folder = Path(given).expanduser().resolve()
    if not (folder / "tales" / "__init__.py").is_file():
        raise ValueError(f"{str(folder)[:200]} is not a checkout of tale-suite: it has no package `tales`.")
    return str(folder)


def _import_from(source: str) -> None:
    """Let Python find tale-suite in a checkout.

    Raises:
        ValueError: If there is none, or another one is in use.
    """
    path = _folder(source)
    if _SOURCES - {path}:
        raise ValueError("This process plays another checkout already: play each in a run of its own.")
    if path not in _SOURCES:
        _SOURCES.add(path)
        sys.path.insert(0, path)
