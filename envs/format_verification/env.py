"""FormatVerification: lines and markers that an answer has to have (NeMo Gym's `format_verification`)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.core.env_config import Pattern, Seconds
from gym_llm.envs.format_verification.grading import count_lines, is_quick, other_matches
from gym_llm.grading.text_metrics import in_worker
from gym_llm.tokens.parsers.thinking import without_cut_thought


class Lines(BaseModel):
    """The number of lines in which some pattern has to match."""

    type: Literal["regex", "inline_prose"]
    verify_regex: list[Pattern] = []
    verify_min_matches: int = 1


class Markers(BaseModel):
    """The markers that the answer must have, and patterns that may find no others."""

    type: Literal["string_match"]
    expected_markers: list[str] = []
    patterns: list[Pattern] = []


class FormatVerification(NemoCompatible):
    """Answer in a given format; the reward is 1.0 if the row's patterns find it.

    Details: `match_details`, by type: `matching_lines`, `min_matches`, `passed`, or `expected`, `missing`, `spurious`,
    `passed`; and `timed_out`, should the patterns take too long.

    Args:
        deadline: Seconds of CPU time that the patterns may take on an answer, in a worker process. A slower answer
            fails.
        **kwargs: As for every `NemoCompatible`.

    Raises:
        ValueError: If an argument is invalid.
    """

    reverify_mode = "stateless"
    accepted_findings = {"prompt echoed": "the marks of a format are graded, not the text around them"}
    metrics = {"timed_out": Metric("rate", higher_is_better=False)}

    class Task(BaseTask):
        """The rule that the format is verified by."""

        verifier: Annotated[Lines | Markers, Field(discriminator="type")]

    class Config(NemoCompatible.Config):
        """The time limit of the patterns."""

        deadline: Seconds = 2.0

    config: Config

    def oracle(self, task: Task) -> str | None:
        """Return the expected markers; None if the row counts lines."""
        return "\n".join(task.verifier.expected_markers) if isinstance(task.verifier, Markers) else None

    def verify(self, task: Task, episode: Episode) -> Verdict | Awaitable[Verdict]:
        """Look for the lines or the markers."""
        verifier, text = task.verifier, episode.text
        text = text if self.conform else without_cut_thought(text)
        if isinstance(verifier, Lines):
            if is_quick(verifier.verify_regex, text, by_line=True):
                return _lines_verdict(verifier, count_lines((verifier.verify_regex, text)))
            return self._verify_lines(verifier, text)
        missing = [marker for marker in verifier.expected_markers if marker not in text]
        if is_quick(verifier.patterns, text, by_line=False):
            others = other_matches((verifier.patterns, text, frozenset(verifier.expected_markers)))
            return _markers_verdict(verifier, missing, others)
        return self._verify_markers(verifier, missing, text)

    async def _verify_lines(self, verifier: Lines, text: str) -> Verdict:
        return _lines_verdict(verifier, await self._in_worker("count_lines", (verifier.verify_regex, text)))

    async def _verify_markers(self, verifier: Markers, missing: list[str], text: str) -> Verdict:
        argument = verifier.patterns, text, frozenset(verifier.expected_markers)
        others = await self._in_worker("other_matches", argument) if verifier.patterns else []
        return _markers_verdict(verifier, missing, others)

    async def _in_worker(self, function: str, argument: Any) -> Any:
        return await in_worker(f"{is_quick.__module__}:{function}", argument, self.config.deadline)


def _lines_verdict(verifier: Lines, count: int | None) -> Verdict:
    passed = count is not None and count >= verifier.verify_min_matches
    details = {"matching_lines": count or 0, "min_matches": verifier.verify_min_matches, "passed": passed}
    return Verdict(float(passed), {"match_details": details, "timed_out": count is None})


def _markers_verdict(verifier: Markers, missing: list[str], spurious: list[str] | None) -> Verdict:
    passed = spurious == [] and not missing
    details = {"expected": verifier.expected_markers, "missing": missing, "spurious": spurious or [], "passed": passed}
    return Verdict(float(passed), {"match_details": details, "timed_out": spurious is None})
