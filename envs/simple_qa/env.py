"""SimpleQA: short factual questions, graded by a judge (NeMo Gym's `simpleqa`)."""

from __future__ import annotations

from gym_llm import Episode, Metric, Verdict
from gym_llm.judge.letters import LetterGraded
from gym_llm.tokens.parsers.thinking import without_cut_thought


class SimpleQA(LetterGraded):
    """Answer a question; the reward is 1.0 if a judge finds the answer correct. Details: `verdict` and the like.

    Args as for every `JudgedEnv`: `judge` has to be given.
    """

    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": "constant:A"}
    judge_params = {"temperature": 0.0, "top_p": 1.0, "max_output_tokens": 2048}
    verdicts = {"A": "correct", "B": "incorrect", "C": "not_attempted"}
    words = {"CORRECT": "A", "INCORRECT": "B", "NOT_ATTEMPTED": "C", "NOT ATTEMPTED": "C"}
    fallback = "C"
    first_characters = True
    metrics = {
        "is_correct": Metric("rate"),
        "is_incorrect": Metric("rate", higher_is_better=False),
        "is_not_attempted": Metric("rate", higher_is_better=None),
    }

    class Task(LetterGraded.Task):
        """The question, if it is not the request's last message, and its answer."""

        expected_answer: str

    def oracle(self, task: Task) -> str:
        """Return the expected answer."""
        return task.expected_answer

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Ask the judge about the last message."""
        answer = episode.last_message if self.conform else without_cut_thought(episode.last_message)
        question = task.question_in(episode)
        verdict, text = await self.grade(
            {"question": question, "expected_answer": task.expected_answer, "generation": answer}
        )
        details = self.flags(verdict)
        shown = {"extracted_answer": answer, "verdict": verdict, "judge_output": text.strip()}
        return Verdict(details["is_correct"], {**shown, **details})
