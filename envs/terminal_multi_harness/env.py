"""TerminalMultiHarness: the next action of an agent in a terminal (NeMo Gym's `terminal_multi_harness`)."""

from __future__ import annotations

import importlib.util
from collections.abc import Awaitable
from functools import cached_property
from typing import Annotated, Any

from gymnasium.error import DependencyNotInstalled
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.checks import read_settings
from gym_llm.core.compat import NemoCompatible
from gym_llm.envs.terminal_multi_harness import categories as is_
from gym_llm.envs.terminal_multi_harness.comparison import Result, Settings, compare, is_quick, tools_schemas
from gym_llm.grading.call_matching import (
    Call,
    ExpectedAction,
    ExpectedCall,
    ExpectedMessage,
    calls_of,
    expected_turn,
    read_calls,
)
from gym_llm.grading.json_schema import json_schema
from gym_llm.grading.text_metrics import in_worker
from gym_llm.tokens.parsers.thinking import without_cut_thought
from gym_llm.types import Item, Row, known
from gym_llm.utils.extras import install

Share = Annotated[float, Field(ge=0, le=1)]
DEADLINE = 5.0  # seconds of CPU time; a long script takes one, hostile texts take longer


class ComparatorConfig(BaseModel):
    """NeMo Gym's keys; it reads only the first, and we the first two."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    string_similarity_threshold: Share = 0.9
    query_string_similarity_threshold: Share | None = None
    floating_point_comparison_threshold: float | None = None
    ignored_argument_keys_by_tool: dict[str, list[str]] = {}


class TerminalMultiHarness(NemoCompatible):
    """Do what the expert did next; the reward is 1.0 if the action is the same by the rules of its harness.

    Nothing is run: the first turn with calls ends the episode. Details: `category`, `similarity_score`.

    Args:
        tool_call_comparator_config: Thresholds, see the README.
        conform: `"nemo"` compares as NeMo Gym does, where it is wrong; the README says where.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        DependencyNotInstalled: Without the jsonschema library.
        ValueError: If an argument makes no sense.
    """

    executes_tools = False
    reverify_mode = "stateless"
    accepted_findings = dict.fromkeys(
        ("non-answer", "near miss", "all options", "look-alike"), "where a message is expected, any is right"
    )
    metrics = {"similarity_score": Metric()}

    class Task(BaseTask):
        """The expert's action, and the tools of its harness."""

        harness: str = "generic"
        expected_action: ExpectedAction
        declared_tools: list[dict[str, Any]] | None = None
        threshold: Share | None = None

        @field_validator("declared_tools")
        @classmethod
        def _have_schemas(cls, tools: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
            for name, schema in tools_schemas(tools or []).items():
                try:
                    json_schema(schema)
                except ValueError as error:
                    raise ValueError(f"the parameters of {name}: {error}") from None
            return tools

        @model_validator(mode="after")
        def _objects(self) -> TerminalMultiHarness.Task:
            if not all(isinstance(call.arguments, dict) for call in self.calls):
                raise ValueError("expected_action: the arguments of a call are a JSON object")
            return self

        @cached_property
        def calls(self) -> list[Call]:
            """The expert's calls, their arguments read; none if it was a message."""
            return calls_of(self.expected_action)

        @cached_property
        def size(self) -> int:
            """Characters of the expected calls' arguments."""
            action = self.expected_action
            return 0 if isinstance(action, ExpectedMessage) else sum(len(call.arguments) for call in action.calls)

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        tool_call_comparator_config: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if importlib.util.find_spec("jsonschema") is None:
            raise DependencyNotInstalled(f"TerminalMultiHarness needs the jsonschema library: {install('schema')}")
        name = "tool_call_comparator_config"
        self._config = read_settings(name, ComparatorConfig, tool_call_comparator_config)
        super().__init__(tasks, **kwargs)

    def oracle(self, task: Task) -> str | list[Item]:
        """Return the expert's message or calls."""
        return expected_turn(task.expected_action)

    def verify(self, task: Task, episode: Episode) -> Verdict | Awaitable[Verdict]:
        """Compare the turn with the expert's."""
        calls = read_calls(episode.items, as_python=self.conform is not None)
        if not calls or not task.calls:
            says = any(item.get("type", "message") == "message" for item in episode.items)
            text = episode.text if self.conform else without_cut_thought(episode.text)
            return _verdict(_compare_messages(task, bool(calls), says, text))
        if (len(calls) == 1) != isinstance(task.expected_action, ExpectedCall):
            return _verdict(Result(False, is_.OTHER_KIND))
        tools = task.declared_tools
        schemas = tools_schemas(episode.request.get("tools") or [] if tools is None else tools)
        threshold, query = self._config.string_similarity_threshold, self._config.query_string_similarity_threshold
        threshold = threshold if task.threshold is None else task.threshold
        query = threshold if query is None or self.conform or task.threshold is not None else query
        settings = Settings(task.harness, threshold, query, schemas, self.conform is not None)
        size = sum(len(call["arguments"]) for call in episode.function_calls())
        if is_quick(task.calls, calls, (task.size, size), settings):
            return _verdict(compare(task.calls, calls, settings))
        return self._compare_in_worker(task.calls, list(episode.function_calls()), settings)

    async def _compare_in_worker(self, expected: list[Call], items: list[Item], settings: Settings) -> Verdict:
        function = "gym_llm.envs.terminal_multi_harness.comparison:compare_items"
        result = await in_worker(function, (expected, items, settings), DEADLINE)
        return _verdict(result or Result(False, is_.TOO_LONG))


def _compare_messages(task: TerminalMultiHarness.Task, calls: bool, says: bool, text: str) -> Result:
    if not calls and not says:
        return Result(False, is_.NO_ACTION)
    if calls or task.calls:
        return Result(False, is_.OTHER_KIND)
    return Result(True, is_.MESSAGE) if text.strip() else Result(False, is_.NO_MESSAGE)


def _verdict(result: Result) -> Verdict:
    return Verdict(float(result.matches), {"category": result.category, **known(similarity_score=result.similarity)})
