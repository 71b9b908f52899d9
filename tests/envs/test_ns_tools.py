"""NSTools: MathWithJudge's grading, with a Python tool."""

import json

import gymnasium as gym
import pytest
from testing import function_call, message, outputs, row
from verifier_vectors import all_vectors_of, replay_all

from gym_llm.envs.ns_tools.env import NSTools
from gym_llm.errors import DataError, SandboxUnavailable

pytest.importorskip("math_verify")
NAME = "stateful_python_code_exec"
TASK = row("?", question="How much is 6 times 7?", expected_answer="42", verifier_type="math_with_judge")


@pytest.fixture(scope="module")
def env():
    env = gym.make("gym_llm/NSTools-v0")
    yield env
    env.close()


def test_recorded_episodes_score_as_recorded_without_a_sandbox(monkeypatch):
    def none(*args, **kwargs):
        raise AssertionError("a sandbox was started")

    monkeypatch.setattr("gym_llm.sandbox.python_tool.sandbox_for", none)
    assert len(replay_all("ns_tools", all_checks=True)) == len(all_vectors_of("ns_tools"))


def test_a_model_that_calculates_is_paid_for_its_answer(env):
    env.reset(options={"task": TASK})
    try:
        observation, *_ = env.step([function_call(NAME, {"code": "x = 6 * 7\nx"})])
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    assert json.loads(outputs(observation)[0]) == {"process_status": "completed", "stdout": "42\n", "stderr": ""}
    _, reward, terminated, _, info = env.step(message("\\boxed{42}"))
    assert (reward, terminated) == (1.0, True)
    assert (info["num_tool_calls"], info["tool_timeout_count"], info["library_reward"]) == (1, 0, 1.0)
    assert "delegated_response" not in info


def test_what_calls_print_is_no_answer(env):
    env.reset(options={"task": TASK})
    try:
        env.step([function_call(NAME, {"code": "print('\\\\boxed{42}')"})])
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    assert "boxed{42}" in str(env.unwrapped.episode.items[-1])
    assert env.step(message("Done."))[1] == 0.0


def test_what_was_delegated_is_reported_as_nemo_gym_does():
    env = gym.make("gym_llm/NSTools-v0", conform="nemo")
    env.reset(options={"task": TASK})
    _, reward, _, _, info = env.step(message("\\boxed{42}"))
    assert reward == info["delegated_response"]["reward"] == 1.0
    assert info["delegated_response"]["extracted_answer"] == info["extracted_answer"] == "42"


def test_another_verifier_is_refused_where_the_rows_are_read():
    with pytest.raises(DataError, match="verifier_type: Input should be 'math_with_judge'"):
        NSTools(tasks=[{**TASK, "verifier_type": "mcqa"}])
    assert NSTools(tasks=[{**TASK, "verifier_type": None}]).num_tasks == 1
