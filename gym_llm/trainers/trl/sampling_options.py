"""Sampling fields of a request from TRL's arguments, and figures of an episode for its log."""

from __future__ import annotations

from typing import Any

from gym_llm.types import Rollout

_ONLY_VLLM = {"top_k": (None, 0, -1), "min_p": (None, 0), "repetition_penalty": (None, 1)}
"""Sampling arguments that a model in this process is not sampled with, and the values that ask for nothing."""


def sampling_of(config: Any, *, name: str, with_vllm: bool) -> dict[str, Any]:
    """Return the sampling fields for a trainer's arguments.

    Args:
        config: A configuration of TRL with `temperature`, `top_p`, `top_k`, ….
        name: The configuration's name in the message.
        with_vllm: Whether the engine supports all of them.

    Raises:
        ValueError: If the engine does not support one of them.
    """
    sampling: dict[str, Any] = {"temperature": config.temperature, "top_p": config.top_p}
    for argument, neutral_values in _ONLY_VLLM.items():
        value = getattr(config, argument)
        if value not in neutral_values:
            if not with_vllm:
                raise ValueError(
                    f"{name}: a model in this process cannot sample with {argument}={value!r}; use engine='vllm:MODEL'."
                )
            sampling[argument] = value
    if config.chat_template_kwargs:
        sampling["chat_template_kwargs"] = config.chat_template_kwargs
    return sampling


def episode_numbers(record: Rollout) -> dict[str, float]:
    """Return the figures of an episode that are logged as means under `episodes/…`."""
    info = record["info"]
    return {
        "turns": info.get("turn", 0),
        "tool_errors": info.get("tool_errors", 0),
        "truncated": int(record["truncated"]),
        **{f"reward/{name}": value for name, value in info.get("reward_components", {}).items()},
    }
