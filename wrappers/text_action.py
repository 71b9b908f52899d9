"""TextAction: plain strings as actions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.error import InvalidAction
from gymnasium.utils import RecordConstructorArgs

from gym_llm.core.spaces import AnyText
from gym_llm.types import Item


class TextAction(gym.ActionWrapper[Any, str, Any], RecordConstructorArgs):
    """Takes the model's answer as a plain `str`: it becomes one assistant message.

    Goes around `ReasoningParser` and `ToolCallParser`, which then find thinking and tool calls in the text. The action
    space becomes `AnyText`.

    Example:
        >>> import gymnasium as gym, gym_llm
        >>> from gym_llm.wrappers import TextAction
        >>> env = TextAction(gym.make("gym_llm/FollowUp-v0"))
        >>> observation, info = env.reset(options={"task_index": 0})
        >>> observation, reward, terminated, truncated, info = env.step("Jupiter.")
        >>> [item["role"] for item in observation["input"]]
        ['user', 'assistant', 'user']
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gym.ActionWrapper.__init__(self, env)
        self.action_space = AnyText()
        self._turn = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; message ids count from `msg_1` again."""
        self._turn = 0
        return self.env.reset(seed=seed, options=options)

    def action(self, action: str) -> list[Item]:
        """The text as a message.

        Raises:
            InvalidAction: If the action is not a `str`.
        """
        if not isinstance(action, str):
            raise InvalidAction(f"TextAction takes the model's answer as a str, got {type(action).__name__}.")
        self._turn += 1
        return [
            {
                "type": "message",
                "id": f"msg_{self._turn}",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": action, "annotations": []}],
            }
        ]
