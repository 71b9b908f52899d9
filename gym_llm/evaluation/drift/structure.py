"""Faults of masks, found in the token ids alone: where model turns start and end according to the chat template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from gym_llm.evaluation.drift.drift_row import DriftRow
from gym_llm.tokens.prompt_tokens import PromptTokens
from gym_llm.types import Request

_NEAR = 3  # tokens that a mask may be off
_MOST = 0.8  # share of the turns that have to agree
_SOME = 0.2


class StructureFault(NamedTuple):
    """A fault of the masks: its cause and a sentence about it."""

    cause: str
    detail: str


def mask_fault(rows: Sequence[DriftRow], prompts: PromptTokens) -> StructureFault | None:
    """Return the fault that the masks of most rows have; None if they agree with the chat template.

    Args:
        rows: The rows.
        prompts: The model's tokenizer and template.
    """
    offsets: Counter[int] = Counter()
    inside = ended = spans = complete = 0
    for row in rows:
        start_ids = _turn_start(row, prompts)
        starts = _ends_of(start_ids, row.ids)
        for number, (start, end) in enumerate(row.spans):
            spans += 1
            near = [start - each for each in starts if abs(start - each) <= _NEAR]
            if near:
                offsets[min(near, key=abs)] += 1
            inside += any(start < each - len(start_ids) and each < end for each in starts)
            if number < len(row.spans) - 1 or row.is_complete:
                complete += 1
                ended += row.ids[end - 1] in prompts.stop_token_ids
    if inside >= _SOME * spans:
        return StructureFault(
            "tool output in mask", f"{inside:,} of {spans:,} runs of sampled tokens contain another message."
        )
    if offsets:
        offset, count = offsets.most_common(1)[0]
        if offset and count >= _MOST * spans:
            side = "after" if offset > 0 else "before"
            text = (
                f"The mask of {count:,} of {spans:,} turns starts {abs(offset)} token{'s' * (abs(offset) > 1)} {side} "
            )
            return StructureFault("mask off by one", text + "the model's turn.")
    if not ended and complete > spans / 2:
        follows = sum(_is_stop(row, end, prompts) for row in rows for _, end in row.spans)
        if follows > spans / 2:
            return StructureFault(
                "mask off by one", f"The mask of {follows:,} turns ends before the token that ends them."
            )
        return StructureFault("special tokens", "No turn ends with an end-of-turn token.")
    return None


def lost_specials(rows: Sequence[DriftRow], prompts: PromptTokens) -> str:
    """Return a sentence about special tokens that the template writes and no row has; "" without any."""
    request: Request = {"input": [{"role": "user", "content": "Hi"}]}
    wanted = set(prompts.build(request)) & prompts.special_token_ids
    found = {token for row in rows for token in row.ids[: row.spans[0][0]]}
    lost = sorted(wanted - found)
    if not lost:
        return ""
    names = ", ".join(prompts.decode([token]) for token in lost[:5])
    return f"The template writes {names}, and no row has these tokens in its prompt."


def _turn_start(row: DriftRow, prompts: PromptTokens) -> list[int]:
    request = row.requests[0] if row.requests else {"input": []}
    text = prompts.turn_start(request)
    return prompts.encode(text) if text else []


def _ends_of(part: list[int], ids: list[int]) -> list[int]:
    """The index behind each occurrence of a part among ids."""
    if not part:
        return []
    width = len(part)
    first = part[0]
    return [at + width for at in range(len(ids) - width + 1) if ids[at] == first and ids[at : at + width] == part]


def _is_stop(row: DriftRow, place: int, prompts: PromptTokens) -> bool:
    return place < len(row.ids) and row.ids[place] in prompts.stop_token_ids
