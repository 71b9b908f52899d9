"""TerminalMultiHarness: when an action is the expert's, harness by harness."""

import asyncio
import json
from difflib import SequenceMatcher

import gymnasium as gym
import pytest
from gymnasium.error import DependencyNotInstalled
from testing import cpu_seconds, function_call, message_item, row
from verifier_vectors import agree, vector_id, vectors_of

from gym_llm.envs.terminal_multi_harness import categories as is_
from gym_llm.envs.terminal_multi_harness.env import TerminalMultiHarness
from gym_llm.errors import DataError

SAID = {"type": "message", "content": "Done."}


def declare(*names, **parameters):
    return [{"type": "function", "name": name, "parameters": parameters or {"type": "object"}} for name in names]


def call(tool, **arguments):
    return {"type": "function_call", "name": tool, "arguments": json.dumps(arguments)}


def batch(*calls):
    return {"type": "function_call_batch", "calls": list(calls)}


def play(expected, *items, tools=None, harness="codex", conform=None, config=None, **fields):
    """(reward, category, similarity) of a turn."""
    env = gym.make("gym_llm/TerminalMultiHarness-v0", conform=conform, tool_call_comparator_config=config)
    names = {item["name"] for item in items if "name" in item} | {"exec_command"}
    fields |= {"harness": harness, "declared_tools": declare(*sorted(names)) if tools is None else tools}
    env.reset(options={"task": row("Next?", expected_action=expected, **fields)})
    _, reward, terminated, _, info = env.step(list(items))
    assert terminated
    assert reward == float(info["category"] in (is_.MESSAGE, is_.CALL, is_.BATCH))
    return reward, info["category"], info.get("similarity_score")


@pytest.mark.parametrize("vector", vectors_of("terminal_multi_harness"), ids=vector_id)
def test_recorded_episodes_score_as_recorded(vector):
    agree(vector)


LS = call("exec_command", cmd="ls")
RUN = function_call("exec_command", {"cmd": "ls"})


@pytest.mark.parametrize(
    ("expected", "items", "category"),
    [
        (SAID, [message_item("Something else.")], is_.MESSAGE),
        (SAID, [message_item(" \n")], is_.NO_MESSAGE),
        (SAID, [message_item("")], is_.NO_MESSAGE),
        (SAID, [], is_.NO_ACTION),
        (SAID, [message_item("Done."), RUN], is_.OTHER_KIND),
        (LS, [message_item("ls")], is_.OTHER_KIND),
        (LS, [message_item("I look."), RUN], is_.CALL),
        (LS, [RUN, RUN], is_.OTHER_KIND),
        (batch(LS, LS), [RUN], is_.OTHER_KIND),
        (batch(LS, LS), [RUN, RUN, RUN], is_.OTHER_NUMBER),
        (batch(LS, LS), [RUN, RUN], is_.BATCH),
    ],
)
def test_an_action_is_of_the_expected_kind(expected, items, category):
    assert play(expected, *items)[1] == category


SCHEMA = {
    "type": "object",
    "properties": {"cmd": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["cmd"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("actual", "category"),
    [
        (function_call("exec_command", "{"), is_.NOT_JSON),
        (function_call("exec_command", "[1]"), is_.NOT_OBJECT),
        (function_call("other", {"cmd": "ls"}), is_.NOT_DECLARED),
        (function_call("exec_command", {"n": 1}), is_.NOT_VALID),
        (function_call("exec_command", {"cmd": "ls", "x": 1}), is_.NOT_VALID),
        (function_call("shell", {"cmd": "ls"}), is_.OTHER_TOOL),
        (function_call("shell", {"cmd": 1}), is_.NOT_VALID),
        (function_call("exec_command", {"cmd": "ls", "n": 1}), is_.OTHER_KEYS),
        (function_call("exec_command", {"cmd": "make clean all"}), is_.OTHER_CMD),
        (function_call("exec_command", {"cmd": " ls\r\n"}), is_.CALL),
    ],
)
def test_the_first_thing_that_fails_is_the_category(actual, category):
    assert play(LS, actual, tools=declare("exec_command", "shell", **SCHEMA))[1] == category


def test_without_declared_tools_those_of_the_request_are_it():
    env = TerminalMultiHarness()
    for tools, category in ((declare("exec_command"), is_.CALL), (declare("other"), is_.NOT_DECLARED)):
        task = {"responses_create_params": {"input": "Next?", "tools": tools}, "expected_action": LS}
        env.reset(options={"task": task})
        assert env.step([RUN])[4]["category"] == category


def test_lists_and_objects_written_as_texts_are_taken_for_what_is_declared():
    parameters = {"type": "object", "properties": {"plan": {"type": "array"}, "cmd": {"type": "string"}}}
    tools = declare("update_plan", **parameters)
    expected = call("update_plan", plan=[{"step": "a"}])
    for plan, category in (
        ('[{"step": "b"}]', is_.CALL),
        ("[]", is_.NO_PLAN),
        ("{}", is_.NOT_VALID),
        ("b", is_.NOT_VALID),
    ):
        assert play(expected, function_call("update_plan", {"plan": plan}), tools=tools)[1] == category


EDIT = {"filePath": "/a", "oldString": "a", "newString": "b", "replaceAll": False}


@pytest.mark.parametrize(
    ("harness", "name", "expected", "actual", "category"),
    [
        ("codex", "update_plan", {"plan": [1]}, {"plan": [2]}, None),
        ("codex", "update_plan", {"plan": [1]}, {"plan": []}, is_.NO_PLAN),
        ("agent006", "execute_python", {"code": "print(1)"}, {"code": "print(1)"}, None),
        ("agent006", "execute_python", {"code": "print(1)"}, {"code": "exit()"}, is_.OTHER_CODE),
        ("agent006", "execute_python", {"code": " "}, {"code": " "}, is_.OTHER_VALUE),
        ("agent006", "return_result", {"result": {"b": 1, "a": [2]}}, {"result": {"a": [2], "b": 1}}, None),
        ("agent006", "return_result", {"result": "yes"}, {"result": "no"}, is_.OTHER_RESULT),
        ("opencode", "bash", {"command": "ls -la /srv/garden"}, {"command": "ls -l /srv/garden"}, None),
        ("opencode", "bash", {"command": "ls"}, {"command": ["ls"]}, is_.NO_COMMAND),
        ("opencode", "todowrite", {"todos": []}, {"todos": []}, None),
        ("opencode", "todowrite", {"todos": [{"status": "a", "t": 1}]}, {"todos": [{"status": "a", "t": 2}]}, None),
        ("opencode", "todowrite", {"todos": [{"status": "a"}]}, {"todos": [{"status": "b"}]}, is_.OTHER_VALUE),
        ("opencode", "todowrite", {"todos": [{"status": "a"}]}, {"todos": []}, is_.OTHER_VALUE),
        ("opencode", "todowrite", {"todos": [{"status": "a"}]}, {"todos": ["a"]}, is_.OTHER_VALUE),
        ("opencode", "todowrite", {"todos": [{"status": "a"}]}, {"todos": "a"}, is_.NO_TODOS),
        ("opencode", "read", {"filePath": "/a", "limit": 1}, {"filePath": "/a", "limit": 2}, None),
        ("opencode", "read", {"filePath": "/a"}, {"filePath": "/b"}, is_.OTHER_VALUE),
        ("opencode", "write", {"filePath": "/a", "content": "x"}, {"filePath": "/a", "content": "y"}, None),
        ("opencode", "edit", EDIT, {**EDIT, "oldString": "c"}, None),
        ("opencode", "edit", EDIT, {**EDIT, "filePath": "/b"}, is_.OTHER_VALUE),
        ("opencode", "edit", EDIT, {**EDIT, "newString": "a"}, is_.OTHER_VALUE),
        ("opencode", "edit", EDIT, {**EDIT, "replaceAll": True}, is_.OTHER_VALUE),
        ("opencode", "glob", {"pattern": "*.ts", "path": "/a"}, {"pattern": "*.ts", "path": "/a"}, None),
        ("opencode", "glob", {"pattern": "*.ts", "path": "/a"}, {"pattern": "*.ts", "path": "/b"}, is_.OTHER_VALUE),
        ("opencode", "grep", {"pattern": "x", "include": "*.ts"}, {"pattern": "x", "include": "*.js"}, is_.OTHER_VALUE),
        ("opencode", "webfetch", {"url": "u", "format": "text"}, {"url": "u", "format": "html"}, is_.OTHER_VALUE),
        ("opencode", "skill", {"name": "a"}, {"name": "b"}, is_.OTHER_VALUE),
        ("opencode", "task", {"subagent_type": "a", "prompt": "x"}, {"subagent_type": "a", "prompt": "y"}, None),
        ("opencode", "task", {"prompt": "x"}, {"prompt": "y"}, None),
        ("stirrup", "code_exec", {"cmd": "python a.py"}, {"cmd": "python a.py\n"}, None),
        ("stirrup", "web_search", {"query": "Tides of Brest "}, {"query": "tides of brest"}, None),
        ("stirrup", "web_search", {"query": "tides"}, {"query": "moons"}, is_.OTHER_QUERY),
        ("stirrup", "web_search", {"query": "tides"}, {"query": None}, is_.NO_QUERY),
        ("stirrup", "fetch_web_page", {"url": "HTTP://a.b/C"}, {"url": " http://a.b/c"}, None),
        ("stirrup", "fetch_web_page", {"url": "http://a.b"}, {"url": "http://a.c"}, is_.OTHER_URL),
        ("stirrup", "fetch_web_page", {"url": None}, {"url": None}, is_.NO_URL),
        ("stirrup", "finish", {"reason": "Ok", "paths": ["/a", "b"]}, {"reason": "Ok", "paths": [" b", "/a"]}, None),
        ("stirrup", "finish", {"reason": "Ok", "paths": ["/a"]}, {"reason": "Ok", "paths": ["/b"]}, is_.OTHER_PATHS),
        ("stirrup", "finish", {"reason": "Ok", "paths": ["/a"]}, {"reason": "No", "paths": ["/a"]}, is_.OTHER_REASON),
        ("stirrup", "finish", {"reason": "Done.", "paths": []}, {"reason": "Done.", "paths": []}, is_.NO_PATHS),
        ("stirrup", "finish", {"reason": "Done.", "paths": [1]}, {"reason": "Done.", "paths": [1]}, is_.NO_PATHS),
        ("generic", "exec_command", {"cmd": "ls"}, {"cmd": "rm -r x"}, None),
        ("codex", "view_image", {"path": "/a"}, {"path": "/b"}, None),
    ],
)  # fmt: skip
def test_every_tool_has_its_rule(harness, name, expected, actual, category):
    played = play(call(name, **expected), function_call(name, actual), harness=harness)
    assert played[1] == (category or is_.CALL)


def test_similarity_is_reported_and_compared_with_the_threshold_of_the_row_or_the_configuration():
    similarity = SequenceMatcher(None, "ls -la /srv", "ls /srv").ratio()
    expected, actual = call("exec_command", cmd="ls -la /srv"), function_call("exec_command", {"cmd": "ls /srv"})
    assert play(expected, actual) == (0.0, is_.OTHER_CMD, similarity)
    assert play(expected, actual, threshold=similarity) == (1.0, is_.CALL, similarity)
    assert play(expected, actual, config={"string_similarity_threshold": 0.7})[0] == 1.0
    assert play(expected, actual, config={"string_similarity_threshold": 0.7}, threshold=0.9)[0] == 0.0


def test_a_search_has_a_threshold_of_its_own_which_nemo_gym_does_not_read():
    config = {"string_similarity_threshold": 0.95, "query_string_similarity_threshold": 0.5}
    expected, actual = call("web_search", query="tides of brest"), function_call("web_search", {"query": "tides brest"})
    assert play(expected, actual, harness="stirrup", config=config)[0] == 1.0
    assert play(expected, actual, harness="stirrup", config=config, threshold=0.95)[0] == 0.0
    assert play(expected, actual, harness="stirrup", config=config, conform="nemo")[0] == 0.0


def test_an_omitted_argument_differs_but_for_nemo_gym():
    expected = call("exec_command", cmd="ls", workdir="/srv")
    assert play(expected, RUN)[1] == is_.MISSING_KEYS
    assert play(expected, RUN, conform="nemo")[1] == is_.CALL


def test_nemo_gym_stops_at_the_first_pair_that_differs_and_reports_no_similarity_of_several():
    expected = batch(LS, call("read", filePath="/a"))
    read = function_call("read", {"filePath": "/a"})
    assert play(expected, RUN, read, conform="nemo") == (1.0, is_.BATCH, None)
    other = function_call("exec_command", {"cmd": "make"})
    assert play(expected, other, function_call("read", "{"), conform="nemo")[1] == is_.OTHER_CMD
    assert play(batch(LS), RUN)[1] == is_.OTHER_KIND


def test_calls_are_paired_as_they_fit_which_sorting_can_cross():
    expected = batch(
        call("exec_command", cmd="cat aaaaaaaaaaaaaaaaaaaa"), call("exec_command", cmd="cat bbbbbbbbbbbbbbbbbbbb")
    )
    calls = [
        function_call("exec_command", {"cmd": cmd})
        for cmd in ("cat xbbbbbbbbbbbbbbbbbbbb", "cat yaaaaaaaaaaaaaaaaaaaa")
    ]
    assert play(expected, *calls)[1] == is_.BATCH
    assert play(expected, *reversed(calls))[2] == pytest.approx(48 / 49)
    assert play(expected, *calls, conform="nemo")[1] == is_.OTHER_CMD


def test_the_category_of_a_batch_is_the_nearest_reason():
    assert (
        play(batch(LS, call("read", filePath="/a")), RUN, function_call("read", {"filePath": "/a", "limit": 1}))[1]
        == is_.OTHER_KEYS
    )
    assert play(batch(LS, LS), RUN, function_call("read"))[1] == is_.OTHER_TOOL


def test_long_texts_are_compared_in_a_worker_process():
    code = "".join(chr(200 + n) + f" = compute({n * 7919 % 1000})\n" for n in range(60))
    expected = call("execute_python", code=code)
    env = TerminalMultiHarness(
        tasks=[row(expected_action=expected, harness="agent006", declared_tools=declare("execute_python"))]
    )
    env.reset()
    env.episode.items.append(function_call("execute_python", {"code": "x = 1\n" + code}))
    verdict = env.verify(env._task, env.episode)
    assert asyncio.iscoroutine(verdict)
    verdict = asyncio.run(verdict)
    assert verdict.reward == 1.0 and 0.99 < verdict.info.get("similarity_score") < 1.0


@pytest.mark.slow
def test_a_comparison_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr("gym_llm.envs.terminal_multi_harness.env.DEADLINE", 0.5)
    tools = declare("exec_command", type="object", properties={"cmd": {"type": "string", "pattern": "^(a+)+$"}})
    assert play(LS, function_call("exec_command", {"cmd": "a" * 40 + "b"}), tools=tools) == (
        0.0,
        is_.TOO_LONG,
        None,
    )


def test_what_is_done_here_is_done_soon():
    calls = [
        [function_call("exec_command", {"cmd": "ab" * 120})],
        [function_call("exec_command", '{"cmd": ' + "[" * 900 + "]" * 900 + "}")],
        [function_call("exec_command", {"cmd": "ls", "x": list(range(10_000))})],
        [function_call("exec_command", {"cmd": "x" * 1_000_000})] * 2,
        [RUN] * 4_000,
    ]
    tools = declare("exec_command", **{"type": "object", "properties": {"x": {"items": {"type": "integer"}}}})
    env = TerminalMultiHarness(
        tasks=[row(expected_action=call("exec_command", cmd="ba" * 100), harness="codex", declared_tools=tools)]
    )
    for items in calls:
        env.reset(options={"task_index": 0})
        env.episode.items.extend(items)
        verdicts = []
        assert cpu_seconds(lambda: verdicts.append(env.verify(env._task, env.episode))) < 1.0  # noqa: B023
        if asyncio.iscoroutine(verdicts[0]):
            verdicts[0].close()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"expected_action": None}, "expected_action"),
        ({"expected_action": {"type": "function_call", "name": "f", "arguments": "[1]"}}, "are a JSON object"),
        ({"declared_tools": declare("f", type="text")}, "the parameters of f: it is not a JSON Schema"),
        ({"threshold": 2}, "threshold"),
    ],
)
def test_a_row_that_makes_no_sense_is_refused(fields, problem):
    with pytest.raises(DataError, match=problem):
        TerminalMultiHarness(tasks=[row(**({"expected_action": LS} | fields))])


def test_a_configuration_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match=r"tool_call_comparator_config\.string_similarity_threshold: Input should be"):
        TerminalMultiHarness(tool_call_comparator_config={"string_similarity_threshold": 9})
    with pytest.raises(ValueError, match=r"tool_call_comparator_config\.threshold: Extra inputs"):
        TerminalMultiHarness(tool_call_comparator_config={"threshold": 0.9})


def test_without_the_library_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DependencyNotInstalled, match=r"pip install -e '.*\[schema\]'"):
        TerminalMultiHarness()
