"""MolDeTox: make a toxic molecule harmless with a small change (NeMo Gym's `moldetox`)."""

from __future__ import annotations

import json
import re
from collections import Counter
from statistics import fmean
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.concurrency.processes import shared_pool
from gym_llm.core.compat import NemoCompatible
from gym_llm.core.env_config import Seconds
from gym_llm.envs.moldetox.molecules import Pair
from gym_llm.errors import DataError, DeadlinePassed, WorkerDied
from gym_llm.grading.extraction import with_valid_escapes
from gym_llm.grading.molecules import MOST_CHARACTERS, check_rdkit
from gym_llm.grading.quotations import meant_words
from gym_llm.grading.text_metrics import edit_distance, set_f1

MOST_READ = 100_000
"""Characters of an answer that are read, from its end."""
_FENCE = re.compile(r"```(?:json)?\s{0,99}(.*?)```", re.DOTALL)
_OBJECT = re.compile(r"\{[^{}]*\}")


class VerifierMetadata(BaseModel):
    """The expected answer, and how answers are compared with it."""

    model_config = ConfigDict(frozen=True, extra="allow")

    scoring_mode: Literal["smiles", "safe", "fragments_task1", "fragments_task2"] = Field(
        "smiles", validate_default=True
    )
    answer: str = Field(min_length=1)
    endpoint: Any = None
    dataset_name: Any = None
    toxic_smiles: str | None = None

    @field_validator("scoring_mode")
    @classmethod
    def _is_gradable(cls, mode: str) -> str:
        if mode in ("smiles", "safe"):
            check_rdkit("MolDeTox")
        return mode


class MolDeTox(NemoCompatible):
    """Name the harmful fragments, their replacements, or the harmless molecule; 1.0 if it is the expected one.

    Details: `status`, `extracted_answer`, `endpoint`, `dataset_name`. Molecules have `validity`, `levenshtein`,
    `tanimoto_rdk`, `tanimoto_maccs`, `tanimoto_morgan`, and fragments `fragment_f1`, `n_fragments_predicted`.

    Args:
        deadline: Seconds of CPU time for an answer's molecule, in a worker process; past them it is worth 0.0.
        conform: `"nemo"` reads answers as NeMo Gym does; the README lists the differences.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        DependencyNotInstalled: If a row's answer is a molecule, and rdkit is not installed.
    """

    reverify_mode = "stateless"
    metrics = {"validity": Metric("rate"), "fragment_f1": Metric(), "tanimoto_morgan": Metric(higher_is_better=None)}

    class Task(BaseTask):
        """The expected answer."""

        verifier_metadata: VerifierMetadata

    class Config(NemoCompatible.Config):
        """Arguments of the class."""

        deadline: Seconds = 20.0

    config: Config

    def oracle(self, task: Task) -> str:
        """Return the expected answer."""
        return json.dumps({"answer": task.verifier_metadata.answer})

    def near_misses(self, task: Task) -> list[str]:
        """Return the toxic molecule, and the expected answer with a fragment more."""
        metadata = task.verifier_metadata
        return [json.dumps({"answer": text}) for text in (metadata.toxic_smiles, f"{metadata.answer}.C") if text]

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Read the answer, and compare it."""
        metadata, text = task.verifier_metadata, episode.messages_text
        answer = answer_in(text if self.conform else with_valid_escapes(meant_words(text, episode)[-MOST_READ:]))
        scores: dict[str, float] = {}
        status = "scored"
        if answer is None:
            status = "no_answer" if text else "empty_output"
        elif len(answer) > MOST_CHARACTERS:
            status = "answer_too_long"
        elif metadata.scoring_mode.startswith("fragments"):
            scores = fragment_scores(answer, metadata.answer, with_distance=metadata.scoring_mode == "fragments_task2")
        else:
            scores = await self._molecule_scores(answer, metadata)
        details = {
            "status": status,
            "extracted_answer": answer,
            "endpoint": metadata.endpoint,
            "dataset_name": metadata.dataset_name,
            **{name: score for name, score in scores.items() if name != "exact_match"},
        }
        return Verdict(scores.get("exact_match", 0.0), details)

    async def _molecule_scores(self, answer: str, metadata: VerifierMetadata) -> dict[str, float]:
        if not self.conform and len(answer.split()) > 1:  # rdkit reads `CCO or CCN` as ethanol with a name
            answer = ""
        pool = shared_pool("gym_llm.envs.moldetox.molecules:scores_in_worker", deadline=self.config.deadline)
        try:
            scores: dict[str, float] | None = await pool.call(Pair(metadata.scoring_mode, answer, metadata.answer))
        except (DeadlinePassed, WorkerDied):
            return {"exact_match": 0.0, "validity": 0.0}
        if scores is None:
            raise DataError(f"verifier_metadata.answer must be a molecule, got {metadata.answer[:60]!r}")
        return scores


def answer_in(text: str) -> str | None:
    """Return the answer of the last JSON object that has one; None without one.

    >>> answer_in('First {"answer": "CCN"}, but then {"answer": " CCO "}.')
    'CCO'
    """
    text = text[-MOST_READ:]
    blocks = [(match.start(), match[1]) for match in _FENCE.finditer(text)]
    blocks += [(match.start(), match[0]) for match in _OBJECT.finditer(text)]
    for block in (text, *(block for _, block in sorted(blocks, key=lambda block: -block[0]))):
        try:
            members = json.loads(block)
        except (ValueError, RecursionError):
            continue
        answer = members.get("answer") if isinstance(members, dict) else None
        if isinstance(answer, str) and answer.strip():
            return answer.strip()
    return None


def fragment_scores(answer: str, expected: str, *, with_distance: bool) -> dict[str, float]:
    """Return the scores of fragments, which are compared as texts in any order.

    >>> fragment_scores("C6.N7", "N7.O5", with_distance=True)["levenshtein"]
    1.0
    """
    fragments, wanted = (list(filter(None, map(str.strip, text.split(".")))) for text in (answer, expected))
    scores = {
        "exact_match": float(bool(wanted) and Counter(fragments) == Counter(wanted)),
        "fragment_f1": set_f1(fragments, wanted) if wanted else 0.0,
        "n_fragments_predicted": float(len(fragments)),
    }
    if with_distance and fragments and wanted:
        scores["levenshtein"] = fmean(min(edit_distance(one, other) for other in wanted) for one in fragments)
    return scores
