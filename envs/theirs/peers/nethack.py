"""NetHack through its learning environment, and the levels of MiniHack."""

from __future__ import annotations

import os
import struct
import tempfile
import time
from typing import Any, cast

ENV_ID = "gym_llm/NetHack-v0"
PACKAGES = ("nle==1.3.0", "minihack==1.0.2", "setuptools<80")
MODULE = "nle"
FRAMEWORKS = ("nle", "minihack")
APART = True  # it wants another Gymnasium, and C code may end its process
_DAY = 1_795_089_600  # noon on 19 November 2026: neither full nor new moon, nor Friday the 13th
_HOUR = 3_600
_SHOWN = 64
_KEYS = ("message", "blstats", "tty_chars")


class Peer:
    """A game of NetHack: the model sees the terminal, and answers with the name of an action.

    NetHack reads the clock: at full moon everybody is luckier. Here it is always the same day.

    Args:
        env: Its id: `NetHackScore-v0`, `NetHackChallenge-v0`, `MiniHack-Room-5x5-v0`.
        env_kwargs: What `gymnasium.make` takes besides.
    """

    recording = False

    def __init__(self, env: str = "NetHackScore-v0", env_kwargs: dict[str, Any] | None = None) -> None:
        import gymnasium
        import nle  # noqa: F401

        if env.startswith("MiniHack-"):
            __import__("minihack")
        kwargs = dict(env_kwargs or {})
        if "observation_keys" in kwargs or env.startswith("MiniHack-"):
            kwargs["observation_keys"] = list(dict.fromkeys((*kwargs.get("observation_keys", ()), *_KEYS)))
        self._env = gymnasium.make(env, **kwargs)
        self._game = cast(Any, self._env.unwrapped)
        self._actions = {_name(action): place for place, action in enumerate(self._game.actions)}

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Begin; the seed is that of NetHack's own generators."""
        if seed is not None:
            self._game.seed(core=seed, disp=seed, reseed=False)
        _set_the_clock()
        observation, _ = self._env.reset(seed=seed)
        turn = self._turn(observation, {})
        return {**turn, "say": f"{self._asks()}\n\n{turn['say']}"}

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Act, or say which actions there are."""
        from _gym_llm_theirs_views import last_line

        said = last_line(action["text"])
        place = self._actions.get(said.lower())
        if place is None and said.isdecimal() and len(said) < _SHOWN:
            place = int(said)
        if place is None or place >= len(self._actions):
            return {"say": f"There is no action {said[:_SHOWN]!r}. {self._asks()}", "info": {"invalid_action": True}}
        observation, reward, terminated, truncated, info = self._env.step(place)
        turn = self._turn(observation, info)
        return {**turn, "reward": float(reward), "terminated": bool(terminated), "truncated": bool(truncated)}

    def close(self) -> None:
        """End the game."""
        self._env.close()

    def _asks(self) -> str:
        return f"Answer with one action: {', '.join(self._actions)}."

    def _turn(self, observation: Any, info: dict[str, Any]) -> dict[str, Any]:
        from _gym_llm_theirs_views import array

        screen = (bytes(line).decode("latin-1").rstrip() for line in observation["tty_chars"])
        about = {"success": bool(info.get("is_ascended"))}
        if "end_status" in info:
            about["end_status"] = info["end_status"].name
        turn: dict[str, Any] = {"say": "\n".join(screen), "info": about}
        if self.recording:
            message = bytes(observation["message"]).rstrip(b"\0").decode("latin-1")
            shown = {"blstats": array(observation["blstats"]), "tty": array(observation["tty_chars"])}
            turn["observation"] = {"message": message, **shown}
        return turn


def _name(action: Any) -> str:
    """Return the name of one of NLE's keys.

    >>> from enum import Enum
    >>> [_name(each) for each in Enum("CompassDirectionLonger", "NE").__members__.values()]
    ['far northeast']
    """
    ways = {"N": "north", "E": "east", "S": "south", "W": "west"}
    name, kind = action.name, type(action).__name__
    if not kind.startswith("CompassDirection"):
        return str(name.lower().replace("_", " "))
    way = "".join(ways[letter] for letter in name)
    return f"far {way}" if kind.endswith("Longer") else way


def _set_the_clock() -> None:
    """Make it noon of one day for C code in this process, by a time zone: its file has one offset from UTC.

    The C library reads the file when the zone's name has changed, and not again.
    """
    hour = int(time.time()) // _HOUR
    if os.environ.get("TZ", "").endswith(f"-noon-{hour}"):
        return
    counts = struct.pack(">4s16x6l", b"TZif", 0, 0, 0, 0, 1, 4)
    with tempfile.NamedTemporaryFile(prefix="gym-llm-", suffix=f"-noon-{hour}") as file:
        file.write(counts + struct.pack(">lbb4s", _DAY - hour * _HOUR, 0, 0, b"DAY"))
        file.flush()
        os.environ["TZ"] = f":{file.name}"
        time.mktime(time.gmtime())


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode."""
    return {"env": episode["env"], "env_kwargs": episode["kwargs"]}, episode["seed"]


def utter(action: Any) -> str:
    """Return what the model says for a recorded action."""
    return str(action)


def as_recorded(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the turns as the recorder wrote them: NetHack's own arrays, which the last step has overwritten."""
    first, *others = [turn["observation"] for turn in turns if "observation" in turn]
    arrays = {name: (others or [first])[-1][name] for name in ("blstats", "tty")}
    return {
        "observations": [first["message"], *({"message": each["message"], **arrays} for each in others)],
        "rewards": [turn.get("reward", 0.0) for turn in turns[1:]],
        "done": bool(turns[-1].get("terminated") or turns[-1].get("truncated")),
    }
