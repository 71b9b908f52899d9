"""ToolSandbox: stateful tools, a simulated user and milestones, run from your checkout of NeMo Gym."""

from __future__ import annotations

import asyncio
import copy
import json
import random
import sys
from functools import cache
from pathlib import Path
from typing import Any

ENV_ID = "gym_llm/ToolSandbox-v0"
PACKAGES = (
    *("polars-lts-cpu==1.33.1", "attrs>=23.2", "numpy>=1.26", "networkx>=3", "rouge-score>=0.1.2", "rapidfuzz>=3"),
    *("dill>=0.3.7", "StrEnum>=0.4.15", "tqdm>=4.66", "tenacity>=9.1.4", "requests>=2.31", "openai==2.7.2"),
    *("phonenumbers>=8.13", "geopy>=2.4", "holidays>=0.40", "pint>=0.23", "ccy>=1.4", "decorator>=5.1"),
    *("defusedxml", "regex", "pydantic>=2.7"),
)
MODULE = "polars"
FRAMEWORKS = ("toolsandbox",)
APART = True  # it is imported from a folder of the user's, runs code of its own, and pins polars
ENGINES = {"user": 1}
_SERVER = "resources_servers/toolsandbox"
_USER = 1
_SOURCES: set[str] = set()
_FAULTS = (KeyError, ValueError, TypeError)
_RAPID_API = "rapid_api"


class Peer:
    """A phone's assistant: contacts, messages, reminders, settings, searches. A model plays the user.

    The last turn's reward is the similarity to the scenario's milestones, from 0 to 1; a minefield makes it 0.
    Making the scenarios takes a child half a minute: give `step_seconds` of 120 or more on a slow machine.

    Args:
        source: The folder of a checkout of NeMo Gym, or of its `resources_servers/toolsandbox`.
        scenario: Its name; None for that of `task_idx`.
        task_idx: Its place among the names in order; None for each in turn.
        user: The engine that plays the user.
        max_messages: The most messages of the scenario; None for its own limit.
        max_steps: After how many turns the episode is truncated.
        preferred_tool_backend: Which tools search the web: `default`, or `rapid_api` with a key.
    """

    recording = False

    def __init__(
        self,
        source: str = "",
        scenario: str | None = None,
        task_idx: int | None = None,
        user: Any = None,
        max_messages: int | None = None,
        max_steps: int = 30,
        preferred_tool_backend: str = "default",
    ) -> None:
        if preferred_tool_backend not in ("default", _RAPID_API):
            raise ValueError("preferred_tool_backend is 'default' or 'rapid_api'.")
        _import_from(source)
        scenarios = _scenarios(preferred_tool_backend)
        names = sorted(scenarios)
        task_idx = task_idx or 0
        if scenario is None and not 0 <= task_idx < len(names):
            raise ValueError(f"task_idx is a number from 0 to {len(names) - 1}; got {task_idx}.")
        name = names[task_idx] if scenario is None else scenario
        if name not in scenarios:
            raise ValueError(f"There is no scenario {name!r}; a name is such as {names[0]!r}.")
        self._name, self._scenario = name, scenarios[name]
        self._most = max_messages or self._scenario.max_messages
        self._steps, self._taken, self._shown, self._since = max_steps, 0, 0, 0
        self._context: Any = copy.deepcopy(self._scenario.starting_context)

    async def reset(self, seed: int | None) -> dict[str, Any]:
        """Load the tools; the turn has the instructions and the user's first message."""
        return await asyncio.create_task(self._begin())  # which has context variables of its own

    async def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Take the model's turn, or the user's, and run the tools until the model or the user is next."""
        return await asyncio.create_task(self._go_on(action))

    async def _begin(self) -> dict[str, Any]:
        from tool_sandbox.common.execution_context import RoleType, get_current_context, set_current_context
        from tool_sandbox.common.tool_conversion import convert_to_openai_tools
        from tool_sandbox.roles.execution_environment import ExecutionEnvironment

        set_current_context(self._context)
        self._user_turn = False
        rows = _messages(self._context)
        for place, row in enumerate(rows):
            if row["recipient"] == RoleType.EXECUTION_ENVIRONMENT and row["sender"] == RoleType.SYSTEM:
                await ExecutionEnvironment().respond(ending_index=place)
        self._context = get_current_context()
        self._baseline = self._since = self._context.max_sandbox_message_index
        said = []
        for row in _messages(self._context):
            role = {RoleType.SYSTEM: "system", RoleType.USER: "user"}.get(row["sender"])
            if row["recipient"] == RoleType.AGENT and role:
                said.append({"type": "message", "role": role, "content": row["content"]})
        tools = [
            {
                "type": "function",
                "name": each["function"]["name"],
                "description": each["function"].get("description") or "",
                "parameters": each["function"].get("parameters") or {"type": "object", "properties": {}},
                "strict": False,
            }
            for each in convert_to_openai_tools(self._tools())
        ]
        return {"say": said, "observation": said, "tools": tools, "seats": ["assistant", "user"], "seat": 0}

    async def _go_on(self, action: dict[str, Any]) -> dict[str, Any]:
        from tool_sandbox.common.execution_context import RoleType, get_current_context, set_current_context
        from tool_sandbox.roles.execution_environment import ExecutionEnvironment

        set_current_context(self._context)
        if self._user_turn:
            self._user_says(action)
        else:
            self._taken += 1
            self._since = self._context.max_sandbox_message_index
            if (refused := self._agent_says(action)) is not None:
                return self._ended({"say": refused, "observation": refused, "seat": 0})
        self._user_turn = False
        while True:
            self._context = get_current_context()
            last = _messages(self._context, all_snapshots=False)[-1]
            if not last["conversation_active"] or last["sandbox_message_index"] >= self._most + self._baseline:
                return self._ended({"say": (said := self._new()), "observation": said, "seat": 0}, is_over=True)
            if last["recipient"] == RoleType.USER:
                self._user_turn = True
                return self._users_view()
            if last["recipient"] != RoleType.EXECUTION_ENVIRONMENT:
                return self._ended({"say": (said := self._new()), "observation": said, "seat": 0})
            await ExecutionEnvironment().respond()
            if (
                _messages(get_current_context(), all_snapshots=False)[-1]["sandbox_message_index"]
                == (last["sandbox_message_index"])
            ):
                self._context = get_current_context()
                return self._ended({"say": (said := self._new()), "observation": said, "seat": 0}, is_over=True)

    # -- the two who speak ---------------------------------------------------------------------------------------------

    def _tools(self) -> dict[str, Any]:
        from tool_sandbox.common.execution_context import RoleType

        tools = self._context.get_available_tools(scrambling_allowed=True)
        return {
            name: each
            for name, each in tools.items()
            if RoleType.AGENT in getattr(each, "visible_to", (RoleType.AGENT,))
        }

    def _agent_says(self, action: dict[str, Any]) -> list[dict[str, Any]] | None:
        """Add the model's calls or its text; or return the errors of calls that cannot be made."""
        from tool_sandbox.common.execution_context import RoleType
        from tool_sandbox.common.message_conversion import (
            Message,
            openai_tool_call_to_python_code,
            sanitize_tool_call_id,
        )
        from tool_sandbox.roles.base_role import BaseRole

        calls = action["calls"]
        if not calls:
            BaseRole.add_messages([Message(RoleType.AGENT, RoleType.USER, action["text"])])
            return None
        names, messages = set(self._tools()), []
        for call in calls:
            try:
                own_name = self._context.get_execution_facing_tool_name(call["name"])
                code = openai_tool_call_to_python_code(_openai_call(call), names, execution_facing_tool_name=own_name)
            except _FAULTS as error:
                said = f"Error: invalid tool call ({type(error).__name__}: {error})"[:4_000]
                return [{"type": "function_call_output", "call_id": each["call_id"], "output": said} for each in calls]
            about = {
                "openai_tool_call_id": sanitize_tool_call_id(call["call_id"]),
                "openai_function_name": call["name"],
            }
            messages.append(Message(RoleType.AGENT, RoleType.EXECUTION_ENVIRONMENT, code, **about))
        self._ids = {sanitize_tool_call_id(call["call_id"]): call["call_id"] for call in calls}
        BaseRole.add_messages(messages)
        return None

    def _user_says(self, action: dict[str, Any]) -> None:
        """Add the user's text; `end_conversation()` ends the conversation, and is written: the seat has no tools."""
        from tool_sandbox.common.execution_context import RoleType
        from tool_sandbox.common.message_conversion import Message, openai_tool_call_to_python_code
        from tool_sandbox.roles.base_role import BaseRole

        text = action["text"]
        if text.strip().strip("`").removesuffix("()") == "end_conversation":
            call = _openai_call({"call_id": "call_user", "name": "end_conversation", "arguments": {}})
            code = openai_tool_call_to_python_code(call, {"end_conversation"}, execution_facing_tool_name=None)
            BaseRole.add_messages([Message(RoleType.USER, RoleType.EXECUTION_ENVIRONMENT, code)])
        else:
            BaseRole.add_messages([Message(RoleType.USER, RoleType.AGENT, text)])

    def _users_view(self) -> dict[str, Any]:
        """Return the turn that shows the user the messages that they have not seen or written."""
        from tool_sandbox.common.execution_context import RoleType

        said = []
        for row in _messages(self._context):
            if row["sandbox_message_index"] < self._shown:
                continue
            if row["sender"] == RoleType.SYSTEM and row["recipient"] == RoleType.USER:
                said.append({"type": "message", "role": "system", "content": row["content"]})
            elif row["sender"] == RoleType.AGENT and row["recipient"] == RoleType.USER:
                said.append({"type": "message", "role": "user", "content": row["content"]})
            elif row["sender"] == RoleType.USER and not self._shown:  # also the examples of `end_conversation()`
                said.append({"type": "message", "role": "assistant", "content": row["content"]})
        self._shown = self._context.max_sandbox_message_index + 1
        return {"say": said, "seat": _USER, "observation": said}

    # -- what the model is shown, and paid -----------------------------------------------------------------------------

    def _new(self) -> list[dict[str, Any]]:
        """Return the messages for the model since its turn."""
        from tool_sandbox.common.execution_context import RoleType

        said = []
        for row in _messages(self._context):
            if row["sandbox_message_index"] <= self._since or row["recipient"] != RoleType.AGENT:
                continue
            content = row["content"] or ""
            if row["sender"] == RoleType.EXECUTION_ENVIRONMENT:
                call_id = row["openai_tool_call_id"] or "call"
                call_id = self._ids.get(call_id, call_id)
                said.append({"type": "function_call_output", "call_id": call_id, "output": content})
            elif row["sender"] == RoleType.USER:
                said.append({"type": "message", "role": "user", "content": content})
        return said

    def _ended(self, turn: dict[str, Any], *, is_over: bool = False) -> dict[str, Any]:
        """Add the reward to a turn that ends the episode."""
        if not is_over and self._taken < self._steps:
            return turn
        result = self._scenario.evaluation.evaluate(execution_context=self._context, max_turn_count=self._most)
        info = {
            "scenario": self._name,
            "similarity": float(result.similarity),
            "milestone_similarity": float(result.milestone_similarity),
            "minefield_similarity": float(result.minefield_similarity),
            "turn_count": int(result.turn_count),
            "categories": [str(each) for each in self._scenario.categories],
        }
        ended = {"terminated": is_over, "truncated": not is_over, "reward": [float(result.similarity), 0.0]}
        return {**turn, **ended, "info": info}


def _messages(context: Any, *, all_snapshots: bool = True) -> list[dict[str, Any]]:
    """Return the rows of the messages, in order."""
    from tool_sandbox.common.execution_context import DatabaseNamespace

    options = {"get_all_history_snapshots": True} if all_snapshots else {}
    table = context.get_database(DatabaseNamespace.SANDBOX, drop_sandbox_message_index=False, **options)
    rows: list[dict[str, Any]] = table.to_dicts()
    return sorted(rows, key=lambda row: row["sandbox_message_index"]) if all_snapshots else rows


def _openai_call(call: dict[str, Any]) -> Any:
    from openai.types.chat.chat_completion_message_tool_call import ChatCompletionMessageToolCall, Function

    given = call["arguments"]
    arguments = given if isinstance(given, str) else json.dumps(given)
    function = Function(name=call["name"], arguments=arguments or "{}")
    return ChatCompletionMessageToolCall(id=call["call_id"], type="function", function=function)


@cache
def _scenarios(backend: str) -> dict[str, Any]:
    """Make all scenarios, which takes half a minute; they shuffle tools with the global generator."""
    from tool_sandbox.common.tool_discovery import ToolBackend
    from tool_sandbox.scenarios import named_scenarios

    state = random.getstate()
    random.seed(0)
    try:
        scenarios: dict[str, Any] = named_scenarios(preferred_tool_backend=ToolBackend[backend.upper()])
    finally:
        random.setstate(state)
    return scenarios


def samples(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the name of each scenario."""
    if arguments["scenario"] is not None or arguments["task_idx"] is not None:
        return [{}]
    _import_from(arguments["source"])
    return [{"scenario": name} for name in sorted(_scenarios(arguments["preferred_tool_backend"]))]


def check(arguments: dict[str, Any]) -> None:
    """Check the arguments when the environment is made.

    Raises:
        ValueError: If the checkout or the user is missing.
    """
    if arguments["user"] is None:
        raise ValueError("Give `user`, the engine that plays the user.")
    _folder(arguments["source"])


def _folder(source: str) -> Path:
    root = Path(source).expanduser() if source else None
    found = [] if root is None else [each for each in (root / _SERVER, root) if (each / "tool_sandbox").is_dir()]
    if not found:
        raise ValueError(f"source is a checkout of NeMo Gym with {_SERVER}; got {source[:60]!r}.")
    return found[0].resolve()


def _import_from(source: str) -> None:
    """Let Python find ToolSandbox in a checkout.

    Raises:
        ValueError: If there is none, or another one is in use.
    """
    path = str(_folder(source))
    if _SOURCES - {path}:
        raise ValueError("This process plays another checkout already: play each in a run of its own.")
    if path not in _SOURCES:
        _SOURCES.add(path)
        sys.path.insert(0, path)
    import tool_sandbox.roles.openai_api_user  # noqa: F401 - before the scenarios, which it imports in a circle


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode."""
    return episode["kwargs"], episode.get("seed")


def utter(action: Any) -> dict[str, Any]:
    """Return the recorded output."""
    return dict(action)
