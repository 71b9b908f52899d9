import copy
import json

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing import cpu_seconds

import gym_llm  # noqa: F401 - registers the environments
from gym_llm.tokens.parsers.tool_calls import INVALID_CALL, WrittenCall, hermes, llama
from gym_llm.types import Item, message_text
from gym_llm.wrappers import ReasoningParser, ToolCallParser

TOKENS = {"prompt_token_ids": [1, 2], "generation_token_ids": [3], "generation_log_probs": [-0.5]}
READ = '<tool_call>\n{"name": "get_counter_value", "arguments": {}}\n</tool_call>'
PIECES = st.sampled_from(
    [
        *("<tool_call>", "</tool_call>", "<|python_tag|>", '"name"', '"f"', '"arguments"', '"parameters"', "NaN"),
        *("{", "}", "[", ":", ",", ";", '"', "\\", "\n", " ", "\ud800"),
        *('{"name": "f", "arguments": {"x": 1}}', '{"name": "f", "parameters": {}}'),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=4), max_size=16).map("".join)


@pytest.fixture
def env() -> ToolCallParser:
    env = ToolCallParser(gym.make("gym_llm/Counter-v0"))
    env.reset(options={"task_index": 0})
    return env


def message(text: str, **fields: object) -> Item:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_7", "role": "assistant", "status": "completed", "content": [part], **fields}


def calls(items: list[Item]) -> list[tuple[str, str]]:
    return [(item["name"], item["arguments"]) for item in items if item["type"] == "function_call"]


def call_text(**fields: object) -> str:
    return f"<tool_call>{json.dumps(fields)}</tool_call>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>', [("f", '{"x": 1}')]),
        ('<tool_call>\n{"name":"f","arguments":{"x":  1.50}}\n</tool_call>', [("f", '{"x":  1.50}')]),
        ('<tool_call>{"arguments": {"name": "g"}, "name": "f"}</tool_call>', [("f", '{"name": "g"}')]),
        ('<tool_call>{"name": "f", "arguments": "{\\"x\\": 1}"}</tool_call>', [("f", '{"x": 1}')]),
        ('<tool_call>{"name": "f"}</tool_call>', [("f", "{}")]),
        ('<tool_call>{"name": "f", "parameters": {"x": 1}}</tool_call>', [("f", '{"x": 1}')]),
        ('<tool_call>{"name": "f", "arguments": null}</tool_call>', [("f", "null")]),
        ('<tool_call>{"name": "f", "arguments": {"x": NaN}}</tool_call>', [("f", '{"x": NaN}')]),
        ('<tool_call>{"name": "f", "name": "g"}</tool_call>', [("g", "{}")]),
        ('<tool_call>{"name": "f", "arguments": {"x": "a\nb"}}</tool_call>', [("f", '{"x": "a\nb"}')]),
        ('<tool_call>{"name": "f"}', [("f", "{}")]),
        ('<tool_call>{"name": "f"}\n', [("f", "{}")]),
        ('<tool_call>{"name": "f"}<tool_call>{"name": "g"}</tool_call>', [("f", "{}"), ("g", "{}")]),
        (call_text(name="f", arguments={"code": "</tool_call>"}), [("f", '{"code": "</tool_call>"}')]),
        (
            call_text(name="f", arguments={"code": "<tool_call>x</tool_call>"}) * 2,
            [("f", '{"code": "<tool_call>x</tool_call>"}')] * 2,
        ),
    ],
)
def test_hermes_calls(text, expected):
    assert [(piece.name, piece.arguments) for piece in hermes(text) if isinstance(piece, WrittenCall)] == expected


@pytest.mark.parametrize(
    ("inner", "name"),
    [
        ('{"name": "f", "arguments": {"x": 1}', "f"),
        ('{"name": "f", "arguments": {x: 1}}', "f"),
        ('{"name": "f", "arguments": {}} and more', "f"),
        ('{"name": "f", "arguments": ' + "[" * 100_000, "f"),
        ("f(x=1)", INVALID_CALL),
        ("", INVALID_CALL),
        ('["f"]', INVALID_CALL),
        ('{"function": "f", "arguments": {}}', INVALID_CALL),
        ('{"name": 5, "arguments": {}}', INVALID_CALL),
        ('{"name": "", "arguments": {}}', INVALID_CALL),
        ('{"name": "\\ud800", "arguments": {}}', INVALID_CALL),
        ('{"arguments": {"name": "f"}}', INVALID_CALL),
    ],
)
def test_a_broken_call_keeps_everything_that_was_written(inner, name):
    closed, after = hermes(f"<tool_call>{inner}</tool_call> ok")
    assert (closed.name, closed.arguments, after) == (name, inner, " ok")
    (unclosed,) = hermes(f"<tool_call>{inner}")
    assert (unclosed.name, unclosed.arguments) == (name, inner)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"name": "f", "parameters": {"x": 1}}', [("f", '{"x": 1}')]),
        (' \n{"type": "function", "name": "f", "parameters": {"x": 1}}\n', [("f", '{"x": 1}')]),
        ('{"type": "function", "name": "f"}', [("f", "{}")]),
        ('<|python_tag|>{"name": "f", "parameters": {}}', [("f", "{}")]),
        ('{"name": "f", "parameters": {}}; {"name": "g", "arguments": {}}', [("f", "{}"), ("g", "{}")]),
        ('{"name": "unknown", "parameters": {}}', [("unknown", "{}")]),
        ('{"name": "f", "parameters": {"x": 1}', [("f", '{"name": "f", "parameters": {"x": 1}')]),
        ('{"name": "f", "parameters": {}} ok', [("f", '{"name": "f", "parameters": {}} ok')]),
        ('{"name": "f", "x": 1}', [(INVALID_CALL, '{"name": "f", "x": 1}')]),
        ("<|python_tag|>print(1)", [(INVALID_CALL, "print(1)")]),
        ('{"name": "Ada", "born": 1815}', None),
        ('{"name": "Ada", "born": ', None),
        ('{"answer": 4}', None),
        ("{braces}", None),
        ("4", None),
        ("", None),
    ],
)
def test_llama_calls(text, expected):
    read = llama(text, {"f", "g"})
    assert (read and [(call.name, call.arguments) for call in read]) == expected


def test_text_around_calls_stays_where_it_was(env):
    text = f"I read.\n{READ}\n{READ} Twice.\n"
    items = env.action([message(text)])
    assert [item["type"] for item in items] == ["message", "function_call", "function_call", "message"]
    assert message_text(items) == "I read.\n Twice.\n"
    assert [item["id"] for item in items] == ["msg_7", "fc_1", "fc_2", "msg_7_1"]


def test_a_message_that_is_only_a_call_leaves_no_message(env):
    (call,) = env.action([message(f"\n\n{READ}\n")])
    assert call == {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "get_counter_value",
        "arguments": "{}",
        "status": "completed",
    }


def test_tokens_are_on_the_last_item_only(env):
    for text in (READ, f"a{READ}", f"a{READ}{READ}b", "<tool_call>", f"{READ}\n"):
        items = env.action([message("a"), message(text, **TOKENS)])
        assert TOKENS.items() <= items[-1].items()
        assert not any(item.keys() & TOKENS.keys() for item in items[:-1])


def test_parts_that_are_not_text_stay(env):
    item = message(READ)
    item["content"].append({"type": "refusal", "refusal": "No."})
    call, rest = env.action([item])
    assert (call["type"], rest["content"]) == ("function_call", [{"type": "refusal", "refusal": "No."}])


def test_call_ids_are_unique_in_an_episode_and_begin_anew(env):
    structured = {"type": "function_call", "name": "get_counter_value", "arguments": "{}", "call_id": "call_2"}
    for _ in range(2):
        observation, _ = env.reset(options={"task_index": 0})
        for _ in range(2):
            observation, *_ = env.step([structured | {"call_id": f"x{len(observation['input'])}"}, message(READ * 2)])
        ids = [item["call_id"] for item in observation["input"] if item.get("type") == "function_call"]
        assert [call_id for call_id in ids if call_id.startswith("call_")] == ["call_1", "call_2", "call_3", "call_4"]
    env.reset(options={"task_index": 0})
    observation, *_ = env.step([structured, message(READ * 2)])
    assert [i["call_id"] for i in observation["input"] if i.get("type") == "function_call"] == [
        "call_2",
        "call_1",
        "call_3",
    ]


def one_at_a_time(parallel):
    params = {"input": "Read the counter.", "parallel_tool_calls": parallel}
    row = {"responses_create_params": params, "initial_count": 3, "expected_count": 3}
    return ToolCallParser(gym.make("gym_llm/Counter-v0", tasks=[row]))


@pytest.mark.parametrize("parallel", [True, False, None])
def test_only_the_first_call_is_made_where_calls_are_not_to_be_parallel(parallel):
    env = one_at_a_time(parallel)
    env.reset(seed=0)
    said = [message("One." + READ + "Two." + READ), message(READ, **TOKENS)]
    before = copy.deepcopy(said)
    made = env.action(said)
    assert said == before
    assert [item["type"] for item in made] == (
        ["message", "function_call", "message"]
        if parallel is False
        else ["message", "function_call", "message", "function_call", "function_call"]
    )
    assert {name: made[-1].get(name) for name in TOKENS} == TOKENS
    assert not any(name in item for item in made[:-1] for name in TOKENS)
    observation, *_ = env.step(said)
    outputs = [item for item in observation["input"] if item.get("type") == "function_call_output"]
    assert len(outputs) == (1 if parallel is False else 3)
    assert [item["call_id"] for item in outputs] == [
        item["call_id"] for item in observation["input"] if item.get("type") == "function_call"
    ]


def test_what_looks_like_a_call_is_text_where_no_tool_may_be_called():
    params = {"input": "Read the counter.", "tool_choice": "none"}
    row = {"responses_create_params": params, "initial_count": 3, "expected_count": 3}
    env = ToolCallParser(gym.make("gym_llm/Counter-v0", tasks=[row]))
    env.reset(seed=0)
    action = [message(READ, **TOKENS)]
    assert env.action(action) is action
    assert env.step(action)[2]  # a message ends the episode


def test_the_tools_run(env):
    text = f"{call_text(name='increment_counter', arguments={'count': 9})}\n{READ}"
    observation, _, terminated, _, info = env.step({"output": [message(text)]})
    assert [item["output"] for item in observation["input"][-2:]] == ['{"success":true}', '{"count":12}']
    assert (terminated, info["tool_errors"]) == (False, 0)
    _, reward, terminated, _, _ = env.step([message("It is 12.")])
    assert (reward, terminated) == (1.0, True)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "increment_counter", "arguments": {"count": 9}</tool_call>',
        '<tool_call>{"name": "increment_counter", "arguments": {"count": NaN}}</tool_call>',
        '<tool_call>{"name": "verify"}</tool_call>',
        '<tool_call>{"name": "get_counter_value", "arguments": [[[',
        "<tool_call>get_counter_value()</tool_call>",
        '{"name": "get_counter_value", "parameters": {',
        '<tool_call>{"name": "get_counter_value", "arguments": ' + "[" * 90_000 + "]" * 90_000 + "}</tool_call>",
    ],
)
def test_a_broken_call_is_an_error_for_the_model_to_read(env, text):
    observation, _, terminated, truncated, info = env.step([message(text)])
    call, answer = observation["input"][-2:]
    assert "error" in json.loads(answer["output"])
    assert info["tool_errors"] == 1
    assert not terminated and not truncated
    assert call["arguments"] in text or call["arguments"] == "{}"


def test_json_is_an_answer_where_there_are_no_tools():
    env = ToolCallParser(gym.make("gym_llm/FollowUp-v0"))
    env.reset(options={"task_index": 0})
    for text in ('{"name": "f", "parameters": {}}', "<|python_tag|>{}"):
        action = [message(text)]
        assert env.action(action) is action
    assert calls(env.action([message(READ)])) == [("get_counter_value", "{}")]


@pytest.mark.parametrize(("format", "hermes_calls", "llama_calls"), [("hermes", 1, 0), ("llama", 0, 1), ("auto", 1, 1)])
def test_format_chooses_what_is_a_call(env, format, hermes_calls, llama_calls):
    chosen = ToolCallParser(env.env, format=format)
    chosen.reset(options={"task_index": 0})
    assert len(calls(chosen.action([message(READ)]))) == hermes_calls
    assert len(calls(chosen.action([message('{"name": "f", "parameters": {}}')]))) == llama_calls


def test_thoughts_are_not_calls(env):
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": READ}]}
    action = [reasoning, message("No.")]
    assert env.action(action) is action
    both = ReasoningParser(env)
    both.reset(options={"task_index": 0})
    observation, *_ = both.step([message(f"<think>{READ}</think>{READ}", **TOKENS)])
    assert [i["type"] for i in observation["input"][1:]] == ["reasoning", "function_call", "function_call_output"]
    assert TOKENS.items() <= observation["input"][-2].items()


def test_the_wrong_order_of_parsers_is_refused(env):
    with pytest.raises(ValueError, match="put it on first"):
        ToolCallParser(gym.wrappers.TimeLimit(ReasoningParser(env.env), 4))
    with pytest.raises(ValueError, match="'yaml'"):
        ToolCallParser(env.env, format="yaml")


def test_structured_turns_are_passed_on_untouched(env):
    call = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}
    for action in ([call], [message("4"), call], {"output": [message("tool_call")]}, [message("4", content="4")]):
        assert env.action(action) is action


@given(TEXTS)
def test_the_pieces_are_the_text(text):
    pieces = hermes(text)
    assert "".join(piece if isinstance(piece, str) else piece.source for piece in pieces) == text
    read = llama(text, {"f"})
    assert read is None or "".join(call.source for call in read) == text


@given(st.lists(TEXTS, min_size=1, max_size=2))
def test_no_text_raises_and_no_item_is_changed(texts):
    env = ToolCallParser(gym.make("gym_llm/Counter-v0", disable_env_checker=True))
    env.reset(options={"task_index": 0})
    for text in texts:
        action = [message(text, **TOKENS)]
        before = copy.deepcopy(action)
        _, _, terminated, truncated, _ = env.step(action)
        assert action == before
        said = [item for item in env.unwrapped.episode.items if item["type"] != "function_call_output"]
        assert TOKENS.items() <= said[-1].items()
        if terminated or truncated:
            break


@pytest.mark.parametrize(
    "unit",
    [
        "<tool_call>",
        "<tool_call>x</tool_call>",
        '<tool_call>["</tool_call>',
        '"</tool_call><tool_call>["a", ',
        '<tool_call>{"name": "f", "arguments": "</tool_call>"',
        '<tool_call>{"a":"',
        '<tool_call>{"a":["',
        '<tool_call>{"name": "f"}</tool_call>\n',
        "[",
        '{"name":',
        '{"name": "f", "parameters": {}};',
        '"name" : ',
        " ",
    ],
)
def test_hostile_text_takes_linear_time(unit):
    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        return cpu_seconds(hermes, f"<tool_call>[{text}") + cpu_seconds(llama, text, {"f"})

    seconds(1000)
    small = min(seconds(60_000) for _ in range(2))
    large = min(seconds(600_000) for _ in range(2))
    assert large < max(25 * small, 0.2)  # 10 times as long; 100 times if it were quadratic
