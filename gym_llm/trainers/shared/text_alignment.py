"""Log probabilities of another tokenizer's tokens, for the tokens of a row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from gym_llm.tokens.token_bytes import TokenBytes


class Aligned(NamedTuple):
    """The log probabilities that a teacher with another tokenizer gives the tokens of a row.

    Attributes:
        log_probs: The natural log of each token's probability, 0.0 without one.
        mask: 1 for a token that has one.
    """

    log_probs: list[float]
    mask: list[int]


class TextAlignment:
    """Finds the tokens of one tokenizer that other tokenizers' tokens have the same bytes as.

    A token is aligned if some of the teacher's tokens, one or more, have just its bytes, at its place in the text. Its
    log probability is the sum of theirs. A token that a teacher's token reaches beyond has 0.0 and is masked.

    Args:
        tokenizer: The tokenizer of the rows, of transformers.
        teacher: The other one. If it begins texts with a special token, so do the teacher's rows.

    >>> from pathlib import Path
    >>> import gym_llm
    >>> from transformers import AutoTokenizer
    >>> pocket = AutoTokenizer.from_pretrained(str(Path(gym_llm.__file__).parent / "engines" / "pocket" / "model"))
    >>> alignment = TextAlignment(pocket, pocket)
    >>> ids = pocket.encode("What is 2 + 2?")
    >>> alignment.teacher_ids(ids) == ids, alignment.align(ids, ids, [None, *[-1.0] * (len(ids) - 1)]).mask[:3]
    (True, [0, 1, 1])
    """

    def __init__(self, tokenizer: Any, teacher: Any) -> None:
        self._own, self._bytes = TokenBytes(tokenizer), TokenBytes(teacher)
        self._teacher = teacher
        first = getattr(teacher, "bos_token_id", None)
        self._begin = [first] if first is not None and first in teacher.encode("") else []

    def teacher_ids(self, ids: Sequence[int]) -> list[int]:
        """Return the row as the teacher reads it: the same text, with the markers of the row's chat template."""
        text = b"".join(map(self._own.of, ids)).decode(errors="replace")
        return [*self._begin, *self._teacher.encode(text, add_special_tokens=False)]

    def align(self, ids: Sequence[int], teacher_ids: Sequence[int], scores: Sequence[float | None]) -> Aligned:
        """Return the log probabilities of a row's tokens.

        Args:
            ids: The row.
            teacher_ids: Its `teacher_ids`.
            scores: The teacher's log probability of each of these, None for the first.
        """
        own, others = list(map(self._own.of, ids)), list(map(self._bytes.of, teacher_ids))
        text = b"".join(own)
        skipped = len(self._begin)
        if len(others) > skipped and others[skipped][:1] == b" " != text[:1]:  # SentencePiece puts a space before all
            others[skipped] = others[skipped][1:]
        # Beyond the first byte that differs (a normalized or a broken character) nothing is aligned.
        theirs = b"".join(others[skipped:])
        pairs = enumerate(zip(text, theirs, strict=False))
        same = next((place for place, (one, other) in pairs if one != other), min(len(text), len(theirs)))
        sums: dict[int, float] = {0: 0.0}  # of all of the teacher's tokens up to a place in the text
        place, total, unscored = 0, 0.0, -1
        for token, score in zip(others[skipped:], scores[skipped:], strict=True):
            if score is None:
                unscored = place
            total += score or 0.0
            place += len(token)
            sums[place] = total
        found = Aligned([0.0] * len(own), [0] * len(own))
        start = 0
        for index, end in enumerate(accumulate(map(len, own))):
            if start < end <= same and start > unscored and start in sums and end in sums:
                found.log_probs[index], found.mask[index] = sums[end] - sums[start], 1
            start = end
        return found
