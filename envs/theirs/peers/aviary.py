"""Environments of Aviary (`fhaviary`): tools by function calls, until the environment is done."""

from __future__ import annotations

import json
from typing import Any

ENV_ID = "gym_llm/Aviary-v0"
PACKAGES = ("fhaviary==0.37.0", "aviary.gsm8k==0.37.0")  # the second has the calculator
MODULE = "aviary"
FRAMEWORKS = ("fhaviary",)


class Peer:
    """An environment of Aviary.

    Args:
        env: A registered environment (`dummy`), a dataset of tasks with `index`, or `module:Class`.
        env_kwargs: What it takes besides.
        index: Which task of a dataset, None for each in turn; or None if `env` is an environment.
    """

    recording = False

    def __init__(self, env: str = "dummy", env_kwargs: dict[str, Any] | None = None, index: int | None = None) -> None:
        from aviary import env as registry

        kwargs = dict(env_kwargs or {})
        if index is not None:
            self._env = registry.TaskDataset.from_name(env, **kwargs).get_new_env_by_idx(index)
        else:
            module, _, name = env.partition(":")
            module, name = (module, name) if name else registry.ENV_REGISTRY[env]
            self._env = getattr(__import__(module, fromlist=[name]), name)(**kwargs)

    async def reset(self, seed: int | None) -> dict[str, Any]:
        """Begin; the environment says which tools there are."""
        messages, tools = await self._env.reset()
        turn = self._turn(list(messages))
        turn["tools"] = [_schema(tool.info) for tool in tools]
        return turn

    async def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Make the calls, or say the text: it does not end the episode."""
        from aviary.message import Message
        from aviary.tools import ToolCall, ToolCallFunction, ToolRequestMessage

        calls, wrong = [], []
        for call in action["calls"]:
            if not isinstance(call["arguments"], dict):
                wrong.append(call)
                continue
            function = ToolCallFunction(name=call["name"], arguments=call["arguments"])
            calls.append(ToolCall(id=call["call_id"], type="function", function=function))
        if wrong:  # as NeMo Gym does: the environment is not stepped
            said = [_output(call["call_id"], "The arguments are no JSON object.") for call in wrong]
            said += [_output(call.id, "Not run: another call of this turn was malformed.") for call in calls]
            return {"say": said, "info": {"invalid_arguments": len(wrong)}}
        text = action["text"] or None
        message = ToolRequestMessage(content=text, tool_calls=calls) if calls else Message(content=text or "")
        if not calls:
            message = Message(role="assistant", content=text or "")
        try:
            messages, reward, done, truncated = await self._env.step(message)
        except (TypeError, ValueError, LookupError) as error:  # of a tool, for arguments that the model chose
            if self.recording or not calls:
                raise
            return {"say": [_output(call.id, f"Error: {error}") for call in calls], "info": {"tool_error": True}}
        turn = self._turn(messages)
        turn.update(reward=float(reward), terminated=bool(done), truncated=bool(truncated and not done))
        return turn

    async def close(self) -> None:
        """Close it."""
        await self._env.close()

    def _turn(self, messages: Any) -> dict[str, Any]:
        items = []
        for message in messages:
            content = "" if message.content is None else message.content
            if message.role == "tool":
                items.append(_output(message.tool_call_id, content))
            else:
                items.append({"role": message.role, "content": content})
        turn = {"say": items}
        if self.recording:
            turn["observation"] = [message.model_dump(exclude_none=True, mode="json") for message in messages]
        return turn


def _output(call_id: Any, text: Any) -> Any:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def _schema(info: Any) -> Any:
    """A tool as a request names it."""
    found = info.model_dump(exclude_none=True, mode="json")
    parameters = found.get("parameters") or {"type": "object", "properties": {}}
    return {
        "type": "function",
        "name": found["name"],
        "description": found.get("description", ""),
        "parameters": {"additionalProperties": False, **parameters},
        "strict": False,
    }


def samples(arguments: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the index of each task of a dataset; None for an environment, or a dataset without end."""
    from aviary import env as registry

    name = arguments["env"]
    if arguments["index"] is not None:
        return [{}]
    if ":" in name or name in registry.ENV_REGISTRY:
        return None
    try:
        count = len(registry.TaskDataset.from_name(name, **arguments["env_kwargs"] or {}))
    except TypeError:
        return None
    return [{"index": index} for index in range(count)]


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode."""
    env = {"CalculatorEnv": "calculator"}.get(episode["env"], episode["env"])
    extra = {"problem_id": ""} if env == "calculator" else {}
    return {"env": env, "env_kwargs": {**extra, **episode["kwargs"]}}, None


def utter(action: Any) -> str | dict[str, Any]:
    """Return what the model says for a recorded action: a text, or calls as pairs."""
    if isinstance(action, str):
        return action
    calls = [
        {"call_id": f"c{number}", "name": name, "arguments": json.loads(json.dumps(arguments))}
        for number, (name, arguments) in enumerate(action)
    ]
    return {"text": "", "calls": calls}
