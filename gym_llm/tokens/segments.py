"""Segments: the token ids of a player's turns, put together for a trainer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from gymnasium.error import InvalidAction

from gym_llm.tokens.weight_versions import each_version
from gym_llm.types import CONSTRAINED, ROUTED_EXPERTS, TOKEN_FIELDS, WEIGHT_VERSIONS, Item

_PROMPT, _SAMPLED, _LOG_PROBS = TOKEN_FIELDS


class Turn(NamedTuple):
    """The tokens of a turn.

    Attributes:
        prompt: The ids that the model was given.
        sampled: The ids that it sampled.
        log_probs: The natural log of each sampled id's probability.
        is_constrained: Whether they were sampled under a constraint.
        versions: The version of the weights that sampled each id; None if all are 0.
        experts: The experts of a mixture (`gym_llm.types.ROUTED_EXPERTS`); None if the engine gives none.
    """

    prompt: list[int]
    sampled: list[int]
    log_probs: list[float]
    is_constrained: bool = False
    versions: list[int] | None = None
    experts: str | None = None


def tokens_of(items: list[Item]) -> list[Turn]:
    """Return the tokens of each item that carries some, in order.

    Raises:
        InvalidAction: If an item has not all of the three token fields, or not one log probability for each id. Or if
            its versions of the weights are not those of its ids.
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
        versions = None
        if (runs := item.get(WEIGHT_VERSIONS)) is not None:
            try:
                versions = each_version(runs, len(sampled))
            except ValueError as error:
                raise InvalidAction(f"An output item has invalid `{WEIGHT_VERSIONS}`: {error}.") from None
        experts = item.get(ROUTED_EXPERTS)
        if not (experts is None or isinstance(experts, str)):
            raise InvalidAction(f"An output item's `{ROUTED_EXPERTS}` is a text, got {type(experts).__name__}.")
        turns.append(Turn(prompt, sampled, log_probs, item.get(CONSTRAINED) is True, versions, experts))
    return turns


def token_columns(
    input_ids: list[int],
    samples: Iterable[tuple[int, list[float], bool, list[int] | None]],
    *,
    has_constraints: bool,
    has_versions: bool,
) -> dict[str, Any]:
    """Return an entry of a trajectory; see `gym_llm.wrappers.TokenIdTracking`.

    Args:
        input_ids: All of its ids.
        samples: Of each sample: the index of its first id, its log probabilities, whether it was sampled under a
            constraint, and its versions of the weights.
        has_constraints: Whether there is a column `constrained`.
        has_versions: Whether there is a column `weight_versions`.
    """
    loss_mask, logprobs = [0] * len(input_ids), [0.0] * len(input_ids)
    columns: dict[str, Any] = {"input_ids": input_ids, "loss_mask": loss_mask, "logprobs": logprobs}
    if has_constraints:
        columns["constrained"] = [0] * len(input_ids)
    if has_versions:
        columns["weight_versions"] = [0] * len(input_ids)
    for start, log_probs, is_constrained, versions in samples:
        end = start + len(log_probs)
        loss_mask[start:end] = [1] * len(log_probs)
        logprobs[start:end] = log_probs
        if is_constrained:
            columns["constrained"][start:end] = [1] * len(log_probs)
        if versions is not None:
            columns["weight_versions"][start:end] = versions
    return columns


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
        for turn in turns:
            self._has_turns = True
            if not turn.sampled:
                continue
            if self._segments and self._segments[-1].goes_on_with(turn.prompt):
                self._segments[-1].turns.append(turn)
            else:
                self._segments.append(_Segment([turn]))

    def pay(self, reward: float, turns: list[Turn], is_over: bool) -> None:
        """Note the reward of an action with these turns, at its last sampled id."""
        self._is_rewarded_early = self._is_rewarded_early or not is_over
        if self._segments and any(turn.sampled for turn in turns):
            self._rewards.append((len(self._segments) - 1, self._segments[-1].length - 1, reward))

    def copy(self) -> Segments:
        """Return segments that grow by themselves, from the same turns."""
        made = Segments()
        made._segments = [_Segment(segment.turns.copy()) for segment in self._segments]
        made._rewards = self._rewards.copy()
        made._has_turns, made._is_rewarded_early = self._has_turns, self._is_rewarded_early
        return made

    def trajectory(self, with_rewards: bool = True) -> list[dict[str, Any]] | None:
        """Return one entry per segment; None if no turn has tokens.

        Args:
            with_rewards: Whether there is a column `rewards` if a step before the last had a reward.
        """
        if not self._has_turns:
            return None
        turns = [turn for segment in self._segments for turn in segment.turns]
        has_constraints = any(turn.is_constrained for turn in turns)
        has_versions = any(turn.versions is not None for turn in turns)
        trajectory = [segment.as_dict(has_constraints, has_versions) for segment in self._segments]
        if with_rewards and self._is_rewarded_early:
            for segment in trajectory:
                segment["rewards"] = [0.0] * len(segment["input_ids"])
            for index, position, reward in self._rewards:
                trajectory[index]["rewards"][position] = reward
        return trajectory


@dataclass(slots=True)
class _Segment:
    """Turns of which each prompt begins with everything before; holds the engine's own lists."""

    turns: list[Turn]

    @property
    def length(self) -> int:
        """The number of its ids."""
        return len(self.turns[-1].prompt) + len(self.turns[-1].sampled)

    def goes_on_with(self, prompt: list[int]) -> bool:
        """Whether a prompt begins with all ids so far."""
        last = self.turns[-1]
        start = len(last.prompt)
        return prompt[start : self.length] == last.sampled and prompt[:start] == last.prompt

    def as_dict(self, has_constraints: bool, has_versions: bool) -> dict[str, Any]:
        """Return the segment as a trainer takes it.

        Args:
            has_constraints: Whether a turn of the episode was constrained.
            has_versions: Whether a turn of the episode was sampled by weights that the engine was given.
        """
        samples = ((len(turn.prompt), turn.log_probs, turn.is_constrained, turn.versions) for turn in self.turns)
        last = self.turns[-1]
        columns = token_columns(
            last.prompt + last.sampled, samples, has_constraints=has_constraints, has_versions=has_versions
        )
        if last.experts is not None:  # of everything that the model has read until then
            columns[ROUTED_EXPERTS] = last.experts
        return columns
