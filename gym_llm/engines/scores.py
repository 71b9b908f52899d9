"""Scores: the log probabilities that a model gives to tokens that it is given."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

from gym_llm.errors import EngineError

MOST_LIKELIEST = 20
"""The most likely tokens that a request may ask for, at each position: OpenAI's limit."""


class Scores(list["float | None"]):
    """The natural log probability of each id of a row; None for the first, which has no tokens before it.

    They are the model's own, at temperature 1 and among all tokens.

    Attributes:
        likeliest: For each id, the most likely tokens at its position, as (id, log probability), the likeliest first.
            Empty for the first id, and for all if none were asked for.
    """

    likeliest: list[list[tuple[int, float]]]

    def __init__(self, log_probs: Sequence[float], likeliest: Sequence[list[tuple[int, float]]] | None = None) -> None:
        super().__init__([None, *log_probs])
        self.likeliest = [[], *(likeliest or ([] for _ in log_probs))]


def check_row(
    ids: Sequence[int], top_k: int, *, vocabulary: int = 1 << 31, context: int | None, model: str
) -> list[int]:
    """Return the ids of a row that is to be scored, as a list.

    Raises:
        EngineError: If the model cannot read them: no ids, ids that it does not have, or more than its context.
        ValueError: If `top_k` is not a number of tokens, or an id is not a whole number.
    """
    if type(top_k) is not int or not 0 <= top_k <= MOST_LIKELIEST:
        raise ValueError(f"top_k is the number of likeliest tokens, 0 to {MOST_LIKELIEST}; got {top_k!r}.")
    if any(isinstance(token, bool) or not isinstance(token, Integral) for token in ids):
        raise ValueError("A row has token ids, which are whole numbers.")
    row = [int(token) for token in ids]
    if not row:
        raise EngineError("There are no tokens to score.")
    if not 0 <= min(row) <= max(row) < vocabulary:
        raise EngineError(f"{model} has token ids from 0 to {vocabulary - 1}; got {min(row)} to {max(row)}.")
    if context is not None and len(row) > context:
        raise EngineError(f"The context of {model} has {context:,} tokens; got {len(row):,} to score.")
    return row
