"""Omniscience: what a model knows, and whether it makes up the rest (NeMo Gym's `omniscience`)."""

from __future__ import annotations

from gym_llm import Episode, Metric, Verdict
from gym_llm.judge.letters import LetterGraded
from gym_llm.tokens.parsers.thinking import strip_thinking


class Omniscience(LetterGraded):
    """Answer a question; the reward is 1.0 if a judge finds the answer correct.

    Args as for every `JudgedEnv`: `judge` has to be given.
    """

    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": "constant:A"}
    judge_params = {"temperature": 0.0, "top_p": 1.0, "max_output_tokens": 2048}
    verdicts = {"A": "correct", "B": "incorrect", "C": "partial", "D": "not_attempted"}
    words = {
        **{"CORRECT": "A", "INCORRECT": "B", "PARTIAL_ANSWER": "C", "PARTIAL ANSWER": "C"},
        **{"NOT_ATTEMPTED": "D", "NOT ATTEMPTED": "D"},
    }
    metrics = {
        "is_correct": Metric("rate"),
        "is_partial": Metric("rate", higher_is_better=None),
        "is_not_attempted": Metric("rate", higher_is_better=None),
        "is_hallucination": Metric("rate", higher_is_better=False),
        "omniscience_index": Metric("mean"),
    }

    class Task(LetterGraded.Task):
        """The question, if it is not the request's last message, its answer, and what it is about."""

        expected_answer: str
        domain: str | None = None
        topic: str | None = None

    def oracle(self, task: Task) -> str:
        """Return the expected answer."""
        return task.expected_answer

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Ask the judge about what the last message says after its thinking."""
        said = episode.last_message
        answer = strip_thinking(said, unclosed=True, conform=self.conform is not None)
        if self.conform and episode.last_response.get("status") == "incomplete" and "</think" not in said:
            answer = ""  # as if each model wrote its thinking into its answers
        question = task.question_in(episode)
        verdict, text = await self.grade(
            {"question": question, "expected_answer": task.expected_answer, "generation": answer}
        )
        details = self.flags(verdict)
        index = details["is_correct"] - details["is_incorrect"]
        shown = {"extracted_answer": answer, "verdict": verdict, "judge_output": text.strip()}
        rest = {"omniscience_index": index, "is_hallucination": details["is_incorrect"]}
        return Verdict(details["is_correct"], {**shown, **details, **rest})
