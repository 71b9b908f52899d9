"""Abstention: say that you do not know rather than guess (NeMo Gym's `abstention`)."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from gym_llm import Episode, Metric, Verdict
from gym_llm.core.env_config import Reward
from gym_llm.grading.answer_lines import last_answer_line
from gym_llm.grading.answers import last_boxed
from gym_llm.grading.extraction import last_brace_box
from gym_llm.grading.markup import without_fonts
from gym_llm.judge.letters import LetterGraded
from gym_llm.tokens.parsers.thinking import strip_thinking

_ARTICLE = re.compile(r"\b(?:an?|the)\b")
_NO_WORD = re.compile(r"[^\w\s]")


def _with_a_word(token: str) -> str:
    if not _normalized(token):
        raise ValueError("the token needs a letter or a digit")
    return token


class Abstention(LetterGraded):
    r"""Answer in a `\boxed{…}`, or write `\boxed{[IDK]}`; a judge grades every other answer.

    Details: `verdict`, `judge_output`, `omniscience_index` and more, see the README.

    Args:
        correct_reward: The reward of a correct answer.
        incorrect_reward: The reward of a wrong answer.
        abstention_reward: The reward of an abstention.
        abstention_token: The answer that abstains without a judge. Case, articles and punctuation do not matter.
        **kwargs: As for every `JudgedEnv`; `judge` is required.
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

    class Config(LetterGraded.Config):
        """The rewards and the token."""

        correct_reward: Reward = 1.0
        incorrect_reward: Reward = 0.0
        abstention_reward: Reward = 0.5
        abstention_token: Annotated[str, AfterValidator(_with_a_word)] = "[IDK]"

    config: Config

    def oracle(self, task: Task) -> str:
        """Return the expected answer in a box."""
        return f"\\boxed{{{task.answer}}}"

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Look for the token in the last box; ask the judge about any other answer."""
        said = strip_thinking(episode.last_message, conform=self.conform is not None)
        boxed = last_brace_box(said) if self.conform else last_boxed(said)
        answer = said if boxed is None else boxed
        text = None
        given = answer if self.conform else without_fonts(last_answer_line(said) or said if boxed is None else boxed)
        # A much longer text cannot be another spelling of the token.
        if len(given) < 1_000 and _normalized(given) == _normalized(self.config.abstention_token):
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
        rewards = {
            "correct": self.config.correct_reward,
            "incorrect": self.config.incorrect_reward,
            "abstain": self.config.abstention_reward,
        }
        return Verdict(rewards[verdict], {**shown, **details, **rest})


def _normalized(text: str) -> str:
    return " ".join(_NO_WORD.sub("", _ARTICLE.sub(" ", text.lower())).split())
