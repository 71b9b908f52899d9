"""What TRL's arguments ask of sampling, as the fields of a request, and what an episode's record tells its log."""

from __future__ import annotations

from typing import Any

from gym_llm.types import Rollout

_ONLY_VLLM = {"top_k": (None, 0, -1), "min_p": (None, 0), "repetition_penalty": (None, 1)}
"""Sampling arguments that a model in this process is not sampled with, and the values that ask for nothing."""


def sampling_of(config: Any, *, name: str, with_vllm: bool) -> dict[str, Any]:
    """The sampling that a trainer's arguments ask for.

    Args:
        config: Has the attributes of TRL's configurations: `temperature`, `top_p`, `top_k`, ….
        name: The configuration's, for the message.
        with_vllm: Whether the engine takes all of them.

    Raises:
        ValueError: If there is one that the engine does not take.
    """
    sampling: dict[str, Any] = {"temperature": config.temperature, "top_p": config.top_p}
    for argument, neutral_values in _ONLY_VLLM.items():
        value = getattr(config, argument)
        if value not in neutral_values:
            if not with_vllm:
                raise ValueError(
                    f"{name} has {argument}={value!r}, which a model in this process cannot be sampled with here: "
                    "leave it out, or use engine='vllm:MODEL'."
                )
            sampling[argument] = value
    if config.chat_template_kwargs:
        sampling["chat_template_kwargs"] = config.chat_template_kwargs
    return sampling


def episode_numbers(record: Rollout) -> dict[str, float]:
    """What is logged of an episode, as means under `episodes/…`."""
    info = record["info"]
    return {
        "turns": info.get("turn", 0),
        "tool_errors": info.get("tool_errors", 0),
        "truncated": int(record["truncated"]),
        **{f"reward/{name}": value for name, value in info.get("reward_components", {}).items()},
    }
