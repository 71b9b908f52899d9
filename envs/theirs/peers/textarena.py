"""Games of TextArena: for one player, or for several, of whom `opponents` play the others."""

from __future__ import annotations

from typing import Any

ENV_ID = "gym_llm/TextArena-v0"
PACKAGES = ("textarena==0.7.4", "numpy")
MODULE = "textarena"
FRAMEWORKS = ("textarena",)
SEATS = True
LISTS_MOVES = False
_MOST_PLAYERS = 15


class Peer:
    """A game of TextArena.

    Args:
        game: TextArena's id: `TicTacToe-v0`.
        num_players: How many play; None for the least that the game allows.
        game_kwargs: What `textarena.make` takes besides.
        observation: `"new"` for what is new since the player's last turn, or `"peer"` for TextArena's own text, which
            repeats the whole game.
    """

    draws = "always"
    recording = False

    def __init__(
        self,
        game: str = "TicTacToe-v0",
        num_players: int | None = None,
        game_kwargs: dict[str, Any] | None = None,
        observation: str = "new",
    ) -> None:
        import textarena

        self._arena = textarena
        self._make = lambda: textarena.make(game, **game_kwargs or {})
        self._players, self._theirs = num_players, observation == "peer"

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Deal the cards; without `num_players`, to the fewest with whom the game can be played."""
        least: int = self._players or 1
        most: int = self._players or _MOST_PLAYERS
        for players in range(least, most + 1):
            self._env = self._make()
            try:
                self._env.reset(num_players=players, seed=seed)
            except AssertionError:
                if self._players:
                    raise
                continue
            least = players
            if players != 1 or isinstance(self._state(), self._arena.SinglePlayerState):
                break
        self._count = least
        return {**self._turn(), "seats": list(range(least))}

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Make the move of the seat whose turn it is."""
        done, _ = self._env.step(action=action["text"])
        if not done:
            return self._turn()
        rewards, game_info = self._env.close()
        return {
            "reward": [float((rewards or {}).get(seat, 0)) for seat in range(self._count)],
            "terminated": True,
            "info": {"game_info": {str(seat): dict(each) for seat, each in (game_info or {}).items()}},
        }

    def _state(self) -> Any:
        bare = self._env
        while isinstance(bare, self._arena.Wrapper):
            bare = bare.env
        self._bare = bare
        return bare.state

    def _turn(self) -> dict[str, Any]:
        state = self._state()
        if self._theirs or self.recording:
            seat, text = self._env.get_observation()
            if not isinstance(text, str):  # an id that ends with -raw
                text = [[sender, said, kind.name] for sender, said, kind in text]
            say = text if isinstance(text, str) else "\n".join(said for _, said, _ in text)
            return {"seat": seat, "say": say, "observation": {"seat": seat, "observation": text}}
        seat, messages = self._bare.get_observation()
        said = []
        for sender, text, kind in messages:
            if sender != seat or kind != self._arena.ObservationType.PLAYER_ACTION:
                said.append(f"[{state.role_mapping.get(sender, 'GAME')}] {text}")
        return {"seat": seat, "say": "\n".join(said)}


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode."""
    return {"game": episode["env"], **episode["kwargs"]}, episode["seed"]


def utter(action: Any) -> str | dict[str, Any]:
    """Return what the model says for a recorded action."""
    return action["action"]


def as_recorded(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """The rewards of all seats, which come at the end."""
    last = turns[-1]
    rewards = {str(seat): value for seat, value in enumerate(last["reward"])} if "reward" in last else None
    return {
        "observations": [turn["observation"] for turn in turns[:-1]],
        "rewards": rewards,
        "done": bool(last.get("terminated")),
    }
