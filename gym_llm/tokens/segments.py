"""Segments: the token ids of a player's turns, put together for a trainer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from gymnasium.error import InvalidAction

from gym_llm.types import CONSTRAINED, TOKEN_FIELDS, Item

_PROMPT, _SAMPLED, _LOG_PROBS = TOKEN_FIELDS

Turn: TypeAlias = tuple[list[int], list[int], list[float], bool]
"""Prompt ids, sampled ids, log probabilities, and whether they were sampled under a constraint."""


def tokens_of(items: list[Item]) -> list[Turn]:
    """Return the tokens of each item that carries some, in order.

    Raises:
        InvalidAction: If an item has not all of the three token fields, or not one log probability for each id.
    """
    turns: list[Turn] = []
    for item in items:
        prompt, sampled, log_probs = item.get(_PROMPT), item.get(_SAMPLED), item.get(_LOG_PROBS)
        if prompt is sampled is log_probs is None:
            continue
        if not (isinstance(prompt, list) and isinstance(sampled, list) and isinstance(log_probs, list)):
            raise InvalidAction(
                f"An output item has some of {', '.join(TOKEN_FIELDS)}: it has all three as lists or none."
            )
        if len(sampled) != len(log_probs):
            raise InvalidAction(
                f"An output item needs one log probability per sampled id; got {len(log_probs)} for {len(sampled)} ids."
            )
        turns.append((prompt, sampled, log_probs, item.get(CONSTRAINED) is True))
    return turns


class Segments:
    """The segments of one player's turns; see `gym_llm.wrappers.TokenIdTracking` for what they are."""

    __slots__ = ("_has_turns", "_is_rewarded_early", "_rewards", "_segments")

    def __init__(self) -> None:
        self._segments: list[_Segment] = []
        self._rewards: list[tuple[int, int, float]] = []
        self._has_turns = self._is_rewarded_early = False

    @property
    def is_rewarded_early(self) -> bool:
        """Whether a step before the last had a reward."""
        return self._is_rewarded_early

    def add(self, turns: list[Turn]) -> None:
        """Add the turns of an action."""
        for prompt, sampled, log_probs, is_constrained in turns:
            self._has_turns = True
            if not sampled:
                continue
            sample = (len(prompt), sampled, log_probs, is_constrained)
            if self._segments and self._segments[-1].goes_on_with(prompt):
                self._segments[-1].prompt = prompt
                self._segments[-1].samples.append(sample)
            else:
                self._segments.append(_Segment(prompt, [sample]))

    def pay(self, reward: float, turns: list[Turn], is_over: bool) -> None:
        """Note the reward of an action with these turns, at its last sampled id."""
        self._is_rewarded_early = self._is_rewarded_early or not is_over
        if self._segments and any(turn[1] for turn in turns):
            start, sampled, *_ = self._segments[-1].samples[-1]
            self._rewards.append((len(self._segments) - 1, start + len(sampled) - 1, reward))

    def trajectory(self, with_rewards: bool = True) -> list[dict[str, Any]] | None:
        """Return one entry per segment; None if no turn has tokens.

        Args:
            with_rewards: Whether there is a column `rewards` if a step before the last had a reward.
        """
        if not self._has_turns:
            return None
        has_constraints = any(sample[3] for segment in self._segments for sample in segment.samples)
        trajectory = [segment.as_dict(has_constraints) for segment in self._segments]
        if with_rewards and self._is_rewarded_early:
            for segment in trajectory:
                segment["rewards"] = [0.0] * len(segment["input_ids"])
            for index, position, reward in self._rewards:
                trajectory[index]["rewards"][position] = reward
        return trajectory


@dataclass(slots=True)
class _Segment:
    """Turns of which each prompt begins with everything before; holds the engine's own lists.

    Attributes:
        prompt: The last turn's.
        samples: Of each turn, the length of its prompt, the sampled ids, their log probabilities, and whether they were
            sampled under a constraint.
    """

    prompt: list[int]
    samples: list[tuple[int, list[int], list[float], bool]]

    def goes_on_with(self, prompt: list[int]) -> bool:
        """Whether a prompt begins with all ids so far."""
        start, sampled, *_ = self.samples[-1]
        end = start + len(sampled)
        return prompt[start:end] == sampled and prompt[:start] == self.prompt

    def as_dict(self, has_constraints: bool) -> dict[str, Any]:
        """The segment as a trainer takes it; `has_constraints` if a turn of the episode was constrained."""
        input_ids = self.prompt + self.samples[-1][1]
        loss_mask = [0] * len(input_ids)
        logprobs = [0.0] * len(input_ids)
        constrained = [0] * len(input_ids)
        for start, sampled, log_probs, is_constrained in self.samples:
            end = start + len(sampled)
            loss_mask[start:end] = [1] * len(sampled)
            logprobs[start:end] = log_probs
            if is_constrained:
                constrained[start:end] = [1] * len(sampled)
        columns = {"input_ids": input_ids, "loss_mask": loss_mask, "logprobs": logprobs}
        return {**columns, "constrained": constrained} if has_constraints else columns
