"""Resources servers of NeMo Gym: a session with cookies, a path for each tool, and `/verify` at the end."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import quote

ENV_ID = "gym_llm/NeMoGym-v0"
PACKAGES = ("aiohttp>=3.10",)
MODULE = "aiohttp"
FRAMEWORKS = ("nemo_gym",)
SCORES_AT_LIMIT = True


class Peer:
    """A row of a resources server. A text without calls ends the episode, and the server verifies it.

    Args:
        url: The server's address: `http://HOST:8000`.
        row: The row: `responses_create_params` with `input` and `tools`, and the server's own fields.
        headers: What each request has besides, such as `Authorization`.
    """

    recording = False

    def __init__(self, url: str = "", row: dict[str, Any] | None = None, headers: dict[str, str] | None = None) -> None:
        from _gym_llm_theirs_wires import Wire

        self._wire: Any = Wire(url, headers)
        self._row = dict(row or {})
        self._request = dict(self._row.get("responses_create_params") or {})
        self._tools = {tool.get("name") for tool in self._request.get("tools") or []}
        self._output: list[dict[str, Any]] = []

    async def reset(self, seed: int | None) -> dict[str, Any]:
        """Seed the server's session; the row's input is what the model is shown."""
        await self._post("/seed_session", self._row)
        said = self._request.get("input") or ""
        return {"say": said, "tools": self._request.get("tools") or [], "observation": {}}

    async def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Make the calls, or verify the text."""
        from _gym_llm_theirs_wires import outputs

        if action["text"] or not (action["calls"] or action.get("over")):
            said = {"type": "output_text", "text": action["text"], "annotations": []}
            message = {"type": "message", "role": "assistant", "status": "completed", "content": [said]}
            self._output.append({"id": f"msg_{len(self._output)}", **message})
        if not action["calls"]:
            return await self._verified()
        texts, observations = [], []
        for call in action["calls"]:
            status, text = await self._called(call)
            texts.append(text)
            observations.append({"status": status, "body": text})
        said = outputs(action, texts)
        for call, item in zip(action["calls"], said, strict=True):
            written = call.get("written", "{}")
            made = {"call_id": call["call_id"], "name": call["name"], "arguments": written}
            self._output += [{"type": "function_call", **made}, item]
        return {"say": said, "observation": observations[0]}

    async def close(self) -> None:
        """Disconnect."""
        await self._wire.close()

    async def _called(self, call: dict[str, Any]) -> tuple[int, str]:
        """Return a tool's answer, whatever its status: the model reads it."""
        arguments = call["arguments"]
        call["written"] = arguments if isinstance(arguments, str) else json.dumps(arguments)
        if call["name"] not in self._tools:  # a model must not reach the server's other paths
            return 404, f"There is no tool {call['name'][:100]}."
        if not isinstance(arguments, dict):
            return 422, "The arguments are not a JSON object."
        found: tuple[int, str] = await self._wire.ask("/" + quote(call["name"], safe=""), arguments)
        return found

    async def _verified(self) -> dict[str, Any]:
        from _gym_llm_theirs_wires import WireError, number

        response = {
            "id": "resp_0",
            "created_at": 0,
            "model": "model",
            "object": "response",
            "output": self._output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": self._request.get("tools") or [],
        }
        verdict = await self._post("/verify", {**self._row, "response": response})
        if not isinstance(verdict, dict) or "reward" not in verdict:
            raise WireError("The server's verdict has no reward.")
        if verdict.get("mask_sample"):
            raise WireError(f"The server masks the episode: {self._wire.clean(verdict.get('failure_reason'))}")
        own = {name: value for name, value in verdict.items() if name not in self._row and name != "response"}
        return {"terminated": True, "reward": number(verdict["reward"]), "info": own}

    async def _post(self, path: str, body: Any) -> Any:
        from _gym_llm_theirs_wires import WireError

        found = await self._wire.value(path, body)
        if found is None:
            raise WireError(f"The server does not know {path}.")
        return found


def samples(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one: the arguments have the row."""
    return [{}]


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments of a recorded episode: `NEMO_GYM_URL/NAME` is the address of its server."""
    if not (url := os.environ.get("NEMO_GYM_URL")):
        raise FileNotFoundError(f"the variable NEMO_GYM_URL, at which there is a server /{episode['env']}")
    return {"url": f"{url}/{episode['env']}", "row": episode["kwargs"]["row"]}, None


def utter(action: Any) -> str | dict[str, Any]:
    """Return what the model says for a recorded action: a text, or a call as a pair."""
    if isinstance(action, str):
        return action
    return {"text": "", "calls": [{"call_id": "c", "name": action[0], "arguments": action[1]}]}


def as_recorded(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the turns as the recorder wrote them: only `/verify` pays."""
    observations = [turn["observation"] for turn in turns if "observation" in turn]
    return {"observations": observations, "rewards": [turns[-1].get("reward")], "done": True}
