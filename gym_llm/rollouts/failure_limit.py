"""When a run is not worth going on with: too many of its episodes are masked."""

from __future__ import annotations

from gym_llm.errors import TooManyFailures
from gym_llm.records.failures import is_quota_spent
from gym_llm.types import Rollout

DEFAULT = "10%"
_TOLERATED = 20
"""Masked episodes that a share does not count as too many, however few were played."""


class FailureLimit:
    """Counts a run's episodes, and ends the run if too many are masked.

    Args:
        limit: The largest number of masked episodes, or a share of the finished ones such as `"10%"`, or None for no
            limit. A share applies once more than 20 are masked.

    Raises:
        ValueError: If it is another value.
    """

    def __init__(self, limit: int | str | None = DEFAULT) -> None:
        self._count: float = float("inf")
        self._share = 1.0
        self._finished = self._masked = 0
        self._first: str | None = None
        if limit is None:
            return
        text = str(limit).strip()
        try:
            if isinstance(limit, bool):
                raise ValueError
            if text.endswith("%"):
                self._share, self._count = float(text[:-1]) / 100, _TOLERATED
            else:
                self._count, self._share = int(text), 0.0
        except ValueError:
            self._count = -1
        if not (self._count >= 0 and 0 <= self._share <= 1):
            raise ValueError(f'max_failures is a number of episodes, a share such as "10%", or None; got {limit!r}.')

    def count(self, record: Rollout) -> None:
        """Count an episode.

        Raises:
            TooManyFailures: If that is one masked episode too many, or the account of a provider has no credit left.
        """
        self._finished += 1
        if record["reward"] is not None:
            return
        self._masked += 1
        self._first = self._first or record["error"]
        if is_quota_spent(record):
            raise TooManyFailures(str(record["error"]))
        if self._masked > self._count and self._masked > self._share * self._finished:
            raise TooManyFailures(
                f"{self._masked} of {self._finished} episodes are masked, which is more than max_failures allows; "
                f"the first one so: {self._first}"
            )
