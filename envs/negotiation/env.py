"""Negotiation: two seats divide things that are worth different amounts to each."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gym_llm import BaseTask, Episode, IllegalMove, MultiAgentEnv, Verdict
from gym_llm.core.env_config import Count
from gym_llm.types import Row

THINGS = ("books", "hats", "balls")
_TOTAL = 10
_RULES = (
    "You and another player divide books, hats and balls. Each of you knows only what they are worth to oneself. Talk, "
    "and propose what you keep: <propose>books=1 hats=0 balls=2</propose>. The other player gets the rest if they "
    "answer <accept/>. Without a deal both get nothing."
)
_PROPOSAL = re.compile(r"<propose>([^<>]{0,200})</propose>", re.IGNORECASE)
_PART = re.compile(r"([a-z]+)\s*[=:]\s*(\d{1,2})", re.IGNORECASE)
_ACCEPT = re.compile(r"<accept\s*/?>", re.IGNORECASE)
_SEATS = ("first", "second")


class NegotiationTask(BaseTask):
    """Things to divide.

    Attributes:
        counts: How many books, hats and balls there are.
        values: What one of each is worth to the first and to the second seat; each seat's add up to 10 over all things.
    """

    counts: list[int]
    values: list[list[int]]


@dataclass
class Talk:
    """A negotiation.

    Attributes:
        said: What the last speaker said.
        mover: The number of the seat that speaks.
        offer: What the last speaker keeps, if they proposed something.
        deal: What the first seat keeps, once there is a deal.
        turns: Turns so far.
    """

    said: str = ""
    mover: int = 0
    offer: list[int] | None = None
    deal: list[int] | None = None
    turns: int = 0


class Negotiation(MultiAgentEnv[NegotiationTask, Talk]):
    """Divide books, hats and balls by talking; the reward is a seat's share of what everything is worth to it.

    After Lewis et al. 2017, "Deal or No Deal?" (arXiv 1706.05125). The game is of general sum: good deals pay both.
    Without a deal both get 0.0. Details: `has_deal`, and `deal`, what the first seat keeps.

    Args:
        rounds: How often each seat speaks at most.
        **kwargs: See `MultiAgentEnv`.
    """

    possible_agents = _SEATS
    forfeit_rewards = (0.0, 0.0)
    accepted_findings: ClassVar[dict[str, str]] = {
        "prompt echoed": "the rules show a proposal and how to accept it, and the attack plays both seats"
    }

    class Config(MultiAgentEnv.Config):
        """The length of the talk."""

        rounds: Count = 5

    config: Config

    def generate(self, rng: np.random.Generator) -> Row:
        """Return a row with new counts and values."""
        source = random.Random(int(rng.integers(2**31)))
        while True:
            counts = [source.randint(1, 4) for _ in THINGS]
            values = [_values(source, counts) for _ in _SEATS]
            if all(values):
                return self.row([{"role": "system", "content": _RULES}], counts=counts, values=values)

    def setup(self, task: NegotiationTask) -> Talk:
        """Check the row."""
        counts, values = task.counts, task.values
        lengths = {len(counts), *(len(each) for each in values)}
        if lengths != {len(THINGS)} or len(values) != len(_SEATS) or min(counts + values[0] + values[1]) < 0:
            raise ValueError(f"counts and the two lists of values have {len(THINGS)} numbers each, none below 0.")
        if any(not _worth(counts, each) for each in values):
            raise ValueError("To each seat something is worth more than 0.")
        return Talk()

    def seat_opening(self, task: NegotiationTask, state: Talk, seat: str) -> str:
        """Show a seat what there is, and what it is worth to it."""
        own = task.values[_SEATS.index(seat)]
        listed = zip(task.counts, THINGS, own, strict=True)
        return (
            "There are "
            + ", ".join(f"{count} {name} (worth {value} each to you)" for count, name, value in listed)
            + "."
        )

    def next_seats(self, task: NegotiationTask, state: Talk) -> str | None:
        """Return the speaker, until there is a deal."""
        is_over = state.deal is not None or state.turns == 2 * self.config.rounds
        return None if is_over else _SEATS[state.mover]

    def seat_turn(self, task: NegotiationTask, state: Talk, seat: str) -> str:
        """Show what the other said."""
        return f"The other player says: {state.said}" if state.turns else "You speak first."

    def legal_moves(self, task: NegotiationTask, state: Talk, seat: str) -> list[str]:
        """Return every proposal, and the acceptance of one."""
        ranges = [range(count + 1) for count in task.counts]
        keeps = [(books, hats, balls) for books in ranges[0] for hats in ranges[1] for balls in ranges[2]]
        proposals = [f"<propose>{_written(keep)}</propose>" for keep in keeps]
        return proposals + (["<accept/>"] if state.offer is not None else [])

    def play(self, task: NegotiationTask, state: Talk, moves: dict[str, Episode[Talk]]) -> None:
        """Read the speaker's acceptance or proposal; anything else is talk."""
        ((_, episode),) = moves.items()
        text = episode.answer.strip()
        proposals = _PROPOSAL.findall(text)
        if _ACCEPT.search(text) and not proposals:
            if state.offer is None:
                raise IllegalMove("There is no proposal that you could accept.")
            given = [count - kept for count, kept in zip(task.counts, state.offer, strict=True)]
            state.deal = given if state.mover == 0 else state.offer
        elif not text:
            raise IllegalMove("You said nothing.")
        else:
            state.offer = _kept(proposals[-1], task.counts) if proposals else None
        state.said, state.mover, state.turns = text, 1 - state.mover, state.turns + 1

    def verify_seats(self, task: NegotiationTask, episodes: dict[str, Episode[Talk]]) -> dict[str, float | Verdict]:
        """Pay each seat its share."""
        deal = episodes["first"].state.deal
        if deal is None:
            return {seat: Verdict(0.0, {"has_deal": 0.0}) for seat in episodes}
        rest = [count - kept for count, kept in zip(task.counts, deal, strict=True)]
        details: dict[str, Any] = {"has_deal": 1.0, "deal": deal}
        return {
            seat: Verdict(_worth(kept, own) / _worth(task.counts, own), dict(details))
            for seat, kept, own in zip(_SEATS, (deal, rest), task.values, strict=True)
        }


def _values(source: random.Random, counts: list[int]) -> list[int]:
    """Values of which the sum over all things is 10; empty if the draw has none."""
    values = [source.randint(0, _TOTAL // counts[0]), source.randint(0, _TOTAL // counts[1])]
    left = _TOTAL - values[0] * counts[0] - values[1] * counts[1]
    return [*values, left // counts[2]] if left >= 0 and left % counts[2] == 0 else []


def _worth(things: list[int], values: list[int]) -> int:
    return sum(count * value for count, value in zip(things, values, strict=True))


def _written(keep: tuple[int, ...]) -> str:
    return " ".join(f"{name}={count}" for name, count in zip(THINGS, keep, strict=True))


def _kept(text: str, counts: list[int]) -> list[int]:
    """What a proposal keeps."""
    parts = {name.lower(): int(count) for name, count in _PART.findall(text)}
    kept = [parts.get(name, 0) for name in THINGS]
    if parts.keys() - set(THINGS) or not parts or any(one > count for one, count in zip(kept, counts, strict=True)):
        raise IllegalMove(
            f"A proposal names at most what there is, as in <propose>{_written(tuple(counts))}</propose>."
        )
    return kept
