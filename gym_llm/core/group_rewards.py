"""Rewards of a group: `verify_group` is called and its result checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gym_llm.core.forgotten_await import call_hook, finish_hook
from gym_llm.core.rewards import read_verdict
from gym_llm.errors import InvalidReward
from gym_llm.types import Episode, Verdict

if TYPE_CHECKING:
    from gym_llm.core.author_hooks import AuthorHooks


def run_verify_group(env: AuthorHooks[Any, Any], task: Any, episodes: list[Episode]) -> list[Verdict]:
    """Call `verify_group`, and wait for it.

    Args:
        env: The environment that defines it.
        task: The task that all episodes have played.
        episodes: The finished episodes, one or more.

    Returns:
        A checked verdict for each episode. Its info has the details, and `reward_components` if there are any.

    Raises:
        InvalidReward: If it does not return one finite reward for each episode.
        Exception: If the hook raises.
    """
    values = finish_hook(call_hook(env.verify_group, task, episodes))
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        values = _listed(values)
    if len(values) != len(episodes):
        raise InvalidReward(f"verify_group returned {len(values)} rewards for {len(episodes)} episodes.")
    verdicts = []
    for value in values:
        info: dict[str, Any] = {}
        verdicts.append(Verdict(read_verdict(value, info), info))
    return verdicts


def _listed(values: Any) -> list[Any]:
    """Return an array or a tensor as a list."""
    tolist = None if isinstance(values, Mapping) else getattr(values, "tolist", None)
    if not isinstance(listed := tolist() if callable(tolist) else None, list):
        raise InvalidReward(f"verify_group returns a list with a reward for each episode, got {type(values).__name__}.")
    return listed
