"""Games of PettingZoo, by its AEC interface; simultaneous moves are collected one after the other."""

from __future__ import annotations

from typing import Any

ENV_ID = "gym_llm/PettingZoo-v0"
PACKAGES = ("pettingzoo[classic]==1.27.0",)
MODULE = "pettingzoo"
FRAMEWORKS = ("pettingzoo",)
SEATS = True
_HOLDEM = ("call", "raise", "fold", "check")
_NAMES = {
    "rps": ("rock", "paper", "scissors"),
    "leduc_holdem": _HOLDEM,
    "texas_holdem_v": _HOLDEM,
}
_SHOWN = 64
_EXTRAS = {"chess": ("chess",), "hanabi": ("shimmy", "pyspiel"), "leduc": ("rlcard",), "texas": ("rlcard",)}
"""What a classic game imports besides pygame."""


class Peer:
    """A game of PettingZoo.

    Args:
        game: A module of `pettingzoo.classic` (`tictactoe_v3`), or `module:function` that makes an AEC environment.
        game_kwargs: What it takes besides.
        api: `"aec"`, one agent after the other, or `"parallel"`, all agents at once.
        action_names: Names of a Discrete space's actions, in order; None for those that are known, else numbers.
    """

    recording = False

    def __init__(
        self,
        game: str = "tictactoe_v3",
        game_kwargs: dict[str, Any] | None = None,
        api: str = "aec",
        action_names: list[Any] | None = None,
    ) -> None:
        from importlib import import_module

        module, _, function = game.partition(":")
        made = import_module(module if function else f"pettingzoo.classic.{game}")
        self._parallel = api == "parallel"
        maker = function or ("parallel_env" if self._parallel else "env")
        self._env = getattr(made, maker)(**game_kwargs or {})
        self._game, self._env_names = game, list(self._env.possible_agents)
        self.seats = len(self._env_names)
        self._names = list(action_names or next((each for start, each in _NAMES.items() if game.startswith(start)), ()))
        self._totals = dict.fromkeys(self._env_names, 0.0)

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Begin."""
        if self._parallel:
            return {**self._turn_of_all(self._env.reset(seed=seed)[0], {}), "seats": self._env_names}
        self._env.reset(seed=seed)
        return {**self._turn(), "seats": self._env_names}

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Make the move of the agent whose turn it is; the steps of agents that are out are made, too."""
        if self._parallel:
            return self._step_all(action["by_seat"])
        try:
            chosen = self._read(action["text"], self._env.agent_selection)
        except ValueError as error:
            return {
                **self._turn(),
                "say": f"{error} {self._asks(self._env.agent_selection)}",
                "info": {"invalid_action": True},
                "illegal": [self._env_names.index(self._env.agent_selection)],
            }
        self._env.step(chosen)
        return self._turn()

    def close(self) -> None:
        """Close it."""
        self._env.close()

    def _turn(self) -> dict[str, Any]:
        while self._env.agents:
            agent = self._env.agent_selection
            observation, reward, terminated, truncated, info = self._env.last()
            self._totals[agent] += reward
            if not (terminated or truncated) or self.recording:
                break
            self._env.step(None)  # the reward of an agent that did not end the game comes with it
        else:
            return {"reward": [float(self._totals[agent]) for agent in self._env_names], "terminated": True}
        mask = observation.get("action_mask") if isinstance(observation, dict) else None
        self._mask = info.get("action_mask") if mask is None else mask
        turn = {"seat": self._env_names.index(agent), "legal": self._legal(agent)}
        turn["say"] = f"You are {agent}.\n{self._show(observation)}\n{self._asks(agent)}"
        if self.recording:
            from _gym_llm_theirs_views import array

            turn["observation"] = {
                "agent": agent,
                "observation": array(observation),
                "reward": float(reward),
                "terminated": bool(terminated),
                "truncated": bool(truncated),
            }
        return turn

    def _step_all(self, actions: Any) -> Any:
        try:
            chosen = {
                agent: self._read(action["text"], agent) for agent, action in zip(self._env_names, actions, strict=True)
            }
        except ValueError as error:
            return {**self._last, "say": [f"{error} {self._asks(agent)}" for agent in self._env_names]}
        observations, rewards, terminations, truncations, _ = self._env.step(chosen)
        turn = self._turn_of_all(observations, rewards)
        for agent, reward in rewards.items():
            self._totals[agent] += reward
        if not self._env.agents:
            turn["terminated"] = any(terminations.values()) or not any(truncations.values())
            turn["truncated"] = not turn["terminated"]
            turn["reward"] = [float(self._totals[agent]) for agent in self._env_names]
        return turn

    def _turn_of_all(self, observations: Any, rewards: Any) -> Any:
        self._mask, seats = None, list(range(self.seats))
        says = [
            f"You are {agent}.\n{self._show(observations.get(agent))}\n{self._asks(agent)}" for agent in self._env_names
        ]
        self._last = {"seat": seats, "say": says, "legal": [self._legal(agent) for agent in self._env_names]}
        if not self.recording:
            return dict(self._last)
        from _gym_llm_theirs_views import array

        return {**self._last, "observation": array(observations), "rewards": {a: float(r) for a, r in rewards.items()}}

    def _legal(self, agent: Any) -> Any:
        space = self._env.action_space(agent)
        if not hasattr(space, "n"):
            return None
        moves = range(space.n) if self._mask is None else [move for move in range(space.n) if self._mask[move]]
        return [self._names[move] if move < len(self._names) else str(move) for move in moves]

    def _asks(self, agent: Any) -> Any:
        if (legal := self._legal(agent)) is None:
            return f"Answer with your action as JSON: {self._env.action_space(agent)}."
        return f"Legal moves: {', '.join(legal)}. Answer with one of them."

    def _read(self, text: Any, agent: Any) -> Any:
        import json

        from _gym_llm_theirs_views import last_line

        if self.recording:
            return json.loads(text)
        said = last_line(text)
        if self._names and said.lower() in self._names:
            return self._names.index(said.lower())
        legal = self._legal(agent)
        if legal is None:
            try:
                return json.loads(said)
            except ValueError:
                raise ValueError(f"There is no move {said[:_SHOWN]!r}.") from None
        space = self._env.action_space(agent)
        if not said.isdecimal() or len(said) > 9 or not int(said) < space.n:
            raise ValueError(f"There is no move {said[:_SHOWN]!r}.")
        return int(said)

    def _show(self, observation: Any) -> Any:
        planes: Any = observation.get("observation") if isinstance(observation, dict) else observation
        if self._game.startswith("chess"):
            return str(self._env.unwrapped.board)
        if self._game.startswith("tictactoe"):  # columns first
            cells = [str(place) for place in range(9)]
            for place in range(9):
                mine, theirs = planes[place // 3][place % 3] if planes.ndim == 3 else (0, 0)
                cells[place] = "you" if mine else "other" if theirs else cells[place]
            return "Cells, column by column:\n" + "\n".join(" ".join(cells[row::3]) for row in range(3))
        if self._game.startswith("connect_four"):
            return "\n".join("".join("Y" if mine else "O" if theirs else "." for mine, theirs in row) for row in planes)
        return str(planes.tolist() if hasattr(planes, "tolist") else planes)


def needs(arguments: dict[str, Any]) -> tuple[str, ...]:
    """The modules that a game imports, of the package's extra `classic`; pettingzoo alone does not bring them."""
    module, _, function = arguments["game"].partition(":")
    if function and not module.startswith("pettingzoo.classic."):
        return ()
    game = module.rpartition(".")[2]
    return ("pygame", *next((modules for start, modules in _EXTRAS.items() if game.startswith(start)), ()))


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode."""
    return {"game": episode["env"], **episode["kwargs"]}, episode["seed"]


def utter(action: Any) -> str | dict[str, Any]:
    """Return what the model says for a recorded action, or what all say."""
    import json

    if "agent" in action:
        return json.dumps(action["action"])
    return {"by_seat": [{"text": json.dumps(each)} for each in action.values()]}


def as_recorded(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """The sums of all agents' rewards, or in the parallel interface the rewards of every step."""
    seen = [turn["observation"] for turn in turns if "observation" in turn]
    steps = [turn["rewards"] for turn in turns[1:] if "rewards" in turn]
    rewards: dict[str, float] = {}
    for each in [] if steps else seen:
        rewards[each["agent"]] = rewards.get(each["agent"], 0.0) + each["reward"]
    done = turns[-1].get("terminated") or turns[-1].get("truncated")
    return {"observations": seen, "rewards": steps or rewards, "done": bool(done)}
