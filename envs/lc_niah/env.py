"""LCNIAH: needles from a long context, without copying the context into the reasoning (NeMo Gym's `lc_niah`)."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.envs.lc_niah.overlap import OverlapMetric, measure_overlap
from gym_llm.grading.answer_lists import ExpectedList, expected_list, final_answer_list
from gym_llm.grading.quotations import meant_words
from gym_llm.grading.text_metrics import in_worker, set_f1
from gym_llm.types import Item

OverlapRule = Literal["multiply", "minus", "base"]
DEADLINE = 30.0  # seconds of CPU time; a megabyte of each text takes some ten
_SHORT = 40_000  # product of the two lengths


class LCNIAH(NemoCompatible):
    """Answer with a list, `Final Answer: [a, b]`; its F1 is the reward, less what was copied into the reasoning.

    Details: `answer_score` (the F1), `reasoning_overlap`, `timed_out`.

    Args:
        overlap_metric_rule: How the overlap of reasoning and input is measured; see `measure_overlap`.
        overlap_grading_rule: The reward. `"multiply"`: F1 times 1 - overlap. `"minus"`: F1 minus the overlap, which may
            be negative. `"base"`: F1.
        **kwargs: As for every `NemoCompatible`.

    Raises:
        ValueError: If a rule is unknown.
    """

    metrics = {
        "answer_score": Metric(),
        "reasoning_overlap": Metric(higher_is_better=False),
        "timed_out": Metric("rate", higher_is_better=False),
    }
    reverify_mode = "stateless"
    accepted_findings = {
        "equivalent form/after reasoning": "the share of the reasoning that is copied from the input is taken off",
    }

    class Task(BaseTask):
        """The expected items, as a JSON list in a string."""

        expected_answer: ExpectedList

        @cached_property
        def needles(self) -> frozenset[str]:
            """The expected items."""
            return frozenset(expected_list(self.expected_answer))

    class Config(NemoCompatible.Config):
        """The overlap measure, and its effect on the reward."""

        overlap_metric_rule: OverlapMetric = "ngram16"
        overlap_grading_rule: OverlapRule = "multiply"

    config: Config

    def oracle(self, task: Task) -> str:
        """Return the expected list."""
        return f"Final Answer: {task.expected_answer}"

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Score the list in the last line, and measure how much the reasoning has of the input."""
        text = episode.text if self.conform else meant_words(episode.text, episode)
        predicted = final_answer_list(text, quotes=True)
        score = 0.0 if predicted is None else set_f1(predicted, task.needles)
        texts = reasoning_text(episode.items), input_text(episode.request["input"])
        measured = await _measure(self.config.overlap_metric_rule, *texts)
        overlap = 1.0 if measured is None else measured
        reward = {"multiply": score * (1 - overlap), "minus": score - overlap, "base": score}[
            self.config.overlap_grading_rule
        ]
        return Verdict(reward, {"answer_score": score, "reasoning_overlap": overlap, "timed_out": measured is None})


async def _measure(metric: OverlapMetric, reasoning: str, given: str) -> float | None:
    """The overlap by one metric; None if it takes too long."""
    job = (metric, reasoning, given)
    if len(reasoning) * len(given) <= _SHORT:
        return measure_overlap(job)
    measured: float | None = await in_worker("gym_llm.envs.lc_niah.overlap:measure_overlap", job, DEADLINE)
    return measured


def reasoning_text(items: list[Item]) -> str:
    """The summaries of all reasoning items, joined with nothing; of one without, its content."""
    return "".join(
        text
        for item in items
        if item.get("type") == "reasoning"
        for text in _texts(item.get("summary")) or _texts(item.get("content"))
    )


def input_text(items: list[Item]) -> str:
    r"""The texts of all messages of a request, joined with "\n"."""
    return "\n".join(text for item in items if "content" in item for text in _texts(item["content"]))


def _texts(parts: Any) -> list[str]:
    if isinstance(parts, str):
        return [parts]
    parts = parts if isinstance(parts, list) else []
    return [text for part in parts if isinstance(part, dict) and isinstance(text := part.get("text"), str)]
