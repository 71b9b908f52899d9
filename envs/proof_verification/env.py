"""ProofVerification: judgements of proofs, near an expert's (NeMo Gym's `proof_verification`)."""

from __future__ import annotations

from pydantic import field_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.judge.proofs import MAX_ANALYSIS_CHARS, MAX_PROOF_CHARS, ProofEnv


class ProofVerification(ProofEnv):
    r"""Judge a proof; the reward is the nearness of the score to the expert's, times the quality of the judgement.

    The answer ends with `\boxed{}` around 0, 0.5 or 1. Details:

    - `predicted_score`: the model's score;
    - `r_score`: 1 minus the difference from the expert's score. If it is 0, the judge is not asked;
    - `r_meta`: the judge's score of the judgement;
    - `reason`: why the answer could not be judged, or None.
    """

    metrics = {"r_score": Metric(), "r_meta": Metric()}

    class Task(BaseTask):
        """The statement, the proof, and the expert's judgement with its score."""

        problem: str
        proof: str
        ground_truth_judgement: str
        ground_truth_verify_score: float

        @field_validator("ground_truth_verify_score")
        @classmethod
        def _is_a_score(cls, score: float) -> float:
            if score not in (0.0, 0.5, 1.0):
                raise ValueError(f"ground_truth_verify_score is 0, 0.5 or 1, got {score}")
            return score

    def oracle(self, task: Task) -> str:
        """Return the expert's judgement and score."""
        return f"{task.ground_truth_judgement}\n\\boxed{{{task.ground_truth_verify_score:g}}}"

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the scores, and ask the judge about the judgement."""
        text = episode.text
        answer = self.after_thinking(text) if text else None
        score = self.score_of(answer) if answer else None
        if answer is None or score is None:
            reason = (
                "empty_response" if not text else "invalid_boxed_score" if answer is not None else "missing_think_end"
            )
            return Verdict(0.0, {"reason": reason})
        if len(task.proof) > MAX_PROOF_CHARS:
            return Verdict(0.0, {"reason": "proof_too_long"})
        if len(answer) > MAX_ANALYSIS_CHARS:
            return Verdict(0.0, {"reason": "verification_too_long"})
        near = 1.0 - abs(score - float(task.ground_truth_verify_score))
        details = {"predicted_score": score, "r_score": near, "reason": None}
        if near == 0.0 and not self.conform:
            return Verdict(0.0, details)
        values = {
            "problem": task.problem,
            "proof": task.proof,
            "expert_judgement": task.ground_truth_judgement,
            "candidate_judgement": answer,
        }
        quality = await self.judge_score(values)
        return Verdict(near * quality, {**details, "r_meta": quality})
