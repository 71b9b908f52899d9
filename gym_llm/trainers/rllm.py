"""Our episodes for rLLM: its `Episode`, `Trajectory` and `Step`.

By the types of rllm/types.py at rllm-org/rllm 9beb6e0f (version 0.3.0.pre), which is on no package index. The steps of
a trajectory are turns; rLLM merges those whose prompts go on from each other, and begins another sequence elsewhere.
"""

from __future__ import annotations

from typing import Any

from rllm.engine.rollout.rollout_engine import ModelOutput
from rllm.types import Episode, Step, Trajectory
from rllm.workflows.workflow import TerminationReason

from gym_llm.trainers.shared.token_rows import token_rows
from gym_llm.types import Rollout


def episode(record: Rollout, name: str = "gym_llm") -> Episode:
    """A record as rLLM has an episode: one trajectory, a step for each turn, in all segments.

    A masked episode has no trajectory, so that rLLM puts it into no group, and its termination reason is `ERROR`. One
    of which nothing was sampled has none either.

    Args:
        record: The episode's record.
        name: The trajectory's. rLLM compares the trajectories of a task that have the same name.
    """
    rollout_id = record["rollout_id"]
    reward = record["reward"]
    details: dict[str, Any] = {name: record["info"][name] for name in ("turn", "tool_errors") if name in record["info"]}
    made = Episode(
        id=f"{rollout_id['task_index']}:{rollout_id['repeat_index']}",
        task={"task_index": rollout_id["task_index"], "env_id": record["env_id"]},
        termination_reason=_termination_reason(record),
        is_correct=reward is not None and reward > 0,
        metrics={} if reward is None else {f"{name}_acc": reward},
        metadata={**details, "error": {"error_message": record["error"]}} if reward is None else details,
    )
    steps = [] if reward is None else _steps(record)
    if steps:
        steps[-1].done = True
        made.trajectories.append(Trajectory(name=name, task=made.task, steps=steps, reward=reward))
    return made


def _steps(record: Rollout) -> list[Step]:
    steps = []
    for row in token_rows(record):
        for start, end in row.turns:
            prompt, sampled, log_probs = row.input_ids[:start], row.input_ids[start:end], row.logprobs[start:end]
            output = ModelOutput(
                prompt_ids=prompt,
                completion_ids=sampled,
                logprobs=log_probs,
                prompt_length=len(prompt),
                completion_length=len(sampled),
            )
            steps.append(
                Step(
                    prompt_ids=prompt,
                    response_ids=sampled,
                    logprobs=log_probs,
                    reward=sum(row.rewards[start:end]),
                    model_output=output,
                )
            )
    return steps


def _termination_reason(record: Rollout) -> TerminationReason:
    if record["reward"] is None:
        return TerminationReason.ERROR
    return TerminationReason.MAX_TURNS_EXCEEDED if record["truncated"] else TerminationReason.ENV_DONE
