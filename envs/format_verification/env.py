"""FormatVerification: lines and markers that an answer has to have (NeMo Gym's `format_verification`)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from gym_llm import BaseTask, Episode, Metric, Verdict, VerifierEnv
from gym_llm.concurrency.processes import check_settings, shared_pool
from gym_llm.core.checks import check_pattern
from gym_llm.envs.format_verification.grading import count_lines, is_quick, other_matches
from gym_llm.errors import DeadlinePassed, WorkerDied
from gym_llm.types import Row

Pattern = Annotated[str, AfterValidator(check_pattern)]


class Lines(BaseModel):
    """So many lines have to have a match of some pattern."""

    type: Literal["regex", "inline_prose"]
    verify_regex: list[Pattern] = []
    verify_min_matches: int = 1


class Markers(BaseModel):
    """All these markers have to be in the answer, and everything that a pattern finds has to be one of them."""

    type: Literal["string_match"]
    expected_markers: list[str] = []
    patterns: list[Pattern] = []


class FormatVerification(VerifierEnv):
    """Answer in a given format; the reward is 1.0 if patterns of the row find it.

    Details: `match_details`, by type: `matching_lines`, `min_matches`, `passed`, or `expected`, `missing`, `spurious`,
    `passed`; and `timed_out`, should the patterns take too long.

    Args:
        deadline: Seconds of CPU time that the patterns may take on an answer, in a worker process; then it has failed.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"
    accepted_findings = {
        "near miss": "the marks of a format are graded, not what is said with them",
        "prompt echoed": "the marks of a format are graded, not what is said with them",
    }
    metrics = {"timed_out": Metric("rate", higher_is_better=False)}

    class Task(BaseTask):
        """How the format is verified."""

        verifier: Annotated[Lines | Markers, Field(discriminator="type")]

    def __init__(self, tasks: str | list[Row] | None = None, *, deadline: float = 2.0, **kwargs: Any) -> None:
        check_settings(deadline, None)
        super().__init__(tasks, **kwargs)
        self.deadline = deadline

    def verify(self, task: Task, episode: Episode) -> Verdict | Awaitable[Verdict]:
        """Look for the lines or the markers."""
        verifier, text = task.verifier, episode.text
        if isinstance(verifier, Lines):
            if is_quick(verifier.verify_regex, text, by_line=True):
                return _lines_verdict(verifier, count_lines((verifier.verify_regex, text)))
            return self._verify_lines(verifier, text)
        missing = [marker for marker in verifier.expected_markers if marker not in text]
        if is_quick(verifier.patterns, text, by_line=False):
            others = other_matches((verifier.patterns, text, frozenset(verifier.expected_markers)))
            return _markers_verdict(verifier, missing, others)
        if verifier.patterns:
            return self._verify_markers(verifier, missing, text)
        return _markers_verdict(verifier, missing, [])

    async def _verify_lines(self, verifier: Lines, text: str) -> Verdict:
        return _lines_verdict(verifier, await self._in_worker("count_lines", (verifier.verify_regex, text)))

    async def _verify_markers(self, verifier: Markers, missing: list[str], text: str) -> Verdict:
        expected = frozenset(verifier.expected_markers)
        return _markers_verdict(
            verifier, missing, await self._in_worker("other_matches", (verifier.patterns, text, expected))
        )

    async def _in_worker(self, function: str, argument: Any) -> Any:
        pool = shared_pool(f"gym_llm.envs.format_verification.grading:{function}", deadline=self.deadline)
        try:
            return await pool.call(argument)
        except (DeadlinePassed, WorkerDied):
            return None


def _lines_verdict(verifier: Lines, count: int | None) -> Verdict:
    passed = count is not None and count >= verifier.verify_min_matches
    details = {"matching_lines": count or 0, "min_matches": verifier.verify_min_matches, "passed": passed}
    return Verdict(float(passed), {"match_details": details, "timed_out": count is None})


def _markers_verdict(verifier: Markers, missing: list[str], spurious: list[str] | None) -> Verdict:
    passed = spurious == [] and not missing
    details = {"expected": verifier.expected_markers, "missing": missing, "spurious": spurious or [], "passed": passed}
    return Verdict(float(passed), {"match_details": details, "timed_out": spurious is None})
