from __future__ import annotations

import asyncio
import enum
import json
import threading
from typing import Any, Literal

import pytest
from gymnasium.error import InvalidAction, ResetNeeded
from pydantic import BaseModel
from testing import cpu_seconds, function_call, message, outputs, row

from gym_llm import VerifierEnv, tool
from gym_llm.concurrency import drive
from gym_llm.core.tools import Tool, tool_output, tools_of
from gym_llm.errors import ToolError


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


class Place(BaseModel):
    name: str
    lat: float = 0.0


class Tools(VerifierEnv):
    """Tools of every kind."""

    def setup(self, task: Any) -> list[Any]:
        return []

    @tool
    def look_up(self, state: list[Any], city: str, days: int = 1, unit: Unit = Unit.C) -> dict[str, Any]:
        """Look up the weather
        in a city.

        It is always the same.

        Args:
            city: The city's name,
                in any language.
            days: How many days.
        """
        state.append((city, days, unit))
        return {"city": city, "days": days, "unit": unit}

    @tool
    def place(self, place: Place, kind: Literal["a", "b"]) -> str:
        """Take an object."""
        assert isinstance(place, Place)
        return f"{place.name}{kind}"

    @tool
    async def later(self, seconds: float) -> str:
        """Take time."""
        await asyncio.sleep(seconds)
        return "later"

    everybody: asyncio.Barrier

    @tool
    async def meet(self) -> str:
        """Wait for the other calls."""
        async with asyncio.timeout(60):
            await self.everybody.wait()
        return "met"

    @tool(blocking=True)
    def block(self) -> str:
        """Take a thread."""
        return threading.current_thread().name

    @tool
    def circular(self) -> list[Any]:
        """Give a list that has itself in it."""
        part: list[Any] = []
        part.append(part)
        return part

    @tool
    def refuse(self) -> str:
        """Say no."""
        raise ToolError("no such city")

    @tool
    async def refuse_later(self) -> str:
        """Say no."""
        raise ToolError("no such city")

    @tool(blocking=True)
    def refuse_in_thread(self) -> str:
        """Say no."""
        raise ToolError("no such city")

    @tool
    async def fail_later(self) -> str:
        """Break."""
        raise KeyError("city")

    @tool
    def fail(self) -> str:
        """Break."""
        raise RuntimeError("it broke\ud800")

    @tool
    async def cancelled(self) -> str:
        """Be cancelled."""
        raise asyncio.CancelledError

    @tool
    def leave(self) -> str:
        """Leave the program."""
        raise SystemExit(1)

    @tool
    async def leave_later(self) -> str:
        """Leave the program from a task of its own."""
        raise SystemExit(1)

    @tool(blocking=True)
    def leave_thread(self) -> str:
        """Leave the program from a thread."""
        raise SystemExit(1)

    @tool
    def unsayable(self) -> Any:
        """Return what JSON cannot say."""
        return object()

    @tool
    def deep(self, value: Any) -> Any:
        """Take anything."""
        return value

    def helper(self) -> str:
        raise AssertionError("called a method that is no tool")

    def verify(self, task: Any, episode: Any) -> float:
        return 1.0


@pytest.fixture
def env() -> Tools:
    env = Tools(tasks=[row()])
    env.reset()
    return env


def test_the_schema_comes_from_signature_and_docstring() -> None:
    schema = next(schema for schema in Tools.tool_schemas() if schema["name"] == "look_up")
    parameters = schema["parameters"]
    assert schema["type"] == "function" and schema["description"] == "Look up the weather in a city."
    assert list(parameters["properties"]) == ["city", "days", "unit"] and parameters["required"] == ["city"]
    assert parameters["properties"]["city"] == {"type": "string", "description": "The city's name, in any language."}
    assert parameters["properties"]["days"]["default"] == 1 and parameters["additionalProperties"] is False
    assert schema["strict"] is False
    json.dumps(Tools.tool_schemas())


def test_a_tool_whose_parameters_are_all_required_is_strict() -> None:
    strict = {schema["name"]: schema["strict"] for schema in Tools.tool_schemas()}
    assert strict["place"] and strict["later"] and strict["block"] and not strict["look_up"]


def test_objects_and_enums_are_in_the_schema() -> None:
    schema = next(schema for schema in Tools.tool_schemas() if schema["name"] == "place")
    assert "Place" in schema["parameters"]["$defs"]
    assert schema["parameters"]["properties"]["kind"]["enum"] == ["a", "b"]


def test_arguments_are_converted_to_the_parameters_types(env: Tools) -> None:
    call = function_call("look_up", {"city": "Oslo", "days": "3", "unit": "fahrenheit"})
    observation, *_ = env.step([call, function_call("place", {"place": {"name": "x"}, "kind": "a"}, "call_2")])
    assert outputs(observation) == ['{"city":"Oslo","days":3,"unit":"fahrenheit"}', "xa"]
    assert env.episode.state == [("Oslo", 3, Unit.F)]


def test_calls_are_answered_in_their_order_under_their_ids(env: Tools) -> None:
    calls = [
        function_call("later", {"seconds": 0.05}, "a"),
        function_call("nope", {}, "b"),
        function_call("block", {}, "c"),
    ]
    observation, *_, info = env.step(calls)
    answers = observation["input"][-3:]
    assert [item["call_id"] for item in answers] == ["a", "b", "c"]
    assert answers[0]["output"] == "later" and "There is no tool named 'nope'" in answers[1]["output"]
    assert info["tool_errors"] == 1


def test_async_calls_of_a_turn_run_at_once(env: Tools) -> None:
    Tools.everybody = asyncio.Barrier(10)
    observation, *_ = env.step([function_call("meet", {}, str(n)) for n in range(10)])
    assert outputs(observation) == ["met"] * 10


@pytest.mark.parametrize(
    "name", ["helper", "verify", "step", "reset", "__init__", "_score", "setup", "tool_schemas", ""]
)
def test_a_method_that_is_no_tool_is_an_unknown_tool(env: Tools, name: str) -> None:
    observation, _, terminated, truncated, info = env.step([function_call(name)])
    assert "There is no tool named" in outputs(observation)[0] and "look_up" in outputs(observation)[0]
    assert info["tool_errors"] == 1 and not terminated and not truncated


@pytest.mark.parametrize("name", ["refuse", "refuse_later", "refuse_in_thread"])
def test_a_tool_error_is_the_tool_s_answer_to_the_model(env: Tools, name: str) -> None:
    observation, *_, info = asyncio.run(drive(env.step, [function_call(name)]))
    assert json.loads(outputs(observation)[0]) == {"error": "no such city"} and info["tool_errors"] == 1
    assert env.step(message("ok"))[1] == 1.0


@pytest.mark.parametrize(
    "name, error",
    [
        ("fail", RuntimeError),
        ("fail_later", KeyError),
        ("cancelled", asyncio.CancelledError),
        ("unsayable", ValueError),
        ("circular", ValueError),
        ("leave", SystemExit),
        ("leave_later", SystemExit),
        ("leave_thread", SystemExit),
    ],
)
def test_what_is_not_the_model_s_fault_is_not_told_to_the_model(env: Tools, name: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        asyncio.run(drive(env.step, [function_call("later", {"seconds": 0}), function_call(name)]))
    with pytest.raises(ResetNeeded):
        env.step(message("ok"))


@pytest.mark.parametrize(
    "arguments, words",
    [
        ("{", "not valid JSON"),
        ("[]", "JSON object, got list"),
        ("null", "JSON object, got NoneType"),
        ("{}", "city"),
        ('{"city": 3}', "city"),
        ('{"city": "x", "days": NaN}', "NaN is not JSON"),
        ('{"city": "x", "days": 1.5}', "days"),
        ('{"city": ' + "[" * 100_000 + "]" * 100_000 + "}", "look_up"),
        ('{"city": "x", "days": ' + "9" * 5_000 + "}", "look_up"),
    ],
    ids=lambda value: value[:30],
)
def test_wrong_arguments_are_explained_to_the_model(env: Tools, arguments: str, words: str) -> None:
    observation, *_, info = env.step([function_call("look_up", arguments)])
    error = json.loads(outputs(observation)[0])["error"]
    assert words in error and len(error) <= 2_000 and info["tool_errors"] == 1
    assert env.episode.state == []


def test_any_number_of_wrong_arguments_is_answered_quickly(env: Tools) -> None:
    call = function_call("look_up", json.dumps({f"x{n}": n for n in range(100_000)}))
    assert cpu_seconds(env.step, [call]) < 5


@pytest.mark.parametrize("extra", ['"x": 1', '"state": []', '"self": 0'])
def test_arguments_that_a_tool_does_not_have_are_left_out(env: Tools, extra: str) -> None:
    *_, info = env.step([function_call("look_up", '{"city": "x", ' + extra + "}")])
    assert env.episode.state == [("x", 1, Unit.C)] and info["tool_errors"] == 0


def test_the_last_of_duplicate_keys_counts(env: Tools) -> None:
    env.step([function_call("look_up", '{"city": "a", "city": "b"}')])
    assert env.episode.state == [("b", 1, Unit.C)]


def test_a_value_nested_as_deep_as_json_can_be_read_comes_back_or_is_an_error(env: Tools) -> None:
    for depth in (10, 300, 900, 990, 20_000):
        observation, *_ = env.step([function_call("deep", '{"value": ' + "[" * depth + "]" * depth + "}")])
    assert outputs(observation)[0] == "[" * 10 + "]" * 10 and "error" in outputs(observation)[-1]


def test_a_call_without_arguments_may_leave_them_empty(env: Tools) -> None:
    assert "error" not in outputs(env.step([function_call("block", "")])[0])[0]


def test_a_malformed_call_is_the_callers_mistake(env: Tools) -> None:
    with pytest.raises(InvalidAction):
        env.step([{"type": "function_call", "name": "block", "arguments": {}, "call_id": "a"}])


def test_tools_are_inherited_overridden_and_taken_back() -> None:
    class Fewer(Tools):
        @tool
        def later(self, seconds: int) -> str:
            """Now."""
            return "now"

        def fail(self) -> str:
            return "not a tool any more"

    names = list(tools_of(Fewer))
    assert "fail" not in names and "later" in names and "fail" in tools_of(Tools)
    env = Fewer(tasks=[row()])
    env.reset()
    assert outputs(env.step([function_call("later", {"seconds": 1})])[0]) == ["now"]


@pytest.mark.parametrize("define", [lambda self, x: x, lambda self, *args: args, lambda self, /, x: x])
def test_a_parameter_the_model_could_not_give_is_refused_at_once(define: Any) -> None:
    with pytest.raises(TypeError, match=r"Parameter '\w+' of tool"):
        tool(define)


def test_async_and_blocking_exclude_each_other() -> None:
    async def both(self: Any) -> None: ...

    with pytest.raises(TypeError, match="choose one"):
        tool(blocking=True)(both)


def test_a_tool_error_is_one_class_for_every_wrong_call() -> None:
    def f(self: Any, x: int) -> int:
        return x

    with pytest.raises(ToolError):
        Tool(f, False).arguments("[1]")
    assert Tool(f, False).arguments('{"x": 4.0}') == {"x": 4}


def test_texts_are_sent_as_they_are_and_the_rest_as_json() -> None:
    assert tool_output("a\nb") == "a\nb"
    assert tool_output({"a": [1, None], "é": Unit.C}) == '{"a":[1,null],"é":"celsius"}'
    assert tool_output(Place(name="x")) == '{"name":"x","lat":0.0}'
