"""Masked episodes beside other reward functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

REWARD = "env_reward"
"""The column under which `RolloutFunc` hands an episode's reward to the reward functions."""


def scored_only(reward_func: Callable[..., Any], by: Any = None) -> Callable[..., Any]:
    """Wrap a reward function so that it returns None where the environment does.

    TRL leaves a completion out of its group's mean only if *all* reward functions return None for it. With a second
    reward function, for length for example, a masked episode would count as a zero of the verifier.

    ```python
    math = RewardFunc("gym_llm/MathVerify-v0")
    trainer = GRPOTrainer(..., reward_funcs=[math, scored_only(brevity, by=math)])
    ```

    `RolloutFunc` does this itself for all reward functions of its trainer.

    Args:
        reward_func: The other reward function, plain or async.
        by: The `RewardFunc`, or the `reward` of an `EnvironmentFactory`; it must come before this one in TRL's list.
            None for the `reward` of a `RolloutFunc`.

    Raises:
        ValueError: When it is called, if `by` has not scored this batch before.
    """

    def rewards(columns: dict[str, Any]) -> Sequence[float | None]:
        of_env = columns.get(REWARD) if by is None else getattr(by, "rewards", None)
        if of_env is None or len(of_env) != len(columns["prompts"]):
            raise ValueError("scored_only comes after its environment's reward function in reward_funcs, not before.")
        return of_env  # type: ignore[no-any-return]

    def masked(values: Sequence[Any], columns: dict[str, Any]) -> list[Any]:
        return [None if own is None else value for value, own in zip(values, rewards(columns), strict=True)]

    if inspect.iscoroutinefunction(reward_func):

        @functools.wraps(reward_func)
        async def later(**columns: Any) -> list[Any]:
            return masked(await reward_func(**columns), columns)

        later.masks = True  # type: ignore[attr-defined]
        return later

    @functools.wraps(reward_func)
    def now(**columns: Any) -> list[Any]:
        return masked(reward_func(**columns), columns)

    now.masks = True  # type: ignore[attr-defined]
    return now


def mask_others(trainer: Any, own: Callable[..., Any]) -> None:
    """Put `scored_only` around a trainer's other reward functions, once.

    Raises:
        ValueError: If one is a reward model, which cannot leave masked episodes out.
    """
    for number, reward_func in enumerate(trainer.reward_funcs):
        if reward_func is own or hasattr(reward_func, "masks"):
            continue
        if hasattr(reward_func, "parameters"):  # a torch module
            raise ValueError("A reward model would score masked episodes: give it as a function, or leave it out.")
        trainer.reward_funcs[number] = scored_only(reward_func)
