"""Rubrics: several criteria, each judged alone, and how their scores become one reward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from gym_llm.judge.judged_env import FAILS, JudgedEnv
from gym_llm.judge.verdicts import Parser
from gym_llm.types import Item

Aggregation: TypeAlias = Literal["mean", "min", "max", "all", "any", "weighted", "points"]
PASSED = 0.99
"""A score that counts as passed."""


def aggregate(scores: Sequence[float], weights: Sequence[float], mode: Aggregation) -> float:
    """Combine the scores of a rubric's items into one reward; 0.0 without any.

    `weighted` is the mean by weight. `points` follows HealthBench: earned points, minus those of negative items,
    over all that can be earned, between 0 and 1.

    >>> aggregate([1.0, 0.0, 1.0], [2.0, 1.0, 1.0], "weighted"), aggregate([1.0, 1.0], [4.0, -1.0], "points")
    (0.75, 0.75)
    """
    if not scores:
        return 0.0
    if mode == "mean":
        return sum(scores) / len(scores)
    if mode in ("min", "max"):
        return min(scores) if mode == "min" else max(scores)
    if mode in ("all", "any"):
        passed = [score >= PASSED for score in scores]
        return float(all(passed) if mode == "all" else any(passed))
    earned = sum(score * weight for score, weight in zip(scores, weights, strict=True))
    if mode == "weighted":
        return earned / sum(weights) if sum(weights) else 0.0
    most = sum(weight for weight in weights if weight > 0)
    return min(1.0, max(0.0, earned / most)) if most else 0.0


class RubricEnv(JudgedEnv):
    """A verifier whose judge is asked about each item of a rubric.

    Args:
        aggregation_mode: The way in which the items' scores become the reward; see `aggregate`.
        parallel_evaluation: Whether the items are judged at once; else one after another.
        **kwargs: See `JudgedEnv`.
    """

    reverify_mode = "stateless"

    class Config(JudgedEnv.Config):
        """The aggregation of the items' scores."""

        aggregation_mode: Aggregation = "mean"
        parallel_evaluation: bool = True

    config: Config

    async def judge_items(
        self, questions: Sequence[list[Item]], parse: Parser, unparsable: str
    ) -> list[dict[str, Any]]:
        """Ask about each item: the start of what is reported of it.

        Args:
            questions: The messages of each item's question.
            parse: Reads the verdict.
            unparsable: What one counts as that cannot be read, as NeMo Gym does it (`conform`); else the judge failed.
        """
        options: dict[str, Any] = {"unparsable": unparsable if self.conform else FAILS}
        if self.config.parallel_evaluation:
            judgements = await self.ask_each(questions, parse, **options)
        else:
            judgements = [await self.ask(question, parse, **options) for question in questions]
        return [
            {"judge_prompt": question[-1]["content"], "judge_response": judgement.text, "verdict": judgement.value}
            for question, judgement in zip(questions, judgements, strict=True)
        ]

    def report(self, answer: str, evaluations: list[dict[str, Any]]) -> tuple[float, dict[str, Any]]:
        """The reward of the evaluated items (`score`, perhaps `weight`), and what is reported of all."""
        scores = [evaluation["score"] for evaluation in evaluations]
        weights = [evaluation.get("weight", 1.0) for evaluation in evaluations]
        details = {
            "generated_response": answer,
            "rubric_evaluations": evaluations,
            "aggregation_mode": self.config.aggregation_mode,
            "num_passed": sum(score >= PASSED for score in scores),
            "num_total": len(scores),
        }
        return aggregate(scores, weights, self.config.aggregation_mode), details
