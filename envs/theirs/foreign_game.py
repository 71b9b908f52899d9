"""ForeignGame: a game of another framework that several players play."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gym_llm import Episode, MultiAgentEnv, Verdict
from gym_llm.core.tools.calls import beyond_limits
from gym_llm.envs.theirs.foreign_env import (
    ForeignEnv,
    ForeignTask,
    Table,
    call_of,
    checked_tools,
    items_of,
    output_of,
    reward_of,
)
from gym_llm.judge.engine_argument import EngineArgument, check_engine
from gym_llm.judge.opponents import RANDOM, by_seat, seat_named
from gym_llm.types import Item, Row


class ForeignGame(MultiAgentEnv[ForeignTask, Table], ForeignEnv):  # type: ignore[misc]  # opening: with seats
    """A game of another framework, with a seat for each of its players.

    The framework itself names the seats. A row's `seat` goes before the argument `seat`.

    Args:
        **kwargs: The framework's own arguments, and those of `ForeignEnv` and `MultiAgentEnv`.
    """

    class Config(MultiAgentEnv.Config, ForeignEnv.Config):
        """Arguments of every game."""

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **arguments: Any) -> None:
        super().__init__(tasks, **arguments)
        seat, opponents = self.config.seat, self.config.opponents
        engines = {"": opponents} if opponents is None else by_seat(opponents) or {"": opponents}
        is_random = RANDOM in engines.values() or (opponents is None and seat is not None)
        if is_random and not self.framework.lists_moves:
            raise ValueError(
                f"Games of {self.framework.module} do not say which moves are legal: give `opponents` an engine."
            )
        self._engines: dict[str, EngineArgument] = {}
        for name, number in self.framework.engines.items():
            if isinstance(engine := self._own[name], (str, dict)):
                check_engine(name, engine)
                self._engines[str(number)], self._own[name] = engine, True

    def agents_of(self, task: ForeignTask, state: Table) -> Sequence[str]:
        """Begin the game, and return the names of its seats."""
        turn = state.turn = self._begun(state)
        self.executes_tools = not self.framework.engines
        if self.executes_tools:
            self._offer(state, turn)
        count = 1 + max((*self.framework.engines.values(), *_list(turn.get("seat"))))
        state.seats = [str(name) for name in turn.get("seats") or range(count)]
        return state.seats

    def next_seats(self, task: ForeignTask, state: Table) -> list[str]:
        """Return the seats that the framework waits for."""
        turn = state.turn
        return [] if _is_over(turn) else [state.seats[number] for number in _list(turn.get("seat"))]

    def seat_tools(self, task: ForeignTask, seat: str) -> list[str] | None:
        """Return no tools but for the first seat; `_offer` brings those of a seat that an argument's engine plays."""
        assert self.episode is not None
        return None if seat == self.episode.state.seats[0] else []

    def seat_turn(self, task: ForeignTask, state: Table, seat: str) -> list[Item]:
        """Return what the framework shows to a seat."""
        if self.framework.engines:
            self._offer(state, state.turn)
        return items_of(state.turn, state.seats.index(seat))

    def legal_moves(self, task: ForeignTask, state: Table, seat: str) -> Sequence[str]:
        """Return the legal moves of a seat, where the framework lists them."""
        legal, seats = state.turn.get("legal") or [], state.turn.get("seat")
        if isinstance(seats, list):
            legal = legal[seats.index(state.seats.index(seat))] if legal else []
        return [str(move) for move in legal]

    def play(self, task: ForeignTask, state: Table, moves: dict[str, Episode[Table]]) -> None:
        """Make the moves, and pay what the framework pays for them."""
        names = self.next_seats(task, state)
        actions = [self._action(state, name, moves[name]) for name in names]
        action = {"by_seat": actions} if isinstance(state.turn.get("seat"), list) else actions[0]
        turn = state.turn = self._call(state, state.play.step, action)
        self._offer(state, turn)
        answered = {item.get("call_id") for number in _list(turn.get("seat")) for item in items_of(turn, number)}
        for name, played in zip(names, actions, strict=True):
            open_calls = [call for call in played["calls"] if call["call_id"] not in answered]
            moves[name].items.extend(output_of(call["call_id"], "") for call in open_calls)
        for number in turn.get("illegal") or ():
            self._seats[state.seats[number]].illegal_moves += 1
        for number, name in enumerate(state.seats):
            if reward := reward_of(turn, number):
                self.pay(name, reward)
        state.info = turn.get("info") or {}

    def _offer(self, table: Table, turn: dict[str, Any]) -> None:
        """Offer the tools that a turn brings; the framework runs them.

        They are the first seat's. Where arguments name engines, they are those of the seat whose turn it is.
        """
        if tools := turn.get("tools"):
            number = turn["seat"] if self.framework.engines else 0
            offered = self._seats[table.seats[number]].episode if table.seats else self.episode
            assert offered is not None
            offered.request = {**offered.request, "tools": checked_tools(tools)}
            table.tools = {*table.tools, *(tool["name"] for tool in tools)}
            self.executes_tools = False

    def _action(self, state: Table, seat: str, episode: Episode[Table]) -> dict[str, Any]:
        """What a seat said and called; calls that the framework must not see are answered here."""
        calls = [item for item in episode.items[episode.turn_start :] if item.get("type") == "function_call"]
        refused = beyond_limits(calls, state.tools)
        if seat != state.seats[0] and not self.framework.engines:
            refused = {index: ("This seat has no tools.", True) for index in range(len(calls))}
        episode.items.extend(output_of(calls[index]["call_id"], text) for index, (text, _) in refused.items())
        episode.tool_errors += len(refused)
        played = [call_of(call) for index, call in enumerate(calls) if index not in refused]
        return {"text": episode.answer, "calls": played}

    def verify_seats(self, task: ForeignTask, episodes: dict[str, Episode[Table]]) -> dict[str, float | Verdict]:
        """Return the framework's details; its rewards were paid as they came."""
        state: Table = next(iter(episodes.values())).state
        return {name: Verdict(0.0, dict(state.info)) for name in episodes}

    def verdict_when_over(self, task: ForeignTask, state: Table) -> tuple[bool, bool]:
        """Return whether the framework has terminated the game, or truncated it."""
        terminated = bool(state.turn.get("terminated"))
        return terminated, not terminated

    def _players(self, names: Sequence[str], seat: str | int | None = None) -> dict[str, EngineArgument]:
        if self._task is not None and self._task.seat is not None:
            seat = self._task.seat
        if not self.framework.engines:
            return super()._players(names, seat)
        engines = {seat_named(number, names): engine for number, engine in self._engines.items()}
        return super()._players(names, 0 if seat is None else seat) | engines


def _list(seats: Any) -> list[int]:
    """The numbers of the seats that a turn waits for."""
    return list(seats) if isinstance(seats, list) else [seats or 0]


def _is_over(turn: dict[str, Any]) -> bool:
    return bool(turn.get("terminated") or turn.get("truncated"))
