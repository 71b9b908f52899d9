"""HotpotQA: short answers from the model's own knowledge (NeMo Gym's `hotpotqa_qa`)."""

from __future__ import annotations

from functools import cached_property
from json import dumps

from pydantic import field_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.envs.hotpotqa_qa.alternatives import Alternative, alternatives, plain, reason_to_remove
from gym_llm.envs.hotpotqa_qa.extraction import extract_answer
from gym_llm.grading.quotations import meant_words
from gym_llm.grading.text_metrics import normalize_answer, token_f1

_LONGEST = 20_000  # characters of an answer that are read


class HotpotQA(NemoCompatible):
    """Answer a question in a few words; the reward is 1.0 if the answer begins with the expected one, or nearly.

    Details: `extracted_answer`, `answer_em` and `answer_f1` (HotpotQA's own), `is_correct`, `is_correct_strict` (the
    reward), `gt_should_remove`, `gt_remove_reason`.

    Args:
        report_filtered_metrics: Whether questions with a short and simple expected answer have a metric of their own,
            `is_correct_strict_filtered`.
        conform: `"nemo"` finds JSON as NeMo Gym does, counting braces in strings, and takes "yes or no" for either, and
            "not Paris" for Paris.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument is invalid.
    """

    metrics = {
        "answer_em": Metric(),
        "answer_f1": Metric(),
        "is_correct": Metric(),
        "is_correct_strict_filtered": Metric(),
    }
    reverify_mode = "stateless"
    accepted_findings = {
        "near miss": "NeMo Gym's rule: an accepted form of the answer at its beginning is enough",
        "all options": "NeMo Gym's rule: an accepted form of the answer at its beginning is enough",
    }

    class Task(BaseTask):
        """The expected answer, and others that are as good."""

        expected_answer: str
        aliases: list[str] = []
        question: str | None = None

        @field_validator("expected_answer")
        @classmethod
        def _not_empty(cls, answer: str) -> str:
            if not answer.strip():
                raise ValueError("expected_answer is empty")
            return answer

        @cached_property
        def normalized(self) -> list[str]:
            """The expected answers as HotpotQA's script compares them."""
            return [normalize_answer(gold) for gold in (self.expected_answer, *self.aliases)]

        @cached_property
        def alternatives(self) -> list[Alternative]:
            """The spellings to look for, sorted."""
            forms = {form for gold in (self.expected_answer, *self.aliases) for form in alternatives(gold)}
            return [Alternative.read(form) for form in sorted(forms)]

        @cached_property
        def remove_reason(self) -> str:
            """The reason to drop the question from the filtered metric, or ""."""
            return reason_to_remove(self.expected_answer)

    class Config(NemoCompatible.Config):
        """The metrics to report."""

        report_filtered_metrics: bool = True

    config: Config

    def oracle(self, task: Task) -> str:
        """Return the expected answer as JSON."""
        return dumps({"answer": task.expected_answer})

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the answer in the model's messages with the expected one."""
        text = episode.text.strip() if self.conform else meant_words(episode.text, episode)
        answer = extract_answer(text, nemo=self.conform == "nemo")
        normalized, said = normalize_answer(answer[:_LONGEST]), plain(answer[:_LONGEST])
        found = Alternative.found_strictly if self.conform else Alternative.is_given
        strict = float(any(found(alternative, said) for alternative in task.alternatives))
        if not self.conform and {"yes", "no"} <= set(normalized.split()) and task.normalized[0] in ("yes", "no"):
            strict = 0.0  # an answer with both is not an answer
        details = {
            "extracted_answer": answer or None,
            "answer_em": float(normalized in task.normalized),
            "answer_f1": max(token_f1(normalized, gold) for gold in task.normalized),
            "is_correct": float(any(alternative.text in said for alternative in task.alternatives)),
            "is_correct_strict": strict,
            "gt_should_remove": bool(task.remove_reason),
            "gt_remove_reason": task.remove_reason,
        }
        if self.config.report_filtered_metrics and not task.remove_reason:
            details["is_correct_strict_filtered"] = strict
        return Verdict(strict, details)
