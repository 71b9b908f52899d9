"""Shared parts of judges of proofs: limits of texts, and the fields of their requests."""

from __future__ import annotations

from functools import partial
from typing import Any

from gym_llm.judge.judge import Params
from gym_llm.judge.judged_env import FAILS, JudgedEnv
from gym_llm.judge.number_verdicts import boxed_score
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import Row

MAX_PROOF_CHARS = 40_000
MAX_ANALYSIS_CHARS = 20_000


class ProofEnv(JudgedEnv):
    r"""A verifier of proofs whose judge ends with a score of 0, 0.5 or 1 in a `\boxed{}`.

    Args:
        temperature: The temperature of the judge's requests.
        top_p: Their `top_p`.
        max_tokens: The most tokens that the judge may write.
        assert_think_end: Whether an answer without `</think>` is worth nothing.
        **kwargs: See `JudgedEnv`; `judge_responses_create_params` goes over these.
    """

    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": "constant:\\boxed{1}"}

    class Config(JudgedEnv.Config):
        """The sampling of the judge, and the end of an answer's reasoning."""

        temperature: float = 0.6
        top_p: float = 0.95
        max_tokens: int = 100_000
        assert_think_end: bool = False

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        config = self.config
        params = {"temperature": config.temperature, "top_p": config.top_p, "max_output_tokens": config.max_tokens}
        self._params = Params.read(self.judge_params, params, config.judge_responses_create_params or {})

    def score_of(self, text: str, *, meant: bool = False) -> float | None:
        """The score that a text ends with; with `meant` None if it is denied, as a judge may do."""
        score: float | None = boxed_score(conform=self.conform is not None, meant=meant)(text)
        return score

    def after_thinking(self, text: str) -> str | None:
        """Return the text after all reasoning; None if reasoning is required and does not end."""
        if self.config.assert_think_end and "</think>" not in text:
            return None
        return text.rpartition("</think>")[2].strip() if self.conform else strip_thinking(text)

    async def judge_score(self, values: dict[str, Any], prompt: str = "judge") -> float:
        """The judge's score; as NeMo Gym does it, one that cannot be read is 0."""
        judgement = await self.ask(
            values, partial(self.score_of, meant=True), prompt=prompt, unparsable=0.0 if self.conform else FAILS
        )
        return float(judgement.value)
