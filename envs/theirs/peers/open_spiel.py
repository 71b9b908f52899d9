"""Games of OpenSpiel, with any number of players, chance and simultaneous moves."""

from __future__ import annotations

import random
from typing import Any

ENV_ID = "gym_llm/OpenSpiel-v0"
PACKAGES = ("open-spiel==2.0.2",)
MODULE = "pyspiel"
FRAMEWORKS = ("open_spiel",)
SEATS = True


class Peer:
    """A game of OpenSpiel.

    Args:
        game: OpenSpiel's name, with parameters if need be: `kuhn_poker(players=3)`.
    """

    recording = False

    def __init__(self, game: str = "tic_tac_toe") -> None:
        import pyspiel

        self._game = pyspiel.load_game(game)
        self.seats = self._game.num_players()
        kind = self._game.get_type()
        self._views = [
            view
            for view, is_there in (
                ("information_state_string", kind.provides_information_state_string),
                ("observation_string", kind.provides_observation_string),
            )
            if is_there
        ]

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Begin; chance is drawn with the seed."""
        self._state, self._random = self._game.new_initial_state(), random.Random(seed)
        return {**self._turn(), "seats": list(self._all())}

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Make the move of the seat whose turn it is, or of all (`by_seat`: an action for each)."""
        state = self._state
        if "chance" in action:  # of a recorded episode
            state.apply_action(action["chance"])
        elif state.is_simultaneous_node():
            moves = [self._read(each["text"], seat) for seat, each in enumerate(action["by_seat"])]
            if wrong := [seat for seat, move in enumerate(moves) if move is None]:
                say = [self._illegal(seat) if seat in wrong else "" for seat in self._all()]
                return {**self._turn(), "illegal": wrong, "say": say}
            state.apply_actions(moves)
        else:
            seat = state.current_player()
            if (move := self._read(action["text"], seat)) is None:
                return {**self._turn(), "illegal": [seat], "say": self._illegal(seat)}
            state.apply_action(move)
        return self._turn()

    def _all(self) -> Any:
        return range(self.seats)

    def _names(self, seat: Any) -> Any:
        return {self._state.action_to_string(seat, move): move for move in self._state.legal_actions(seat)}

    def _read(self, text: Any, seat: Any) -> Any:
        """The legal move that the last line names, or gives the number of."""
        from _gym_llm_theirs_views import last_line

        names = self._names(seat)
        last = last_line(text)
        if last in names:
            return names[last]
        return int(last) if last.isdecimal() and len(last) < 10 and int(last) in names.values() else None

    def _illegal(self, seat: Any) -> Any:
        return f"That is no legal move. Legal moves: {', '.join(self._names(seat))}."

    def _turn(self) -> dict[str, Any]:
        state = self._state
        while state.is_chance_node() and not self.recording:
            moves, weights = zip(*state.chance_outcomes(), strict=True)
            state.apply_action(self._random.choices(moves, weights)[0])
        if state.is_terminal():
            return {"reward": list(state.returns()), "terminated": True}
        if state.is_chance_node():
            return {"seat": None}
        if state.is_simultaneous_node():
            seats = list(self._all())
            turn: dict[str, Any] = {"seat": seats, "say": [self._say(seat) for seat in seats]}
            turn["legal"] = [list(self._names(seat)) for seat in seats]
            if self.recording:
                legal = [state.legal_actions(seat) for seat in seats]
                turn["observation"] = {"seat": "all", "legal": legal, "state": str(state)}
            return turn
        seat = state.current_player()
        turn = {"seat": seat, "say": self._say(seat), "legal": list(self._names(seat))}
        if self.recording:
            turn["observation"] = {"seat": seat, "observation": self._view(seat), "legal": turn["legal"]}
        return turn

    def _say(self, seat: Any) -> Any:
        view = self._view(seat) or "(nothing yet)"
        legal = ", ".join(self._names(seat))
        return f"You are player {seat} of {self._game.get_type().long_name}.\n{view}\nLegal moves: {legal}."

    def _view(self, seat: Any) -> Any:
        """What this seat knows, and nothing that is hidden from it."""
        for view in self._views:
            try:
                return getattr(self._state, view)(seat)
            except Exception:  # some games say that they provide what they do not
                continue
        return ""


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode."""
    return {"game": episode["env"]}, episode["seed"]


def utter(action: Any) -> str | dict[str, Any]:
    """Return what the model says for a recorded action."""
    if action["seat"] == "chance":
        return {"chance": action["action"]}
    if action["seat"] == "all":
        return {"by_seat": [{"text": str(each)} for each in action["action"]]}
    return str(action["action"])


def as_recorded(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """The returns of all seats, which come at the end."""
    return {
        "observations": [turn["observation"] for turn in turns if "observation" in turn],
        "rewards": turns[-1].get("reward"),
        "done": bool(turns[-1].get("terminated")),
    }
