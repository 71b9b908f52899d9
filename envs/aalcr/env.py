"""AALCR: questions about long documents, judged against the official answer (NeMo Gym's `aalcr`)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.judge import FAILS, JudgedEnv, last_label

BANDS = {
    "<80k": "lt_80k",
    "80k-100k": "80k_100k",
    "100k-110k": "100k_110k",
    "110k-128k": "110k_128k",
    "128k+": "128k_plus",
}
"""Bands of input tokens and the suffixes of their rewards' names."""


class AALCR(JudgedEnv):
    """Answer a question about long documents; 1.0 if the judge finds the answer consistent with the official one.

    Details: `invalid_model_response`, `invalid_judge_response`, and the reward again under the name of its band of
    input tokens, `reward_lt_80k` to `reward_128k_plus`.

    Args:
        judge_responses_create_params_overrides: Fields that replace those of `judge_responses_create_params`.
        **kwargs: As for every `JudgedEnv`.
    """

    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": "constant:CORRECT"}
    metrics = {f"reward_{name}": Metric() for name in BANDS.values()}

    class Task(BaseTask):
        """The question, the official answer, and the length of the documents."""

        question: str
        answer: str
        input_tokens_band: Literal["<80k", "80k-100k", "100k-110k", "110k-128k", "128k+"]

    class Config(JudgedEnv.Config):
        """Overrides for the judge's requests."""

        judge_responses_create_params_overrides: dict[str, Any] | None = None

        @model_validator(mode="after")
        def _merge_params(self) -> AALCR.Config:
            params, overrides = self.judge_responses_create_params, self.judge_responses_create_params_overrides
            self.judge_responses_create_params = {**(params or {}), **(overrides or {})}
            return self

    config: Config

    def oracle(self, task: Task) -> str:
        """Return the official answer."""
        return task.answer

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Ask the judge whether the answer agrees with the official one."""
        answer, reward = episode.text.strip(), 0.0
        details: dict[str, Any] = {"invalid_model_response": not answer}
        if answer:
            values = {"question": task.question, "official_answer": task.answer, "candidate_answer": answer}
            parse, unparsable = (_exactly, "") if self.conform else (_last, FAILS)
            judgement = await self.ask(values, parse, unparsable=unparsable, empty_fails=True)
            details["invalid_judge_response"] = judgement.value == ""
            reward = float(judgement.value == "CORRECT")
        details[f"reward_{BANDS[task.input_tokens_band]}"] = reward
        return Verdict(reward, details)


def _last(text: str) -> str | None:
    return last_label(text, ("CORRECT", "INCORRECT"), ignore_case=True)


def _exactly(text: str) -> str | None:
    return text.strip() if text.strip() in ("CORRECT", "INCORRECT") else None
