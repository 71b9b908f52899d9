"""Environments of OpenEnv, on servers or in folders of its hub: one WebSocket is one episode."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

ENV_ID = "gym_llm/OpenEnv-v0"
PACKAGES = ("aiohttp>=3.10",)
MODULE = "aiohttp"
FRAMEWORKS = ("openenv",)
_ACT = "act"
_RESPONSES = "ResponsesAction"
_TOOL_TITLES = ("Action", "CallToolAction", "ListToolsAction")
_CAPACITY_WAITS = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


class Peer:
    """An environment on a server of OpenEnv.

    An action is a call of `act`, whose parameters are the server's action schema. If that is one text field, a text is
    the action. If the server lists tools, their calls are; then a text ends the episode. A gym_llm server sends whole
    requests, and an action is the model's turn: the model sees the messages and tools of the request.

    Args:
        url: The server's address, `http://HOST:8000`; or a folder, as `folder`.
        field: The field of an observation that the model is shown; None for all of it, as JSON.
        reset: What the server's `reset` gets besides the seed.
        headers: What each request has besides, such as `Authorization`.
        folder: A folder as OpenEnv's hub has it, with an `openenv.yaml`, whose server is started on this machine.
        variables: Environment variables of that server, which say there what is played.
        start_seconds: How long that server may take to start.
        machine: Whether that server runs in a sandbox machine: it cannot write outside, and has no network.
    """

    recording = False

    def __init__(
        self,
        url: str = "",
        field: str | None = None,
        reset: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        folder: str = "",
        variables: dict[str, str] | None = None,
        start_seconds: float = 120.0,
        machine: bool = False,
    ) -> None:
        from _gym_llm_theirs_wires import Wire

        self._wire: Any = Wire(url, headers)  # that of a folder's server, if there is one: see `served`
        self._field, self._reset = field, dict(reset or {})
        self._socket: Any = None
        self._text_field: str | None = None
        self._names: dict[str, str] = {}
        self._has_own_tools = False
        self._requests: _Requests | None = None

    async def reset(self, seed: int | None) -> dict[str, Any]:
        """Connect and begin; the server's description is the system prompt."""
        from _gym_llm_theirs_wires import function_tools

        about = _object(await self._wire.value("/metadata"))
        schema = _object(_object(await self._wire.value("/schema")).get("action"))
        kinds = [_object(kind) for kind in schema.get("anyOf") or [schema]]
        if self._field is None and any(kind.get("title") == _RESPONSES for kind in kinds):
            self._requests = _Requests()
        turn = self._turn(await self._begin({**({} if seed is None else {"seed": seed}), **self._reset}))
        if self._requests:
            return turn
        turn["say"] = [{"role": "user", "content": turn["say"]}]
        if isinstance(about.get("description"), str) and about["description"]:
            turn["say"].insert(0, {"role": "system", "content": about["description"]})
        self._text_field = next(filter(None, map(_text_field, kinds)), None)
        self._has_own_tools = any(kind.get("title") in _TOOL_TITLES for kind in kinds)
        if self._has_own_tools:
            listed = await self._ask("step", {"type": "list_tools"})
            turn["tools"], self._names = function_tools(_object(listed.get("observation")).get("tools"))
        elif self._text_field is None:
            fields = {name: each for name, each in _object(schema.get("properties")).items() if name != "metadata"}
            acting = {"name": _ACT, "description": schema.get("description") or "Act."}
            acting["inputSchema"] = {**schema, "properties": fields}
            turn["tools"], self._names = function_tools([acting])
        return turn

    async def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Carry out each call, or the text; the model reads why the server calls one invalid."""
        from _gym_llm_theirs_wires import outputs

        if self._requests:
            return self._turn(await self._ask("step", {"output": _output(action)}))
        if not action["calls"] and self._text_field is None:
            if self._has_own_tools:
                return {"terminated": True}
            return {"say": f"Act by calling the function `{_ACT}`.", "info": {"invalid_action": True}}
        turn: dict[str, Any] = {}
        texts, reward = [], 0.0
        for data in [self._action(call) for call in action["calls"]] or [{str(self._text_field): action["text"]}]:
            if turn.get("terminated"):
                texts.append("Not run: the episode is over.")
                continue
            turn = self._turn(await self._ask("step", data)) if isinstance(data, dict) else {"say": data}
            texts.append(turn["say"])
            reward += turn.get("reward", 0.0)
        return {**turn, "say": outputs(action, texts), "reward": reward}

    async def close(self) -> None:
        """Disconnect, which ends the server's session."""
        await self._wire.close()

    def _action(self, call: dict[str, Any]) -> dict[str, Any] | str:
        """Return the action that a call means, or why it means none."""
        if not isinstance(call["arguments"], dict):
            return "Invalid: the arguments are not a JSON object."
        if not self._has_own_tools:
            return call["arguments"]
        name = self._names.get(call["name"], call["name"])
        return {"type": "call_tool", "tool_name": name, "arguments": call["arguments"]}

    async def _begin(self, data: dict[str, Any]) -> dict[str, Any]:
        """Reset on a new connection; a server that is full is asked again."""
        for seconds in _CAPACITY_WAITS:
            self._socket = await self._wire.socket("/ws")
            found = await self._ask("reset", data)
            if not found.get("is_full"):
                return found
            await asyncio.sleep(seconds)
        raise TimeoutError("The server stays full.")

    async def _ask(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        from _gym_llm_theirs_wires import WireError

        answer = await self._socket.ask({"type": kind, "data": data})
        found = _object(answer.get("data"))
        if answer.get("type") == "observation":
            return {name: found.get(name) for name in ("observation", "reward", "done", "metadata")}
        if kind == "reset" and found.get("code") == "CAPACITY_REACHED":
            return {"is_full": True}
        if kind == "step" and found.get("code") == "VALIDATION_ERROR":
            errors = json.dumps(found.get("errors") or "")[:2_000]
            return {"invalid": f"Invalid action: {found.get('message')} {errors}"}
        raise WireError(f"The server answers {found.get('code')}: {self._wire.clean(found.get('message'))}")

    def _turn(self, data: dict[str, Any]) -> dict[str, Any]:
        from _gym_llm_theirs_wires import number

        if "invalid" in data:
            return {"say": data["invalid"], "info": {"invalid_action": True}}
        observation = _object(data.get("observation"))
        shown = self._requests.turn(observation) if self._requests else {"say": self._shown(observation)}
        turn = {**shown, "reward": number(data.get("reward"))}
        turn["terminated"] = data.get("done") is True and not turn.get("truncated")
        if metadata := data.get("metadata") or observation.get("metadata"):
            turn["info"] = {"metadata": metadata}
        if self.recording:
            turn["observation"] = observation
        return turn

    def _shown(self, observation: dict[str, Any]) -> str:
        if self._has_own_tools and "tool_name" in observation:
            shown = observation.get("error") or observation.get("result")
        elif self._field is not None:
            shown = observation.get(self._field, "")
        else:
            shown = {name: value for name, value in observation.items() if name != "metadata" or value}
        return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)


class _Requests:
    """Reads the requests of a server of gym_llm: each is whole, with the conversation so far."""

    def __init__(self) -> None:
        self._seen = 0
        self._tools: Any = None

    def turn(self, observation: dict[str, Any]) -> dict[str, Any]:
        """Return the items that are new and not the model's, and the tools if they have changed."""
        request = _object(observation.get("request"))
        items = [_object(item) for item in request.get("input") or []]
        fresh = items[self._seen :]
        says = [item for item in fresh if not self._seen or not _is_of_model(item)]
        if not self._seen and request.get("instructions"):
            says.insert(0, {"role": "system", "content": request["instructions"]})
        self._seen = max(self._seen, len(items))
        turn: dict[str, Any] = {"say": says, "info": _object(observation.get("info"))}
        turn["truncated"] = observation.get("truncated") is True
        if (tools := request.get("tools") or []) != self._tools:
            self._tools = turn["tools"] = tools
        return turn


def _is_of_model(item: dict[str, Any]) -> bool:
    return item.get("role") == "assistant" or item.get("type") in ("function_call", "reasoning")


def _output(action: dict[str, Any]) -> str | list[dict[str, Any]]:
    """Return a model's turn as the server reads it: a text, or output items with its calls."""
    if not action["calls"]:
        return str(action["text"])
    calls = [
        {
            "type": "function_call",
            "call_id": call["call_id"],
            "name": call["name"],
            "arguments": call["arguments"] if isinstance(call["arguments"], str) else json.dumps(call["arguments"]),
        }
        for call in action["calls"]
    ]
    text = [{"type": "message", "role": "assistant", "content": action["text"]}] if action["text"] else []
    return [*text, *calls]


def check(arguments: dict[str, Any]) -> None:
    """Raise if the time is invalid."""
    if not 0 < arguments["start_seconds"] < float("inf"):
        raise ValueError("The argument `start_seconds` is not a positive number of seconds.")
    if arguments["machine"] and "://" in arguments["url"]:
        raise ValueError("The argument `machine` is for a folder's server: give `folder` instead of an address.")


def served(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """Return the folder whose server is to be started, and how; None if a server's address is given.

    Raises:
        ValueError: If both are given.
    """
    url, folder = arguments["url"], arguments["folder"]
    if url and folder:
        raise ValueError("The arguments `url` and `folder` are both given: give one, and the other as an empty text.")
    if "://" in url or not (url or folder):
        return None
    return {"folder": url or folder, **{name: arguments[name] for name in ("variables", "start_seconds", "machine")}}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text_field(schema: dict[str, Any]) -> str | None:
    """Return the action's only required field, if it is a text."""
    required = schema.get("required")
    if not isinstance(required, list) or len(required) != 1:
        return None
    field = _object(_object(schema.get("properties")).get(required[0]))
    kinds = [_object(each).get("type") for each in field.get("anyOf") or [field]]
    return str(required[0]) if "string" in kinds and "enum" not in field else None


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode: `OPENENV_URL` names a server of its environment."""
    if not (url := os.environ.get("OPENENV_URL")):
        raise FileNotFoundError(f"the variable OPENENV_URL with the address of a server of {episode['env']}")
    return {"url": url, "reset": episode["kwargs"]}, None


def utter(action: Any) -> dict[str, Any]:
    """Return what the model says for a recorded action: a call."""
    name, arguments = (action["tool_name"], action["arguments"]) if "tool_name" in action else (_ACT, action)
    return {"text": "", "calls": [{"call_id": "c", "name": name, "arguments": arguments}]}


def as_recorded(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the turns as the recorder wrote them: `reset` has a reward, too."""
    observations = [turn["observation"] for turn in turns if "observation" in turn]
    rewards = [turn.get("reward", 0.0) for turn in turns]
    return {"observations": observations, "rewards": rewards, "done": turns[-1].get("terminated") is True}
