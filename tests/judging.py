"""Episodes of verifiers that ask a judge, who says what the test gives."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from testing import message


def judged(env_id: str, task: dict[str, Any], answer: str, *texts: str, **kwargs: Any) -> tuple[float, dict[str, Any]]:
    """(reward, info) of an episode in which the model says `answer`, and the judge these texts, and no more.

    Args:
        env_id: The verifier.
        task: The row's fields beside the request.
        answer: All that the model says.
        *texts: What the judge says, call by call. None: nobody may be asked.
        **kwargs: Arguments of the environment.
    """
    judge = {"judge": {"engine": "replay:", "kwargs": {"answers": list(texts)}}}
    env = gym.make(env_id, **{**judge, "judge_retries": 0, **kwargs})
    try:
        env.reset(options={"task": {"responses_create_params": {"input": "Well?"}, **task}})
        _, reward, terminated, _, info = env.step(message(answer))
        assert terminated and len(info.get("judge_evaluations") or ()) == len(texts)
        return float(reward), info
    finally:
        env.close()
