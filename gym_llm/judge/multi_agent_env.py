"""MultiAgentEnv: an episode with several seats."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self, TypeAlias

from gymnasium.error import InvalidAction
from pydantic import Field

from gym_llm.concurrency import wait
from gym_llm.core.author_hooks import TaskT
from gym_llm.core.forgotten_await import call_hook, finish_hook
from gym_llm.core.fork import Randomness
from gym_llm.core.rewards import read_step_reward, read_verdict
from gym_llm.core.tasks import PreparedTask
from gym_llm.core.teardown import run_teardown
from gym_llm.core.tools import Tool
from gym_llm.core.tools.calls import run_calls
from gym_llm.core.verifier_env import VerifierEnv, has_only_reasoning, never_answers, was_cut_off
from gym_llm.errors import EngineError, IllegalMove, InfrastructureError
from gym_llm.judge.engine_argument import EngineArgument, auxiliary_engine
from gym_llm.judge.opponents import (
    POLICY,
    RANDOM,
    OpponentsArgument,
    answer,
    by_seat,
    check_opponents,
    players_of,
    seat_named,
)
from gym_llm.protocols.responses.actions import output_items, read_action
from gym_llm.protocols.responses.items import user_items
from gym_llm.records.seats import seat_record
from gym_llm.tokens.segments import Segments, Turn, tokens_of
from gym_llm.types import Episode, Item, Request, Row, StateT, Verdict

_Outcome: TypeAlias = tuple[bool, bool] | None
"""Terminated and truncated; None while the episode goes on."""
_ANY = "random"


def named_move(text: str, moves: Sequence[str]) -> str:
    """Return the last of these moves that a text names as a word of its own, in any case.

    Raises:
        IllegalMove: If it names no such move.

    >>> named_move("Not a bet: I PASS.", ["pass", "bet"])
    'pass'
    """
    longest_first = sorted(moves, key=len, reverse=True)
    found = re.findall("|".join(rf"(?<!\w){re.escape(move)}(?!\w)" for move in longest_first), text, re.IGNORECASE)
    if not moves or not found:
        raise IllegalMove(f"You named no legal move. The legal moves are: {', '.join(moves)}.")
    return next(move for move in moves if re.fullmatch(re.escape(move), found[-1], re.IGNORECASE))


@dataclass(slots=True)
class Seat:
    """A player of an episode.

    Attributes:
        name: The seat's name.
        episode: Its request and its items: what this seat has seen and said.
        player: `"policy"`, `"random"`, or an engine.
        is_trained: Whether trainers get a row of it.
        tools: The tools that it has, by name.
        turns: The tokens of each of its turns.
        paid: What each of its turns was paid; pay that comes later is the last turn's.
        owed: Pay from before its first turn.
        illegal_moves: Moves that the game refused.
        refused: Those in a row.
        info: Details from `verify_seats`, and what an agent's engine reported.
        reported: The trajectory that the engine reported; None if the turns have the tokens.
    """

    name: str
    episode: Episode
    player: EngineArgument
    is_trained: bool
    tools: dict[str, Tool]
    turns: list[list[Turn]] = field(default_factory=list)
    paid: list[float] = field(default_factory=list)
    owed: float = 0.0
    illegal_moves: int = 0
    refused: int = 0
    info: dict[str, Any] = field(default_factory=dict)
    reported: list[dict[str, Any]] | None = None

    @property
    def reward(self) -> float:
        """Return the sum of its rewards so far."""
        return sum(self.paid, self.owed)

    def pay(self, reward: float) -> None:
        """Add a reward to its last turn."""
        if self.paid:
            self.paid[-1] += reward
        else:
            self.owed += reward

    def trajectory(self) -> list[dict[str, Any]] | None:
        """Return its segments, as `gym_llm.wrappers.TokenIdTracking` makes them; None without token ids."""
        if self.reported is not None:
            return self.reported
        segments = Segments()
        for number, (turns, reward) in enumerate(zip(self.turns, self.paid, strict=True), 1):
            segments.add(turns)
            if reward:
                segments.pay(reward, turns, number == len(self.turns))
        return segments.trajectory()


class MultiAgentEnv(VerifierEnv[TaskT, StateT]):
    """An environment that several players play, in PettingZoo's terms.

    Each seat sees and says what is its own: it has a request, items, tools, and a reward. The caller of `step` plays
    the policy's seats. `agent_selection` names the seat that is to act now. The observation is that seat's request, and
    the info's `seat` is its name. Engines play the other seats inside of `step`. If one fails, the episode is masked.

    Seats that act at the same time are asked one after another, and no one sees the others' moves. Engines among them
    are asked together.

    The reward of `step` is what the record's seat was paid: the first seat that is trained. At the end the info has
    `rewards`, by seat. The record has every seat's request, items, reward and trajectory in `seats`.

    Subclasses give `possible_agents` and the hooks `setup`, `seat_opening`, `next_seats`, `seat_turn`, `play` and
    `verify_seats`, each of which may be async. `legal_moves` makes random opponents possible.

    Args:
        tasks: See `VerifierEnv`.
        seat: The policy's seat, by its name or its number from 0; engines play the others. `"random"` draws it for each
            episode. None: the policy plays every seat that `opponents` leaves out, or the first one if `opponents` is
            one engine.
        opponents: Who plays the other seats: an engine or `"random"`, or an object of these by seat. `"policy"` stands
            for the caller. None: the policy plays all seats, or random moves are made if there is a `seat`.
        trained: The policy's seats of which trainers get rows; None for all of them.
        max_illegal_moves: How often in a row a seat may try again after an illegal move. After that it forfeits.
        cut_off: What follows a response that was cut off: the episode is truncated, or the seat forfeits.
        **kwargs: See `VerifierEnv`. `max_turns` counts the turns of each seat.

    Attributes:
        possible_agents: The names of all seats, in their order.
        forfeit_rewards: The reward of a seat that forfeits, and that of each other seat.
        agent_selection: The policy's seat that is to act; None between episodes.
        rewards: What each seat was paid by the last step.
        forfeited: The seat that forfeited; None without.

    Raises:
        ValueError: If an argument names a seat that does not exist, or leaves the policy no seat.
    """

    class Config(VerifierEnv.Config):
        """Arguments that say who plays the seats."""

        seat: str | int | None = None
        opponents: OpponentsArgument | None = None
        trained: list[str | int] | None = None
        max_illegal_moves: int = Field(2, ge=0)
        cut_off: Literal["truncate", "forfeit"] = "truncate"

    config: Config
    reverify_mode = "unsupported"
    episode_attributes: ClassVar[tuple[str, ...]] = ("_seats", "_waiting", "_moves", "_turns", "_rng", "rewards")
    possible_agents: Sequence[str] = ()
    forfeit_rewards: ClassVar[tuple[float, float]] = (-1.0, 0.0)
    forfeited: str | None = None

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        seats, config = self.possible_agents, self.config
        if config.opponents is not None:
            check_opponents(config.opponents, seats or None)
        for name in (*([] if config.seat in (None, _ANY) else [config.seat]), *(config.trained or ())):
            if seats:
                seat_named(name, seats)
        self.rewards: dict[str, float] = {}
        self._seats: dict[str, Seat] = {}
        self._record_seat = ""
        self._waiting: list[str] = []
        self._moves: dict[str, Episode] = {}
        self._turns: list[Turn] = []
        self._outcome: _Outcome = None
        self._rng, self._table = random.Random(0), ""
        self._has_asked = False
        self._is_opened = False
        if not seats or config.seat == _ANY:
            return
        mine = {name for name, player in self._players(seats, config.seat).items() if player == POLICY}
        if not mine:
            raise ValueError("opponents: the policy has no seat left to play.")
        if config.trained is not None and mine.isdisjoint(seat_named(name, seats) for name in config.trained):
            raise ValueError(f"trained names none of the policy's seats: {', '.join(sorted(mine))}.")

    # -- what an author writes --------------------------------------------------------------------------------------

    def agents_of(self, task: TaskT, state: StateT) -> Sequence[str]:
        """Return the names of an episode's seats, in their order; by default `possible_agents`."""
        return self.possible_agents

    def seat_opening(
        self, task: TaskT, state: StateT, seat: str
    ) -> str | list[Item] | Awaitable[str | list[Item] | None] | None:
        """Return what a seat is shown at first, after the row's own input: its role, its cards."""
        return None

    def seat_tools(self, task: TaskT, seat: str) -> Sequence[str] | None:
        """Return the names of the tools that a seat has; None for all. `agent_selection` says who calls one."""
        return None

    def next_seats(self, task: TaskT, state: StateT) -> str | Sequence[str] | Awaitable[Any] | None:
        """Return who acts next: a seat, or several that act at the same time; None if the episode is over."""
        raise NotImplementedError(f"{type(self).__name__} has to define next_seats(self, task, state).")

    def seat_turn(
        self, task: TaskT, state: StateT, seat: str
    ) -> str | list[Item] | Awaitable[str | list[Item] | None] | None:
        """Return what a seat is shown as its turn comes: what the others have done since."""
        return None

    def legal_moves(self, task: TaskT, state: StateT, seat: str) -> Sequence[str]:
        """Return the moves that a seat may make now, as texts; empty if they cannot be listed."""
        return ()

    def play(self, task: TaskT, state: StateT, moves: dict[str, Episode[StateT]]) -> Awaitable[None] | None:
        """Make the moves of the seats that `next_seats` named: `moves[seat].answer`.

        Rewards of this turn are added to `moves[seat].step_reward`, or to another seat's with `pay`.

        Raises:
            IllegalMove: If a move is illegal. The state must not have changed. The seat reads the message and tries
                again.
        """
        raise NotImplementedError(f"{type(self).__name__} has to define play(self, task, state, moves).")

    def verify_seats(
        self, task: TaskT, episodes: dict[str, Episode[StateT]]
    ) -> dict[str, float | Verdict] | Awaitable[dict[str, float | Verdict]]:
        """Score the finished (or truncated) episode: a finite number for every seat, beside its turns' rewards."""
        raise NotImplementedError(f"{type(self).__name__} has to define verify_seats(self, task, episodes).")

    def verdict_when_over(self, task: TaskT, state: StateT) -> tuple[bool, bool]:
        """Return terminated and truncated, after `next_seats` has said that the episode is over."""
        return True, False

    def pay(self, seat: str, reward: float) -> None:
        """Pay a seat for this turn; `play` calls it for seats that have not moved."""
        self._seats[seat].episode.step_reward += reward

    # -- PettingZoo's terms ------------------------------------------------------------------------------------------

    @property
    def agents(self) -> list[str]:
        """The seats of the episode under way; empty when it is over."""
        return [] if self.is_over else list(self._seats)

    @property
    def policy_seats(self) -> list[str]:
        """The seats that the caller of `step` plays in this episode, in their order."""
        return [name for name, seat in self._seats.items() if seat.player == POLICY]

    def observe(self, seat: str) -> Request:
        """Return the request of a seat: what it has seen and said so far."""
        return super()._observation(self._seats[seat].episode)

    def last(self) -> tuple[Request, float, bool, bool, dict[str, Any]]:
        """Return the acting seat's request, all of its rewards so far, terminated, truncated, and its details."""
        seat = self._seats[self.agent_selection or self._record_seat]
        terminated, truncated = self._outcome or (False, False)
        return super()._observation(seat.episode), seat.reward, terminated, truncated, dict(seat.info)

    @property
    def terminations(self) -> dict[str, bool]:
        """Return whether the episode has terminated, by seat."""
        return dict.fromkeys(self._seats, bool(self._outcome and self._outcome[0]))

    @property
    def truncations(self) -> dict[str, bool]:
        """Return whether the episode was truncated, by seat."""
        return dict.fromkeys(self._seats, bool(self._outcome and self._outcome[1]))

    @property
    def infos(self) -> dict[str, dict[str, Any]]:
        """Return the details of each seat."""
        return {name: dict(seat.info) for name, seat in self._seats.items()}

    # -- gymnasium -----------------------------------------------------------------------------------------------------

    def step(self, action: Any) -> tuple[Request, float, bool, bool, dict[str, Any]]:
        """Take one turn of the seat `agent_selection`; see `VerifierEnv.step`."""
        self._turns = tokens_of(output_items(action))
        if self._is_opened:  # else the first step returns what engines' moves before it have paid
            self.rewards = dict.fromkeys(self._seats, 0.0)
        self._is_opened = True
        for seat in self._seats.values():
            seat.episode.step_reward = 0.0  # it was the last step's reward
        observation, reward, terminated, truncated, info = super().step(action)
        info["seat"] = self.agent_selection or self._record_seat
        return observation, reward, terminated, truncated, info

    def fork_once(self, randomness: Randomness) -> Self:
        """Return a fork; engines of other seats know it by a name of its own."""
        made = super().fork_once(randomness)
        made._table = f"{self._table}.{self._forks[1]}" if self._forks else self._table
        return made

    def _begin(self, index: int, prepared: PreparedTask) -> tuple[Request, dict[str, Any]]:
        self._seats, self._moves, self._waiting = {}, {}, []
        self.forfeited = self._outcome = self.agent_selection = None
        self._is_opened = False
        observation, info = super()._begin(index, prepared)
        return observation, {**info, "seat": self.agent_selection}

    def opening(self, task: TaskT, state: StateT) -> None:  # type: ignore[override]
        """Seat the players, and let engines play until it is the policy's turn."""
        assert self.episode is not None
        first, names = self.episode, list(self.agents_of(task, state))
        players = self._players(names, self.config.seat)
        mine = [name for name in names if players[name] == POLICY]
        chosen = None if self.config.trained is None else [seat_named(name, names) for name in self.config.trained]
        trained = mine if chosen is None else [name for name in mine if name in chosen]
        if not mine:
            raise ValueError(f"The policy has no seat in this episode; the seats are {', '.join(names)}.")
        self._record_seat = (trained or mine)[0]
        if len(mine) < len(names):
            self._rng = random.Random(int(self.np_random.integers(2**63)))
            self._table = f"{first.task_index}-{self._rng.getrandbits(64):x}"
        seats = {}
        for name in names:
            episode = first
            if name != self._record_seat:
                episode = Episode(first.task_index, first.row, first.request, state)
            own = self._tools
            if (allowed := self.seat_tools(task, name)) is not None:
                tools = [tool for tool in first.request.get("tools", ()) if tool.get("name") in allowed]
                episode.request = {**first.request, "tools": tools}
                own = {tool: each for tool, each in own.items() if tool in allowed}
            seats[name] = Seat(name, episode, players[name], name in trained, own)
        self._seats = seats
        first.state = state
        self.rewards = dict.fromkeys(names, 0.0)
        for name, seat in self._seats.items():
            said = finish_hook(call_hook(self.seat_opening, task, state, name))
            seat.episode.items.extend(user_items(said, "seat_opening"))
        outcome = self._select() or self._play_engines()
        self._pay_turns()
        if outcome is not None:
            raise InfrastructureError("The episode was over before the policy's first turn.")

    def verify(self, task: TaskT, episode: Episode[StateT]) -> Verdict:
        """Score every seat; the reward is the record's seat's."""
        if self.forfeited is not None:
            forfeits, others = self.forfeit_rewards
            verdicts: Any = {name: forfeits if name == self.forfeited else others for name in self._seats}
        else:
            episodes = {name: seat.episode for name, seat in self._seats.items()}
            verdicts = finish_hook(call_hook(self.verify_seats, task, episodes))
        if not isinstance(verdicts, dict) or verdicts.keys() != self._seats.keys():
            raise TypeError(f"verify_seats returns a reward for each of the seats {', '.join(self._seats)}.")
        for name, seat in self._seats.items():
            self._pay(seat, read_verdict(verdicts[name], seat.info))
        if self._has_asked:
            wait(self._end_conversations(task, episode, failed=False))
        own = verdicts[self._record_seat]
        reward, details, components = (own.reward, own.info, own.reward_components) if isinstance(own, Verdict) else (
            own, {}, None
        )  # fmt: skip
        forfeited = {} if self.forfeited is None else {"forfeited": self.forfeited}
        illegal = {name: seat.illegal_moves for name, seat in self._seats.items()}
        return Verdict(reward, {**details, **forfeited, "illegal_moves": illegal}, components)

    def end_episode(self, error: BaseException | None = None) -> None:
        """End the episode for all seats; see `VerifierEnv.end_episode`."""
        self._show_own()
        if self._has_asked:
            run_teardown(self._end_conversations, self._task, self.episode, error)
        super().end_episode(error)

    # -- records -----------------------------------------------------------------------------------------------------

    def seat_trajectories(self) -> dict[str, list[dict[str, Any]] | None] | None:
        """Return each seat's trajectory so far, the record's seat first."""
        names = sorted(self._seats, key=lambda name: name != self._record_seat)
        return {name: self._seats[name].trajectory() for name in names}

    def seat_fields(self) -> dict[str, Any] | None:
        """Return the record's `seats`, or None if the episode failed before all were seated; see `Rollout`."""
        if self._record_seat not in self._seats:
            return None
        fields = {}
        for name, seat in self._seats.items():
            player = seat.player if isinstance(seat.player, str) else seat.player["engine"]
            fields[name] = seat_record(
                seat.episode,
                player=player,
                is_trained=seat.is_trained,
                turn_rewards=seat.paid,
                reward=seat.reward,
                trajectory=None if name == self._record_seat else seat.trajectory(),
                info={**seat.info, "illegal_moves": seat.illegal_moves},
                is_own=name == self._record_seat,
            )
        return fields

    def turn_rewards_of(self, seat: str) -> list[float]:
        """Return what each turn of a seat was paid."""
        return self._seats[seat].paid

    def add_seat_report(self, seat: str, trajectory: list[dict[str, Any]] | None, info: dict[str, Any]) -> None:
        """Take an engine's report on the seat that it has played; see `gym_llm.engines.engine.EpisodeReport`."""
        self._seats[seat].reported = trajectory
        self._seats[seat].info.update(info)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _players(self, names: Sequence[str], seat: str | int | None = None) -> dict[str, EngineArgument]:
        """Return who plays each seat, if the policy has this one."""
        opponents = self.config.opponents
        if seat == _ANY:
            seat = names[int(self.np_random.integers(len(names)))]
        elif seat is None and opponents not in (None, POLICY) and by_seat(opponents) is None:  # type: ignore[arg-type]
            seat = names[0]
        if seat is None:
            return players_of(opponents, names, POLICY)
        return players_of(RANDOM if opponents is None else opponents, names, RANDOM) | {seat_named(seat, names): POLICY}

    def _observation(self, episode: Episode) -> Request:
        return super()._observation(self._seats[self.agent_selection].episode if self.agent_selection else episode)

    def _finish(self, episode: Episode, info: dict[str, Any]) -> float:
        self._show_own()
        assert self.episode is not None
        reward = super()._finish(self.episode, info)
        own = {"turn": self.episode.turn, "tool_errors": self.episode.tool_errors, "seat": self._record_seat}
        info.update(own, rewards={name: seat.reward for name, seat in self._seats.items()})
        return reward

    def _show_own(self) -> None:
        """Let `episode` be the record's seat's, as when nobody acts."""
        self.agent_selection = None
        if self._record_seat in self._seats:
            self.episode = self._seats[self._record_seat].episode

    def _advance(self, episode: Episode, items: list[Item], response: dict[str, Any]) -> tuple[bool, bool]:
        assert self.agent_selection is not None
        seat = self._seats[self.agent_selection]
        self._outcome = self._take(seat, items, response, self._turns) or self._play_engines()
        self._pay_turns()
        episode.step_reward = self.rewards[self._record_seat]
        return self._outcome or (False, False)

    def _play_engines(self) -> _Outcome:
        """Let engines play until it is the policy's turn."""
        while (seat := self._seats[self._waiting[0]]).player != POLICY:
            asked = [self._seats[name] for name in self._waiting]
            for seat, action in zip(asked, wait(self._answers(asked)), strict=True):
                try:
                    items, response = read_action(action)
                    turns = tokens_of(items)
                except InvalidAction as error:
                    raise EngineError(f"The engine of seat {seat.name} gave an invalid response: {error}") from error
                seat.episode.begin_turn(items, response)
                if (outcome := self._take(seat, items, response, turns)) is not None:
                    return outcome
        self.agent_selection, self.episode = seat.name, seat.episode
        return None

    async def _answers(self, seats: list[Seat]) -> list[Any]:
        shown = [super(MultiAgentEnv, self)._observation(seat.episode) for seat in seats]
        legal = [
            list(self.legal_moves(self._task, seat.episode.state, seat.name)) if seat.player == RANDOM else []
            for seat in seats
        ]
        self._has_asked = self._has_asked or any(seat.player != RANDOM for seat in seats)
        tasks = [
            asyncio.ensure_future(answer(self, seat.player, request, moves, self._rng, f"{self._table}/{seat.name}"))
            for seat, request, moves in zip(seats, shown, legal, strict=True)
        ]
        try:
            return await asyncio.gather(*tasks)
        finally:  # if one fails, nobody waits for the others
            for task in tasks:
                task.cancel()

    async def _end_conversations(self, task: TaskT, episode: Episode[StateT] | None, failed: bool = True) -> None:
        """Tell the engines of other seats that the episode is over; one that runs agents reports their tokens."""
        self._has_asked = False
        for seat in self._seats.values():
            if seat.player not in (POLICY, RANDOM) and seat.turns:
                engine = await auxiliary_engine(self, seat.player)
                name = f"{self._table}/{seat.name}"
                if (report := await engine.end_episode(name, rewards=seat.paid, failed=failed)) is not None:
                    self.add_seat_report(seat.name, report.trajectory, report.info)

    def _take(self, seat: Seat, items: list[Item], response: dict[str, Any], turns: list[Turn]) -> _Outcome:
        """Answer a seat's turn, which is in its items already; `turns` are its tokens."""
        episode = seat.episode
        seat.turns.append(turns)
        seat.paid.append(seat.owed)
        seat.owed = 0.0
        if was_cut_off(response):
            return self._forfeit(seat) if self.config.cut_off == "forfeit" else (False, True)
        last_turn = episode.turn >= self.max_turns
        calls = [item for item in items if item.get("type") == "function_call"] if self.executes_tools else []
        if calls:
            self.phase, self.agent_selection = "tool", seat.name
            outputs, errors = run_calls(self, seat.tools, calls, episode.state)
            episode.items.extend(outputs)
            episode.tool_errors += errors
            self.phase = "env"
        if calls or has_only_reasoning(items):
            is_stuck = not calls and never_answers(episode)
            return (False, True) if is_stuck or last_turn else None
        self._moves[seat.name] = episode
        self._waiting.remove(seat.name)
        return None if self._waiting else self._play_moves()

    def _play_moves(self) -> _Outcome:
        moves, self._moves = {name: self._moves[name] for name in self._seats if name in self._moves}, {}
        self.phase = "respond"
        try:
            finish_hook(call_hook(self.play, self._task, next(iter(moves.values())).state, moves))
        except IllegalMove as error:
            return self._refuse(error, moves)
        self.phase = "env"
        for name in moves:
            self._seats[name].refused = 0
        self._pay_turns()
        return self._select()

    def _pay_turns(self) -> None:
        """Pay the seats what hooks and tools have given them."""
        for seat in self._seats.values():
            if seat.episode.step_reward != 0.0:
                self._pay(seat, read_step_reward(seat.episode, {}))
                seat.episode.step_reward = 0.0

    def _refuse(self, error: IllegalMove, moves: dict[str, Episode]) -> _Outcome:
        """Have a seat try again after an illegal move, or forfeit."""
        name = next(iter(moves)) if error.seat is None else error.seat
        if name not in moves or (error.seat is None and len(moves) > 1):
            raise TypeError(f"IllegalMove has to name the seat that moved: one of {', '.join(moves)}.") from error
        self.phase = "env"
        seat = self._seats[name]
        seat.illegal_moves += 1
        seat.refused += 1
        if seat.refused > self.config.max_illegal_moves:
            return self._forfeit(seat)
        if seat.episode.turn >= self.max_turns:
            return False, True
        seat.episode.items.extend(user_items(str(error), "IllegalMove"))
        self._moves = {mover: episode for mover, episode in moves.items() if mover != name}
        self._waiting = [name]
        return None

    def _forfeit(self, seat: Seat) -> _Outcome:
        self.forfeited = seat.name
        return True, False

    def _select(self) -> _Outcome:
        """Ask who acts next, and show these seats what they need to know."""
        state = self._seats[self._record_seat].episode.state
        chosen = finish_hook(call_hook(self.next_seats, self._task, state))
        names = [chosen] if isinstance(chosen, str) else list(chosen or ())
        if unknown := [name for name in names if name not in self._seats]:
            raise ValueError(f"next_seats named {unknown[0]!r}; the seats are {', '.join(self._seats)}.")
        if not names:
            return self.verdict_when_over(self._task, state)
        self._waiting = sorted(names, key=lambda name: self._seats[name].player != POLICY)
        if any(self._seats[name].episode.turn >= self.max_turns for name in names):
            return False, True
        for name in names:
            said = finish_hook(call_hook(self.seat_turn, self._task, state, name))
            self._seats[name].episode.items.extend(user_items(said, "seat_turn"))
        return None

    def _pay(self, seat: Seat, reward: float) -> None:
        seat.pay(reward)
        self.rewards[seat.name] += reward
