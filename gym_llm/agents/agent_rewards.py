"""The rewards of an agent's steps, at the tokens that led to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gym_llm.agents.capture import CallGraph, Sample


def add_rewards(
    trajectory: Sequence[dict[str, Any]], graph: CallGraph, steps: Sequence[tuple[Sample | None, float]]
) -> None:
    """Add a fourth list, `rewards`, to a trajectory's branches, as `gym_llm.wrappers.TokenIdTracking` describes it.

    A step's reward stands at the last id that was sampled before it, in the branch where that id counts.

    Args:
        trajectory: The graph's.
        graph: The episode's calls.
        steps: Of each step of the environment the latest sample before it, and the reward. One without a sample of its
            own has no place.
    """
    branches = [leaf for leaf in graph.samples if not leaf.children]
    home: dict[int, int] = {}
    for index, leaf in enumerate(branches):
        sample: Sample | None = leaf
        while sample is not None and id(sample) not in home:
            home[id(sample)] = index
            sample = sample.parent
    for branch in trajectory:
        branch["rewards"] = [0.0] * len(branch["input_ids"])
    for sample, reward in steps:
        if sample is not None and id(sample) in home:  # one whose answer was not handed over counts nowhere
            place = sample.start + len(sample.log_probs) - 1
            trajectory[home[id(sample)]]["rewards"][place] = float(reward)
