"""Experiments in ScienceWorld, a text world in which substances boil and plants grow. Needs Java."""

from __future__ import annotations

import functools
import os
import re
import shutil
import threading
from typing import Any, Literal

ENV_ID = "gym_llm/ScienceWorld-v0"
PACKAGES = ("scienceworld==1.2.3",)
MODULE = "scienceworld"
FRAMEWORKS = ("scienceworld",)
_SAME_ORDER = "-XX:+UnlockExperimentalVMOptions -XX:hashCode=2"  # else sets are listed by addresses
_FULL_SCORE = 100
_NUMBER = re.compile(r"^\d+:\t")
_TURN = threading.RLock()  # Java's side is for one thread
_java: list[Any] = []


class Peer:
    """A task: its reward is the final score, from 0 to 1, as on ScienceWorld's leaderboard.

    Args:
        task: Its name: `boil`, `find-living-thing`, `use-thermometer`.
        variation: Its number; None for each of the split in turn.
        split: Which variations are played.
        simplification: `easy`, or names of simplifications, separated by commas.
        max_steps: After how many commands the episode is truncated.
    """

    blocking = True  # Java starts with the first episode, in about two seconds
    recording = False

    def __init__(
        self,
        task: str = "boil",
        variation: int | None = None,
        split: Literal["train", "dev", "test"] = "train",
        simplification: str = "",
        max_steps: int = 100,
    ) -> None:
        self._task, self._variation, self._split = task, variation, split
        self._simplification, self._max_steps = simplification, max_steps
        self._score = 0
        self._env: Any = None

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Begin, in the Java of this process's episodes; the first message has the task and the kinds of commands.

        Raises:
            FileNotFoundError: If Java is not installed.
        """
        if shutil.which("java") is None:
            raise FileNotFoundError("java: ScienceWorld needs Java 11 or later on the PATH")
        with _TURN:
            return self._begin(seed)

    def _begin(self, seed: int | None) -> dict[str, Any]:
        env = self._env = _world(self._max_steps)
        if (variation := self._variation) is None:
            choices = _variations(env, self._task, self._split, self._simplification)
            variation = choices[(seed or 0) % len(choices)]
        env.load(self._task, variation, self._simplification)
        observation, info = env.reset()
        commands = "\n".join(env.get_possible_actions())
        asked = f"{env.get_task_description()}\n\nAnswer with one command. These are the kinds:\n{commands}"
        return {"say": f"{asked}\n\n{observation}", "observation": observation, "info": self._about(info)}

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Give a command; a failed task has the score -100, which counts as 0."""
        from _gym_llm_theirs_views import last_line

        text = action["text"].encode(errors="replace").decode()
        command = text if self.recording else last_line(text)
        with _TURN:
            observation, change, done, info = self._env.step(command)
        score = min(max(info["score"], 0), _FULL_SCORE)
        reward, self._score = (score - self._score) / _FULL_SCORE, score
        over = info["score"] < 0 or info["score"] >= _FULL_SCORE or info["moves"] <= self._max_steps
        turn = {"say": observation, "observation": observation, "info": self._about(info)}
        turn["reward"] = change if self.recording else reward
        return {**turn, "terminated": bool(done and over), "truncated": bool(done and not over)}

    def close(self) -> None:
        """Let Java forget the world."""
        self._env = None

    @staticmethod
    def _about(info: dict[str, Any]) -> dict[str, Any]:
        names = {"score": "score", "moves": "moves", "variationIdx": "variation"}
        return {**{new: info[old] for old, new in names.items()}, "success": info["score"] >= _FULL_SCORE}


def samples(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the number of each variation of the split."""
    if arguments["variation"] is not None:
        return [{}]
    with _TURN:
        names = ("task", "split", "simplification")
        numbers = _variations(_world(arguments["max_steps"]), *(arguments[name] for name in names))
        return [{"variation": number} for number in numbers]


def _variations(env: Any, task: str, split: str, simplification: str) -> list[int]:
    env.load(task, 0, simplification)
    return list(getattr(env, f"get_variations_{split}")())


def _world(max_steps: int) -> Any:
    """Return a world in the Java of this process, which is started if it does not run: theirs has a Java each."""
    os.environ.setdefault("JAVA_TOOL_OPTIONS", _SAME_ORDER)
    import scienceworld

    if not _java or _java[0]._gateway.java_process.poll() is not None:
        _java[:] = [scienceworld.ScienceWorldEnv("")]
    world = _world_class()(_java[0])
    world.envStepLimit = max_steps
    return world


@functools.cache
def _world_class() -> Any:
    import scienceworld

    class World(scienceworld.ScienceWorldEnv):  # type: ignore[misc]
        """Theirs, with a simulator of its own in another one's Java."""

        def __init__(self, other: Any) -> None:
            self.__dict__.update(other.__dict__)
            self.server = self._gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()
            self.clear_run_histories()

        def close(self) -> None:
            """Leave Java to the others."""

    return World


def compared(observation: str) -> list[str]:
    """Return an observation's lines, sorted and without a menu's numbers.

    Java lists what is in a set in an order that depends on all that its process did before.
    """
    return sorted(_NUMBER.sub("", line) for line in str(observation).splitlines())


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments of a recorded episode.

    Raises:
        NotImplementedError: If a temperature is measured where heat spreads in the order of a set.
    """
    seen = "\n".join(map(str, episode["observations"]))
    if "paint" in seen and "degrees" in seen:
        raise NotImplementedError("temperatures beside the paints in the art studio differ between processes")
    kwargs = episode["kwargs"]
    arguments = {"task": episode["env"], "variation": kwargs["variation"], "simplification": kwargs["simplification"]}
    return {**arguments, "max_steps": kwargs["envStepLimit"]}, None
