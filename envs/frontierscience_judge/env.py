"""FrontierScienceJudge: questions of science, judged right or wrong or by a rubric (`frontierscience_judge`)."""

from __future__ import annotations

from typing import Any, Literal

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.env_config import Reward
from gym_llm.judge import FAILS, JudgedEnv, number_over, yes_no_line
from gym_llm.tokens.parsers.thinking import strip_thinking


class FrontierScienceJudge(JudgedEnv):
    """Answer a science question; 1.0 if the judge finds the answer right, or a rubric gives it enough points.

    Details: `extracted_answer`, `verdict` (`YES`, `NO`, None), `judge_output`, `rubric_score`,
    `rubric_score_normalized`, `invalid_judge_response`.

    Args:
        judge_mode: `"olympiad"` asks for right or wrong, `"research"` for points by the row's rubric.
        rubric_pass_score_threshold: The number of points that is enough.
        rubric_max_score: The maximum number of points.
        **kwargs: As for every `JudgedEnv`.

    Raises:
        ValueError: If an argument is invalid.
    """

    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": "constant:Judgement: YES"}
    metrics = {"rubric_score": Metric()}

    class Task(BaseTask):
        """The question, the expected answer, and an optional rubric."""

        question: str
        expected_answer: str
        rubric: str | None = None

    class Config(JudgedEnv.Config):
        """The form of the judgement, and the rubric's points."""

        judge_mode: Literal["olympiad", "research"] = "olympiad"
        rubric_pass_score_threshold: Reward = 7.0
        rubric_max_score: Reward = 10.0

    config: Config

    def oracle(self, task: Task) -> str:
        """Return the expected answer."""
        return task.expected_answer

    def _parse(self, text: str) -> dict[str, Any] | None:
        conform, config = self.conform is not None, self.config
        verdict = yes_no_line("Judgement:", conform=conform)(text)
        score = number_over(config.rubric_max_score, conform=conform)(text) if config.judge_mode == "research" else None
        if (verdict if config.judge_mode == "olympiad" else score) is None and (verdict is None or not conform):
            return None
        return {"verdict": None if verdict is None else "YES" if verdict else "NO", "score": score}

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Ask the judge about the last message, without its thinking."""
        answer = strip_thinking(episode.last_message, unclosed=True, conform=self.conform is not None)
        details: dict[str, Any] = {"extracted_answer": answer or None, "verdict": None, "judge_output": None}
        if not answer and not self.conform:
            return Verdict(0.0, {**details, "invalid_judge_response": False})
        values = {
            "question": task.question,
            "expected_answer": task.expected_answer,
            "rubric": task.rubric or task.expected_answer,
            "generation": answer,
        }
        prompt = "judge" if "judge" in self._prompts else self.config.judge_mode
        unparsable = {"verdict": None, "score": None} if self.conform else FAILS
        judgement = await self.ask(values, self._parse, prompt=prompt, unparsable=unparsable)
        verdict, score = judgement.value["verdict"], judgement.value["score"]
        said = judgement.text.strip() if self.conform else strip_thinking(judgement.text)
        details |= {"verdict": verdict, "judge_output": said}
        details["invalid_judge_response"] = self.config.judge_mode == "research" and score is None
        if score is not None:
            passed = score >= self.config.rubric_pass_score_threshold
            details["verdict"] = verdict or ("YES" if passed else "NO")
            share = min(1.0, max(0.0, score / self.config.rubric_max_score))
            details |= {"rubric_score": score, "rubric_score_normalized": share}
            return Verdict(float(passed), details)
        return Verdict(float(verdict == "YES"), details)
