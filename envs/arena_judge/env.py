"""ArenaJudge: answers compared with a baseline's by a judge (NeMo Gym's `arena_judge`, Arena-Hard)."""

from __future__ import annotations

import re
from typing import Literal

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.errors import JudgeError
from gym_llm.judge import JudgedEnv, meant_match
from gym_llm.tokens.parsers.thinking import strip_thinking

_VERDICT = re.compile(r"\[\[(A>>?B|A=B|B>>?A)\]\]")
_MARK = re.compile(r"\[\[([AB<>=]{1,9})\]\]")
VERDICTS = {"A>>B": 1.0, "A>B": 1.0, "A=B": 0.5, "B>A": 0.0, "B>>A": 0.0}  # the score of A


class ArenaJudge(JudgedEnv):
    """Answer a prompt better than a baseline does. The judge compares the two answers in both orders.

    Details: `verdict_gen_base` (the answer is A), `verdict_base_gen` (it is B), the judge's texts
    (`judgement_gen_base`, …), and whether they cannot be read (`invalid_gen_base`, …).

    Args:
        reward: `first`: 1.0 if the answer wins as A. `both`: the mean of the two orders, where a tie counts 0.5, so
            that a judge's preference for one position cancels out.
        **kwargs: As for every `JudgedEnv`.
    """

    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": "constant:[[A=B]]"}
    metrics = {"win": Metric(), "tie": Metric(higher_is_better=None)}

    class Task(BaseTask):
        """The prompt, the baseline's answer, and the kind of prompt."""

        question: str
        baseline_answer: str
        category: str = "hard_prompt"

    class Config(JudgedEnv.Config):
        """The verdicts that make the reward."""

        reward: Literal["first", "both"] = "first"

    config: Config

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Ask the judge in both orders."""
        first_only = self.config.reward == "first"
        answer = strip_thinking(episode.last_message, unclosed=self.conform is None).encode("utf-8", "ignore").decode()
        shown = {"question": task.question, "answer_a": answer, "answer_b": task.baseline_answer}
        exchanged = {**shown, "answer_a": task.baseline_answer, "answer_b": answer}
        of_category = "creative_writing" if task.category.startswith("creative_writing") else "hard_prompt"
        prompt = "judge" if "judge" in self._prompts else of_category
        parse = only_mark if self.conform else last_mark
        first, second = await self.ask_each([shown, exchanged], parse, prompt=prompt, unparsable=None)
        needed = [first] if first_only else [first, second]
        if not self.conform and any(judgement.value is None for judgement in needed):
            raise JudgeError("The judge's verdict cannot be read.", failure_kind="judge_unparseable")
        won, lost = VERDICTS.get(first.value, 0.0), VERDICTS.get(second.value, 1.0)
        details = {
            "judgement_gen_base": first.text,
            "judgement_base_gen": second.text,
            "verdict_gen_base": first.value,
            "verdict_base_gen": second.value,
            "invalid_gen_base": first.value is None,
            "invalid_base_gen": second.value is None,
            "win": float(won == 1.0),
            "tie": float(won == 0.5),
        }
        return Verdict(float(won == 1.0) if first_only else (won + 1.0 - lost) / 2, details)


def last_mark(text: str) -> str | None:
    """Return the last verdict in double brackets.

    >>> last_mark("Is it [[A>B]]? No: [[B>A]]"), only_mark("Is it [[A>B]]? No: [[B>A]]")
    ('B>A', None)
    """
    mark = meant_match(_VERDICT, text)
    return mark[1] if mark else None


def only_mark(text: str) -> str | None:
    """Return the verdict if the text has only one, as NeMo Gym does."""
    marks = set(_MARK.findall(text))
    return marks.pop() if len(marks) == 1 and marks <= VERDICTS.keys() else None
