"""CallParser: what the wrappers that make function_call items have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsFloat

import gymnasium as gym

from gym_llm.parsers.message_parts import hand_over_tokens
from gym_llm.types import Item


class CallParser(gym.ActionWrapper[Any, Any, Any]):
    """Base of the wrappers that find calls in what a model wrote: it knows the request, and numbers the calls.

    Call ids are `call_1`, `call_2`, … in each episode, skipping ids that are taken. Where the request has
    `parallel_tool_calls` false, the calls after a turn's first are left out, as a server of vLLM's leaves them out
    (vllm/entrypoints/serve/utils/tool_calls_utils.py, `maybe_filter_parallel_tool_calls`); their tokens stay among the
    turn's.

    Args:
        env: The environment to wrap.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.ActionWrapper.__init__(self, env)
        self._observation: Any = None
        self._calls = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; call ids count from `call_1` again."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._observation = observation
        self._calls = 0
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take a turn with the parsed action."""
        result = self.env.step(self.action(action))
        self._observation = result[0]  # its tools decide what is a call
        return result

    def _forbidden(self) -> bool:
        """Whether the request has `tool_choice` "none": what looks like a call is text then."""
        return isinstance(self._observation, dict) and self._observation.get("tool_choice") == "none"

    def _tools(self) -> list[dict[str, Any]]:
        """The tools that the request offered, and lets the model call."""
        offered = self._observation.get("tools") if isinstance(self._observation, dict) else None
        return [] if self._forbidden() else list(offered or ())

    def _allowed(self, items: list[Item]) -> list[Item]:
        """A turn's items without the calls that the request does not allow. The turn's tokens stay on the last one."""
        parallel = self._observation.get("parallel_tool_calls") if isinstance(self._observation, dict) else None
        calls = [item for item in items if item.get("type") == "function_call"]
        if parallel is not False or len(calls) < 2:
            return items
        kept = [item for item in items if item.get("type") != "function_call" or item is calls[0]]
        if kept[-1] is not items[-1]:
            kept[-1] = {**kept[-1]}
            hand_over_tokens(items[-1], kept)
        return kept

    def _taken(self, items: Iterable[Item]) -> set[str]:
        """The call ids of the conversation so far and of a turn's items."""
        history = self._observation["input"] if isinstance(self._observation, dict) else []
        return {item["call_id"] for item in [*history, *items] if item.get("type") == "function_call"}

    def _function_call(self, name: str, arguments: str, taken: set[str]) -> Item:
        """A new call, with the next id that is not taken."""
        self._calls += 1
        while f"call_{self._calls}" in taken:
            self._calls += 1
        return {
            "type": "function_call",
            "id": f"fc_{self._calls}",
            "call_id": f"call_{self._calls}",
            "name": name,
            "arguments": arguments,
            "status": "completed",
        }
