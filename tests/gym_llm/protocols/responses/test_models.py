import json
import os
import time
import timeit
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from testing import often

from gym_llm.protocols.responses import (
    EasyInputMessage,
    FunctionCallOutput,
    FunctionTool,
    Response,
    ResponseCreateParams,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseUsage,
    SummaryText,
    explain,
)

VECTORS = Path(os.environ.get("GYM_LLM_VECTORS", Path(__file__).parents[5] / "shared" / "vectors"))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def response(*output):
    return Response.model_validate({"id": "resp_1", "created_at": 1.0, "model": "m", "output": list(output)})


@pytest.mark.skipif(not VECTORS.exists(), reason="no conformance vectors here")
def test_recorded_rows_and_outputs_come_back_unchanged():
    records = [json.loads(line) for file in VECTORS.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert records
    for record in records:
        params = record["task"]["responses_create_params"]
        assert ResponseCreateParams.model_validate(params).to_dict() == params
        assert response(*record["output"]).to_dict()["output"] == record["output"]


@given(
    st.dictionaries(st.text(), JSON, max_size=4),
    st.text().filter(lambda kind: kind not in ("message", "reasoning", "function_call", "function_call_output")),
)
@settings(max_examples=100, deadline=None)
def test_unknown_items_are_kept_to_the_byte(fields, kind):
    item = {**fields, "type": kind}
    text = json.dumps(item)
    assert json.dumps(ResponseCreateParams.model_validate({"input": [item]}).to_dict()["input"][0]) == text
    assert json.dumps(response(item).to_dict()["output"][0]) == text


@given(st.dictionaries(st.text(min_size=1).map(lambda key: f"x_{key}"), JSON, max_size=4))
@settings(max_examples=100, deadline=None)
def test_extra_fields_of_known_objects_are_kept(fields):
    item = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c", **fields}
    tool = {"type": "function", "name": "f", **fields}
    params = {"input": [item, {"role": "user", "content": "Hi", **fields}], "tools": [tool], **fields}
    assert ResponseCreateParams.model_validate(params).to_dict() == params


def test_objects_made_in_python_write_what_was_set_and_what_names_them():
    made = Response(
        id="resp_1",
        created_at=1.5,
        model="m",
        output=[
            ResponseReasoningItem(id="rs_1", summary=[SummaryText(text="hm")]),
            ResponseOutputMessage(id="msg_1", content=[ResponseOutputText(text="4")], status="completed"),
            ResponseFunctionToolCall(name="f", arguments="{}", call_id="c"),
        ],
        usage=ResponseUsage(input_tokens=1, output_tokens=2, total_tokens=3),
    )
    written = made.to_dict()
    assert written["object"] == "response"
    assert written["output"] == [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "status": "completed",
            "content": [{"type": "output_text", "text": "4", "annotations": []}],
        },
        {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"},
    ]
    assert Response.model_validate(written).to_dict() == written
    assert json.loads(json.dumps(written)) == written
    assert made.output_text == "4"


def test_items_made_in_python_go_into_a_request():
    params = ResponseCreateParams(
        input=[EasyInputMessage(role="user", content="Hi"), FunctionCallOutput(call_id="c", output="5")],
        tools=[FunctionTool(name="f", strict=True)],
    )
    assert params.to_dict() == {
        "input": [{"role": "user", "content": "Hi"}, {"type": "function_call_output", "call_id": "c", "output": "5"}],
        "tools": [{"type": "function", "name": "f", "strict": True}],
    }


@pytest.mark.parametrize(
    "item",
    [
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"},
    ],
)
def test_token_fields_come_all_or_none_and_with_equal_lengths(item):
    whole = {**item, "prompt_token_ids": [1, 2], "generation_token_ids": [3], "generation_log_probs": [-0.5]}
    assert response(whole).to_dict()["output"] == [whole]
    for field in ("prompt_token_ids", "generation_token_ids", "generation_log_probs"):
        with pytest.raises(ValidationError, match="come together"):
            response({key: value for key, value in whole.items() if key != field})
    with pytest.raises(ValidationError, match=r"1 generation_token_ids but 2 generation_log_probs"):
        response({**whole, "generation_log_probs": [-0.5, -0.5]})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ([], "dictionary"),
        ({}, "input: Field required"),
        ({"input": None}, "string or a list of items"),
        ({"input": {"role": "user", "content": "Hi"}}, "string or a list of items"),
        ({"input": ["Hi"]}, "An item must be an object"),
        ({"input": [[]]}, "An item must be an object"),
        ({"input": [{"content": "Hi"}]}, "An item must be an object"),
        ({"input": [{"role": "tool", "content": "Hi"}]}, "'developer' (given: 'tool')"),
        ({"input": [{"role": "user"}]}, "content: Field required"),
        ({"input": [{"role": "user", "content": 5}]}, "string or a list of content parts (given: 5)"),
        ({"input": [{"role": "user", "content": ["Hi"]}]}, "content part must be an object"),
        ({"input": [{"type": "function_call", "name": "f", "arguments": {}, "call_id": "c"}]}, "arguments"),
        ({"input": [{"type": "function_call_output", "output": "5"}]}, "call_id: Field required"),
        ({"input": "Hi", "tools": {}}, "tools: Input should be a valid list"),
        ({"input": "Hi", "tools": ["f"]}, "A tool must be an object"),
        ({"input": "Hi", "tools": [{"type": "function", "function": {"name": "f"}}]}, "function.name: Field required"),
        ({"input": "Hi", "temperature": "0.7"}, "temperature: Input should be a valid number (given: '0.7')"),
        ({"input": "Hi", "max_output_tokens": True}, "max_output_tokens"),
        ({"input": "Hi", "tool_choice": "always"}, "tool_choice"),
    ],
)
def test_wrong_rows_are_explained_in_one_line(params, message):
    with pytest.raises(ValidationError) as caught:
        ResponseCreateParams.model_validate(params)
    assert message in explain(caught.value)
    assert "\n" not in explain(caught.value)


@given(JSON)
@settings(max_examples=often(100, 200), deadline=None)
def test_any_input_is_either_read_or_a_validation_error(value):
    for params in (value, {"input": value}, {"input": [value]}, {"input": [{"role": "user", "content": value}]}):
        try:
            ResponseCreateParams.model_validate(params)
        except ValidationError as error:
            assert explain(error)


def test_a_row_is_validated_in_microseconds():
    tool = {
        "type": "function",
        "name": "f",
        "description": "",
        "strict": True,
        "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    }
    params = {"input": [{"role": "user", "content": "Hi"}], "tools": [tool, tool]}
    validate = timeit.Timer(lambda: ResponseCreateParams.model_validate(params), timer=time.thread_time)
    seconds = min(validate.repeat(number=500, repeat=5)) / 500  # processor time
    assert seconds < 100e-6  # about 5 on an idle core
