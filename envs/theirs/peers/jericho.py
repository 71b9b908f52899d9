"""Interactive fiction through Jericho: story files for the Z-machine, such as Zork."""

from __future__ import annotations

import os
from typing import Any

ENV_ID = "gym_llm/Jericho-v0"
PACKAGES = ("jericho==3.3.1", "textworld==1.7.0")
MODULE = "jericho"
FRAMEWORKS = ("jericho",)
_MADE = "textworld:"
_GAMES = "JERICHO_GAMES"


class Peer:
    """A story: the reward of a command is what it adds to the story's score.

    Args:
        game: The path of a story file (`.z3` to `.z8`), which Jericho does not ship; or `textworld:SEED` for one that
            TextWorld makes.
        max_steps: After how many commands the episode is truncated.
    """

    blocking = True  # making a game takes a second
    recording = False

    def __init__(self, game: str = "textworld:1", max_steps: int = 400) -> None:
        self._game, self._max_steps, self._steps = game, max_steps, 0
        self._env: Any = None
        self._folder: Any = None

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Begin the story. The seed is that of the story's dice.

        Raises:
            FileNotFoundError: If there is no such file.
        """
        import jericho

        path = self._make() if self._game.startswith(_MADE) else self._game
        if not os.path.isfile(path):  # Jericho's library would read on
            raise FileNotFoundError(f"{path}: Jericho ships no stories; give the path of a story file")
        self._env = jericho.FrotzEnv(path, seed=seed)
        observation, info = self._env.reset()
        return {"say": observation, "observation": observation, "info": self._about(info)}

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Give a command."""
        from _gym_llm_theirs_views import REFUSED, story_command

        command = story_command(action["text"])
        if command is None:
            return {"say": REFUSED, "info": {"invalid_action": True}}
        observation, reward, done, info = self._env.step(command)
        self._steps += 1
        turn = {"say": observation, "observation": observation, "reward": reward, "info": self._about(info)}
        return {**turn, "terminated": bool(done), "truncated": not done and self._steps >= self._max_steps}

    def close(self) -> None:
        """Close the story, and delete it if it was made."""
        if self._env is not None:
            self._env.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _about(self, info: dict[str, Any]) -> dict[str, Any]:
        known = {"moves": info["moves"], "score": info["score"], "max_score": self._env.get_max_score()}
        return {**known, "success": bool(self._env.victory())}

    def _make(self) -> str:
        import tempfile

        import textworld

        self._folder = tempfile.TemporaryDirectory(prefix="gym-llm-jericho-")
        options = textworld.GameOptions()
        options.seeds = int(self._game.removeprefix(_MADE))
        options.nb_rooms, options.nb_objects, options.quest_length = 3, 4, 3
        options.path = f"{self._folder.name}/game.z8"
        path: str = textworld.make(options)[0]
        return path


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode.

    The variable JERICHO_GAMES names the folder of the stories. Those called `g1.z8`, `g2.z8` and so on were made by
    TextWorld from that seed, and are made again.
    """
    name: str = episode["env"]
    path = os.path.join(os.environ.get(_GAMES, ""), name)
    if not os.path.isfile(path) and name[:1] == "g" and name[1:].removesuffix(".z8").isdecimal():
        path = _MADE + name[1:].removesuffix(".z8")
    elif not os.path.isfile(path):
        raise FileNotFoundError(f"{name}: the variable {_GAMES} names the folder of the stories")
    return {"game": path, "max_steps": len(episode["actions"]) + 1}, episode["seed"]
