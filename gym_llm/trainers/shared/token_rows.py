"""Rows of tokens: what every trainer is handed of an episode, whatever it calls its fields.

A row is a segment of a record's `trajectory` (see `gym_llm.wrappers.TokenIdTracking`). The prompt ends before the first
sampled token. The completion is everything after it; the tokens of tools and users are masked out.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from gym_llm.types import Rollout

_ROUNDING = 1e-12
SCORES = ("teacher_logprobs", "teacher_mask", "ref_logprobs")
"""The columns that `gym_llm.trainers.shared.scored_rows` adds."""
_OPTIONAL = ("constrained", "weight_versions", "routed_experts", *SCORES)
"""Further columns of a segment."""


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A segment of an episode. Its lists are those of the record: do not change them.

    Attributes:
        input_ids: All token ids, read and sampled.
        loss_mask: 1 for a sampled id, 0 for any other; as long as `input_ids`.
        logprobs: The natural log of a sampled id's probability, as the engine reported it; 0.0 for any other.
        rewards: The reward of each turn at its last sampled id, else 0.0. Their sum over an episode's rows is its
            reward; a rest that belongs to no such turn is at the very last sampled id.
        reward: The reward of the whole episode; None if it is masked, and the row must not be trained on.
        start: The start of the completion: the index of the first sampled id.
        constrained: 1 for an id that was sampled under a constraint (a forced call, a JSON schema), else 0. None if the
            episode has none. Its log probability is the one among the allowed tokens: right for importance weights, and
            not what the model alone gives.
        weight_versions: The version of the weights that sampled each id, 0 for any other; see
            `gym_llm.types.WEIGHT_VERSIONS`. None if all are of version 0.
        teacher_logprobs: The natural log of each sampled id's probability under a teacher, 0.0 for any other; None
            without `with_scores` or `add_scores` of `gym_llm.trainers.shared.scored_rows`.
        teacher_mask: 1 for a sampled id that has one. None if all have one: the teacher has the same tokenizer.
        ref_logprobs: The same under a reference model.
        routed_experts: The experts of a mixture for all ids but the last, as the engine gave them
            (`gym_llm.types.ROUTED_EXPERTS`); `gym_llm.tokens.routed_experts.unpack_experts` reads them. None without.
        task_probability: The probability that the draw of a `TaskSampler` had of being this task; None without one.
    """

    input_ids: list[int]
    loss_mask: list[int]
    logprobs: list[float]
    rewards: list[float]
    reward: float | None
    start: int
    constrained: list[int] | None = None
    weight_versions: list[int] | None = None
    teacher_logprobs: list[float] | None = None
    teacher_mask: list[int] | None = None
    ref_logprobs: list[float] | None = None
    routed_experts: str | None = None
    task_probability: float | None = None

    @property
    def is_masked(self) -> bool:
        """Whether the row is a masked episode's: it has no part in a baseline, and no gradient."""
        return self.reward is None

    @property
    def prompt_ids(self) -> list[int]:
        """The ids before the first sampled one."""
        return self.input_ids[: self.start]

    @property
    def turns(self) -> list[tuple[int, int]]:
        """Return the (start, end) of each run of sampled ids: the model's turns, unless two are adjacent."""
        spans, index = [], 0
        for sampled, run in itertools.groupby(self.loss_mask):
            end = index + len(list(run))
            if sampled:
                spans.append((index, end))
            index = end
        return spans

    @property
    def completion_ids(self) -> list[int]:
        """The first sampled id and all after it."""
        return self.input_ids[self.start :]

    @property
    def completion_mask(self) -> list[int]:
        """`loss_mask` of the completion."""
        return self.loss_mask[self.start :]

    @property
    def trained_mask(self) -> list[int]:
        """`completion_mask`, all zeros if the episode is masked: for trainers whose only mask is that of tokens."""
        return [0] * (len(self.loss_mask) - self.start) if self.is_masked else self.completion_mask

    @property
    def completion_logprobs(self) -> list[float]:
        """`logprobs` of the completion."""
        return self.logprobs[self.start :]

    @property
    def completion_rewards(self) -> list[float]:
        """`rewards` of the completion."""
        return self.rewards[self.start :]


def token_rows(record: Rollout) -> list[TokenRow]:
    """The rows of an episode, one per segment, in order; none if nothing was sampled, or if it has no token ids.

    Those of a masked episode are what was sampled until it failed, with the reward None.
    """
    segments = [segment for segment in record.get("trajectory") or () if 1 in segment["loss_mask"]]
    reward = record["reward"]
    columns = [list(segment.get("rewards") or [0.0] * len(segment["input_ids"])) for segment in segments]
    if segments and reward is not None:
        # All of it, where turns earn nothing; else what a turn without sampled ids, or a wrapper outside, has added.
        rest = reward - math.fsum(value for column in columns for value in column)
        if abs(rest) > _ROUNDING * sum(abs(value) for column in columns for value in column):
            columns[-1][_last_sampled(segments[-1]["loss_mask"])] += rest
    rows, odds = [], (record.get("info") or {}).get("task_probability")
    for segment, rewards in zip(segments, columns, strict=True):
        mask = segment["loss_mask"]
        more = {name: segment[name] for name in _OPTIONAL if name in segment}
        more["task_probability"] = odds
        rows.append(TokenRow(segment["input_ids"], mask, segment["logprobs"], rewards, reward, mask.index(1), **more))
    return rows


def empty_row(token_id: int) -> TokenRow:
    """A row from which nothing is learned, for trainers that want a row of tokens for every episode.

    Args:
        token_id: Stands for the prompt, and for the completion: padding, as a rule.
    """
    return TokenRow([token_id] * 2, [0, 0], [0.0, 0.0], [0.0, 0.0], None, 1)


def _last_sampled(mask: list[int]) -> int:
    return len(mask) - 1 - mask[::-1].index(1)
