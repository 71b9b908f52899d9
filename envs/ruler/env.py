"""Ruler: things to be found in a long context, each named in the answer (NeMo Gym's `ruler`)."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, get_args

from pydantic import field_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.quotations import meant_words
from gym_llm.grading.text_metrics import Phrase

Subset = Literal[
    "cwe",
    "fwe",
    "niah_multikey_1",
    "niah_multikey_2",
    "niah_multikey_3",
    "niah_multiquery",
    "niah_multivalue",
    "niah_single_1",
    "niah_single_2",
    "niah_single_3",
    "qa_1",
    "qa_2",
    "vt",
]


class Ruler(NemoCompatible):
    """Name what the context hides; the reward is the share of the references named, in `qa_1` and `qa_2` 1.0 for any.

    Detail: the reward under the subset's name. Source of the rule: RULER, https://github.com/NVIDIA/RULER.

    Args:
        conform: `"nemo"` finds a reference also within a longer word or number, as NeMo Gym does: "12" in "2012".
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If `conform` is something else.
    """

    metrics = {subset: Metric() for subset in get_args(Subset)}
    reverify_mode = "stateless"
    accepted_findings = dict.fromkeys(
        ("near miss", "all options"),
        "the benchmark's own rule: the share of the answers that are said, whatever else is",
    )

    class Task(BaseTask):
        """The references, and which of RULER's tasks it is."""

        outputs: list[str]
        subset: Subset
        length: int | None = None

        @field_validator("outputs")
        @classmethod
        def _some(cls, outputs: list[str]) -> list[str]:
            if not outputs or not all(outputs):
                raise ValueError(
                    "there is nothing to be found: `outputs` names at least one reference, none of them empty"
                )
            return outputs

        @cached_property
        def phrases(self) -> list[Phrase]:
            """The texts to find."""
            return [Phrase.read(reference.lower()) for reference in self.outputs]

    def oracle(self, task: Task) -> str:
        """Return every reference."""
        return ", ".join(task.outputs)

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Look for each reference in all that the model said."""
        said = (episode.text if self.conform else meant_words(episode.text, episode)).strip().lower()
        found = [phrase.text in said if self.conform else phrase.stands_in(said) for phrase in task.phrases]
        reward = float(any(found)) if task.subset in ("qa_1", "qa_2") else sum(found) / len(found)
        return Verdict(reward, {task.subset: reward})
