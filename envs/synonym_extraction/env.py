"""SynonymExtraction: several tool calls, each needing the ones before (NeMo Gym's `example_multi_step`)."""

from __future__ import annotations

import json

import numpy as np
from pydantic import StrictInt

from gym_llm import BaseTask, Episode, Verdict, tool
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.call_matching import parse_arguments
from gym_llm.types import Item


class SynonymExtraction(NemoCompatible):
    """Look up the values of a word's synonyms and hand them in, in order; all or nothing.

    Args:
        conform: `"nemo"` reads the values in the last call as Python's `json` does, and compares them as Python does.
        **kwargs: As for every `VerifierEnv`.
    """

    class Task(BaseTask):
        """The values to hand in, and the value of the query's own word, which is not one of them."""

        expected_synonyms: list[str] = []
        expected_synonym_values: list[int]
        minefield_label: str = ""
        minefield_label_value: int | None = None

    def setup(self, task: Task) -> list[int]:
        """The values handed in so far: none."""
        return []

    @tool
    def get_synonym_value(self, synonym: str) -> dict[str, int]:
        """Get the value of a synonym.

        Args:
            synonym: The word to look up.
        """
        codes = np.frombuffer(synonym.encode("utf-32-le", "surrogatepass"), "<u4")
        return {"synonym_value": int(codes.sum(dtype=np.uint64))}

    @tool
    def extract_synonym_values(self, state: list[int], synonym_values: list[StrictInt]) -> dict[str, bool]:
        """Hand in the values found.

        Args:
            synonym_values: The values, in the order of the available synonyms.
        """
        state[:] = synonym_values
        return {"success": True}

    def oracle(self, task: Task) -> list[Item]:
        """A call that hands in the values."""
        arguments = json.dumps({"synonym_values": task.expected_synonym_values})
        return [
            {"type": "function_call", "call_id": "call_1", "name": "extract_synonym_values", "arguments": arguments}
        ]

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare what the last `extract_synonym_values` call handed in with the expected values."""
        expected, actual = task.expected_synonym_values, self._handed_in(episode) if self.conform else episode.state
        overlap = len(set(expected) & set(actual)) / len(set(expected)) if expected else 1.0
        details = {
            "extracted_synonym_values": actual,
            "set_overlap": overlap,
            "minefield_hit": task.minefield_label_value in actual,
            "order_failure": actual != expected and sorted(actual) == sorted(expected),
        }
        return Verdict(float(actual == expected), details)

    @staticmethod
    def _handed_in(episode: Episode) -> list[float]:
        calls = list(episode.function_calls("extract_synonym_values"))
        arguments = parse_arguments(calls[-1]["arguments"], as_python=True) if calls else None
        values = arguments.get("synonym_values") if isinstance(arguments, dict) else None
        if isinstance(values, list) and all(isinstance(value, int | float) for value in values):
            return values
        return []
