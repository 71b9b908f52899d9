"""GenerativeRewardModel: a model learns to grade pairs of answers (NeMo Gym's `generative_reward_model`)."""

from __future__ import annotations

import json
import math
from statistics import fmean
from typing import Any

from pydantic import BaseModel, FiniteFloat, model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.core.env_config import Reward
from gym_llm.envs.generative_reward_model.gradings import NAMES, Grading, read_as_nemo_gym, read_grading
from gym_llm.tokens.parsers.thinking import strip_thinking

_MIDDLE = 3.5  # of a ranking: below it the first answer is the better one


class Grades(BaseModel):
    """People's grades of a pair of answers; those that are missing are not compared."""

    score_1: FiniteFloat | None = None
    score_2: FiniteFloat | None = None
    ranking: FiniteFloat | None = None


class RubricGrades(Grades):
    """The grades by one rubric."""

    rubric_id: int


class GenerativeRewardModel(NemoCompatible):
    """Grade two answers as people did; the reward is minus the distance, 0.0 at best.

    Details: `format_correct`, `predicted_score_1`, `predicted_score_2`, `predicted_ranking`, `overall_score_1_l1`,
    `overall_score_2_l1`, `overall_ranking_l1`, `rubric_score_l1`, `rubric_ranking_l1`, `overall_ranking_binary_acc`.

    Args:
        score_weight: Weight of a score's distance.
        ranking_weight: Weight of a ranking's distance.
        rubric_weight: Weight of the mean over the rubrics, beside the overall grades.
        parse_failure_penalty: The reward of an answer that is not one verdict in the right form.
        conform: `"nemo"` reads verdicts as NeMo Gym does; the README lists the differences.
        **kwargs: As for every `VerifierEnv`.
    """

    reverify_mode = "stateless"
    accepted_findings = {"range": "NeMo Gym's rule: minus the distance, and -100 for an answer that cannot be read"}
    metrics = {
        "format_correct": Metric("rate"),
        "overall_ranking_binary_acc": Metric("rate"),
        "overall_ranking_l1": Metric(higher_is_better=False),
        "rubric_ranking_l1": Metric(higher_is_better=False),
    }

    class Task(BaseTask):
        """The grades that people gave."""

        id: int | str | None = None
        ground_truth_overall: Grades | None = None
        ground_truth_rubric_scores: list[RubricGrades] | None = None

        @model_validator(mode="after")
        def _has_grades(self) -> GenerativeRewardModel.Task:
            grades = [*filter(None, [self.ground_truth_overall]), *(self.ground_truth_rubric_scores or [])]
            if not any(getattr(each, name) is not None for each in grades for name in NAMES):
                raise ValueError("ground_truth_overall or ground_truth_rubric_scores must have a score or a ranking")
            return self

    class Config(NemoCompatible.Config):
        """Weights of the distances."""

        score_weight: Reward = 1.0
        ranking_weight: Reward = 2.0
        rubric_weight: Reward = 0.5
        parse_failure_penalty: Reward = -100.0

    config: Config

    def oracle(self, task: Task) -> str:
        """Return people's grades, and the middle of the scale for missing ones."""
        rubrics = task.ground_truth_rubric_scores or [RubricGrades(rubric_id=1)]
        evaluations = [{"rubric_id": each.rubric_id, **_written(each)} for each in rubrics]
        overall = _written(task.ground_truth_overall or Grades())
        return json.dumps({"rubric_evaluations": evaluations, "overall": overall})

    def near_misses(self, task: Task) -> list[str]:
        """Return a wrong overall ranking, a rubric twice and the verdict twice."""
        right = json.loads(self.oracle(task))
        away = {**right["overall"], "ranking": right["overall"]["ranking"] + 1, "score_1": 0}
        twice = [*right["rubric_evaluations"], right["rubric_evaluations"][0]]
        wrong = [{**right, "overall": away}, {**right, "rubric_evaluations": twice}]
        return [*map(json.dumps, wrong[: 2 if task.ground_truth_overall else 0]), json.dumps(right) * 2]

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the grades with people's."""
        grading = read_as_nemo_gym(episode.text) if self.conform else read_grading(strip_thinking(episode.text))
        expected = {each.rubric_id: each for each in task.ground_truth_rubric_scores or []}
        if grading is not None and expected and sorted(name for name, _ in grading.rubrics) != sorted(expected):
            grading = None
        if grading is None:
            return Verdict(self.config.parse_failure_penalty, {"format_correct": 0.0})
        overall = _distances(task.ground_truth_overall or Grades(), grading.overall)
        rubrics = [
            found
            for name, grades in grading.rubrics
            if name in expected
            if (found := _distances(expected[name], grades))
        ]
        reward = -self._penalty(overall)
        if rubrics:
            reward -= self.config.rubric_weight * fmean(map(self._penalty, rubrics))
        if not math.isfinite(reward) or (not self.conform and reward < self.config.parse_failure_penalty):
            reward = self.config.parse_failure_penalty
        return Verdict(reward, {"format_correct": 1.0, **_details(task, grading, overall, rubrics)})

    def _penalty(self, distances: dict[str, float]) -> float:
        weights = {"ranking": self.config.ranking_weight}
        return sum(weights.get(name, self.config.score_weight) * distance for name, distance in distances.items())


def _written(grades: Grades) -> dict[str, float]:
    return {name: 3 if (grade := getattr(grades, name)) is None else grade for name in NAMES}


def _distances(expected: Grades, grades: tuple[float, ...]) -> dict[str, float]:
    pairs = zip(NAMES, grades, strict=True)
    return {name: abs(wanted - grade) for name, grade in pairs if (wanted := getattr(expected, name)) is not None}


def _details(
    task: GenerativeRewardModel.Task, grading: Grading, overall: dict[str, float], rubrics: list[dict[str, float]]
) -> dict[str, Any]:
    details: dict[str, Any] = {f"predicted_{name}": grade for name, grade in zip(NAMES, grading.overall, strict=True)}
    details |= {f"overall_{name}_l1": distance for name, distance in overall.items()}
    scores = [distance for each in rubrics for name, distance in each.items() if name != "ranking"]
    rankings = [each["ranking"] for each in rubrics if "ranking" in each]
    details |= {"rubric_score_l1": fmean(scores)} if scores else {}
    details |= {"rubric_ranking_l1": fmean(rankings)} if rankings else {}
    if task.ground_truth_overall and (wanted := task.ground_truth_overall.ranking) is not None:
        details["overall_ranking_binary_acc"] = float((wanted < _MIDDLE) == (grading.overall[2] < _MIDDLE))
    return details
