"""SpartQA: which object a question of space means (NeMo Gym's `spartqa`)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pydantic import model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.envs.spartqa.grading import Label, choose, extract_answer, label_key, labels_of, without_thoughts
from gym_llm.grading.quotations import meant_words

_SHOWN = 200  # characters of the answer that the details repeat


class SpartQA(NemoCompatible):
    """Choose one of two objects, both or none; the reward is 1.0 for the right choice.

    Details: `exact` (the target itself was written), `parsed`, `extracted`, `predicted_label`.

    Args:
        conform: `"nemo"` takes "not the cup" for the cup, and finds no choice below a line of `**Final answer:**`.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If `conform` is something else.
    """

    metrics = {"exact": Metric("rate"), "parsed": Metric("rate")}
    reverify_mode = "stateless"
    accepted_findings = dict.fromkeys(
        ("near miss", "all options", "non-answer/None"),
        "NeMo Gym's rule: the label that the answer is most like is the choice",
    )

    class Task(BaseTask):
        """The right label and the two objects, here or in `verifier_metadata`."""

        target: str = ""
        options: list[str] = []
        verifier_metadata: dict[str, Any] | None = None

        @model_validator(mode="before")
        @classmethod
        def _from_metadata(cls, fields: Any) -> Any:
            metadata = fields.get("verifier_metadata") if isinstance(fields, dict) else None
            if isinstance(metadata, dict):
                fields = fields | {
                    name: metadata[name]
                    for name in ("target", "options")
                    if not fields.get(name) and metadata.get(name)
                }
            return fields

        @model_validator(mode="after")
        def _has_target(self) -> SpartQA.Task:
            if not self.key:
                raise ValueError("there is no target, neither as a field nor in verifier_metadata")
            return self

        @cached_property
        def key(self) -> str:
            """The target as labels are compared."""
            return label_key(self.target)

        @cached_property
        def labels(self) -> list[Label]:
            """The choices."""
            return labels_of(self.options or [self.target])

    def oracle(self, task: Task) -> str:
        """Return the target on the line where the answer is looked for."""
        return f"Final answer: {task.target}"

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the choice in all that the model said with the target."""
        nemo = self.conform == "nemo"
        said = without_thoughts(episode.text)
        answer = extract_answer(said if nemo else meant_words(said, episode), nemo=nemo)
        label = choose(answer, task.labels, nemo=nemo)
        correct = label is not None and label.key == task.key
        details = {
            "exact": correct and label_key(answer) == task.key,
            "parsed": bool(label_key(answer)),
            "extracted": answer[:_SHOWN],
            "predicted_label": label.text if label else "",
        }
        return Verdict(float(correct), details)
