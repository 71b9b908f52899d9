"""IMOProofBenchJudge: solutions of olympiad problems, graded out of 7 (NeMo Gym's `imo_proofbench_judge`)."""

from __future__ import annotations

import re
from typing import Any

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.concurrency.processes import shared_pool
from gym_llm.errors import DeadlinePassed, WorkerDied
from gym_llm.grading.answers import last_boxed, strip_delimiters
from gym_llm.grading.extraction import last_brace_box
from gym_llm.judge import FAILS, JudgedEnv, last_label, points, yes_no_line
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import known

PASS_THRESHOLD = 6
_GRADE = "gym_llm.envs.math_verify.grading:grade"
_NEMO_EQUAL = "gym_llm.envs.imo_proofbench_judge.nemo_gym:math_equal"
_BOXED = ("\\boxed{Correct}", "\\boxed{Incorrect}")
_JUDGEMENT = re.compile(r"Judgement\*{0,2}\s{0,99}:", re.IGNORECASE)
_BOXED_WORD = re.compile(r"\\boxed\s{0,99}\{\s{0,99}(Correct|Incorrect)\s{0,99}\}", re.IGNORECASE)
_POINTS = re.compile(r"<points>\s{0,99}(\d{1,99})\s{0,99}out of 7\s{0,99}</points>", re.IGNORECASE)


class IMOProofBenchJudge(JudgedEnv):
    r"""Solve an olympiad problem; 1.0 if the `\boxed{}` equals the expected answer, or a judge gives it 6 or 7 points.

    Details: `extracted_answer`, `judge_output`, `judge_points` (where the judge gave some), `judge_correct`,
    `symbolic_correct`, `any_correct`, `no_judge_score`.
    """

    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": "constant:<points>7 out of 7</points>"}
    metrics = {name: Metric() for name in ("any_correct", "symbolic_correct", "judge_correct", "judge_points")}

    class Task(BaseTask):
        """The problem, its solution, the rubric, and the expected answer unless a proof is asked for."""

        problem: str = ""
        reference_solution: str = ""
        rubric: str = ""
        expected_answer: str | None = None
        category: str | None = None
        level: str | None = None

    def oracle(self, task: Task) -> str | None:
        """Return the expected answer, or the reference solution, in a box; None without both."""
        answer = (task.expected_answer or "").strip() or task.reference_solution
        return f"\\boxed{{{answer}}}" if answer else None

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the boxed answer, then ask the judge about it."""
        conform = self.conform is not None
        said = strip_thinking(episode.last_message, conform=conform)
        answer = last_brace_box(said, "\\boxed") if conform else last_boxed(said)
        details: dict[str, Any] = {
            "extracted_answer": answer or "",
            "judge_output": "Reasoning: No answer was provided.\nJudgement: No",
            "judge_correct": 0.0,
            "symbolic_correct": 0.0,
            "any_correct": 0.0,
            "no_judge_score": 0.0,
        }
        if not answer:
            return Verdict(0.0, details)
        if await self._equal(task.expected_answer or "", answer):
            said = "Reasoning: The two answers are identical.\nJudgement: Yes"
            ones = {"judge_correct": 1.0, "symbolic_correct": 1.0, "any_correct": 1.0}
            return Verdict(1.0, {**details, **ones, "judge_output": said})
        values = {
            "problem": task.problem,
            "reference_solution": task.reference_solution,
            "rubric": task.rubric,
            "predicted_answer": answer,
        }
        parse = read_grade_as_nemo_gym if self.conform else read_grade
        unparsable = {"correct": None, "points": None} if self.conform else FAILS
        judgement = await self.ask(values, parse, unparsable=unparsable)
        correct = float(bool(judgement.value["correct"]))
        details |= {"judge_output": judgement.text, **known(judge_points=judgement.value["points"])}
        details |= {"judge_correct": correct, "any_correct": correct}
        details["no_judge_score"] = float(judgement.value["correct"] is None)
        return Verdict(correct, details)

    async def _equal(self, expected: str, answer: str) -> bool:
        gold = strip_delimiters(expected)
        try:
            if self.conform:
                return bool(await shared_pool(_NEMO_EQUAL, deadline=10.0).call((expected, answer)))
            if not gold or _plain(expected) == _plain(answer):
                return bool(gold)
            return bool((await shared_pool(_GRADE, deadline=10.0).call((gold, f"\\boxed{{{answer}}}")))[0])
        except (DeadlinePassed, WorkerDied, RuntimeError):
            return False  # the expected "answer" of a proof need not be mathematics


def read_grade(text: str) -> dict[str, Any] | None:
    r"""Return the points and whether they suffice, else the judgement in words; None if both are missing.

    >>> read_grade("Judgement: Yes, I thought, but <points>1 out of 7</points>")
    {'correct': False, 'points': 1}
    """
    number = points(7)(text)
    if number is not None:
        return {"correct": number >= PASS_THRESHOLD, "points": int(number)}
    correct = None if "<points" in text.lower() else _in_words(text)
    return None if correct is None else {"correct": correct, "points": None}


def read_grade_as_nemo_gym(text: str) -> dict[str, Any] | None:
    r"""Return the same as NeMo Gym does: words go before points, and the first of each counts.

    >>> read_grade_as_nemo_gym("**Judgement**: Yes, I thought, but <points>1 out of 7</points>")
    {'correct': True, 'points': 1}
    """
    match = _POINTS.search(text)
    number = int(match[1]) if match else None
    correct: bool | None = None
    if match := _JUDGEMENT.search(text):
        word = text[match.end() :].strip().lstrip("*").strip()[:3].lower()
        correct = True if word == "yes" else False if word.startswith("no") else None
    if correct is None and (match := _BOXED_WORD.search(text)):
        correct = match[1].lower() == "correct"
    if correct is None and number is not None:
        correct = number >= PASS_THRESHOLD
    return None if correct is None else {"correct": correct, "points": number}


def _in_words(text: str) -> bool | None:
    line: bool | None = yes_no_line("Judgement:")(text)
    mark = last_label(text, _BOXED, ignore_case=True)
    boxed = None if mark is None else mark == _BOXED[0]
    if line is None or boxed is None:
        return boxed if line is None else line
    return line if line == boxed else None


def _plain(answer: str) -> str:
    return "".join(answer.split()).rstrip(".\\")
