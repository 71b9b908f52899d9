"""Text adventures of TextWorld, made for the seed or read from a file."""

from __future__ import annotations

import functools
import shutil
import tempfile
import weakref
from typing import Any

ENV_ID = "gym_llm/TextWorld-v0"
PACKAGES = ("textworld==1.7.0",)
MODULE = "textworld"
FRAMEWORKS = ("textworld",)
_RECORDED_STEPS = 20
_KEPT_GAMES = 64


class Peer:
    """A text adventure.

    Args:
        game: The path of a game file; None to make a game.
        nb_rooms: How many rooms a game that is made has.
        nb_objects: How many objects.
        quest_length: How many commands its quest takes.
        max_steps: After how many commands the episode is truncated.
    """

    blocking = True  # compiling takes seconds
    recording = False

    def __init__(
        self,
        game: str | None = None,
        nb_rooms: int = 3,
        nb_objects: int = 4,
        quest_length: int = 3,
        max_steps: int = 100,
    ) -> None:
        self._game, self._sizes = game, (nb_rooms, nb_objects, quest_length)
        self._max_steps, self._score = max_steps, 0
        self._folder: _Folder | None = None

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Compile the game and begin it."""
        import textworld
        import textworld.gym

        path = self._game or self._made(seed)
        asked = dict.fromkeys(("max_score", "won", "lost", "admissible_commands", "policy_commands"), True)
        infos = textworld.EnvInfos(**asked)
        self._env = textworld.gym.make(textworld.gym.register_game(path, infos, max_episode_steps=self._max_steps))
        observation, infos = self._env.reset()
        return {"say": observation, "observation": observation, "legal": infos["admissible_commands"]}

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Give a command: TextWorld's score is a sum, the reward is what this command added."""
        observation, score, done, infos = self._env.step(action["text"].strip())
        reward, self._score = score - self._score, score
        over = infos.get("won") or infos.get("lost")
        turn = {"say": observation, "observation": observation, "reward": reward}
        turn.update(terminated=bool(done and over), truncated=bool(done and not over))
        turn["legal"] = infos.get("admissible_commands")
        turn["info"] = {"success": bool(infos.get("won")), "max_score": infos.get("max_score")}
        return turn

    def close(self) -> None:
        """Close the game; one that was made is deleted with its last episode."""
        if hasattr(self, "_env"):
            self._env.close()
        self._folder = None

    def _made(self, seed: int | None) -> str:
        """Return the file of the game of a seed."""
        make = _compiled.__wrapped__ if seed is None else _compiled
        self._folder = make(seed, *self._sizes)
        return f"{self._folder.name}/game.z8"


class _Folder:
    """A temporary folder that is deleted with its last reference."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="gym-llm-textworld-")
        weakref.finalize(self, shutil.rmtree, self.name, True)


@functools.lru_cache(_KEPT_GAMES)
def _compiled(seed: int | None, nb_rooms: int, nb_objects: int, quest_length: int) -> _Folder:
    """Return a folder with the game of a seed: the episodes of a group play the same one."""
    import textworld

    folder = _Folder()
    options = textworld.GameOptions()
    options.seeds, options.path = seed, f"{folder.name}/game.z8"
    options.nb_rooms, options.nb_objects, options.quest_length = nb_rooms, nb_objects, quest_length
    textworld.make(options)
    return folder


def samples(arguments: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return one for a game file; games that are made differ with the seed."""
    return [{}] if arguments["game"] else None


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode."""
    kwargs = {name: value for name, value in episode["kwargs"].items() if name != "mode"}
    return {**kwargs, "max_steps": _RECORDED_STEPS}, episode["seed"]


def as_recorded(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """The rewards begin with that of the first observation, 0."""
    last = turns[-1]
    return {
        "observations": [turn["observation"] for turn in turns],
        "rewards": [turn.get("reward", 0) for turn in turns],
        "done": last["terminated"] or last["truncated"],
    }
