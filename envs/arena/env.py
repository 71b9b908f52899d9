"""Arena: chats of LMArena, compared with another model's answer by a judge (NeMo Gym's `arena`)."""

from __future__ import annotations

import re
from typing import Any, Literal

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.env_config import Count
from gym_llm.errors import DataError
from gym_llm.judge import FAILS, JudgedEnv, meant_match
from gym_llm.tokens.parsers.thinking import strip_thinking, without_spans

_MARK = re.compile(r"\[\[(A>>?B|A=B|B>>?A|BB)\]\]")
_OPENING = re.compile(r"<think(?:ing)?>")
SCORES = {"A>>B": 1.0, "A>B": 1.0, "A=B": 0.5, "BB": 0.5, "B>A": 0.0, "B>>A": 0.0}
"""The score of A; `BB` means that both answers are bad."""


class Arena(JudgedEnv):
    """Answer better than a baseline does; the reward is the mean score of both orders, where a tie counts 0.5.

    Details: `verdict_gen_base` (the answer is A), `verdict_base_gen` (it is B), `judgement_gen_base`,
    `judgement_base_gen`, `win`, `tie`, `both_bad`, `max_token_reached`.

    Args:
        verdict_weight: How often a strong verdict counts (`A>>B`, `B>>A`): 1 in lmarena_v3, 3 in lmarena_v2.
        style_control_method: `reference_length` (lmarena_v3): an answer that was cut off is worth 0.0, and one by the
            baseline's own model masks the episode. `bradley_terry` (lmarena_v2): both are judged.
        policy_model_aliases: Further names of the model that plays.
        **kwargs: As for every `JudgedEnv`.
    """

    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": "constant:[[A=B]]"}
    judge_params = {"temperature": 0.0, "max_output_tokens": 32768}
    metrics = {
        "win": Metric(),
        "tie": Metric(higher_is_better=None),
        "both_bad": Metric("rate", higher_is_better=False),
        "max_token_reached": Metric("rate", higher_is_better=False),
    }

    class Task(BaseTask):
        """The conversation as the judge sees it, the baseline's answer and its model."""

        question: str
        baseline_answer: str
        baseline_model: str | None = None
        category: str | None = None
        self_comparison: bool = False

    class Config(JudgedEnv.Config):
        """The rules of the two versions."""

        verdict_weight: Count = 1
        style_control_method: Literal["reference_length", "bradley_terry"] = "reference_length"
        policy_model_aliases: list[str] = []

    config: Config

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Ask the judge in both orders."""
        by_length = self.config.style_control_method == "reference_length"
        if task.self_comparison or (by_length and self._is_baseline(task, episode)):
            if self.conform is None:
                raise DataError("baseline_answer must be by another model than the one that plays.")
            return Verdict(0.0, {"self_comparison": True})
        text = episode.text
        answer = without_thinking(text) if self.conform else strip_thinking(text)
        details = (episode.last_response or {}).get("incomplete_details") or {}
        cut_off = isinstance(details, dict) and details.get("reason") == "max_output_tokens"
        if not answer or (by_length and cut_off):
            return Verdict(0.0, {"max_token_reached": cut_off, "win": 0.0, "tie": 0.0})
        shown = {"question": task.question, "answer_a": answer, "answer_b": task.baseline_answer}
        exchanged = {**shown, "answer_a": task.baseline_answer, "answer_b": answer}
        parse, unparsable = (last_mark_as_nemo_gym, "") if self.conform else (last_mark, FAILS)
        first, second = await self.ask_each([shown, exchanged], parse, unparsable=unparsable)
        won, lost = SCORES.get(first.value, 0.0), SCORES.get(second.value, 1.0)
        games = [(first.value, won), (second.value, 1.0 - lost)]
        scores = [score for mark, score in games for _ in range(self.config.verdict_weight if ">>" in mark else 1)]
        reward = sum(scores) / len(scores)
        return Verdict(
            reward,
            {
                "verdict_gen_base": first.value,
                "verdict_base_gen": second.value,
                "judgement_gen_base": first.text,
                "judgement_base_gen": second.text,
                "win": float(reward > 0.5),
                "tie": float(reward == 0.5),
                "both_bad": first.value == second.value == "BB",
                "max_token_reached": cut_off,
            },
        )

    def _is_baseline(self, task: Task, episode: Episode) -> bool:
        models = [(episode.last_response or {}).get("model"), *self.config.policy_model_aliases]
        return bool(task.baseline_model) and _name(task.baseline_model) in map(_name, filter(None, models))


def last_mark(text: str) -> str | None:
    """Return the last verdict in double brackets.

    >>> last_mark("Is it [[A>B]]? No: [[BB]]")
    'BB'
    """
    mark = meant_match(_MARK, text)
    return mark[1] if mark else None


def last_mark_as_nemo_gym(text: str) -> str | None:
    """Return the last verdict that is in the text, denied or not."""
    marks = _MARK.findall(text)
    return marks[-1] if marks else None


def without_thinking(text: str) -> str:
    """Remove closed thinking, and all from an opening tag that is left, as NeMo Gym does.

    >>> without_thinking("<think>a</think>b</think>c<thinking>d")
    'b</think>c'
    """
    for tag in ("think", "thinking"):
        text = without_spans(text, f"<{tag}>", f"</{tag}>")
    opening = _OPENING.search(text)
    return (text[: opening.start()] if opening else text).strip()


def _name(model: Any) -> str:
    return str(model).strip().casefold().rstrip("/")
