"""AALCR: questions about long documents, judged against the official answer (NeMo Gym's `aalcr`)."""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias

from pydantic import model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.errors import DataError
from gym_llm.judge import FAILS, JudgedEnv, json_field, last_label
from gym_llm.tokens.parsers.thinking import without_cut_thought

Protocol: TypeAlias = Literal["legacy_v1_0", "official_v1_1"]

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
        judge_protocol: `"official_v1_1"` asks for `{"verdict": …}`, with version 1.1's rules, `"legacy_v1_0"` for a
            word; None does what the row's `aa_lcr_judge_protocol` says. Rows of the other protocol are refused.
        judge_responses_create_params_overrides: Fields that replace those of `judge_responses_create_params`.
        **kwargs: As for every `JudgedEnv`.
    """

    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": 'constant:{"verdict": "CORRECT"}'}
    metrics = {f"reward_{name}": Metric() for name in BANDS.values()}

    class Task(BaseTask):
        """The question, the official answer, and the length of the documents."""

        question: str
        answer: str
        input_tokens_band: Literal["<80k", "80k-100k", "100k-110k", "110k-128k", "128k+"]
        aa_lcr_judge_protocol: Protocol = "legacy_v1_0"

    class Config(JudgedEnv.Config):
        """The protocol, and overrides for the judge's requests."""

        judge_protocol: Protocol | None = None
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
        protocol = task.aa_lcr_judge_protocol
        if self.config.judge_protocol not in (None, protocol):
            raise DataError(f"judge_protocol must be the row's, {protocol}, got {self.config.judge_protocol}.")
        answer, reward = (episode.text if self.conform else without_cut_thought(episode.text)).strip(), 0.0
        details: dict[str, Any] = {"invalid_model_response": not answer}
        if answer:
            values = {"question": task.question, "official_answer": task.answer, "candidate_answer": answer}
            if protocol == "official_v1_1":
                parse, unparsable, prompt = (_object if self.conform else _verdict), FAILS, "judge_v1_1"
            else:
                parse, unparsable, prompt = _exactly if self.conform else _last, "" if self.conform else FAILS, "judge"
            judgement = await self.ask(values, parse, prompt=prompt, unparsable=unparsable, empty_fails=True)
            details["invalid_judge_response"] = judgement.value == ""
            reward = float(judgement.value == "CORRECT")
        details[f"reward_{BANDS[task.input_tokens_band]}"] = reward
        return Verdict(reward, details)


_verdict = json_field("verdict", ["CORRECT", "INCORRECT"], ignore_case=True)


def _last(text: str) -> str | None:
    return last_label(text, ("CORRECT", "INCORRECT"), ignore_case=True)


def _exactly(text: str) -> str | None:
    return text.strip() if text.strip() in ("CORRECT", "INCORRECT") else None


def _object(text: str) -> str | None:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return said["verdict"] if said in ({"verdict": "CORRECT"}, {"verdict": "INCORRECT"}) else None
