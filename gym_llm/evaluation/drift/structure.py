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
_FEWEST = 3  # turns of a kind that show a fault of this kind
_KINDS = {
    "all": "turns",
    "first": "first turns",
    "later": "later turns",
    "earlier": "turns but the last",
    "last": "last turns",
}


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
    starts: dict[str, Counter[int]] = {name: Counter() for name in _KINDS}
    ends: dict[str, Counter[int]] = {name: Counter() for name in _KINDS}
    inside = outside = with_starts = spans = ended = complete = 0
    for row in rows:
        begins, width = starts_of(row, prompts)
        with_starts += bool(begins)
        is_outside = False
        for number, (start, end) in enumerate(row.spans):
            spans += 1
            kinds = ("all", "later" if number else "first", "last" if number == len(row.spans) - 1 else "earlier")
            near = [start - each for each in begins if abs(start - each) <= _NEAR]
            offset = min(near, key=abs, default=0)
            inside += any(start < each - width and each < end for each in begins)
            stop = _turn_end(row, start - offset, prompts)
            is_outside |= bool(begins) and not near and _is_outside(row, start, begins, prompts)
            is_complete = number < len(row.spans) - 1 or row.is_complete
            for kind in kinds:
                starts[kind][offset] += 1
                if is_complete:
                    ends[kind][end - stop if stop is not None and 0 < end - stop <= _NEAR else 0] += 1
            if is_complete:
                complete += 1
                ended += row.ids[end - 1] in prompts.stop_token_ids
        outside += is_outside
    if inside >= _SOME * spans:
        text = f"{inside:,} of {spans:,} runs of sampled tokens contain another message."
        return StructureFault("tool output in mask", text)
    if with_starts and outside >= _SOME * with_starts:
        text = f"In {outside:,} of {with_starts:,} rows the mask has tokens between the model's turns."
        return StructureFault("tool output in mask", text)
    for counts, what in ((starts, "starts"), (ends, "ends")):
        if text := _moved(counts, what):
            return StructureFault("mask off by one", text)
    if not ended and complete > spans / 2:
        follows = sum(_is_stop(row, end, prompts) for row in rows for _, end in row.spans)
        if follows > spans / 2:
            text = f"The mask of {follows:,} turns ends before the token that ends them."
            return StructureFault("mask off by one", text)
        return StructureFault("special tokens", "No turn ends with an end-of-turn token.")
    return None


def _moved(counts: dict[str, Counter[int]], what: str) -> str:
    """Return a sentence about masks that start or end beside their turns; "" without any.

    A recorder may be wrong about some kind of turns only, such as those behind a tool's output.
    """
    for kind, which in _KINDS.items():
        total = counts[kind].total()
        if not total:
            continue
        offset, count = counts[kind].most_common(1)[0]
        if offset and count >= max(_MOST * total, _FEWEST if kind != "all" else 1):
            side = "after" if offset > 0 else "before"
            by = f"{abs(offset)} token{'s' * (abs(offset) > 1)}"
            return f"The mask of {count:,} of {total:,} {which} {what} {by} {side} the model's turn {what}."
    return ""


def _turn_end(row: DriftRow, start: int, prompts: PromptTokens) -> int | None:
    """The index behind the token that ends a turn of the model; None if it does not end."""
    return next((at + 1 for at in range(start, len(row.ids)) if row.ids[at] in prompts.stop_token_ids), None)


def _is_outside(row: DriftRow, start: int, begins: list[int], prompts: PromptTokens) -> bool:
    """Whether a run of sampled tokens starts behind the end of the model's turn before, and not in another."""
    before = [each for each in begins if each <= start]
    if not before:
        return False
    end = _turn_end(row, before[-1], prompts)
    if end is None or start < end:
        return False
    # A turn whose start was merged with its first token is found by its text.
    mark = prompts.turn_start({"input": []}).rstrip()
    return mark not in prompts.decode(row.ids[end:start])


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


def starts_of(row: DriftRow, prompts: PromptTokens) -> tuple[list[int], int]:
    """Return where the model's turns start in a row, and the number of tokens that the template writes before each."""
    request = row.requests[0] if row.requests else {"input": []}
    text = prompts.turn_start(request)
    part = prompts.encode(text) if text else []
    return _ends_of(part, row.ids), len(part)


def _ends_of(part: list[int], ids: list[int]) -> list[int]:
    """The index behind each occurrence of a part among ids."""
    if not part:
        return []
    width = len(part)
    first = part[0]
    return [at + width for at in range(len(ids) - width + 1) if ids[at] == first and ids[at : at + width] == part]


def _is_stop(row: DriftRow, place: int, prompts: PromptTokens) -> bool:
    return place < len(row.ids) and row.ids[place] in prompts.stop_token_ids
