"""StringMatch: a short answer, equal to the expected one but for how it is written (NeMo Gym's `string_match`)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.envs.string_match.extraction import ExtractionMode, extract, extract_as_nemo_gym
from gym_llm.envs.string_match.nemo_gym import NemoReading, nemo_similarity
from gym_llm.envs.string_match.reading import Reading, similarity
from gym_llm.grading.quotations import meant_words

_LONGEST = 2_000
"""Characters beyond four times the expected answer's: what is longer is compared as it is, not in other forms."""


class StringMatch(NemoCompatible):
    """Give a short answer; the reward is 1.0 if it equals the expected one in a form, 0.98 for a rounded decimal.

    Details: `expected_answer`, `extracted_answer` (None without an answer).

    Args:
        conform: `"nemo"` takes `and`, `or` and units also out of words and any unit for any other, as NeMo Gym does.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If `conform` is something else.
    """

    reverify_mode = "stateless"

    class Task(BaseTask):
        """The expected answer, where to look for the model's, and whether case matters."""

        expected_answer: str
        extraction_mode: ExtractionMode = "final_answer"
        case_sensitive: bool = False
        metadata: dict[str, Any] | None = None

        @cached_property
        def reading(self) -> Reading:
            """The expected answer in the forms in which it is compared."""
            return Reading(self.expected_answer)

        @cached_property
        def nemo_reading(self) -> NemoReading:
            """The forms in NeMo Gym's reading."""
            return NemoReading(self.expected_answer)

    def oracle(self, task: Task) -> str:
        """Return the expected answer in the form of the extraction mode."""
        form = {"boxed": "\\boxed{%s}", "final_answer": "Answer: %s"}.get(task.extraction_mode, "%s")
        return form % task.expected_answer

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the answer in all that the model said with the expected one."""
        said = episode.messages_text
        if self.conform:
            answer = extract_as_nemo_gym(said, task.extraction_mode)
        else:
            answer = extract(meant_words(said, episode), task.extraction_mode)
        details = {"expected_answer": task.expected_answer, "extracted_answer": answer}
        return Verdict(0.0 if answer is None else self._score(answer.strip(), task), details)

    def _score(self, answer: str, task: Task) -> float:
        expected = task.expected_answer.strip()
        if not task.expected_answer:
            return 0.0
        longest = 4 * len(expected) + _LONGEST
        if answer == expected or task.case_sensitive or len(answer) > longest:
            return float(answer == expected)
        reading = NemoReading(answer) if self.conform else Reading(answer)
        if len(reading.plain) > longest:  # one character may be eighteen in its NFKC form
            return 0.0
        if isinstance(reading, NemoReading):
            return nemo_similarity(reading, task.nemo_reading)
        return similarity(reading, task.reading)
