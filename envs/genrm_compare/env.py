"""GenRMCompare: the answers to one prompt, compared in pairs by a reward model (NeMo Gym's `genrm_compare`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import Any

from pydantic import Field, FiniteFloat

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.env_config import Count
from gym_llm.envs.genrm_compare.aggregation import (
    Comparison,
    Lengths,
    Strategy,
    Weights,
    base_scores,
    pairs,
    style_density,
    with_bonuses,
)
from gym_llm.grading.extraction import fences, json_values
from gym_llm.judge import JudgedEnv, json_object
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import Item

_LIMITS = {"score_1": (1.0, 5.0), "score_2": (1.0, 5.0), "ranking": (1.0, 6.0)}
_READ = json_object(tuple(_LIMITS))
_PRINCIPLE = (
    "Judge impartially which of the two responses serves the user better. First work out an answer of your own, and "
    "compare both with it. Look for mistakes. A good response is correct and does what was asked. It asks back where "
    "the request is unclear. It keeps to the matter, is not longer than needed, and leaves nothing important out."
)


class GenRMCompare(JudgedEnv):
    """Answer a prompt better than the other answers of the group. A generative reward model compares them in pairs.

    For each pair the model gives two scores, 1 to 5, and a ranking, 1 (the first is much better) to 6. A reward is the
    mean of an answer's scores; where two are equal, the ranking's distance from 3.5 decides.

    Args:
        comparison_strategy: `circular`: each answer with the next one. `all_pairs`: each with each.
        num_judges_per_comparison: How often each pair is judged.
        roles: Whether the judge is a GenRM, whose chat template has the roles `response_1`, `response_2` and
            `principle`. False asks any other model, with `prompts/judge.yaml` or `judge_prompt_fpath`.
        use_principle: Whether the judge is given a principle: the row's `principle`, or `default_principle`.
        default_principle: The principle of rows without one.
        reasoning_bonus: Added to the score of the shortest reasoning, if that is among the top.
        answer_bonus: The same for the shortest answer.
        top_percentile: The share of the group, by score, that is the top.
        group_reasoning_length_penalty_coeff: How much short reasoning is favoured within the group.
        group_answer_length_penalty_coeff: The same for answers.
        group_style_penalty_coeff: The same for plain text without headers, lists, bold and emojis.
        default_score: The score where the judge's text has no scores, and the reward of an answer without a group.
        default_ranking: The ranking where it has none.
        **kwargs: As for every `JudgedEnv`.
    """

    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": 'constant:{"score_1": 3, "score_2": 3, "ranking": 3}'}
    accepted_findings = dict.fromkeys(
        ("non-answer", "prompt echoed"),
        "an answer alone has the default score: only a group can tell it from a better one",
    )
    judge_params = {"temperature": 0.6, "top_p": 0.95, "max_output_tokens": 16384}
    metrics = {"tiebreak_usage_rate": Metric(higher_is_better=None), "unread": Metric(higher_is_better=False)}

    class Task(BaseTask):
        """The principle of the comparison, if the prompt has its own."""

        principle: str | None = None

    class Config(JudgedEnv.Config):
        """The comparisons, and the bonuses beside the scores."""

        comparison_strategy: Strategy = "circular"
        num_judges_per_comparison: Count = 1
        roles: bool = True
        use_principle: bool = False
        default_principle: str = _PRINCIPLE
        reasoning_bonus: FiniteFloat = Field(0.0, ge=0)
        answer_bonus: FiniteFloat = Field(0.0, ge=0)
        top_percentile: FiniteFloat = Field(0.2, ge=0, le=1)
        group_reasoning_length_penalty_coeff: FiniteFloat = Field(0.0, ge=0)
        group_answer_length_penalty_coeff: FiniteFloat = Field(0.0, ge=0)
        group_style_penalty_coeff: FiniteFloat = Field(0.0, ge=0)
        default_score: FiniteFloat = 3.0
        default_ranking: FiniteFloat = 3.5
        judge_retries: int = Field(3, ge=0)

    config: Config

    async def verify_group(self, task: Task, episodes: Sequence[Episode]) -> list[float | Verdict]:
        """Compare the answers; each comparison's calls are in the record of its first answer."""
        config, count = self.config, len(episodes)
        if count == 1:
            return [config.default_score]
        answers = [self._answer(episode) for episode in episodes]
        compared = [(*pair, judge) for judge in range(config.num_judges_per_comparison) for pair in self._pairs(count)]
        asked = [self._asked(task, episodes[0], answers[first], answers[second]) for first, second, _ in compared]
        values, calls = await self._judged(asked)
        default = (config.default_score, config.default_score, config.default_ranking)
        comparisons = [Comparison(*each, *(value or default)) for each, value in zip(compared, values, strict=True)]
        base = base_scores(comparisons, count, config.default_score)
        rewards = with_bonuses(base, [self._lengths(episode) for episode in episodes], self._weights())
        scores = [score for each in comparisons for score in (each.score_1, each.score_2)]
        about = {
            "mean_individual_score": fmean(scores),
            "std_individual_score": pstdev(scores),
            "tiebreak_usage_rate": sum(each.is_tie for each in comparisons) / len(comparisons),
            "unread": values.count(None),
        }
        verdicts: list[float | Verdict] = []
        for place in range(count):
            mine = [number for number, each in enumerate(comparisons) if each.first == place]
            details = {
                **about,
                "base_score": base[place],
                "bonus": rewards[place] - base[place],
                "comparisons": [each._asdict() for each in comparisons if place in each[:2]],
                "judge_evaluations": [call for number in mine for call in calls[number]],
            }
            verdicts.append(Verdict(rewards[place], details))
        return verdicts

    def _pairs(self, count: int) -> list[tuple[int, int]]:
        return pairs(self.config.comparison_strategy, count)

    def _weights(self) -> Weights:
        config = self.config
        return Weights(
            config.reasoning_bonus,
            config.answer_bonus,
            config.top_percentile,
            config.group_reasoning_length_penalty_coeff,
            config.group_answer_length_penalty_coeff,
            config.group_style_penalty_coeff,
        )

    async def _judged(
        self, asked: list[dict[str, Any] | list[Item]]
    ) -> tuple[list[tuple[float, float, float] | None], list[list[dict[str, Any]]]]:
        """Return what the judge says of each pair, None where it cannot be read, and the calls of each."""
        values: list[tuple[float, float, float] | None] = [None] * len(asked)
        calls: list[list[dict[str, Any]]] = [[] for _ in asked]
        for _ in range(self.config.judge_retries + 1 if self.conform else 1):  # `ask` retries but with `conform`
            unread = [number for number, value in enumerate(values) if value is None]
            start = len(self._calls)
            judgements = await self.ask_each([asked[number] for number in unread], self._parse, unparsable=None)
            for place, (number, judgement) in enumerate(zip(unread, judgements, strict=True)):
                values[number] = judgement.value
                calls[number] += self._calls[start + place]
            if None not in values:
                break
        return values, calls

    def _asked(self, task: Task, episode: Episode, first: str, second: str) -> dict[str, Any] | list[Item]:
        principle = (task.principle or self.config.default_principle) if self.config.use_principle else ""
        history = self._history(episode.request["input"])
        if self.config.roles and self.config.judge_prompt_fpath is None:
            own = [("principle", principle)] if principle else []
            answers = [*own, ("response_1", first), ("response_2", second)]
            return [*history, *({"role": role, "content": text} for role, text in answers)]
        conversation = "\n\n".join(f"{message['role']}: {message['content']}" for message in history)
        return {
            "conversation": conversation,
            "principle": principle or self.config.default_principle,
            "response_1": first,
            "response_2": second,
        }

    def _history(self, items: list[Item]) -> list[Item]:
        """Return the prompt's messages as texts. NeMo Gym drops the parts that a user has said."""
        messages = [item for item in items if item.get("type", "message") == "message" and "role" in item]
        kinds = ("output_text",) if self.conform else ("output_text", "input_text", "text")
        return [{"role": str(each["role"]), "content": _text(each.get("content"), kinds)} for each in messages]

    def _answer(self, episode: Episode) -> str:
        """Return the answer as the judge sees it."""
        text = episode.text if self.conform else strip_thinking(episode.text)
        text = text.encode("utf-8", "ignore").decode()
        return text if text.strip() else "None"

    def _lengths(self, episode: Episode) -> Lengths:
        answer = episode.text if self.conform else strip_thinking(episode.text)
        kinds = ("summary",) if self.conform else ("summary", "content")
        parts = [item.get(kind) or () for item in episode.items if item.get("type") == "reasoning" for kind in kinds]
        reasoning = "".join(map(_text, parts))
        return Lengths(len(reasoning.strip()), len(answer.strip()), style_density(answer, conform=bool(self.conform)))

    def _parse(self, text: str) -> tuple[float, float, float] | None:
        """Return the two scores and the ranking; to conform the first in a block of JSON, else the last in the text."""
        if not self.conform:
            value = _READ(text)
            return None if value is None else self._scores(value)
        for fence in fences(text):
            if fence.language == "json":
                for value in json_values(fence.body, dict):
                    if (scores := self._scores(value)) is not None:
                        return scores
        return next((each for each in map(self._scores, reversed(list(json_values(text, dict)))) if each), None)

    def _scores(self, value: dict[str, Any]) -> tuple[float, float, float] | None:
        if isinstance(value.get("overall"), dict):
            value = value["overall"]
        if value.keys().isdisjoint(_LIMITS):
            return None
        config, numbers = self.config, []
        defaults = (config.default_score, config.default_score, config.default_ranking)
        for (name, (least, most)), default in zip(_LIMITS.items(), defaults, strict=True):
            number = _number(value.get(name, default))
            if number is None or not (self.conform or name not in value or least <= number <= most):
                return None
            numbers.append(number)
        return numbers[0], numbers[1], numbers[2]


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str) or len(str(value)[:40]) == 40:
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _text(content: Any, kinds: Sequence[str] | None = None) -> str:
    """Return the texts of a content's parts, joined with nothing."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    said = [part for part in parts if isinstance(part, dict) and (kinds is None or part.get("type") in kinds)]
    return "".join(part["text"] for part in said if isinstance(part.get("text"), str))
