import gymnasium as gym
import pytest
from testing import ROOT, message, row

from gym_llm.data.files.jsonl import read_jsonl
from gym_llm.errors import DataError


def arithmetic(**fields):
    return row("What is 1 + 1?", expected_answer="2", **fields)


def play(task, text="\\boxed{2}", **kwargs):
    env = gym.make("gym_llm/Mixed-v0", **kwargs)
    env.reset(options={"task": task})
    _, reward, terminated, _, info = env.step(message(text))
    assert terminated
    return reward, info["env_id"]


def test_a_row_is_played_by_the_verifier_that_it_names():
    assert play(arithmetic(env_id="gym_llm/Arithmetic-v0")) == (1.0, "gym_llm/Arithmetic-v0")
    choice = row(options=[{"A": "1"}, {"B": "2"}], expected_answer="B", env_id="gym_llm/MultipleChoice-v0")
    assert play(choice, "\\boxed{B}") == (1.0, "gym_llm/MultipleChoice-v0")


def test_a_nemo_gym_agent_is_a_verifier_by_the_name_it_is_given():
    task = arithmetic(agent_ref={"type": "responses_api_agents", "name": "sums"})
    assert play(task, verifiers={"sums": "gym_llm/Arithmetic-v0"}) == (1.0, "gym_llm/Arithmetic-v0")
    recipe = {"env": "gym_llm/Arithmetic-v0", "kwargs": {"max_turns": 1}}
    assert play(task, "\\boxed{3}", verifiers={"sums": recipe}) == (0.0, "gym_llm/Arithmetic-v0")


@pytest.mark.parametrize("fields", [{}, {"env_id": "gym_llm/Arithmetik-v0"}, {"agent_ref": {"name": "sums"}}])
def test_a_row_without_a_verifier_is_refused(fields):
    with pytest.raises(DataError):
        gym.make("gym_llm/Mixed-v0").reset(options={"task": arithmetic(**fields)})


def test_how_an_unknown_name_gets_a_meaning_is_said():
    ref = {"agent_ref": {"name": "sums"}}
    with pytest.raises(DataError, match=r"""`verifiers=\{"sums": "gym_llm/NAME-v0"\}` says which environment it is"""):
        gym.make("gym_llm/Mixed-v0").reset(options={"task": arithmetic(**ref)})
    env = gym.make("gym_llm/Mixed-v0", verifiers={"sums": "gym_llm/Arithmetic-v0"})
    assert env.reset(options={"task": arithmetic(**ref)})[1]["env_id"] == "gym_llm/Arithmetic-v0"


def test_a_row_is_checked_by_the_verifier_that_plays_it():
    with pytest.raises(DataError, match="expected_answer"):
        gym.make("gym_llm/Mixed-v0").reset(options={"task": row(env_id="gym_llm/Arithmetic-v0")})


def test_after_a_reset_that_failed_there_is_no_episode_to_play_on():
    env = gym.make("gym_llm/Mixed-v0", disable_env_checker=True)
    env.reset(options={"task": arithmetic(env_id="gym_llm/Arithmetic-v0")})
    with pytest.raises(DataError):
        env.reset(options={"task": arithmetic()})
    with pytest.raises(gym.error.ResetNeeded):
        env.step(message("\\boxed{2}"))


def test_the_examples_are_of_several_verifiers():
    names = {task["env_id"] for _, task in read_jsonl(ROOT / "envs/mixed/data/example.jsonl")}
    assert len(names) > 2
