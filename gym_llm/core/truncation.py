"""What an episode is worth that a wrapper has cut short: Gymnasium's `TimeLimit` says so with a reward nobody gave."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym

Step = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]
"""Observation, reward, terminated, truncated, info."""


def with_score(env: gym.Env[Any, Any], step: Step) -> Step:
    """A step's outcome, with what `verify` says of the episode if a wrapper has truncated it behind its back.

    `verify` scores what there is, as where the environment runs out of turns itself. What `RewardWrapper`s make of a
    reward they make of this one, too.

    Args:
        env: Who took the step, with all wrappers.
        step: What it returned.

    Raises:
        Exception: What `verify` and `teardown` raise, as in `VerifierEnv.step`. The episode is over.
    """
    observation, reward, terminated, truncated, info = step
    verifier: Any = env.unwrapped
    if terminated or not truncated or verifier.is_over:
        return step
    info = dict(info)
    given = verifier.episode.step_reward  # by the step, through the wrappers
    score = given + verifier.score_cut_short(info)
    wrappers = []
    while isinstance(env, gym.Wrapper):
        wrappers.append(env)
        env = env.env
    for wrapper in reversed(wrappers):
        if isinstance(wrapper, gym.RewardWrapper):
            given, score = float(wrapper.reward(given)), float(wrapper.reward(score))
    return observation, float(reward) - given + score, terminated, truncated, info
