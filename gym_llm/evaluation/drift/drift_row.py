"""A row of tokens with the log probabilities that its sampler recorded."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

from gym_llm.errors import DataError
from gym_llm.types import Request


@dataclass(frozen=True, slots=True)
class DriftRow:
    """A row of tokens: what a trainer learns from, and what the sampler said of it.

    Attributes:
        ids: All token ids, read and sampled.
        mask: 1 for a sampled id, 0 for any other.
        log_probs: The recorded natural log of a sampled id's probability; 0.0 for any other.
        versions: The version of the weights that sampled each id; None if all are 0.
        constrained: 1 for an id that was sampled under a constraint; None without any.
        temperature: The temperature of the request; 1 if it has none, or asks for the likeliest token.
        top_p: The `top_p` of the request.
        requests: The request of each span of sampled ids, without token fields; empty where they are unknown.
        is_complete: Whether the last answer ended by itself.
        place: The line of the file and the number of the row in it, from 1.
    """

    ids: list[int]
    mask: list[int]
    log_probs: list[float]
    versions: list[int] | None = None
    constrained: list[int] | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    requests: list[Request] = field(default_factory=list)
    is_complete: bool = True
    place: str = ""

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The (start, end) of each run of sampled ids."""
        found, index = [], 0
        for used, run in itertools.groupby(self.mask):
            end = index + len(list(run))
            if used:
                found.append((index, end))
            index = end
        return found


def check_row(row: DriftRow) -> None:
    """Check the columns of a row.

    Raises:
        DataError: If they are not lists of one length, ids are negative, or a log probability is not a finite number.
    """
    if not all(isinstance(column, list) for column in (row.ids, row.mask, row.log_probs)):
        raise DataError("token ids, mask and log probabilities are lists")
    if not len(row.ids) == len(row.mask) == len(row.log_probs):
        raise DataError(f"{len(row.ids)} ids, {len(row.mask)} of the mask, and {len(row.log_probs)} log probabilities")
    if any(type(token) is not int or token < 0 for token in row.ids):
        raise DataError("token ids are whole numbers, 0 or more")
    if any(type(value) not in (int, float) or not math.isfinite(value) for value in row.log_probs):
        raise DataError("log probabilities are finite numbers")
