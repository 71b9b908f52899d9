"""FukuyamaBench: mechanisms of organic reactions, step by step (NeMo Gym's `fukuyamabench`)."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.concurrency.processes import shared_pool
from gym_llm.core.compat import NemoCompatible
from gym_llm.core.env_config import Seconds
from gym_llm.envs.fukuyamabench.pathways import Question, pathway_in
from gym_llm.errors import DataError, DeadlinePassed, WorkerDied
from gym_llm.grading.extraction import with_valid_escapes
from gym_llm.grading.molecules import check_rdkit
from gym_llm.grading.quotations import meant_words

_MOST_READ = 200_000  # characters of an answer, from its end


class Step(BaseModel):
    """A step of the expected mechanism, with the SMILES of its products."""

    model_config = ConfigDict(extra="allow", frozen=True)

    products: list[str] = []


class VerifierMetadata(BaseModel):
    """The expected mechanism, and the steps that an answer must pass, by number."""

    model_config = ConfigDict(extra="allow", frozen=True)

    gt_pathway: list[Step] = Field(min_length=1)
    checkpoints: list[list[int]] = Field(min_length=1)
    lenient: bool = True
    case_id: str | None = None
    case_set: str | None = None

    @model_validator(mode="after")
    def _is_gradable(self) -> VerifierMetadata:
        check_rdkit("FukuyamaBench")
        if not all(self.products()):
            raise ValueError(f"each of checkpoints must have a step from 1 to {len(self.gt_pathway)}")
        return self

    def products(self) -> list[list[list[str]]]:
        """Return the products of each checkpoint's steps; numbers of steps that do not exist are left out."""
        steps = {number: step.products for number, step in enumerate(self.gt_pathway, 1)}
        return [[steps[number] for number in numbers if number in steps] for numbers in self.checkpoints]


class FukuyamaBench(NemoCompatible):
    """Predict the mechanism of a reaction; 1.0 if the predicted steps pass all checkpoints in order.

    Details: `status`, `case_id`, `case_set`, `checkpoints_correct`, `checkpoints_total`, `checkpoint_accuracy`,
    `any_checkpoint_correct`, `pred_length`, `gt_steps`, `checkpoint_matches`.

    Args:
        deadline: Seconds of CPU time for an answer's molecules, in a worker process; past them it is worth 0.0.
        conform: `"nemo"` counts a step that names only small products, too, and reads reasoning, as NeMo Gym does.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        DependencyNotInstalled: If rdkit is not installed.
    """

    reverify_mode = "stateless"
    metrics = {"checkpoint_accuracy": Metric()}

    class Task(BaseTask):
        """The expected mechanism."""

        verifier_metadata: VerifierMetadata

    class Config(NemoCompatible.Config):
        """Arguments of the class."""

        deadline: Seconds = 20.0

    config: Config

    def oracle(self, task: Task) -> str:
        """Return the expected mechanism."""
        steps = [{"step_id": number, "product_smiles": ".".join(step.products)} for number, step in _steps(task)]
        return f"## Result\n```json\n{json.dumps(steps)}\n```"

    def near_misses(self, task: Task) -> list[str]:
        """Return the expected mechanism with another product in the step of the first checkpoint."""
        wrong = {number for number in task.verifier_metadata.checkpoints[0]}
        steps = [
            {"step_id": number, "products": [*step.products, *(["CCCCI"] if number in wrong else [])]}
            for number, step in _steps(task)
        ]
        return [json.dumps(steps)]

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Read the steps, and look for each checkpoint's products in them."""
        metadata, text = task.verifier_metadata, episode.messages_text
        details: dict[str, Any] = {"case_id": metadata.case_id, "case_set": metadata.case_set}
        read = text if self.conform else with_valid_escapes(meant_words(text, episode)[-_MOST_READ:])
        steps = pathway_in(read[-_MOST_READ:])
        if steps is None:
            return Verdict(0.0, {**details, "status": "no_pathway" if text else "empty_output"})
        checkpoints = metadata.products()
        subsets = ("any" if self.conform else "main") if metadata.lenient else "none"
        pool = shared_pool("gym_llm.envs.fukuyamabench.pathways:matches_in_worker", deadline=self.config.deadline)
        try:
            matches = await pool.call(Question(steps, checkpoints, subsets))
        except (DeadlinePassed, WorkerDied):
            return Verdict(0.0, {**details, "status": "too_slow"})
        if matches is None:
            raise DataError("gt_pathway must have a product that rdkit can read for each checkpoint.")
        correct = sum(match is not None for match in matches)
        details |= {
            "status": "scored",
            "checkpoints_correct": correct,
            "checkpoints_total": len(checkpoints),
            "checkpoint_accuracy": correct / len(checkpoints),
            "any_checkpoint_correct": correct > 0,
            "checkpoint_matches": matches,
            "pred_length": len(steps),
            "gt_steps": len(metadata.gt_pathway),
        }
        return Verdict(float(correct == len(checkpoints)), details)


def _steps(task: FukuyamaBench.Task) -> enumerate[Step]:
    return enumerate(task.verifier_metadata.gt_pathway, 1)
