"""BatchFailures: failed episodes of a training, which end it only if nothing works."""

from __future__ import annotations

from collections.abc import Sequence

from gym_llm.utils.secrets import redacted_logger

LOST_BATCHES = 3
"""Batches in a row in which every episode failed that end a training."""

logger = redacted_logger(__name__)


class BatchFailures:
    """Checks each batch for failures: a broken task does not end a training, a broken set-up does.

    Args:
        noun: The name of a batch's elements, for the messages.
    """

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._has_worked = False
        self._lost_batches = 0

    def check(self, errors: Sequence[str | None]) -> None:
        """Check each episode's error, None if it did not fail; the first one is logged.

        Raises:
            RuntimeError: If all failed, and nothing ever worked or `LOST_BATCHES` batches in a row have failed.
        """
        failures = [error for error in errors if error is not None]
        if len(failures) < len(errors):
            self._has_worked, self._lost_batches = True, 0
        elif failures:
            self._lost_batches += 1
            if not self._has_worked or self._lost_batches == LOST_BATCHES:
                self._lost_batches = 0
                raise RuntimeError(f"Every {self._noun} of this batch failed, the first one so: {failures[0]}")
        if failures:
            counts = f"{len(failures)} of {len(errors)} {self._noun}s"
            logger.warning("%s failed, the first one so: %s", counts, failures[0])
