"""What a server has captured, compared with the engine's log.

A call that was sampled and delivered has to be in the trajectory: its ids after exactly the prompt that the engine
read, in one branch with mask 1 and its own log probabilities, in all others that go on from it with mask 0. Nothing
else has mask 1: no prompt, no other session's call, none of a model that is not trained. A call that was sampled but
whose answer the agent never received may be there or not; if it is, then exactly.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypedDict

from .engine import MODEL, Call


class Branch(TypedDict):
    """One sequence for a trainer; the lists are of one length."""

    input_ids: list[int]
    loss_mask: list[int]
    logprobs: list[float]


Expected = int | tuple[int, int] | None
"""How many branches: so many, at least and at most so many, or as many as the engine's log has."""
ANY: Expected = (-1, -1)
"""Branches are not counted."""
_ID_BYTES = 8


@dataclass
class Outcome:
    """How well one session was captured.

    Attributes:
        calls: That were sampled and delivered.
        tokens: Sampled in them.
        ids: Of these, how many are in the trajectory, after their exact prompt.
        masks: Of these, how many have mask 1 once.
        log_probs: Of these, how many have their exact log probability.
        extra: Tokens with mask 1 that nobody sampled there, or a second time.
        branches: How many there are.
        problems: What is wrong with tokens, or with answers, in sentences.
        branch_problems: What is wrong with how calls are linked.
    """

    calls: int = 0
    tokens: int = 0
    ids: int = 0
    masks: int = 0
    log_probs: int = 0
    extra: int = 0
    branches: int = 0
    problems: list[str] = field(default_factory=list)
    branch_problems: list[str] = field(default_factory=list)

    @property
    def score(self) -> float:
        """The share of ids, masks and log probabilities that are right; tokens too many count as wrong masks."""
        return (self.ids + self.masks + self.log_probs) / max(3 * self.tokens + self.extra, 1)

    @property
    def exact(self) -> bool:
        """Whether every token is as it should be."""
        return not self.problems and self.score == 1.0

    @property
    def passed(self) -> bool:
        """Whether the branches are as well."""
        return self.exact and not self.branch_problems

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            **{name: getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__}  # type: ignore[arg-type]
        )


_Key = tuple[bytes, int]
"""Which tokens: the ids up to their end, and where they begin. Calls that are alike in both stand for one another."""


def check(
    log: Sequence[Call],
    delivered: Sequence[list[Any]],
    trajectory: Sequence[Branch],
    branches: Expected,
    *,
    abandoned: int = 0,
) -> Outcome:
    """Compare a trajectory with a session's log.

    Args:
        log: The session's calls, of all models.
        delivered: What the agent was told, as `engine.said` has it.
        trajectory: What was captured.
        branches: How many it should have; `ANY` if that does not matter.
        abandoned: How many calls the agent did not wait for.
    """
    outcome = Outcome(branches=len(trajectory))
    trained = [call for call in log if call.model == MODEL]
    required = [call for call in _delivered(log, delivered, outcome.problems, abandoned) if call.model == MODEL]
    outcome.calls = len(required)
    outcome.tokens = sum(len(call.sampled) for call in required)
    known = {_key(call): call for call in trained}
    sampled, needed = (Counter(_key(call) for call in calls) for calls in (trained, required))
    masked: Counter[_Key] = Counter()
    told: Counter[tuple[_Key, tuple[float, ...]]] = Counter()
    held: set[_Key] = set()
    ends = {_bytes(call.prompt + call.sampled) for call in log}
    for branch in trajectory:
        if problem := _malformed(branch):
            outcome.problems.append(problem)
            continue
        ids = _bytes(branch["input_ids"])
        if ids not in ends:
            outcome.problems.append("A branch does not end as a call of this session does.")
        here = [key for key in known if ids.startswith(key[0])]
        held.update(here)
        for start, end in _runs(branch["loss_mask"]):
            parts = _tiles(here, start, end)
            if parts is None:
                outcome.extra += end - start
                outcome.problems.append(f"Mask 1 on {end - start} tokens that were not sampled there.")
            for key in parts or ():
                masked[key] += 1
                told[key, tuple(branch["logprobs"][key[1] : len(key[0]) // _ID_BYTES])] += 1
    for key, count in needed.items():
        call, size = known[key], len(known[key].sampled)
        outcome.ids += size * count * (key in held)
        outcome.masks += size * min(count, masked[key])
        if key not in held:
            outcome.problems.append(f"A sampled call is in no branch: {call.said}.")
        elif masked[key] < count:
            outcome.problems.append(f"A sampled call has mask 1 {masked[key]} times, not {count}: {call.said}.")
    for key, count in masked.items():
        if (more := count - sampled[key]) > 0:
            outcome.extra += len(known[key].sampled) * more
            outcome.problems.append(f"A sampled call has mask 1 {count} times, not {sampled[key]}: {known[key].said}.")
    # Each call's own log probabilities, once.
    own = Counter((_key(call), tuple(call.log_probs)) for call in required)
    for one, count in own.items():
        outcome.log_probs += len(one[1]) * min(told[one], count)
    for key, count in needed.items():
        right = sum(min(told[one], number) for one, number in own.items() if one[0] == key)
        if right < min(count, masked[key]):
            outcome.problems.append(f"The log probabilities of a call are not the engine's: {known[key].said}.")
    _check_branches(outcome, branches, trained)
    return outcome


def leaves(calls: Sequence[Call]) -> int:
    """How many branches the calls are by their token ids: those that no other goes on from."""
    prompts = [_bytes(call.prompt) for call in calls]
    return sum(not any(prompt.startswith(_bytes(call.prompt + call.sampled)) for prompt in prompts) for call in calls)


def _delivered(log: Sequence[Call], delivered: Sequence[list[Any]], problems: list[str], abandoned: int) -> list[Call]:
    """The calls whose answers the agent has, known by what they say."""
    waiting = list(delivered)
    found = []
    for call in log:
        place = next((place for place, told in enumerate(waiting) if _tells(told, call.said)), None)
        if place is not None:
            del waiting[place]
            found.append(call)
    problems += [f"The agent was told what the engine did not say: {json.dumps(told):.300}" for told in waiting]
    if not abandoned:
        if len(log) != len(delivered):
            problems.append(f"The engine was asked {len(log)} times for {len(delivered)} answers.")
        return list(log)
    return found


def _tells(told: list[Any], said: list[Any]) -> bool:
    """Whether that is what was said; arguments that are no object have no form in Messages, so any will do there."""
    return (
        told[:-1] == said[:-1]
        and len(told[-1]) == len(said[-1])
        and all(
            name == told_name and (arguments == told_arguments or not isinstance(arguments, dict))
            for (told_name, told_arguments), (name, arguments) in zip(told[-1], said[-1], strict=True)
        )
    )


def _malformed(branch: Branch) -> str | None:
    """What is wrong with a branch's form."""
    if not len(branch["input_ids"]) == len(branch["loss_mask"]) == len(branch["logprobs"]):
        return "A branch's ids, masks and log probabilities are not of one length."
    if set(branch["loss_mask"]) - {0, 1}:
        return "A mask is neither 0 nor 1."
    return None


def _check_branches(outcome: Outcome, expected: Expected, trained: Sequence[Call]) -> None:
    if expected is None:
        expected = leaves(trained)
    low, high = (expected, expected) if isinstance(expected, int) else expected
    if low >= 0 and not low <= outcome.branches <= high:
        wanted = str(low) if low == high else f"{low} to {high}"
        outcome.branch_problems.append(f"There are {outcome.branches} branches, not {wanted}.")


def _runs(mask: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where tokens with mask 1 begin and end."""
    start = 0
    for value, group in groupby(mask):
        end = start + len(list(group))
        if value:
            yield start, end
        start = end


def _tiles(keys: Sequence[_Key], start: int, end: int) -> list[_Key] | None:
    """The calls that a run of mask 1 is, one after the other; None if it is not whole calls."""
    if start == end:
        return []
    following = [key for key in keys if key[1] == start and start < len(key[0]) // _ID_BYTES <= end]
    for key in sorted(following, key=lambda key: -len(key[0])):
        if (rest := _tiles(keys, len(key[0]) // _ID_BYTES, end)) is not None:
            return [key, *rest]
    return None


def _key(call: Call) -> _Key:
    return _bytes(call.prompt + call.sampled), len(call.prompt)


def _bytes(ids: Sequence[int]) -> bytes:
    return array("q", ids).tobytes()
