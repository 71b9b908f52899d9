"""GraphWalks: a set of a graph's nodes, scored by F1 (NeMo Gym's `graphwalks`)."""

from __future__ import annotations

from functools import cached_property

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.answer_lists import ExpectedList, expected_list, final_answer_list
from gym_llm.grading.quotations import meant_words
from gym_llm.grading.text_metrics import set_f1


class GraphWalks(NemoCompatible):
    """Answer with a set of nodes, `Final Answer: [a, b]` in the last line; the reward is its F1 with the expected set.

    Details: `f1` (the reward), `parse_failed`, `predicted_nodes`. Source of the rule: OpenAI's GraphWalks,
    https://huggingface.co/datasets/openai/graphwalks.

    Args:
        lenient: Whether quotes around nodes are ignored, and `final answer` counts in any case and in Markdown.
        **kwargs: As for every `NemoCompatible`.

    Raises:
        ValueError: If an argument is invalid.
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

    class Config(NemoCompatible.Config):
        """The reading of the last line."""

        lenient: bool = False

    config: Config

    def oracle(self, task: Task) -> str:
        """Return the line with the expected nodes."""
        return f"Final Answer: [{', '.join(expected_list(task.expected_answer))}]"

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the set in the last line with the expected one."""
        text = episode.text if self.conform else meant_words(episode.text, episode)
        predicted = final_answer_list(text, lenient=self.config.lenient)
        f1 = 0.0 if predicted is None else set_f1(predicted, task.nodes)
        return Verdict(f1, {"f1": f1, "parse_failed": predicted is None, "predicted_nodes": predicted or []})
