r"""Every registered environment of Gymnasium whose actions are Discrete, MultiDiscrete, Box or Text."""

from __future__ import annotations

import re
from typing import Any

ENV_ID = "gym_llm/Gymnasium-v0"
PACKAGES = ("gymnasium==1.4.0", "ale-py==0.12.1", "minigrid==3.2.0")
MODULE = "gymnasium"
FRAMEWORKS = ("gymnasium", "ale-py", "minigrid")
_REGISTER = {"ALE/": "ale_py", "MiniGrid-": "minigrid", "BabyAI-": "minigrid"}
_TAGGED = re.compile(r"<action>(.*?)</action>", re.DOTALL)
_COLOURED = re.compile("\x1b\\[[0-9;]+m(.*?)\x1b\\[0m")
_NAMES = {
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "Taxi": ("south", "north", "east", "west", "pickup", "dropoff"),
    "Blackjack": ("stick", "hit"),
    "CartPole": ("left", "right"),
    "MountainCar": ("left", "none", "right"),
    "Acrobot": ("negative", "none", "positive"),
    "MiniGrid": ("left", "right", "forward", "pickup", "drop", "toggle", "done"),
    "BabyAI": ("left", "right", "forward", "pickup", "drop", "toggle", "done"),
}
_SHOWN = 64


class Peer:
    """An environment of Gymnasium.

    Args:
        env: Its id: `FrozenLake-v1`, `ALE/Pong-v5`, `MiniGrid-Empty-5x5-v0`, or `module:ID`.
        env_kwargs: What `gymnasium.make` takes besides.
        action_names: Names of a Discrete space's actions, in order; None for those that are known, else numbers.
        template: The text of an observation, with `{observation}`.
        pictures: Whether the model sees what `render` draws, too.
    """

    recording = False

    def __init__(
        self,
        env: str = "FrozenLake-v1",
        env_kwargs: dict[str, Any] | None = None,
        action_names: list[Any] | None = None,
        template: str = "{observation}",
        pictures: bool = False,
    ) -> None:
        import gymnasium

        for module in needs({"env": env}):
            __import__(module)
        kwargs = dict(env_kwargs or {})
        modes = _render_modes(gymnasium, env)
        mode = "rgb_array" if pictures else "ansi" if "ansi" in modes else None
        if mode is not None:
            kwargs.setdefault("render_mode", mode)
        self._env = gymnasium.make(env, **kwargs)
        self._shows_text = kwargs.get("render_mode") == "ansi"
        self._pictures, self._template, self._spaces = pictures, template, gymnasium.spaces
        known = next((names for start, names in _NAMES.items() if env.startswith(start)), None)
        space: Any = self._env.action_space
        names = action_names or known
        self._names = list(names) if isinstance(space, gymnasium.spaces.Discrete) and names else []
        if self._names and len(self._names) != space.n:
            self._names = []

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Begin; the first message says how to act."""
        observation, info = self._env.reset(seed=seed)
        turn = self._turn(observation, info)
        turn["say"] = _joined(self._asks(), turn["say"])
        return turn

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Act, or say which actions there are."""
        try:
            chosen = self._read(action["text"])
        except ValueError as error:
            return {"say": f"{error} {self._asks()}", "info": {"invalid_action": True}}
        observation, reward, terminated, truncated, info = self._env.step(chosen)
        turn = self._turn(observation, info)
        return {**turn, "reward": float(reward), "terminated": bool(terminated), "truncated": bool(truncated)}

    def close(self) -> None:
        """Close it."""
        self._env.close()

    def _asks(self) -> Any:
        space: Any = self._env.action_space
        if self._names:
            return f"Answer with one action: {', '.join(self._names)}."
        if isinstance(space, self._spaces.Discrete):
            return f"Answer with the number of an action, from {space.start} to {space.start + space.n - 1}."
        if isinstance(space, self._spaces.Text):
            return "Answer with the text of your action."
        return f"Answer with your action as JSON. The actions are {space}."

    def _read(self, text: Any) -> Any:
        import json

        from _gym_llm_theirs_views import last_line

        space: Any = self._env.action_space
        found = _TAGGED.findall(text)
        if isinstance(space, self._spaces.Text):
            return found[-1] if found else text
        said = found[-1].strip() if found else last_line(text)
        if self._names and (name := last_line(said).lower()) in self._names:
            return space.start + self._names.index(name)
        try:
            value = json.loads(said)
        except ValueError:
            raise ValueError(f"There is no action {said[:_SHOWN]!r}.") from None
        return self._fitting(value, said)

    def _fitting(self, value: Any, said: Any) -> Any:
        import numpy

        space = self._env.action_space
        whole = isinstance(value, int) and not isinstance(value, bool)
        if isinstance(space, self._spaces.Discrete):
            chosen = value if whole else None
        else:
            try:
                chosen = numpy.asarray(value, dtype=space.dtype)
            except (TypeError, ValueError, OverflowError):
                chosen = None
        if chosen is None or not space.contains(chosen):
            raise ValueError(f"There is no action {said[:_SHOWN]!r}.")
        return chosen

    def _turn(self, observation: Any, info: Any) -> dict[str, Any]:
        from _gym_llm_theirs_views import array, picture, text_of

        shown = _COLOURED.sub(r"[\1]", str(self._env.render())) if self._shows_text else text_of(observation)
        say: Any = self._template.replace("{observation}", str(shown))
        if self._pictures:
            say = [{"role": "user", "content": [{"type": "input_text", "text": say}, picture(self._env.render())]}]
        turn = {"say": say}
        if self.recording:
            turn["observation"] = array(observation)
        return turn


def needs(arguments: dict[str, Any]) -> tuple[str, ...]:
    """The modules that register an environment."""
    env = arguments["env"]
    if ":" in env:
        return (env.partition(":")[0],)
    return tuple(module for start, module in _REGISTER.items() if env.startswith(start))


def _render_modes(gymnasium: Any, env: Any) -> Any:
    from gymnasium.envs.registration import load_env_creator

    entry = gymnasium.spec(env.rpartition(":")[2]).entry_point
    creator = load_env_creator(entry) if isinstance(entry, str) else entry
    return getattr(creator, "metadata", {}).get("render_modes", [])


def _joined(first: Any, say: Any) -> Any:
    if isinstance(say, str):
        return f"{first}\n\n{say}"
    say[0]["content"].insert(0, {"type": "input_text", "text": first})
    return say


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode."""
    return {"env": episode["env"], "env_kwargs": episode["kwargs"]}, episode["seed"]


def utter(action: Any) -> str | dict[str, Any]:
    """Return what the model says for a recorded action."""
    import json

    return action if isinstance(action, str) else json.dumps(action)
