"""Environments of verifiers' first API (`load_environment`): their rollout asks the model, their rubric pays."""

from __future__ import annotations

import functools
import json
from typing import Any

ENV_ID = "gym_llm/Verifiers-v0"
PACKAGES = ("verifiers==0.3.1", "mcp<2")
MODULE = "verifiers"
FRAMEWORKS = ("verifiers",)
APART = True


class Peer:
    """A rollout of an environment of verifiers.

    Args:
        env: Its name: the module `NAME` must have `load_environment`.
        env_args: What that takes.
        index: Which row; None for each in turn.
        split: `"train"` or `"eval"`.
    """

    recording = False

    def __init__(
        self,
        env: str,
        env_args: dict[str, Any] | None = None,
        index: int | None = None,
        split: str = "train",
    ) -> None:
        from _gym_llm_theirs_bridge import Bridge

        self._env = _environment(json.dumps([env, env_args or {}]))
        self._index, self._split, self._bridge = index, split, Bridge()
        self._tools: list[Any] = []
        self._shown = 0

    async def reset(self, seed: int | None) -> dict[str, Any]:
        """Begin with the rollout's first request."""
        rows = _rows(self._env, self._split)
        row = rows[(seed or 0) % len(rows) if self._index is None else self._index]
        turn = await self._bridge.start(self._play(row))
        return {**turn, "observation": row["prompt"]} if self.recording else turn

    async def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Answer the rollout."""
        return await self._bridge.answer(action)

    async def close(self) -> None:
        """End the rollout."""
        self._bridge.stop()

    async def _play(self, row: Any) -> dict[str, Any]:
        output = await self._env.run_rollout(row, _client_class()(self), "policy", {})
        if output.get("error"):
            raise RuntimeError(f"The rollout failed: {output['error']}")
        return {"reward": output["reward"], "terminated": True, "info": {"metrics": output.get("metrics")}}

    async def ask(self, prompt: list[Any], tools: list[Any] | None) -> Any:
        """Show what is new in a request; returns the response."""
        from verifiers.legacy.types import Response, ResponseMessage, ToolCall

        if len(prompt) < self._shown:  # the environment wrote a new history
            self._shown = 0
        turn: dict[str, Any] = {"say": [_item(message) for message in prompt[self._shown :]]}
        self._shown = len(prompt) + 1
        schemas = [{"type": "function", **tool.model_dump(exclude_none=True)} for tool in tools or []]
        if schemas != self._tools:
            self._tools = turn["tools"] = schemas
        action = await self._bridge.ask(turn)
        calls = []
        for call in action["calls"]:
            given = call["arguments"]
            text = given if isinstance(given, str) else json.dumps(given)
            calls.append(ToolCall(id=call["call_id"], name=call["name"], arguments=text))
        message = ResponseMessage(
            content=action["text"],
            tool_calls=calls or None,
            finish_reason="tool_calls" if calls else "stop",
            is_truncated=False,
        )
        return Response(id="", created=0, model="policy", message=message)


def _item(message: Any) -> dict[str, Any]:
    found = message if isinstance(message, dict) else message.model_dump(exclude_none=True, mode="json")
    role, content = found["role"], found.get("content") or ""
    if role == "tool":
        return {"type": "function_call_output", "call_id": found["tool_call_id"], "output": content}
    if isinstance(content, list):
        content = [_part(part) for part in content]
    return {"role": "user" if role == "text" else role, "content": content}


def _part(part: Any) -> dict[str, Any]:
    if part["type"] == "text":
        return {"type": "input_text", "text": part["text"]}
    if part["type"] == "image_url":
        return {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}
    raise NotImplementedError(f"A message has a part of type {part['type']!r} that cannot be shown.")


@functools.cache
def _client_class() -> Any:
    """Return a client whose responses are the episode's actions."""
    from verifiers.legacy.clients.client import Client

    async def get_response(self: Any, prompt: Any, *_: Any, tools: Any = None, **__: Any) -> Any:
        return await self._client.ask(prompt, tools)

    async def close(self: Any) -> None:
        return None

    unused = dict.fromkeys(Client.__abstractmethods__)
    return type("Actions", (Client,), {**unused, "get_response": get_response, "close": close})


def samples(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the index of each row."""
    if arguments["index"] is not None:
        return [{}]
    env = _environment(json.dumps([arguments["env"], arguments["env_args"] or {}]))
    return [{"index": index} for index in range(len(_rows(env, arguments["split"])))]


def _rows(env: Any, split: str) -> Any:
    return env.get_eval_dataset() if split == "eval" else env.get_dataset()


@functools.lru_cache(maxsize=64)
def _environment(arguments: str) -> Any:
    """Return an environment: loading its data set once.

    Raises:
        ValueError: If its rubric compares several rollouts.
    """
    import verifiers.legacy as vf

    name, given = json.loads(arguments)
    env = vf.load_environment(name, **given)
    if env.rubric.has_group_rewards:
        raise ValueError("The environment's rubric compares several rollouts: one alone has no reward.")
    return env


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode; its environment must be importable."""
    return {"env": episode["env"], "index": episode["kwargs"]["i"]}, episode["seed"]
