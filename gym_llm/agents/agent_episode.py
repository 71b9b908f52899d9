"""AgentEpisode: one episode, as the agent that plays it sees it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from gym_llm.agents.mailbox import AgentMailbox, item_text, user_text
from gym_llm.errors import SandboxError
from gym_llm.protocols.responses.actions import read_action
from gym_llm.protocols.responses.token_fields import without_tokens
from gym_llm.types import Item, Request, ResponseDict


@dataclass(frozen=True, slots=True)
class Addresses:
    """The HTTP addresses of an episode's model and tools, all on this machine's loopback.

    Attributes:
        base_url: The model's base URL for OpenAI's clients, `http://127.0.0.1:41231/v1`.
        anthropic_url: The same for Anthropic's clients, without `/v1`.
        tools_url: The URL of the tools: `GET {tools_url}/tools`, `POST {tools_url}/tools/NAME`, `POST
            {tools_url}/submit`.
        mcp_url: The URL of the tools over MCP.
        api_key: The episode's key.
        model: The model's name.
    """

    base_url: str
    anthropic_url: str
    tools_url: str
    mcp_url: str
    api_key: str
    model: str


class AgentEpisode:
    """An episode as its agent sees it: the request, the model, the environment's tools, and a way to answer.

    An agent asks the model as often as it likes: over HTTP (`base_url`, `api_key`, `model`; Chat Completions, Responses
    and Anthropic's Messages) or with `respond`. It acts on the environment with `call_tool` and `submit`. The episode's
    trajectory has every id that the model samples for it.

    Attributes:
        base_url: The model's base URL for OpenAI's clients.
        api_key: The episode's key for those clients.
        model: The model's name.
        mcp_url: The URL of the environment's tools and `submit` over MCP; the key is in the URL.
        tools_url: The same over plain HTTP.
        addresses: All of these.
        folder: A folder for the episode's files, empty at first; it is removed at the end.
        has_submitted: Whether the agent has answered since it was last started.
        said: The end of a program's standard error, for errors.
        on_first_call: Called once, before the agent's next call of the model.
    """

    def __init__(
        self,
        exchange: AgentMailbox,
        ask: Callable[[Request], Awaitable[ResponseDict]],
        calls: Callable[[], list[Item]],
        addresses: Addresses,
        folder: Callable[[], Path],
    ) -> None:
        self._mailbox = exchange
        self._ask = ask
        self._calls = calls
        self._folder = folder
        self.addresses = addresses
        self.base_url, self.api_key, self.model = addresses.base_url, addresses.api_key, addresses.model
        self.mcp_url, self.tools_url = addresses.mcp_url, addresses.tools_url
        self.has_submitted = False
        self.said = ""
        self.on_first_call: Callable[[], Awaitable[None]] | None = None

    @property
    def request(self) -> Request:
        """The environment's latest request: the whole conversation as it sees it, and the tools. Never changed."""
        return self._mailbox.request

    @property
    def prompt(self) -> str:
        """The request as a text: what the user says, after what the system says; a transcript, if there is more."""
        return prompt_text(self.request)

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The environment's tools, as the Responses API has them."""
        return list(self.request.get("tools") or [])

    @property
    def folder(self) -> Path:
        """The episode's folder, made at first use."""
        return self._folder()

    @property
    def is_over(self) -> bool:
        """Whether the episode has ended."""
        return self._mailbox.is_over

    async def respond(self, request: Request) -> ResponseDict:
        """Ask the model, in this process; what it says has its thinking and its calls in items of their own.

        Raises:
            EngineError: If it cannot answer.
        """
        return await self._ask(request)

    async def before_call(self) -> None:
        """Note that the agent calls the model."""
        if self.on_first_call is not None:
            await asyncio.sleep(0)  # what it printed before is in its pipe, which the loop reads in this round
            noted, self.on_first_call = self.on_first_call, None
            if noted is not None:
                with suppress(SandboxError):  # its machine is closed, and the program with it
                    await noted()

    async def call_tool(self, name: str, arguments: dict[str, Any] | str) -> str:
        """Call a tool of the environment. Calls that are made at once (`asyncio.gather`) are one turn.

        Args:
            name: The tool's. Of one that there is not the environment says so.
            arguments: An object, or JSON.

        Returns:
            The tool's output.

        Raises:
            EpisodeOver: If the episode has ended, or ends with this call.
        """
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return await self._mailbox.call(str(name), text, self._call_id(name, text))

    async def submit(self, answer: str | Sequence[Item] | dict[str, Any]) -> str | None:
        """Answer the user.

        Args:
            answer: A text, or an action for `env.step`: a response or its items.

        Returns:
            The user's next message; None if the episode is over.

        Raises:
            InvalidAction: If the answer is invalid.
            EpisodeOver: If the episode had ended already.
        """
        request = await self.step(answer)
        return None if request is None else user_text(request)

    async def step(self, answer: str | Sequence[Item] | dict[str, Any]) -> Request | None:
        """Answer as `submit` does; return the environment's whole next request, with the outputs of calls."""
        action = action_of(answer)
        self.has_submitted = True
        return await self._mailbox.step(action)

    def _call_id(self, name: str, arguments: str) -> str:
        calls = self._calls()
        for index, call in enumerate(calls):
            if call.get("name") == name and _same_json(call.get("arguments"), arguments):
                return str(calls.pop(index).get("call_id") or "")
        return ""


AGENT_SECONDS = 600.0
"""Seconds that an agent may take for an episode, by default."""

Agent: TypeAlias = "Callable[[Any], Any]"
"""`async def agent(episode: AgentEpisode)`, or a plain function, which runs in a thread."""


def action_of(answer: Any) -> dict[str, Any]:
    """Return an agent's answer as a response's fields, without token ids, which only the model may set.

    Raises:
        InvalidAction: If the answer is invalid.
    """
    if isinstance(answer, str):
        return {"output": [message(answer)]}
    items, response = read_action(answer)
    kept = {name: response[name] for name in ("id", "status", "incomplete_details") if response.get(name) is not None}
    return {**kept, "output": [without_tokens(item) for item in items]}


def message(text: str) -> Item:
    """Return a text as a message of the model."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "status": "completed", "content": [part]}


def prompt_text(request: Request) -> str:
    r"""Return a request as one text: instructions and messages of system and user, with a blank line between them.

    In a conversation that goes on (the agent is asked again) each item follows the name of its role.

    >>> prompt_text({"input": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}]})
    'Be brief.\n\n2+2?'
    """
    instructions = request.get("instructions")
    first = [instructions] if isinstance(instructions, str) and instructions else []
    items = request["input"]
    if not any(item.get("type", "message") != "message" or item.get("role") == "assistant" for item in items):
        return "\n\n".join([*first, *filter(None, map(item_text, items))])
    return "\n\n".join([*first, *filter(None, map(_line, items))])


def _line(item: Item) -> str:
    kind = item.get("type", "message")
    if kind == "message":
        return f"{str(item.get('role', '')).capitalize()}: {item_text(item)}"
    if kind == "function_call":
        return f"Call: {item.get('name')}({item.get('arguments')})"
    if kind == "function_call_output":
        output = item.get("output")
        return f"Output: {output if isinstance(output, str) else item_text({'content': output})}"
    return ""


def _same_json(one: Any, other: str) -> bool:
    if one == other:
        return True
    try:
        return bool(json.loads(one) == json.loads(other))
    except (TypeError, ValueError, RecursionError):
        return False
