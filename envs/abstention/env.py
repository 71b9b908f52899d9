"""Abstention: say that you do not know rather than guess (NeMo Gym's `abstention`)."""

from __future__ import annotations

import math
import re
from typing import Any

from gym_llm import Episode, Metric, Verdict
from gym_llm.grading.answers import last_boxed
from gym_llm.judge.letters import LetterGraded
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import Row

_ARTICLE = re.compile(r"\b(?:an?|the)\b")
_NO_WORD = re.compile(r"[^\w\s]")


class Abstention(LetterGraded):
    r"""Answer in a `\boxed{…}`, or with `[IDK]` in it; a judge grades what is no such token. Details: `verdict`, ….

    Args:
        tasks: See `VerifierEnv`.
        correct_reward: The reward of a correct answer.
        incorrect_reward: The reward of a wrong one.
        abstention_reward: The reward of saying that one does not know.
        abstention_token: How that is said, without a judge; case, articles and punctuation do not matter.
        **kwargs: As for every `JudgedEnv`: `judge` has to be given.

    Raises:
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": "constant:A"}
    judge_thinks = True
    judge_params = {"temperature": 0.0, "max_output_tokens": 64}
    verdicts = {"A": "correct", "B": "incorrect", "C": "abstain"}
    words = {"CORRECT": "A", "INCORRECT": "B", "NOT_ATTEMPTED": "C", "NOT ATTEMPTED": "C"}
    metrics = {
        "is_correct": Metric("rate"),
        "is_abstain": Metric("rate", higher_is_better=None),
        "is_incorrect": Metric("rate", higher_is_better=False),
        "omniscience_index": Metric("mean"),
    }

    class Task(LetterGraded.Task):
        """The question, if it is not the request's last message, and its answer."""

        answer: str

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        correct_reward: float = 1.0,
        incorrect_reward: float = 0.0,
        abstention_reward: float = 0.5,
        abstention_token: str = "[IDK]",
        **kwargs: Any,
    ) -> None:
        self.rewards = {"correct": correct_reward, "incorrect": incorrect_reward, "abstain": abstention_reward}
        for verdict, reward in self.rewards.items():
            if not isinstance(reward, (int, float)) or not math.isfinite(reward):
                raise ValueError(f"The reward of an answer that is {verdict} is a finite number, got {reward!r}.")
        if not isinstance(abstention_token, str) or not _normalized(abstention_token):
            raise ValueError(f"abstention_token is a text with a word in it, got {abstention_token!r}.")
        super().__init__(tasks, **kwargs)
        self.abstention_token = abstention_token

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Look for the token in the last box, and ask the judge about anything else."""
        said = strip_thinking(episode.last_message, conform=self.conform is not None)
        boxed = last_boxed(said)
        answer = said if boxed is None else boxed
        text = None
        # A text much longer than the token can be no other spelling of it.
        if len(answer) < 1_000 and _normalized(answer) == _normalized(self.abstention_token):
            verdict = "abstain"
        else:
            question = task.question_in(episode)
            verdict, text = await self.grade({"question": question, "target": task.answer, "predicted_answer": answer})
        details = self.flags(verdict)
        shown = {"extracted_answer": answer, "ground_truth": task.answer, "verdict": verdict}
        rest = {
            "judge_output": None if text is None else text.strip(),
            "omniscience_index": details["is_correct"] - details["is_incorrect"],
        }
        return Verdict(float(self.rewards[verdict]), {**shown, **details, **rest})


def _normalized(text: str) -> str:
    """Lower case, without articles, punctuation and space of more than one."""
    return " ".join(_NO_WORD.sub("", _ARTICLE.sub(" ", text.lower())).split())
