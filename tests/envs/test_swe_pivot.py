"""SWEPivot: level by level, when a call is near the expert's."""

import asyncio
import json

import gymnasium as gym
import pytest
from testing import cpu_seconds, function_call, message_item, row
from verifier_vectors import agree, vector_id, vectors_of

from gym_llm.envs.swe_pivot.env import SWEPivot
from gym_llm.errors import DataError


def call(tool, **arguments):
    return {"type": "function_call", "name": tool, "arguments": json.dumps(arguments)}


def play(expected, *items, **kwargs):
    """(reward, failure_reason, info) of a turn."""
    env = gym.make("gym_llm/SWEPivot-v0", **kwargs)
    env.reset(options={"task": row("Next?", expected_action=expected)})
    _, reward, terminated, _, info = env.step(list(items))
    assert terminated
    return reward, info["failure_reason"], info


def compare(tool, expected, actual, other=None, **kwargs):
    """The failure of a call with these arguments; the same tool, or another."""
    reward, failure, _ = play(call(tool, **expected), function_call(other or tool, actual), **kwargs)
    assert (reward > 0) == (failure == "none")
    return failure


@pytest.mark.parametrize("vector", vectors_of("swe_pivot"), ids=vector_id)
def test_recorded_episodes_score_as_recorded(vector):
    agree(vector)


def test_without_a_call_nothing_is_reported_but_that():
    reward, failure, info = play(call("bash", command="ls"), message_item("ls"))
    assert (reward, failure) == (0.0, "model_output_invalid")
    assert info["model_output"] == "(no function_call in response)"
    assert (info["tool_name_match"], info["target_match"], info.get("similarity_score")) == (False, None, None)


def test_the_first_call_is_the_one_that_counts():
    calls = [function_call("bash", {"command": "ls"}), function_call("finish", {})]
    assert play(call("bash", command="ls"), *calls)[0] == 1.0
    assert play(call("bash", command="ls"), *reversed(calls))[1] == "tool_name_mismatch"


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("finish", "FINISH", True),
        ("finish", "submit", True),
        ("str_replace_editor", "ApplyPatch", True),
        ("read_file", "view", True),
        ("grep", "ListDir", True),
        ("todo_write", "TodoWrite", True),
        ("grep", "read", False),
        ("think", "finish", False),
        ("get_weather", "get_weather", True),
        ("get_weather", "Get_Weather", True),
        ("get_weather", "getWeather", False),
    ],
)
def test_tools_are_the_same_by_name_or_kind(expected, actual, same):
    assert compare(expected, {}, {}, actual) == ("none" if same else "tool_name_mismatch")


VIEW = {"command": "view", "path": "/repo/ferry/parser.py"}


@pytest.mark.parametrize(
    ("expected", "actual", "failure"),
    [
        (VIEW, VIEW, None),
        (VIEW, {**VIEW, "path": "parser.py"}, "target_mismatch"),
        (VIEW, {**VIEW, "path": "/elsewhere/ferry/parser.py"}, None),
        (VIEW, {**VIEW, "path": "/repo/other/parser.py"}, "target_mismatch"),
        (VIEW, {**VIEW, "command": "create"}, "target_mismatch"),
        (VIEW, {"path": VIEW["path"]}, "target_mismatch"),
        (VIEW, {"command": "view", "file_name": VIEW["path"]}, None),
        ({"command": "view"}, VIEW, None),
        ({**VIEW, "view_range": [20, 40]}, VIEW, None),
        ({**VIEW, "view_range": [20, 40]}, {**VIEW, "view_range": [20, 36]}, None),
        ({**VIEW, "view_range": [20, 40]}, {**VIEW, "view_range": [20, 35]}, "target_mismatch"),
        ({**VIEW, "view_range": [20, 40]}, {**VIEW, "view_range": "[1, 99]"}, None),
        ({**VIEW, "view_range": [20, 40]}, {**VIEW, "view_range": ["a", None]}, None),
        ({**VIEW, "view_range": [20, 40]}, {**VIEW, "view_range": [1e999, 3]}, "target_mismatch"),
        ({**VIEW, "view_range": [20, 20]}, {**VIEW, "view_range": [20, 21]}, "target_mismatch"),
        ({**VIEW, "view_range": [40, -1]}, {**VIEW, "view_range": [30, -1]}, None),
    ],
)
def test_an_edit_has_a_target(expected, actual, failure):
    assert compare("str_replace_editor", expected, actual, "file_editor") == (failure or "none")


@pytest.mark.parametrize(
    ("expected", "actual", "failure"),
    [
        ("ls -la", "ls -la", "none"),
        ("python -m pytest tests -q", "/bin/python -m pytest tests -q", "none"),
        ("python -m pytest", "pytest", "target_mismatch"),
        ("cat /repo/ferry/a/b.py", "cat /x/ferry/a/b.py", "none"),
        ("cat /repo/ferry/a/b.py", "cat /repo/ferry/c/b.py", "target_mismatch"),
        ("cat ./a/b.py d/e.py", "cat f/g.py d/e.py", "none"),
        ("cat d/e.py", "cat d/e.py > a_very_long_name.txt", "similarity_below_threshold"),
        ("grep -rn x /repo/ferry/", "grep -rn x /repo/ferry", "none"),
        ("cd a", "cd bcdefghijklmnopqrst", "target_mismatch"),
        ("echo one two three", "echo one two three --now", "none"),
    ],
)
def test_a_shell_command_has_a_target_and_is_similar(expected, actual, failure):
    assert compare("execute_bash", {"command": expected}, {"cmd": actual}, "shell") == failure


@pytest.mark.parametrize(
    ("expected", "actual", "failure"),
    [
        ({"path": "/r/a/b/c.py"}, {"path": "a/b/c.py"}, "none"),
        ({"path": "/r/a/b/c.py"}, {"path": "/x/b/c.py"}, "target_mismatch"),
        ({"path": "/r/a/b/c.py"}, {"pattern": "x"}, "none"),
        ({"path": "/r/a", "pattern": "x"}, {"path": "/r/a", "pattern": "y"}, "none"),
    ],
)
@pytest.mark.parametrize("tool", ["grep", "read_file"])
def test_a_search_or_a_read_has_a_place(tool, expected, actual, failure):
    assert compare(tool, expected, actual) == failure


PLACE = {"command": "str_replace", "path": "/repo/a.py"}


@pytest.mark.parametrize(
    ("expected", "actual", "similarity"),
    [
        ({"old_str": "abcd", "new_str": "abcdefgh"}, {"old_str": "abcd", "new_str": "abcdefgh"}, 1.0),
        ({"old_str": "abcd", "new_str": "abcdefgh"}, {"old_str": "abce", "new_str": "abcdefgh"}, 0.75),
        ({"old_str": "abcd", "new_str": ""}, {"old_str": "abcd", "new_str": "x"}, 0.0),
        ({"old_str": "abcd", "new_str": ""}, {"old_str": "abcd"}, 1.0),
        ({"patch": "+a\n-b"}, {"diff": "+a\n-c"}, 0.8),
        ({"content": "abc"}, {"file_text": "abc"}, 1.0),
        ({"content": "abc"}, {}, 0.0),
        ({}, {"content": "abc"}, 0.0),
        ({}, {}, 1.0),
        ({"old_str": "a", "new_str": "b"}, {"content": "a\nb"}, 1.0),
    ],
)
def test_the_similarity_of_an_edit_is_that_of_its_texts(expected, actual, similarity):
    info = play(
        call("edit", **PLACE, **expected), function_call("edit", {**PLACE, **actual}), similarity_full_credit=0.75
    )
    assert info[2].get("similarity_score") == similarity
    assert info[0] == float(similarity >= 0.75)


@pytest.mark.parametrize(
    ("new", "reward"), [("abcdefgh", 1.0), ("abcdefxy", 0.5 + 0.5 * 0.35 / 0.4), ("abcdxyzv", 0.625), ("abcxyzvw", 0.0)]
)
def test_a_continuous_reward_rises_and_pays_for_large_edits(new, reward):
    expected, actual = call("write", content="abcdefgh"), function_call("write", {"content": new})
    paid, _, info = play(expected, actual, reward_mode="continuous", enable_diff_size_shaping=False)
    assert (paid, info.get("diff_size_penalty")) == (pytest.approx(reward), None)
    paid, _, info = play(expected, actual, reward_mode="continuous")
    assert paid == pytest.approx(reward * (1 - 0.1 * 8 / 500))
    assert info.get("diff_size_penalty") == (pytest.approx(0.1 * 8 / 500) if reward else None)
    assert play(expected, actual)[2].get("diff_size_penalty") is None


def test_no_more_than_alpha_is_paid_for_an_edit_and_nothing_for_a_command():
    text = "".join(map(chr, range(300, 1000)))
    paid = play(
        call("write", content=text),
        function_call("write", {"content": text}),
        reward_mode="continuous",
        diff_size_alpha=0.3,
    )
    assert paid[0] == pytest.approx(0.7)
    paid = play(call("bash", command=text), function_call("bash", {"command": text}), reward_mode="continuous")
    assert (paid[0], paid[2]["diff_size_penalty"]) == (1.0, 0.0)


def test_levels_can_be_left_out():
    other = {"path": "/repo/b.py", "content": "y"}
    assert compare("write", {"path": "/repo/a.py", "content": "x"}, other) == "target_mismatch"
    assert (
        compare("write", {"path": "/repo/a.py", "content": "x"}, other, enable_target_match=False)
        == "similarity_below_threshold"
    )
    kwargs = {"enable_target_match": False, "enable_argument_similarity": False}
    assert compare("write", {"path": "/repo/a.py", "content": "x"}, other, **kwargs) == "none"


LONG = "".join(map(chr, range(300, 2400)))


@pytest.mark.parametrize(
    ("expected", "actual", "here", "upstream"),
    [
        ({"path": "/a/b.py", "content": "x"}, {"content": "x"}, "target_mismatch", "none"),
        ({"path": "/a/b.py", "patch": "x"}, {"patch": "x"}, "none", "none"),
        ({"content": LONG + "one " * 600}, {"content": LONG + "two" * 700}, "similarity_below_threshold", "none"),
        ({**VIEW, "view_range": [40, -1]}, {**VIEW, "view_range": [40, -1]}, "none", "target_mismatch"),
    ],
)
def test_where_nemo_gym_is_wrong(expected, actual, here, upstream):
    assert compare("edit", expected, actual) == here
    assert compare("edit", expected, actual, conform="nemo") == upstream


def test_what_the_model_called_is_reported():
    _, _, info = play(call("bash", command="ls"), function_call("bash", {"command": "lsé" + "x" * 600}))
    assert info["model_output"] == 'bash({"command": "ls\\u00e9' + "x" * 479 + ")" and info["expected_answer"] == ""
    assert play(call("bash", command="ls"), function_call("bash", "ls"))[2]["model_output"] == "bash({})"


@pytest.mark.parametrize(
    "fields",
    [
        {"expected_action": call("bash", command="ls")},
        {"expected_action": {**call("bash"), "arguments": {"command": "ls"}}},
        {"expected_action": {"type": "message"}, "expected_answer": json.dumps(call("bash", command="ls"))},
        {"expected_answer": "ls", "metadata": {"expected_action": call("bash", command="ls")}},
    ],
)
def test_the_expected_call_may_be_in_three_places(fields):
    env = SWEPivot(tasks=[row(**fields)])
    env.reset()
    assert env.step([function_call("bash", {"command": "ls"})])[1] == 1.0
    env.reset()
    assert env.step([function_call("bash", {"command": "pwd"})])[1] == 0.0


@pytest.mark.parametrize("fields", [{}, {"expected_answer": "ls"}, {"expected_action": {"type": "function_call"}}])
def test_a_row_without_a_call_is_refused(fields):
    with pytest.raises(DataError, match="expected call"):
        SWEPivot(tasks=[row(**fields)])


@pytest.mark.parametrize(
    ("kwargs", "problem"),
    [
        ({"reward_mode": "f1"}, "reward_mode"),
        ({"similarity_threshold": 2}, "similarity_threshold"),
        ({"diff_size_alpha": "a"}, "diff_size_alpha"),
        ({"similarity_threshold": 0.9}, "at most similarity_full_credit"),
    ],
)
def test_options_that_make_no_sense_are_refused(kwargs, problem):
    with pytest.raises(ValueError, match=problem):
        SWEPivot(**kwargs)


def test_large_texts_are_compared_in_a_worker_process_and_nothing_takes_long_here():
    env = SWEPivot(tasks=[row(expected_action=call("write", content=LONG + "\nend"))])
    texts = [
        json.dumps({"content": "x" + LONG + "\nend"}),
        json.dumps({"content": "x " * 500_000}),
        '{"content": ' + "[" * 900 + "]" * 900 + "}",
        "[" * 1_000_000,
        "{}",
    ]
    rewards = []
    for text in texts:
        env.reset()
        env.episode.items.append(function_call("write", text))
        verdicts = []
        assert cpu_seconds(lambda: verdicts.append(env.verify(env._task, env.episode))) < 1.0  # noqa: B023
        verdict = asyncio.run(verdicts[0]) if asyncio.iscoroutine(verdicts[0]) else verdicts[0]
        rewards.append(verdict.reward)
    assert rewards == [1.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("arguments", ["", "{", {"zebra": 1}])
@pytest.mark.parametrize(
    "expected",
    [call("bash", command="ls /srv"), call("search_files", pattern="read(", path="/srv")],
    ids=["bash", "search"],
)
def test_a_call_that_says_nothing_has_no_target(expected, arguments):
    again = function_call(expected["name"], arguments)
    assert play(expected, again)[:2] == (0.0, "target_mismatch")
    assert play(expected, again, conform="nemo")[0] == float(expected["name"] != "bash")


@pytest.mark.parametrize(
    ("tool", "written", "here", "nemo"),
    [
        ("edit", json.dumps(json.dumps({"path": "a/b.py"})), "target_mismatch", "unknown_error"),
        ("bash", json.dumps("ls"), "target_mismatch", "target_mismatch"),
        ("bash", json.dumps("command: ls"), "target_mismatch", "unknown_error"),
        ("bash", "[1]", "target_mismatch", "target_mismatch"),
        ("bash", "null", "target_mismatch", "unknown_error"),
        ("read", "[1]", "target_mismatch", "none"),
        ("read", "7", "target_mismatch", "unknown_error"),
        ("edit", '{"path": "a/b.py", "command": "view", "view_range": [1e999, 3]}', "target_mismatch", "unknown_error"),
        ("bash", "not JSON", "target_mismatch", "target_mismatch"),
        ("finish", json.dumps("done"), "none", "none"),
        ("bash", '{"command": "ls", "timeout": NaN}', "target_mismatch", "none"),
    ],
)
def test_arguments_that_are_not_an_object_fail_as_they_do_in_nemo_gym(tool, written, here, nemo):
    wanted = {"edit": {"path": "a/b.py"}, "bash": {"command": "ls"}, "read": {"path": "a/b.py"}}.get(tool, {})
    if "view" in written:
        wanted = {"path": "a/b.py", "command": "view", "view_range": [1, 3]}
    assert compare(tool, wanted, written) == here
    assert compare(tool, wanted, written, conform="nemo") == nemo
