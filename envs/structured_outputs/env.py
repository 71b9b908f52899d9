"""StructuredOutputs: answers, or a call's arguments, that fit a schema (NeMo Gym's `structured_outputs`)."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Awaitable
from typing import Any, Literal

from gymnasium.error import DependencyNotInstalled
from pydantic import field_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.concurrency.processes import shared_pool
from gym_llm.core.compat import NemoCompatible
from gym_llm.core.env_config import Seconds
from gym_llm.envs.structured_outputs.grading import (
    Problem,
    Rules,
    check_schema,
    is_quick_for,
    problem_of,
    problem_of_json,
)
from gym_llm.errors import DeadlinePassed, WorkerDied
from gym_llm.grading.document_formats import Format
from gym_llm.grading.extraction import fences
from gym_llm.types import Item, Row
from gym_llm.utils.extras import install
from gym_llm.utils.json_codec import loads

_SHOWN = 217  # NeMo Gym shows 200 characters of a message, and before it an error's name


class StructuredOutputs(NemoCompatible):
    """Answer in JSON, YAML, XML, TOML or CSV, or with a call; the reward is 1.0 if what is said fits the row's schema.

    Objects need all properties of the schema, and no others. Details: `error_type` (None if it fits), `error_message`,
    and the row's `response_mode`.

    Args:
        xml_coerce_types: Whether the texts of XML count as the numbers and truths that they are, and single elements as
            the lists that the schema wants.
        strip_fences: Whether the content of a fence of back-ticks is the answer; else a fenced answer does not parse.
        deadline: Seconds of CPU time that judging a long answer, or a schema's patterns, may take in a worker process.
        conform: `"nemo"` makes schemas strict as NeMo Gym does; the README says what that is.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        DependencyNotInstalled: Without the jsonschema library.
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"
    executes_tools = False

    class Task(BaseTask):
        """The schema, and where what fits it is said."""

        schema_str: str
        schema_type: Format = "json"
        response_mode: Literal["text", "tool_call"] = "text"
        tool_name: str | None = None
        tool_payload_key: str | None = None

        @field_validator("schema_str")
        @classmethod
        def _is_schema(cls, schema: str) -> str:
            check_schema(schema)
            return schema

    class Config(NemoCompatible.Config):
        """Arguments of the class."""

        xml_coerce_types: bool = True
        strip_fences: bool = False
        deadline: Seconds = 5.0

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        if importlib.util.find_spec("jsonschema") is None:
            raise DependencyNotInstalled(
                f"StructuredOutputs needs the jsonschema library, which is not installed: {install('schema')}"
            )
        super().__init__(tasks, **kwargs)

    def verify(self, task: Task, episode: Episode) -> Verdict | Awaitable[Verdict]:
        """Read the answer or the call, and compare it with the schema."""
        if task.response_mode == "tool_call":
            return self._verify_call(task, episode)
        text = episode.text
        if not text or text.isspace():
            return _verdict(task, Problem("empty_response", "No assistant response text"))
        if self.config.strip_fences and (fence := next(fences(text), None)) is not None:
            text = fence.body
        rules = self._rules(task, task.schema_type)
        if is_quick_for(rules, text):
            return _verdict(task, problem_of((rules, text)))
        return self._verify_in_worker(task, "problem_of", (rules, text))

    def _verify_call(self, task: Task, episode: Episode) -> Verdict | Awaitable[Verdict]:
        if error := episode.last_response.get("error"):
            return _verdict(task, Problem("api_error", str(error)))
        calls = list(episode.function_calls())
        if not calls:
            return _verdict(task, Problem("missing_tool_call", "No function_call item found in assistant response"))
        if len(calls) > 1:
            names = ", ".join(str(call["name"])[:_SHOWN] for call in calls[:_SHOWN])
            return _verdict(task, Problem("multiple_tool_calls", f"Expected exactly one function_call, got: {names}"))
        problem, payload = _payload(task, calls[0])
        if problem is not None:
            return _verdict(task, problem)
        rules, arguments = self._rules(task, "json"), str(calls[0]["arguments"])
        if is_quick_for(rules, arguments):
            return _verdict(task, problem_of_json((rules, payload)))
        return self._verify_in_worker(task, "problem_of_json", (rules, payload))

    def _rules(self, task: Task, kind: Format) -> Rules:
        return Rules(task.schema_str, kind, self.conform is not None, self.config.xml_coerce_types)

    async def _verify_in_worker(self, task: Task, function: str, argument: Any) -> Verdict:
        pool = shared_pool(f"gym_llm.envs.structured_outputs.grading:{function}", deadline=self.config.deadline)
        try:
            return _verdict(task, await pool.call(argument))
        except (DeadlinePassed, WorkerDied) as error:
            return _verdict(task, Problem("timeout", str(error)))


def _payload(task: StructuredOutputs.Task, call: Item) -> tuple[Problem | None, Any]:
    """What of a call has to fit the schema, or what is wrong with it."""
    if task.tool_name is not None and call.get("name") != task.tool_name:
        return Problem("wrong_tool_name", f"Expected tool '{task.tool_name}', got: {call.get('name')}"), None
    text = str(call.get("arguments"))
    try:
        payload = loads(text.encode("utf-8", "surrogatepass"))
    except ValueError as error:
        return Problem("tool_arguments_parse_error", _what_is_wrong(text) or str(error)), None
    if task.tool_payload_key is None:
        return None, payload
    if not isinstance(payload, dict) or task.tool_payload_key not in payload:
        return Problem("missing_tool_payload_key", f"Missing tool payload key: {task.tool_payload_key}"), None
    return None, payload[task.tool_payload_key]


def _what_is_wrong(text: str) -> str | None:
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _verdict(task: StructuredOutputs.Task, problem: Problem | None) -> Verdict:
    error_type, message = problem or (None, None)
    message = None if message is None else message[:_SHOWN]
    details = {"response_mode": task.response_mode, "error_type": error_type, "error_message": message}
    return Verdict(float(problem is None), details)
