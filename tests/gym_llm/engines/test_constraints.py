"""What a request demands of a turn, and the schemas that are refused before anything compiles them."""

import json

import pytest
from hostile_schemas import HOSTILE_SCHEMAS

from gym_llm.engines.constraints import Constraint, constraint_of, mark_constrained
from gym_llm.engines.engine_response import text_response
from gym_llm.errors import EngineError

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = [{"type": "function", "name": name, "parameters": SCHEMA} for name in ("add", "stop")]
NAMED = ("named pattern", "named patterns")
ANSWER = {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA}}


def of(**fields: object) -> Constraint | None:
    return constraint_of({"input": [], **fields})  # type: ignore[typeddict-item]


def names(constraint: Constraint | None) -> list[str]:
    assert constraint is not None
    return [name for name, _ in constraint.tools]


def test_a_request_that_leaves_the_choice_has_no_constraint() -> None:
    free = [{}, {"tools": TOOLS}, {"tools": TOOLS, "tool_choice": "none"}, {"text": {"format": {"type": "text"}}}]
    assert [of(**fields) for fields in free] == [None] * 4


def test_calls_are_forced_among_the_tools_that_a_choice_names() -> None:
    required = of(tools=TOOLS, tool_choice="required")
    assert names(required) == ["add", "stop"] and required is not None
    assert required.several and required.answer is None
    one = of(tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
    assert one is not None and not one.several
    named = of(tools=TOOLS, tool_choice={"type": "function", "name": "stop"})
    assert names(named) == ["stop"] and named is not None and not named.several
    choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "stop"}]}
    assert names(of(tools=TOOLS, tool_choice=choice)) == ["stop"]


def test_a_format_leaves_the_model_its_tools() -> None:
    both = of(tools=TOOLS, text=ANSWER)
    assert names(both) == ["add", "stop"] and both is not None and both.answer is not None
    assert names(of(tools=TOOLS, text=ANSWER, tool_choice="none")) == []
    calls = of(tools=TOOLS, text=ANSWER, tool_choice="required")
    assert calls is not None and calls.answer is None


def test_only_strict_schemas_are_followed_to_the_letter() -> None:
    strict = {**TOOLS[0], "strict": True}
    for tool, lenient in ((TOOLS[0], True), (strict, False)):
        constraint = of(tools=[tool], tool_choice="required")
        assert constraint is not None
        assert json.loads(constraint.tools[0][1])["x-guidance"]["lenient"] is lenient


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_choice": "required"},
        {"tools": TOOLS, "tool_choice": "sometimes"},
        {"tools": TOOLS, "tool_choice": {"type": "function", "name": "ad"}},
        {"tools": TOOLS, "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}},
        {"tools": [{"type": "function", "name": "f", "parameters": []}] * 200, "tool_choice": "required"},
        {"tools": [{"type": "function", "name": "f", "parameters": 3}], "tool_choice": "required"},
        {"tools": [{"type": "web_search"}], "tool_choice": "required"},
        {"text": {"format": {"type": "json_schema", "name": "x"}}},
        {"text": {"format": {"type": "grammar"}}},
    ],
)
def test_what_cannot_be_demanded_is_said_in_a_sentence(fields: dict[str, object]) -> None:
    with pytest.raises(EngineError) as caught:
        of(**fields)
    assert len(str(caught.value)) <= 160 and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["deep", "wide", "long enum", "long text", "long pattern", "no number", "digits", *NAMED]
)
def test_large_schemas_are_refused_before_they_are_compiled(name: str) -> None:
    with pytest.raises(EngineError, match="schema"):
        of(text={"format": {"type": "json_schema", "name": "x", "schema": HOSTILE_SCHEMAS[name]}})


@pytest.mark.parametrize("size", [(40, 200), (128, 150), (3, 0)])
def test_many_large_tools_are_refused_before_they_are_compiled(size: tuple[int, int]) -> None:
    count, width = size
    schema = {"type": "object", "properties": {f"property {index}": {"type": "string"} for index in range(width)}}
    tools = [{"type": "function", "name": str(n) * (1 if width else 10**6), "parameters": schema} for n in range(count)]
    if count == 40:
        assert len(names(of(tools=tools[:20], tool_choice="required"))) == 20
        tools *= 3
    with pytest.raises(EngineError, match="tools"):
        of(tools=tools, tool_choice="required")


def test_a_servers_answer_is_marked_if_its_request_had_a_constraint() -> None:
    def marked(**fields: object) -> bool:
        response = text_response("4", tokens=([1], [2], [-0.5]))
        request = {"input": [], **fields}
        return "generation_constrained" in mark_constrained(response, request)["output"][-1]  # type: ignore[arg-type]

    assert [marked(), marked(tool_choice="auto"), marked(tool_choice="none")] == [False] * 3
    assert marked(tool_choice="required") and marked(text=ANSWER)
    assert (
        "generation_constrained" not in mark_constrained(text_response("4"), {"input": [], "text": ANSWER})["output"][0]
    )
