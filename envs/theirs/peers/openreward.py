"""Environments behind the Open Reward Standard (ORS): servers of `openreward`, over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

ENV_ID = "gym_llm/OpenRewardStandard-v0"
PACKAGES = ("aiohttp>=3.10",)
MODULE = "aiohttp"
FRAMEWORKS = ()
_PING_SECONDS = 30.0  # the standard's servers forget a session without requests
_STARTING_SECONDS = 1.0


class Peer:
    """A task of an environment on a server of the Open Reward Standard.

    The model's calls are the environment's tools. A text is its answer if the environment has a terminal tool; else it
    ends the episode. The reward is the sum of the tools' rewards.

    Args:
        url: The server's address: `http://HOST:8080`.
        env: The environment's name on the server; None for its first.
        split: The split of its tasks; None for its first of type `train`, else its first.
        index: Which task; None for each in turn.
        task_spec: The task itself, instead of one of a split.
        headers: What each request has besides, such as `X-API-Key` or `X-Secrets`.
    """

    recording = False

    def __init__(
        self,
        url: str = "",
        env: str | None = None,
        split: str | None = None,
        index: int | None = None,
        task_spec: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        from _gym_llm_theirs_wires import Wire

        self._url, self._headers = url, dict(headers or {})
        self._lobby: Any = Wire(url, headers)  # requests without a session
        self._wire = self._lobby
        self._env = env
        self._task: dict[str, Any] = {"split": split, "index": index, "task_spec": task_spec}
        self._names: dict[str, str] = {}
        self._terminal: dict[str, Any] | None = None
        self._pinging: asyncio.Task[None] | None = None

    async def reset(self, seed: int | None) -> dict[str, Any]:
        """Open a session with a task; returns its prompt and tools."""
        from _gym_llm_theirs_wires import Wire, function_tools

        env = await self._choose_env()
        task = {name: value for name, value in (await self._chosen(seed or 0)).items() if value is not None}
        stream = await self._lobby.events("/create_session", {})
        session = json.loads(stream["end"])["sid"] if stream.get("end") else stream["task_id"].strip()
        self._wire = Wire(self._url, {**self._headers, "X-Session-ID": session})
        await self._needed("/create", {"env_name": env, **task})
        self._pinging = asyncio.create_task(self._ping())
        listed = await self._wire.value(f"/{env}/task_tools") or await self._needed(f"/{env}/tools")
        tools, self._names = function_tools(listed.get("tools"))
        terminal = listed.get("terminal_tool")
        self._terminal = terminal if isinstance(terminal, dict) else None
        return {"say": await self._prompt(), "tools": tools}

    async def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Carry out the calls one after the other; or give the text to the terminal tool, which ends the episode."""
        from _gym_llm_theirs_wires import outputs

        if not action["calls"]:
            if self._terminal is None:
                return {"terminated": True}
            argument = self._terminal.get("arg")
            given = {} if argument is None else {_text(argument): action["text"]}
            turn = await self._call(_text(self._terminal.get("name")), given)
            return {**turn, "say": "", "terminated": True}
        turn, answers, reward = dict[str, Any](), [], 0.0
        for call in action["calls"]:
            if turn.get("terminated"):
                answers.append("Not run: the episode is over.")
            elif not isinstance(call["arguments"], dict):
                answers.append("Invalid: the arguments are not a JSON object.")
            else:
                turn = await self._call(self._names.get(call["name"], call["name"]), call["arguments"])
                answers.append(turn["say"])
                reward += turn["reward"]
        return {**turn, "say": outputs(action, answers), "reward": reward}

    async def close(self) -> None:
        """End the session and disconnect."""
        if self._pinging is not None:
            self._pinging.cancel()
            with contextlib.suppress(ConnectionError):
                await self._wire.ask("/delete", {})
                await self._wire.ask("/delete_session", {})
        await self._wire.close()
        await self._lobby.close()

    async def _chosen(self, seed: int) -> dict[str, Any]:
        if self._task["task_spec"] is not None:
            return {"task_spec": self._task["task_spec"]}
        split, index = await self._split(), self._task["index"]
        if index is None:
            count = await self._count(split)
            index = seed if count is None else seed % count
        return {"split": split, "index": index}

    async def count(self) -> int | None:
        """Return the number of tasks of the split; None for a server like ours that generates them without end."""
        try:
            await self._choose_env()
            return await self._count(await self._split())
        finally:
            await self._lobby.close()

    async def _choose_env(self) -> str:
        known = await self._lobby.value("/list_environments")
        self._env = self._env or _text(_first(known, "environments"))
        if self._env.lower() not in map(str.lower, map(_text, known)):
            raise ValueError(f"The server has no environment {self._env!r}; it has {', '.join(known)[:500]}.")
        return self._env

    async def _split(self) -> str:
        if (split := self._task["split"]) is not None:
            return split
        splits = await self._lobby.value(f"/{self._env}/splits")
        chosen = next((each for each in splits or [] if each.get("type") == "train"), _first(splits, "splits"))
        return _text(chosen.get("name"))

    async def _count(self, split: str) -> int | None:
        status, counted = await self._lobby.ask(f"/{self._env}/num_tasks", {"split": split})
        count = json.loads(counted).get("num_tasks") if status == 200 else None
        if count == 0 or status not in (200, 501):
            raise ValueError(f"The split {split!r} has no tasks to choose from ({status}): give an `index`.")
        return count if isinstance(count, int) else None

    async def _prompt(self) -> list[dict[str, Any]]:
        messages = await self._wire.value(f"/{self._env}/messages")
        if messages is None:  # a server of an older version
            messages = [{"role": "user", "blocks": await self._needed(f"/{self._env}/prompt")}]
        items = []
        for message in messages:
            items += _items(_text(message.get("role")), message.get("blocks"))
        return items

    async def _call(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        from _gym_llm_theirs_wires import number

        stream = await self._wire.events(f"/{self._env}/call", {"name": name, "input": given})
        answer = json.loads(stream.get("chunk", "") + stream["end"])
        if not answer["ok"]:
            return {"say": f"Invalid: {answer.get('error')}", "reward": 0.0, "info": {"invalid_action": True}}
        output = answer["output"]
        parts = [_part(block) for block in output["blocks"]]
        is_plain = all(part["type"] == "input_text" for part in parts)
        say: Any = "\n".join(part["text"] for part in parts) if is_plain else parts
        turn = {"say": say, "reward": number(output.get("reward")), "terminated": output.get("finished") is True}
        return {**turn, "info": {"metadata": output.get("metadata")}}

    async def _needed(self, path: str, body: Any = None) -> Any:
        """Return the value of an answer; a server that is full, or whose task starts, is asked again."""
        from _gym_llm_theirs_wires import WireError

        while (found := await self._wire.ask(path, body))[0] == 503:
            await asyncio.sleep(_STARTING_SECONDS)
        if found[0] != 200:
            raise WireError(f"The server's {path} answers {found[0]}: {self._wire.clean(found[1])}")
        return json.loads(found[1])

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(_PING_SECONDS)
            with contextlib.suppress(ConnectionError):
                await self._wire.ask("/ping", {})


async def samples(arguments: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the index of each task of the split; None for tasks that are generated without end."""
    if arguments["index"] is not None or arguments["task_spec"] is not None:
        return [{}]
    count = await Peer(**arguments).count()
    return None if count is None else [{"index": index} for index in range(count)]


def _items(role: str, blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a message of the standard as Responses items; past reasoning is left out."""
    items: list[dict[str, Any]] = []
    for block in blocks:
        kind = block["type"]
        if kind == "tool_call":
            call = {"call_id": block["id"], "name": block["name"], "arguments": json.dumps(block["input"])}
            items.append({"type": "function_call", **call})
        elif kind == "tool_result":
            output = [_part(each) for each in block["blocks"]]
            items.append({"type": "function_call_output", "call_id": block["tool_call_id"], "output": output})
        elif kind != "reasoning":
            part = _part(block)
            if role == "assistant":
                part["type"] = part["type"].replace("input", "output")
            if not items or items[-1].get("role") != role:
                items.append({"role": role, "content": []})
            items[-1]["content"].append(part)
    for item in items:
        if len(parts := item.get("content", ())) == 1 and "text" in parts[0] and role != "assistant":
            item["content"] = parts[0]["text"]
    return items


def _part(block: dict[str, Any]) -> dict[str, str]:
    if block["type"] == "text":
        return {"type": "input_text", "text": block["text"]}
    return {"type": "input_image", "image_url": f"data:{block['mimeType']};base64,{block['data']}"}


def _first(listed: Any, what: str) -> Any:
    if not isinstance(listed, list) or not listed:
        raise ValueError(f"The server lists no {what}.")
    return listed[0]


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"The server sends a {type(value).__name__} where a name is expected.")
    return value
