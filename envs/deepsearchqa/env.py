"""DeepSearchQA: questions for a search on the web, with one answer or a set (NeMo Gym's `deepsearchqa`)."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, TypedDict

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.judge import FAILS, JudgedEnv, json_field
from gym_llm.tokens.parsers.thinking import strip_thinking

_FENCED = re.compile(r"```(?:json)?\s{0,99}(?=\{)")
_KEY = "Answer Correctness"
_field = json_field(_KEY)


class Grading(TypedDict):
    """The judge's decision: the expected answers, each with whether it was given, and the answers beside them."""

    found: dict[str, bool]
    excessive: list[str]


_NOTHING: Grading = {"found": {}, "excessive": []}


class DeepSearchQA(JudgedEnv):
    """Answer a question with all that belongs to the answer and nothing else; the reward is the F1 of the answers.

    A judge lists which of the expected answers were given, and which others. Details: `precision`, `recall`, `f1`,
    `fully_correct`, `fully_incorrect`, `correct_with_extraneous`, `judge_output`.
    """

    reverify_mode = "stateless"
    dry_run_kwargs = {
        "judge": 'constant:{"Answer Correctness": {"Correctness Details": {"it": true}, "Excessive Answers": []}}'
    }
    judge_params = {"temperature": 0.0, "top_p": 1.0, "max_output_tokens": 32768}
    metrics = {
        "precision": Metric(),
        "recall": Metric(),
        "fully_correct": Metric("rate"),
        "fully_incorrect": Metric("rate", higher_is_better=False),
        "correct_with_extraneous": Metric("rate", higher_is_better=False),
    }

    class Task(BaseTask):
        """The question, its answer or answers, and of which of the two kinds it is."""

        problem: str
        answer: str
        answer_type: Literal["Single Answer", "Set Answer"]
        example_id: str | None = None
        problem_category: str | None = None

    def oracle(self, task: Task) -> str:
        """Return the expected answers."""
        return task.answer

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Ask the judge which of the expected answers the response has, and which others."""
        response = episode.messages_text
        response = response if self.conform else strip_thinking(response)
        if not response and not self.conform:
            return _verdict(_NOTHING)
        values = {"problem": task.problem, "answer_type": task.answer_type, "answer": task.answer}
        parse, unparsable = (read_as_nemo_gym, "") if self.conform else (read_grading, FAILS)
        judgement = await self.ask({**values, "response": response}, parse, unparsable=unparsable)
        return _verdict(judgement.value or _NOTHING)


def read_grading(text: str) -> Grading | None:
    """Return the grading in the last JSON object that has one; None without one that is whole.

    >>> read_grading('{"Answer Correctness": {"Correctness Details": {"Oslo": true}, "Excessive Answers": []}}')
    {'found': {'Oslo': True}, 'excessive': []}
    >>> read_grading('{"Answer Correctness": {"Correctness Details": {"Oslo": "yes"}}}') is None
    True
    """
    return _grading(_field(text))


def read_as_nemo_gym(text: str) -> Grading | None:
    """Return the grading in the last fenced object, or in a text that is one object, as NeMo Gym does."""
    start = max((match.end() for match in _FENCED.finditer(text)), default=-1)
    end = text.find("```", start) if start >= 0 else -1
    try:
        members = json.loads(text[start:end] if end >= 0 else text)
        return _grading(members[_KEY])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _grading(members: Any) -> Grading | None:
    if not isinstance(members, dict):
        return None
    found, excessive = members.get("Correctness Details"), members.get("Excessive Answers", [])
    if not isinstance(found, dict) or not found or not all(isinstance(value, bool) for value in found.values()):
        return None
    if not isinstance(excessive, list) or not all(isinstance(answer, str) for answer in excessive):
        return None
    return {"found": found, "excessive": excessive}


def _verdict(grading: Grading) -> Verdict:
    found, expected, excessive = sum(grading["found"].values()), len(grading["found"]), len(grading["excessive"])
    precision, recall = (found / (found + excessive), found / expected) if found else (0.0, 0.0)
    f1 = 2 * precision * recall / (precision + recall) if found else 0.0
    details = {
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "fully_correct": float(0 < expected == found and not excessive),
        "fully_incorrect": float(not found),
        "correct_with_extraneous": float(0 < expected == found and excessive > 0),
        "judge_output": grading,
    }
    return Verdict(f1, details)
