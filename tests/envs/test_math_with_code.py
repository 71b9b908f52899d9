"""MathWithCode: what the tool says, where the answer is, and when two are the same."""

import json

import gymnasium as gym
import pytest
from testing import cpu_seconds, function_call, message, message_item, outputs, row
from verifier_vectors import vector_id, vectors_of

from gym_llm.author.conform import replay_vector
from gym_llm.envs.math_with_code.env import MathWithCode
from gym_llm.errors import SandboxUnavailable


def play(answer, expected, **kwargs):
    """(reward, extracted answer) of a message, or of items, for a row that expects this."""
    env = gym.make("gym_llm/MathWithCode-v0", **kwargs).unwrapped
    env.reset(options={"task": row("How much?", expected_result=expected)})
    env.episode.items.extend(message(answer) if isinstance(answer, str) else answer)
    verdict = env.verify(env._task, env.episode)
    assert verdict.info["accuracy"] == (verdict.reward == 1.0)
    return verdict.reward, verdict.info["extracted_answer"]


def call(env, code, name="execute_python"):
    try:
        observation, *_ = env.step([function_call(name, {"code": code})])
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    return json.loads(outputs(observation)[-1])


def output(text):
    return {"type": "function_call_output", "call_id": "call_1", "output": text}


@pytest.mark.parametrize("vector", vectors_of("math_with_code"), ids=vector_id)
def test_recorded_episodes_score_as_recorded(vector):
    """But for an answer with braces in its box, which an older version read up to the first of them."""
    of_old = vector["source"] == "math_with_code/2"
    disagreements = replay_vector(vector).disagreements
    assert [one for one in disagreements if not (of_old and one.field == "extracted_answer")] == []


def test_the_tool_answers_as_nemo_gyms_does_and_better():
    env = gym.make("gym_llm/MathWithCode-v0", max_execution_time=2.0)
    env.reset(seed=0)
    good = {"success": True, "stdout": "", "stderr": "", "error_message": None, "result": None}
    assert call(env, "def f(n):\n    return 1 if n < 2 else n * f(n - 1)") == good
    assert call(env, "print(f(5))\nx = f(4)") == {**good, "stdout": "120\n"}
    assert call(env, "sorted([x, isinstance(x, int)])") == {**good, "result": "[True, 24]"}
    failed = call(env, "print('so far')\nx / 0")
    assert (failed["success"], failed["stdout"]) == (False, "so far\n")
    assert failed["error_message"] == "ZeroDivisionError: division by zero"
    assert failed["stderr"].startswith("Traceback") and failed["result"] is None
    late = call(env, "while True: pass")
    assert not late["success"] and late["error_message"].startswith("The code timed out after 2 seconds.")
    assert call(env, "x")["error_message"] == "NameError: name 'x' is not defined"
    call(env, "x = 1")
    assert call(env, "", "end_session") == good
    assert not call(env, "x")["success"]
    _, reward, terminated, _, info = env.step(message("\\boxed{7}"))
    assert terminated and reward == 0.0
    assert (info["num_tool_calls"], info["tool_timeout_count"]) == (8, 1)
    env.close()


def test_the_modules_that_rows_promise_are_there_and_cost_nothing():
    pytest.importorskip("scipy")
    pytest.importorskip("pandas")
    env = gym.make("gym_llm/MathWithCode-v0", max_execution_time=1.0)
    env.reset(seed=0)
    assert call(env, "np.arange(3).sum() + numpy.float64(1)")["result"] == "4.0"
    assert call(env, "scipy.__name__ + pd.__name__ + pandas.__name__")["result"] == "scipypandaspandas"
    env.close()


@pytest.mark.parametrize(
    ("answer", "expected", "reward"),
    [
        ("\\boxed{-3}", "-3", 1.0),
        ("\\boxed{42.0}", "42", 1.0),
        ("\\boxed{.5}", "0.5", 1.0),
        ("\\boxed{1.9999999999999998}", "2", 1.0),
        ("\\boxed{2.00001}", "2", 0.0),
        ("\\boxed{1000000.5}", "1000000", 0.0),
        ("\\boxed{20\\%}", "20", 1.0),
        ("\\boxed{1\\,234}", "1234", 1.0),
        ("\\boxed{6.63e-34}", "1.6e-19", 0.0),
        ("\\boxed{7\\text{ dozens}}", "7", 1.0),
        ("It is \\boxed{7}. I used \\boxed{}.", "7", 1.0),
        ("\\boxed{$x +  1$}", "\\(x + 1\\)", 1.0),
        ("\\boxed{\\text{even}}", "even", 1.0),
        ("\\boxed{\\frac{1}{2}}", "0.5", 1.0),
        ("\\boxed{3/4}", "\\(\\dfrac{3}{4}\\)", 1.0),
        ("\\boxed{-\\frac{3}{4}}", "-0.75", 1.0),
        ("\\boxed{1/0}", "inf", 0.0),
        ("\\boxed{inf}", "1e999", 0.0),
        ("\\boxed{nan}", "7", 0.0),
        ("\\boxed{\\sqrt{2}}", "\\sqrt{2}", 1.0),
        ("7", "7", 0.0),
        ("\\boxed{}", "", 0.0),
    ],
)
def test_equal_texts_and_equal_numbers_are_the_same(answer, expected, reward):
    assert play(answer, expected)[0] == reward


def test_nemo_gym_reads_the_last_box_only_if_it_is_closed():
    for said, here, nemo in (
        (r"\boxed{x_{2016}}", "x_{2016}", "x_{2016}"),
        (r"\boxed{1} then \boxed{x_{2016}", "1", None),
        (r"\boxed {1}", "1", None),
        (r"\boxed{a\}b}", r"a\}b", "a\\"),
    ):
        assert play(said, "0.5")[1] == here
        assert play(said, "0.5", conform="nemo")[1] == nemo


def test_nemo_gym_reads_no_fraction():
    assert play("\\boxed{\\frac{1}{2}}", "0.5", conform="nemo")[0] == 0.0
    assert play("\\boxed{0.50}", "0.5", conform="nemo")[0] == 1.0


def test_the_last_message_with_a_box_counts_and_then_what_calls_printed():
    say, call = message_item, function_call("execute_python", {"code": "?"})
    assert play([say("\\boxed{1}"), say("\\boxed{2}"), say("That is all.")], "2") == (1.0, "2")
    printed = output(json.dumps({"success": True, "stdout": "\\boxed{3}\n", "result": "\\boxed{9}"}))
    assert play([say("\\boxed{1}"), call, printed, say("Done.")], "1") == (1.0, "1")
    assert play([call, output("\\boxed{4}"), call, printed, say("Done.")], "3") == (1.0, "3")
    assert play([call, output("\\boxed{4}"), say("Done.")], "4") == (1.0, "4")
    for other in ("[]", '{"stdout": 3}', "null", "{", '{"result": "\\\\boxed{4}"}'):
        assert play([call, output(other), say("Done.")], "4") == (0.0, None)


@pytest.mark.parametrize("text", ["\\boxed{", "9", "\\text{", "$", "\\frac{1}{", "{", "1/"])
def test_no_text_takes_long(text):
    env = MathWithCode(tasks=[row(expected_result="7")])
    env.reset()
    for answer in (text * (400_000 // len(text)), "\\boxed{" + text * (400_000 // len(text)) + "}"):
        env.episode.items[:] = [*message(answer), output(answer)]
        assert cpu_seconds(env.verify, env._task, env.episode) < 0.2


def test_arguments_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="max_execution_time is a number of seconds"):
        MathWithCode(max_execution_time=-1)
