"""LitmusAgent: where the answer is, how it is read, and by which rule it is right."""

import asyncio
import json

import gymnasium as gym
import pytest
from testing import cpu_seconds, function_call, message, message_item, outputs, row
from verifier_vectors import vector_id, vectors_of

from gym_llm.author.conform import replay_vector
from gym_llm.envs.litmus_agent.env import LitmusAgent
from gym_llm.envs.litmus_agent.reading import FORMATS, last_in_format, read_bool, read_number
from gym_llm.errors import DataError, SandboxUnavailable


def play(answer, expected, options=None, **fields):
    """(reward, info) of an answer to a row with these fields; a float row if they say nothing else."""
    fields = fields if "property_type" in fields else {"answer_type": "float"} | fields
    env = gym.make("gym_llm/LitmusAgent-v0", **(options or {}))
    env.reset(options={"task": row("How much?", expected_answer=expected, **fields)})
    _, reward, terminated, _, info = env.step(message(answer))
    assert terminated and info["correct"] == (reward == 1.0)
    return reward, info


@pytest.mark.parametrize("vector", vectors_of("litmus_agent"), ids=vector_id)
def test_recorded_episodes_score_as_recorded(vector):
    """But for the rule of old rows: they were recorded before NeMo Gym compared them rounded."""
    old = vector["task"].get("answer_type") is None
    disagreements = replay_vector(vector).disagreements
    assert [one for one in disagreements if not (old and one.field == "resolved_reward_rule")] == []


SAID = {
    "fmt_00": "(( 7 ))", "fmt_01": "(Answer: 7)", "fmt_02": "Final answer: (7)", "fmt_03": "Answer is [7]",
    "fmt_04": "[Answer: 7]", "fmt_05": "[[7]]", "fmt_06": "Correct Answer: [7]", "fmt_07": "\\boxed{7}",
    "fmt_08": "\\boxed{ 7 }", "fmt_09": "{{7}}", "fmt_10": "Answer Value: {7}", "fmt_11": "<<7>>", "fmt_12": "<<7>>",
    "fmt_13": "<7>", "fmt_14": "<Answer: 7>", "fmt_15": "<final_answer>\n7\n</final_answer>",
    "fmt_16": "Final Answer: ||7||", "fmt_17": "The answer is: |7|", "fmt_18": "**Answer: 7**",
    "fmt_19": "**Final answer is: 7**", "fmt_20": "Answer: *7*", "fmt_21": "## Answer: 7 ##", "fmt_22": "ANSWER IS 7",
    "fmt_23": "Response: 7", "fmt_24": "Final Answer -> 7", "fmt_25": "Final value is: 7",
    "fmt_26": "Correct Answer >> 7",
    "fmt_27": "Answer Value:\n7", "fmt_28": "Final Answer = 7", "fmt_29": "Correct answer is 7",
    "fmt_30": "Final Answer: 7",
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_every_form_is_found_and_the_last_counts(name):
    said = SAID[name]
    assert last_in_format(f"So it is {said}\nand that is all.", name) == "7"
    assert last_in_format(f"{said.replace('7', '6')}\nno: {said}\n", name) == "7"
    assert last_in_format("It is 7.", name) is None


def test_a_form_that_is_not_closed_or_empty_is_none():
    assert last_in_format("((7", "fmt_00") is None and last_in_format("((7)) or ((8", "fmt_00") == "7"
    assert last_in_format("(( ))", "fmt_00") == "" and last_in_format("[[]]", "fmt_05") is None
    assert last_in_format("Response:", "fmt_23") is None
    assert last_in_format("\\boxed{18.02\\ \\text{g/mol}}", "fmt_07") == "18.02\\ \\text{g/mol"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7.0), (" -7.5e-3 ", -0.0075), ("about 7 or 8 m", 8.0), ("x = -2", -2.0), ("none", None), ("", None),
        ("1,234", 1234.0), ("1,234,567.5 kg", 1234567.5), ("1,23", 23.0), ("(3, 400)", 400.0), ("1e3 g", 1000.0),
    ],
)  # fmt: skip
def test_a_number_is_the_whole_answer_or_the_last_in_it(text, number):
    assert read_number(text) == number


def test_thousands_are_read_as_one_number_but_for_nemo_gym():
    assert play("((1,234))", 1234)[0] == 1.0
    assert play("((1,234))", 1234, {"conform": "nemo"})[1]["predicted_value"] == 234.0


@pytest.mark.parametrize("text", ["1", "1.0", "TRUE", " yes", "Present", "t", "Y", "2", "x = 3"])
def test_what_is_true(text):
    assert read_bool(text) == 1.0


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0.0), ("False", 0.0), ("NO ", 0.0), ("absent", 0.0), ("f", 0.0), ("n", 0.0), ("0.00", 0.0), ("maybe", None)],
)
def test_what_is_false_or_neither(text, value):
    assert read_bool(text) == value


@pytest.mark.parametrize(
    ("answer", "expected", "match", "reward"),
    [
        ("7", 7, None, 1.0),
        ("7.000001", 7, None, 1.0),
        ("7.0001", 7, None, 0.0),
        ("7.4", "7", {"rule": "exact"}, 1.0),
        ("2.5", 2, {"rule": "exact"}, 1.0),
        ("3.5", 3, {"rule": "exact"}, 0.0),
        ("inf", 7, {"rule": "exact"}, 0.0),
        ("nan", 7, None, 0.0),
        ("7.1", 7, {"rule": "abs_window", "abs_tol": 0.2}, 1.0),
        ("7.3", 7, {"rule": "abs_window", "abs_tol": 0.2}, 0.0),
        ("7.1", 7, {"rule": "abs_window"}, 0.0),
        ("-110", -100, {"rule": "rel_window", "rel_tol": 0.1}, 1.0),
        ("-111", -100, {"rule": "rel_window", "rel_tol": 0.1}, 0.0),
        ("7.5", 7, {"rule": "isclose", "abs_tol": 0.5}, 1.0),
        ("7", 3, {"rule": "isclose", "rel_tol": 0.6}, 1.0),
        ("7 grams", "7", {"rule": "string_eq"}, 0.0),
        ("1", "yes", {"rule": "bool_eq"}, 1.0),
    ],
)
def test_the_rules_of_numbers(answer, expected, match, reward):
    assert play(f"(({answer}))", expected, match=match)[0] == reward


@pytest.mark.parametrize(
    ("answer", "expected", "fields", "reward"),
    [
        ("yes", "present", {"answer_type": "bool"}, 1.0),
        ("2", True, {"answer_type": "bool"}, 1.0),
        ("no", 1, {"answer_type": "bool"}, 0.0),
        ("who knows", 1, {"answer_type": "bool"}, 0.0),
        ("Carboxylic  ACID ", "carboxylic acid", {"answer_type": "string"}, 1.0),
        ("acid", "carboxylic acid", {"answer_type": "string"}, 0.0),
        ("about 7", "7", {"answer_type": "string", "match": {"rule": "isclose"}}, 1.0),
        ("seven", "7", {"answer_type": "string", "match": {"rule": "isclose"}}, 0.0),
        ("7.4", 7, {"property_type": "count"}, 1.0),
        ("7.4", 7, {"property_type": "fragment"}, 1.0),
        ("7.4", 7, {"property_type": "float"}, 0.0),
        ("2", 1, {"property_type": "bool"}, 0.0),
        ("1", "1", {"property_type": "presence"}, 1.0),
        ("yes", "1", {"property_type": "presence"}, 0.0),
        ("7.4", 7, {"property_type": "count", "match": {"rule": "isclose"}}, 0.0),
        ("7.4", 7, {"property_type": "count", "answer_type": "float"}, 0.0),
    ],
)
def test_the_rules_of_other_kinds_and_of_older_rows(answer, expected, fields, reward):
    assert play(f"(({answer}))", expected, **fields)[0] == reward


def test_what_was_read_is_reported():
    _, info = play("((7.5))", 7)
    assert {name: info[name] for name in info if name.startswith(("predicted", "resolved", "abs"))} == {
        "predicted_value": 7.5,
        "resolved_answer_type": "float",
        "resolved_reward_rule": "isclose",
        "abs_error": 0.5,
    }
    assert play("((x))", "x", answer_type="string")[1].get("abs_error") is None
    assert play("((2))", 1, answer_type="bool", property_type="float")[1]["abs_error"] == 0.0
    assert play("((2))", "3", property_type="fragment")[1].get("abs_error") is None
    _, info = play("((7))", 1, property_type="presence")
    assert (info["resolved_answer_type"], info["resolved_reward_rule"]) == ("bool", "exact")
    _, info = play("((inf))", 7)
    assert info.get("predicted_value") is info.get("abs_error") is None


def test_tolerances_are_options_which_a_row_overrides():
    options = {"float_abs_tol": 1.0, "float_rel_tol": 0.0}
    assert play("((7.5))", 7, options)[0] == 1.0
    assert play("((7.5))", 7, options, match={"rule": "abs_window"})[0] == 1.0
    assert play("((7.5))", 7, options, match={"rule": "abs_window", "abs_tol": 0.1})[0] == 0.0
    for kwargs in ({"float_abs_tol": -1}, {"float_rel_tol": "x"}, {"float_rel_tol": float("inf")}):
        with pytest.raises(ValueError, match="is a number, 0 or more"):
            LitmusAgent(**kwargs)


def test_boxed_and_all_messages():
    assert play("\\boxed{7}", 7, use_box_format=True)[0] == 1.0
    assert play("\\boxed{7}", 7)[0] == 0.0
    env = LitmusAgent()
    env.reset(options={"task": row(expected_answer=7, answer_type="float")})
    assert env.step([message_item("((6)) or ((7))"), message_item("I am sure.")])[1] == 1.0


def test_a_rows_own_pattern_goes_first_and_cannot_hang():
    fields = {"output_regex": r"size\s*=\s*(.+?)mm", "answer_format": "fmt_00"}
    assert play("size =\n6mm, no, size = 7 mm ((8))", 7, **fields)[0] == 1.0
    assert play("((7))", 7, **fields)[0] == 0.0


@pytest.mark.slow
def test_a_pattern_without_end_finds_nothing(monkeypatch):
    monkeypatch.setattr("gym_llm.envs.litmus_agent.env.REGEX_DEADLINE", 0.5)
    assert play("a" * 40 + "b", "a", answer_type="string", output_regex="^((?:a+)+)$")[0] == 0.0


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "answer_type is missing, and property_type None is not one of float"),
        ({"property_type": ["float"]}, "property_type .* is not one of"),
        ({"answer_type": "int"}, "answer_type"),
        ({"answer_type": "float", "expected_answer": "seven"}, "'seven' cannot be compared by the rule isclose"),
        ({"answer_type": "float", "expected_answer": "inf"}, "cannot be compared"),
        ({"answer_type": "bool", "expected_answer": "maybe"}, "cannot be compared by the rule bool_eq"),
        ({"answer_type": "float", "output_regex": "("}, "is not a regular expression"),
        ({"answer_type": "float", "output_regex": "(a)(b)"}, "has 2 groups"),
        ({"answer_type": "float", "output_regex": ""}, "has 0 groups"),
        ({"answer_type": "float", "answer_format": "fmt_31"}, "'fmt_31' is not one of fmt_00"),
        ({"answer_type": "float", "match": {"abs_tol": 1}}, "match.rule"),
        ({"answer_type": "float", "match": {"rule": "near"}}, "match.rule"),
        ({"answer_type": "float", "match": {"rule": "isclose", "abs_tol": -1}}, "match.abs_tol"),
    ],
)
def test_a_row_that_makes_no_sense_is_refused(fields, problem):
    with pytest.raises(DataError, match=problem):
        LitmusAgent(tasks=[row(**({"expected_answer": 7} | fields))])


def test_a_row_that_declares_the_python_tool_has_it():
    name = "run_code"
    tools = [{"type": "function", "name": name, "parameters": {"type": "object"}}]
    env = LitmusAgent(code_exec_tool_name=name, code_exec_timeout_s=20)
    task = row(expected_answer=7, answer_type="float")
    assert "tools" not in env.reset(options={"task": task})[0]
    task["responses_create_params"]["tools"] = tools
    assert env.reset(options={"task": task})[0]["tools"] == tools
    try:
        env.step([function_call(name, {"code": "x = 3"})])
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    observation, *_ = env.step([function_call(name, {"code": "x + 4"}), function_call("stateful_python_code_exec")])
    *_, answer, unknown = outputs(observation)
    assert json.loads(answer) == {"process_status": "completed", "stdout": "7\n", "stderr": ""}
    assert "There is no tool named" in unknown
    _, reward, _, _, info = env.step(message("((7))"))
    assert (reward, info["num_tool_calls"], info["tool_timeout_count"]) == (1.0, 2, 0)
    env.close()
    assert LitmusAgent._tools.keys() == {"stateful_python_code_exec"}
    with pytest.raises(ValueError, match="code_exec_tool_name"):
        LitmusAgent(code_exec_tool_name="")


@pytest.mark.parametrize("name", ["fmt_00", "fmt_07", "fmt_13", "fmt_15", "fmt_18", "fmt_20", "fmt_30"])
def test_no_text_takes_long(name):
    opening = {
        "fmt_00": "((",
        "fmt_07": "\\boxed{",
        "fmt_13": "<",
        "fmt_15": "<final_answer>",
        "fmt_18": "**Answer:",
    }.get(name, "Final Answer: *")
    env = LitmusAgent(tasks=[row(expected_answer=7, answer_type="float", answer_format=name)])
    for text in (
        opening * (400_000 // len(opening)),
        opening + " " * 1_000_000,
        opening + "9," * 500_000 + "))}>**\n",
        SAID[name] * 20_000,
    ):
        env.reset()
        env.episode.items.extend(message(text))
        assert cpu_seconds(env.verify, env._task, env.episode) < 1.0


def test_a_pattern_is_searched_in_another_process():
    env = LitmusAgent(tasks=[row(expected_answer=7, answer_type="float", output_regex="(7)")])
    env.reset()
    env.episode.items.extend(message("7"))
    verdict = env.verify(env._task, env.episode)
    assert asyncio.iscoroutine(verdict) and asyncio.run(verdict).reward == 1.0
