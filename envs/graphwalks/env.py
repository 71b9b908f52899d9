"""GraphWalks: a set of a graph's nodes, scored by F1 (NeMo Gym's `graphwalks`)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from gym_llm import BaseTask, Episode, Metric, Verdict, VerifierEnv
from gym_llm.grading.answer_lists import ExpectedList, expected_list, final_answer_list
from gym_llm.grading.text_metrics import set_f1
from gym_llm.types import Row


class GraphWalks(VerifierEnv):
    """Answer with a set of nodes, `Final Answer: [a, b]` in the last line; the reward is its F1 with the expected set.

    Details: `f1` (the reward), `parse_failed`, `predicted_nodes`. Source of the rule: OpenAI's GraphWalks,
    https://huggingface.co/datasets/openai/graphwalks.

    Args:
        lenient: Whether quotes around nodes are left out, and `final answer` counts in any case and in Markdown.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    metrics = {"parse_failed": Metric("rate", higher_is_better=False)}
    reverify_mode = "stateless"

    class Task(BaseTask):
        """The expected nodes, as a JSON list in a string."""

        expected_answer: ExpectedList
        problem_type: str = ""
        n_tokens: int | None = None
        prompt_chars: int | None = None

        @cached_property
        def nodes(self) -> frozenset[str]:
            """The expected nodes."""
            return frozenset(expected_list(self.expected_answer))

    def __init__(self, tasks: str | list[Row] | None = None, *, lenient: bool = False, **kwargs: Any) -> None:
        if not isinstance(lenient, bool):
            raise ValueError(f"lenient is true or false, got {lenient!r}.")
        super().__init__(tasks, **kwargs)
        self.lenient = lenient

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the set in the last line with the expected one."""
        predicted = final_answer_list(episode.text, lenient=self.lenient)
        f1 = 0.0 if predicted is None else set_f1(predicted, task.nodes)
        return Verdict(f1, {"f1": f1, "parse_failed": predicted is None, "predicted_nodes": predicted or []})
