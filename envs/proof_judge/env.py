"""ProofJudge: proofs that come with a judgement of themselves, scored by a judge (NeMo Gym's `proof_judge`)."""

from __future__ import annotations

import asyncio
from typing import Any

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.env_config import Reward
from gym_llm.judge.proofs import MAX_ANALYSIS_CHARS, MAX_PROOF_CHARS, ProofEnv

SOLUTION_HEADER = "## Solution"
SELF_EVAL_HEADER = "## Self Evaluation"


class ProofJudge(ProofEnv):
    r"""Prove a statement and judge the proof: `alpha` times the judge's score, and `beta` for an honest judgement.

    The answer has the headings `## Solution` and `## Self Evaluation`; under the second it ends with `\boxed{}` around
    0, 0.5 or 1. Details:

    - `r_y`: the judge's score of the proof;
    - `s_prime`: the model's own score;
    - `r_meta`: the judge's score of the model's judgement, if `beta` is not 0;
    - `reason`: why the answer could not be judged, or None.

    Args:
        alpha: Weight of the proof's score.
        beta: Weight of the model's judgement: how near its score is to the judge's, times its quality.
        **kwargs: As for every `ProofEnv`.
    """

    metrics = {"r_y": Metric(), "s_prime": Metric(higher_is_better=None), "r_meta": Metric()}

    class Task(BaseTask):
        """The statement."""

        problem: str

    class Config(ProofEnv.Config):
        """Arguments of the class."""

        alpha: Reward = 1.0
        beta: Reward = 0.0

    config: Config

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Read the two parts, and ask the judge about each that counts."""
        parts, reason = self._parts(episode.text)
        if parts is None:
            return Verdict(0.0, {"reason": reason})
        proof, analysis, own = parts
        values = {"problem": task.problem, "proof": proof, "analysis": analysis}
        details: dict[str, Any] = {"reason": None, "s_prime": own}
        if self.config.beta == 0:
            score = await self.judge_score(values)
            return Verdict(self.config.alpha * score, {**details, "r_y": score})
        score, quality = await asyncio.gather(self.judge_score(values), self.judge_score(values, "meta"))
        reward = self.config.alpha * score + self.config.beta * (1.0 - abs(own - score)) * quality
        return Verdict(reward, {**details, "r_y": score, "r_meta": quality})

    def _parts(self, text: str) -> tuple[tuple[str, str, float] | None, str | None]:
        """Proof, own judgement and its score; or why there are none."""
        if not text:
            return None, "empty_response"
        answer = self.after_thinking(text)
        if answer is None:
            return None, "missing_think_end"
        _, header, rest = answer.partition(SOLUTION_HEADER)
        if not header:
            return None, "missing_solution_header"
        proof, header, analysis = (part.strip() for part in rest.partition(SELF_EVAL_HEADER))
        if not header:
            return None, "missing_self_eval_header"
        own = self.score_of(analysis)
        if own is None:
            return None, "invalid_boxed_score"
        if len(proof) > MAX_PROOF_CHARS:
            return None, "proof_too_long"
        if len(analysis) > MAX_ANALYSIS_CHARS:
            return None, "self_verification_too_long"
        return (proof, analysis, own), None
