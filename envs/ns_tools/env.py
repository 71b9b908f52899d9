r"""NSTools: mathematics with a stateful Python tool, graded by another verifier (NeMo Gym's `ns_tools`)."""

from __future__ import annotations

from typing import Any, Literal

from gym_llm import Episode, Verdict
from gym_llm.envs.math_with_judge.env import MathWithJudge
from gym_llm.sandbox.python_tool import PythonTool


class NSTools(PythonTool, MathWithJudge):
    r"""Answer a question of mathematics with the help of Python; the reward is that of `MathWithJudge`.

    Details: `num_tool_calls`, `tool_timeout_count`, and those of `MathWithJudge`.

    Args:
        tasks: See `VerifierEnv`.
        conform: `"nemo"` grades as NeMo Gym does (see `MathWithJudge`), and reports that as `delegated_response`.
        **kwargs: As for every `PythonTool`, and as for every `MathWithJudge`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    default_max_turns = 50
    default_preload = ("numpy", "scipy", "sympy")  # not pandas, whose pyarrow starts a thread
    accepted_findings = MathWithJudge.accepted_findings
    metrics = {**MathWithJudge.metrics, **PythonTool.metrics}

    class Task(MathWithJudge.Task):
        """MathWithJudge's, and who grades: another verifier is `class X(PythonTool, Other)`, a line of yours."""

        verifier_type: Literal["math_with_judge"] | None = None

    async def verify(self, task: Any, episode: Episode) -> Verdict:
        """Have `MathWithJudge` compare the answer."""
        verdict = await super().verify(task, episode)
        if self.conform:
            verdict.info["delegated_response"] = {"reward": verdict.reward, **verdict.info}
        verdict.info.update(self.tool_use(episode))
        return verdict
