"""LongMemEval: questions about earlier conversations, judged by rules for each type (NeMo Gym's `longmemeval`)."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.judge import FAILS, JudgedEnv, last_label, meant_match
from gym_llm.judge.verdicts import is_disputed, label_forms
from gym_llm.tokens.parsers.thinking import strip_thinking, without_spans

_CONTAINS = "It is right if it says what the gold answer says, or leads to it; a part of it alone is not enough."
RULES = {
    "single-session-user": _CONTAINS,
    "single-session-assistant": _CONTAINS,
    "multi-session": _CONTAINS,
    "temporal-reasoning": f"{_CONTAINS} A count of days, weeks or months that is off by one is right, too.",
    "knowledge-update": f"{_CONTAINS} It may say what held earlier, as long as it gives the latest as what holds now.",
    "single-session-preference": (
        "It is right if it uses what the user likes and has said, as the gold describes; it need not meet every point."
    ),
}
ABSTENTION = (
    "The question cannot be answered from the conversations. The reply is right if it says so, or says what is missing."
)
EMPTY = "empty_judge_output"
"""The error of a judge that says nothing; only with `conform` that is a no."""
_FIRST_WORD = re.compile(r"\A\W{0,20}(yes|no)\b", re.IGNORECASE)


class Metadata(BaseModel):
    """The question, its type, and the gold answer."""

    question_id: str
    question_type: Literal[
        "single-session-user",
        "single-session-assistant",
        "multi-session",
        "temporal-reasoning",
        "knowledge-update",
        "single-session-preference",
    ]
    question: str
    answer: str | int | float
    abstention: bool | None = None


class LongMemEval(JudgedEnv):
    """Answer from what was said long ago; 1.0 if the judge says yes by the rule for the question's type.

    Details: `question_id`, `question_type`, `abstention`, `judge_label`, `judge_raw`, `judge_error`,
    `judge_error_detail`, `empty_response`, `generation` (its first 500 characters).
    """

    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": "constant:yes"}
    judge_params = {"temperature": 0.0, "max_output_tokens": 64}

    class Task(BaseTask):
        """See `verifier_metadata`."""

        verifier_metadata: Metadata

    def oracle(self, task: Task) -> str:
        """Return the gold answer."""
        return str(task.verifier_metadata.answer)

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Ask the judge by the rule for the question's type."""
        about = task.verifier_metadata
        abstains = about.abstention
        if abstains is None or self.conform:
            abstains = bool(abstains) or "_abs" in about.question_id
        said = strip_thinking(episode.text, unclosed=False).partition("<think>")[0].strip()
        reply = nemo_strip(episode.text) if self.conform else said
        details = {
            "question_id": about.question_id,
            "question_type": about.question_type,
            "abstention": abstains,
            "judge_label": False,
            "judge_raw": "",
            "judge_error": None,
            "judge_error_detail": "",
            "empty_response": not reply,
            "generation": reply[:500],
        }
        if not reply:
            return Verdict(0.0, details)
        is_preference = about.question_type == "single-session-preference"
        values = {
            "rule": ABSTENTION if abstains else RULES[about.question_type],
            "gold_name": "explanation" if abstains else "rubric" if is_preference else "gold answer",
            "question": about.question,
            "answer": about.answer,
            "response": reply,
        }
        parse = _yes_anywhere if self.conform else yes_or_no
        judgement = await self.ask(values, parse, unparsable=FAILS)
        said = nemo_strip(judgement.text) if self.conform else judgement.text
        details |= {"judge_label": judgement.value, "judge_raw": said, "judge_error": None if said else EMPTY}
        return Verdict(float(judgement.value), details)


def yes_or_no(text: str) -> bool | None:
    """The first word, if it is yes or no; else the last such word.

    >>> yes_or_no("No, yesterday."), yes_or_no("I would say yes."), yes_or_no("yesterday")
    (False, True, None)
    """
    if _FIRST_WORD.match(text):
        first = meant_match(_FIRST_WORD, text)  # None for "No idea"
        if first is None or is_disputed(label_forms(("yes", "no"), True), first[1].lower(), text, first.end()):
            return None
        return first[1].lower() == "yes"
    word = last_label(text, ("yes", "no"), ignore_case=True)
    return None if word is None else word.lower() == "yes"


def nemo_strip(text: str) -> str:
    """Return the text without its thinking by NeMo Gym's rule, which knows only `<think>`.

    >>> nemo_strip("No. <think>or"), nemo_strip("or</think>No."), nemo_strip("<think>a</think>No.</think>")
    ('No.', 'No.', 'No.</think>')
    """
    opening, closing = "<think>", "</think>"
    if closing not in text:
        return text.partition(opening)[0].strip()
    without = without_spans(text, opening, closing)
    return (text.partition(closing)[2] if without == text else without).strip()


def _yes_anywhere(text: str) -> bool:
    return "yes" in nemo_strip(text).lower()
