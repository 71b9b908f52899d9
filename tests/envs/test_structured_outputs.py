"""StructuredOutputs: what fits a schema, in each format and as a call."""

import json

import gymnasium as gym
import pytest
from testing import cpu_seconds, function_call, message_item, response, row, scored
from verifier_vectors import replay_all

from gym_llm.envs.structured_outputs.env import StructuredOutputs
from gym_llm.envs.structured_outputs.grading import Rules, coerced_csv, coerced_xml, is_quick_for, strict_schema
from gym_llm.errors import DataError

ENV = "gym_llm/StructuredOutputs-v0"
S, INT, N, B = ({"type": kind} for kind in ("string", "integer", "number", "boolean"))


def obj(**properties):
    return {"type": "object", "properties": properties}


def error(action, schema=None, kind="json", kwargs=None, **fields):
    schema = json.dumps(obj(a=S, b=INT) if schema is None else schema)
    reward, info = scored(ENV, action, kwargs, schema_str=schema, schema_type=kind, **fields)
    assert reward == float(info["error_type"] is None)
    assert info["response_mode"] == fields.get("response_mode", "text")
    assert (info["error_message"] is None) == (info["error_type"] is None)
    assert len(info["error_message"] or "") <= 217
    return info["error_type"]


def test_recorded_episodes_score_as_recorded():
    assert len(replay_all("structured_outputs")) >= 3


@pytest.mark.parametrize(
    ("text", "kind", "problem"),
    [
        ('{"a": "x", "b": 1}', "json", None),
        (' \n{"b": 1.0, "a": "x"}\n', "json", None),
        ('{"a": "x"}', "json", "validation_error"),
        ('{"a": "x", "b": 1, "c": 2}', "json", "validation_error"),
        ('{"a": "x", "b": "1"}', "json", "validation_error"),
        ('{"a": "x", "b": true}', "json", "validation_error"),
        ("5", "json", "validation_error"),
        ('```json\n{"a": "x", "b": 1}\n```', "json", "parse_error"),
        ('{"a": "x", "b": 1} ok', "json", "parse_error"),
        ("", "json", "empty_response"),
        (" \n", "yaml", "empty_response"),
        ("a: x\nb: 1", "yaml", None),
        ("a: 2020-01-01\nb: 1", "yaml", None),
        ("a: x\nb: one", "yaml", "validation_error"),
        ("a: [", "yaml", "parse_error"),
        ('a = "x"\nb = 1', "toml", None),
        ("a = 2020-01-01\nb = 1", "toml", None),
        ("a = x", "toml", "parse_error"),
    ],
)
def test_the_whole_text_has_to_be_what_the_schema_wants(text, kind, problem):
    assert error(text, kind=kind) == problem


def test_formats_are_not_checked():
    assert error('{"a": "nope"}', obj(a={"type": "string", "format": "date"})) is None


@pytest.mark.parametrize(
    ("text", "schema", "problem"),
    [
        ("<r><a>x</a><b>1</b></r>", obj(r=obj(a=S, b=INT)), None),
        ("<r><a/><b>1</b></r>", obj(r=obj(a=S, b=INT)), None),
        ("<r><a>x</a><b>1.5</b></r>", obj(r=obj(a=S, b=INT)), "validation_error"),
        ("<r><a>1.5</a><b>TRUE</b></r>", obj(r=obj(a=N, b=B)), None),
        ("<r><a>0</a><b>maybe</b></r>", obj(r=obj(a=B, b=B)), "validation_error"),
        ("<r><t><x>1</x><x>2</x></t></r>", obj(r=obj(t={"type": "array", "items": INT})), None),
        ("<r><t><x>1</x></t></r>", obj(r=obj(t={"type": "array", "items": INT})), None),
        ("<r><t>1</t><t>2</t></r>", obj(r=obj(t={"type": "array", "items": INT})), None),
        ("<r><t/></r>", obj(r=obj(t={"type": "array", "items": INT})), None),
        ("<r><t><x><a>1</a></x></t></r>", obj(r=obj(t={"type": "array", "items": obj(a=INT)})), None),
        ("<r>", obj(r=S), "parse_error"),
    ],
)
def test_the_texts_of_xml_become_what_the_schema_wants(text, schema, problem):
    assert error(text, schema, "xml") == problem


def test_the_texts_of_xml_may_stay_texts():
    schema = obj(r=obj(b=INT))
    assert error("<r><b>1</b></r>", schema, "xml", {"xml_coerce_types": False}) == "validation_error"
    assert coerced_xml({"b": "x", "c": {"@k": "1", "#text": "2"}}, obj(b=INT, c=INT)) == {
        "b": "x",
        "c": {"@k": "1", "#text": "2"},
    }
    assert coerced_xml({"b": None}, obj(b={"type": ["string", "null"]})) == {"b": None}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("n,x,f,o\na,1.5,true,\nb,2,0,7", None),
        ("n,x,f,o\na,,true,1", "validation_error"),
        ("n,x,f\na,1,true", "validation_error"),
        ("n,x,f,o\na,1,true,1,2", "validation_error"),
        ("n,x,f,o\na,1,yes,1", "validation_error"),
        ("n,x,f,o\n", None),
        ("n,x,f\n", "validation_error"),
        ("I do not know.", "validation_error"),
    ],
)
def test_the_cells_of_csv_become_what_the_schema_wants(text, problem):
    row_schema = obj(n=S, x=N, f=B, o={"type": ["null", "integer"]})
    assert error(text, {"type": "array", "items": row_schema}, "csv") == problem


def test_cells_without_a_type_are_texts():
    assert coerced_csv([{"a": "1", "b": "", "c": "2"}], {"items": obj(a={}, b=INT)}) == [{"a": "1", "b": "", "c": "2"}]
    assert coerced_csv([{"a": "1"}], obj(a=INT)) == [{"a": 1}]


CALL = {"response_mode": "tool_call", "tool_name": "save", "tool_payload_key": "record"}
GOOD = {"record": {"a": "x", "b": 1}}


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        ([function_call("save", GOOD)], None),
        ([message_item("Here."), function_call("save", GOOD)], None),
        ([function_call("save", {"record": {"a": "x"}})], "validation_error"),
        ([message_item(json.dumps(GOOD["record"]))], "missing_tool_call"),
        ([function_call("save", GOOD), function_call("save", GOOD)], "multiple_tool_calls"),
        ([function_call("store", GOOD)], "wrong_tool_name"),
        ([function_call("save", "{")], "tool_arguments_parse_error"),
        ([function_call("save", GOOD["record"])], "missing_tool_payload_key"),
        ([function_call("save", [])], "missing_tool_payload_key"),
        (response(message_item("x"), error={"code": "server_error"}), "api_error"),
    ],
)
def test_a_calls_payload_has_to_fit(action, problem):
    assert error(action, **CALL) == problem


def test_any_tool_and_all_arguments_may_count():
    assert error([function_call("any", GOOD["record"])], response_mode="tool_call") is None


def test_a_call_is_not_run_but_ends_the_episode():
    env = gym.make(ENV, disable_env_checker=True)
    env.reset(options={"task": row(schema_str=json.dumps(obj(a=S)), response_mode="tool_call")})
    observation, reward, terminated, _, _ = env.step([function_call("save", {"a": "x"})])
    assert terminated and reward == 1.0
    assert not any(item.get("type") == "function_call_output" for item in observation["input"])


def test_fences_may_be_stripped():
    text = 'Here:\n```json\n{"a": "x", "b": 1}\n```'
    assert error(text, kwargs={"strip_fences": True}) is None
    assert error('{"a": "x", "b": 1}', kwargs={"strip_fences": True}) is None


MAP = obj(m={"type": "object", "properties": {}, "additionalProperties": INT})
ANY = {"anyOf": [obj(a=S), obj(b=INT)]}
DATE = obj(d=S)


@pytest.mark.parametrize(
    ("text", "schema", "kind", "here", "nemo"),
    [
        ('{"m": {"k": 1}}', MAP, "json", None, "validation_error"),
        ('{"m": {"k": "1"}}', MAP, "json", "validation_error", "validation_error"),
        ('{"a": "x", "c": 1}', ANY, "json", "validation_error", None),
        ('{"a": "x"}', ANY, "json", None, None),
        ("d: 2020-01-01", DATE, "yaml", None, "validation_error"),
        ("d = 2020-01-01", DATE, "toml", None, "validation_error"),
        ("1: x", obj(**{"1": S}), "yaml", None, "validation_error"),
    ],
)
def test_what_nemo_gym_does_otherwise(text, schema, kind, here, nemo):
    assert (error(text, schema, kind), error(text, schema, kind, {"conform": "nemo"})) == (here, nemo)


def test_everything_within_is_strict():
    inner = obj(x=INT)
    schema = {"$defs": {"d": inner}, "type": "object", "properties": {"l": {"type": "array", "items": inner}}}
    for conform in (False, True):
        strict = strict_schema(json.dumps(schema), conform)
        for part in (strict, strict["$defs"]["d"], strict["properties"]["l"]["items"]):
            assert part["required"] == list(part["properties"]) and part["additionalProperties"] is False


def test_a_property_may_be_called_properties():
    schema = obj(properties=obj(x=INT), y=S)
    assert error('{"properties": {"x": 1}, "y": "z"}', schema) is None
    assert error('{"properties": {}, "y": "z"}', schema) == "validation_error"
    assert "required" not in strict_schema(json.dumps(schema), False)["properties"]


def test_branches_beside_properties_and_all_of_stay_loose():
    schema = obj(a=S, b=INT) | {"anyOf": [{"properties": {"a": {"const": "x"}}}]}
    assert error('{"a": "x", "b": 1}', schema) is None
    assert error('{"a": "x", "b": 1}', {"allOf": [obj(a=S), obj(b=INT)]}) is None


def test_recursion_and_references():
    schema = {"$ref": "#/$defs/n", "$defs": {"n": obj(v=INT, c={"type": "array", "items": {"$ref": "#/$defs/n"}})}}
    assert error('{"v": 1, "c": [{"v": 2, "c": []}]}', schema) is None
    assert error('{"v": 1, "c": [{"v": 2}]}', schema) == "validation_error"
    deep = '{"v": 1, "c": [' * 300 + "]}" * 300
    assert error(deep, schema) == "validation_error"
    assert error('{"a": 1}', obj(a={"$ref": "#/$defs/none"})) == "schema_error"


def test_a_schemas_pattern_runs_in_a_worker_with_a_deadline():
    schema = obj(a={"type": "string", "pattern": "^(a|a)*b$"})
    assert not is_quick_for(Rules(json.dumps(schema), "json", False, True), "{}")
    assert error('{"a": "aab"}', schema) is None
    assert error(json.dumps({"a": "a" * 60}), schema, kwargs={"deadline": 0.3}) == "timeout"


def test_a_long_answer_is_judged_in_a_worker():
    schema = {"type": "array", "items": INT}
    text = json.dumps([1] * 20_000)
    assert not is_quick_for(Rules(json.dumps(schema), "json", False, True), text)
    assert error(text, schema) is None
    assert error([function_call("f", [1] * 3_000)], schema, response_mode="tool_call") is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"schema_str": "{"}, "not JSON"),
        ({"schema_str": "[]"}, "JSON object"),
        ({"schema_str": '{"type": "text"}'}, "schema_str is not a JSON Schema"),
        ({"schema_str": '{"$ref": "http://127.0.0.1:9/a"}'}, "nothing outside"),
        ({"schema_str": "{}", "schema_type": "ini"}, "schema_type"),
        ({"schema_str": "{}", "response_mode": "call"}, "response_mode"),
        ({}, "schema_str"),
    ],
)
def test_a_wrong_row_is_refused(fields, words):
    with pytest.raises(DataError, match=words):
        StructuredOutputs([row(**fields)])


@pytest.mark.parametrize("kwargs", [{"xml_coerce_types": 1}, {"strip_fences": "x"}, {"deadline": 0}])
def test_arguments_that_make_no_sense_are_refused(kwargs):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        gym.make(ENV, **kwargs)


@pytest.mark.parametrize("kind", ["json", "yaml", "xml", "toml", "csv"])
@pytest.mark.parametrize("unit", ["[", "- ", "<a>", "a.", "1,", "{"])
def test_a_hostile_megabyte_costs_the_loop_little(kind, unit):
    text = unit * (1_000_000 // len(unit))
    assert cpu_seconds(lambda: error(text, kind=kind, kwargs={"deadline": 0.1})) < 0.5


@pytest.mark.parametrize(
    ("action", "kind", "message"),
    [
        ("", "json", "No assistant response text"),
        ("x", "json", "JSONDecodeError: Expecting value: line 1 column 1 (char 0)"),
        ("a:\t- b", "yaml", "ScannerError: while scanning for the next token\nfound character '\\t' that cannot"),
        ("5", "json", "ValidationError: 5 is not of type 'object'\n\nFailed validating 'type' in schema:\n"),
        ("b: 2020-01-01", "yaml", "ValidationError: 'a' is a required property\n\nFailed validating 'required'"),
    ],
)
def test_messages_are_nemo_gyms(action, kind, message):
    fields = {"schema_str": json.dumps(obj(a=S, b=INT)), "schema_type": kind}
    assert scored(ENV, action, {"conform": "nemo"}, **fields)[1]["error_message"].startswith(message)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ([message_item("x")], "No function_call item found in assistant response"),
        ([function_call("a"), function_call("b")], "Expected exactly one function_call, got: a, b"),
        ([function_call("store", GOOD)], "Expected tool 'save', got: store"),
        ([function_call("save", "")], "JSONDecodeError: Expecting value: line 1 column 1 (char 0)"),
        ([function_call("save", {})], "Missing tool payload key: record"),
    ],
)
def test_messages_about_calls_are_nemo_gyms(action, message):
    fields = {"schema_str": json.dumps(obj(a=S, b=INT)), **CALL}
    assert scored(ENV, action, None, **fields)[1]["error_message"] == message


@pytest.mark.parametrize("conform", [None, "nemo"])
def test_a_schema_may_be_one_only_once_it_is_made_strict(conform):
    schema = {**obj(a=S), "additionalProperties": "false", "required": {"item": ["a"]}}
    assert error('{"a": "x"}', schema, kwargs={"conform": conform}) is None
    assert error("{}", schema, kwargs={"conform": conform}) == "validation_error"
