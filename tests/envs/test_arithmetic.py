import json
import re

import gymnasium as gym
import pytest
from testing import ROOT, message, row

from gym_llm.envs.arithmetic.env import Arithmetic
from gym_llm.errors import DataError


def play(answer, expected="85"):
    env = gym.make("gym_llm/Arithmetic-v0")
    env.reset(options={"task": row(expected_answer=expected)})
    _, reward, terminated, truncated, info = env.step(message(answer))
    assert terminated and not truncated
    return reward, info["extracted_answer"]


@pytest.mark.parametrize(
    ("kwargs", "numbers", "signs"),
    [
        ({}, 2, "+-"),
        ({"digits": 4, "operations": "+", "terms": 5}, 5, "+"),
        ({"operations": "+-*", "terms": 4}, 4, "+-*"),
    ],
)
def test_generated_answers_are_right(kwargs, numbers, signs):
    env = Arithmetic(**kwargs)
    seen = set()
    for index in range(300):
        task = env.tasks[index]
        (message,) = task.request["input"]
        problem = re.search(r"\d[-+* \d]*\d|\d", message["content"])[0]
        assert re.findall(r"[^\d ]", problem) == re.findall(rf"[{re.escape(signs)}]", problem)
        terms = [int(term) for term in re.findall(r"\d+", problem)]
        assert len(terms) == numbers and max(terms) < 10 ** kwargs.get("digits", 2)
        assert task.task.expected_answer == str(eval(problem))  # noqa: S307 - digits and operators only
        seen |= set(re.findall(r"[^\d ]", problem))
    assert seen == set(signs)


def test_the_same_index_is_the_same_task_and_others_differ():
    first, second = Arithmetic(), Arithmetic()
    rows = [first.tasks[index].row for index in range(50)]
    assert rows == [second.tasks[index].row for index in range(50)]
    assert len({json.dumps(row) for row in rows}) > 45


def test_right_answer_is_worth_one():
    assert play("<think>…</think> It is \\boxed{85}.") == (1.0, "85")


@pytest.mark.parametrize(
    ("answer", "extracted"),
    [
        ("\\boxed{ +85 }", "85"),
        ("\\boxed{085}", "85"),
        ("\\boxed{85.0}", "85"),
        ("\\boxed{٨٥}", "85"),
        ("\\boxed{$85$}", "85"),
        ("First \\boxed{84}, no: \\boxed{85}", "85"),
    ],
)
def test_the_last_box_counts_as_a_whole_number(answer, extracted):
    assert play(answer) == (1.0, extracted)


@pytest.mark.parametrize(
    ("answer", "extracted"),
    [
        ("85", None),
        ("\\boxed{85.5}", None),
        ("\\boxed{85\\%}", None),
        ("\\boxed{8 5}", None),
        ("\\boxed{}", None),
        ("\\boxed{-85}", "-85"),
        ("\\boxed{85} or rather \\boxed{86}", "86"),
    ],
)
def test_anything_else_is_worth_nothing(answer, extracted):
    assert play(answer) == (0.0, extracted)


def test_negative_and_large_numbers():
    assert play("\\boxed{-1,024}", "-1024") == (1.0, "-1024")
    assert play("\\boxed{\u221231}", "-31") == (1.0, "-31")
    assert play("\\boxed{10,24}", "1024") == (0.0, None)
    assert play("\\boxed{-0}", "0") == (1.0, "0")


@pytest.mark.parametrize(
    "kwargs", [{"digits": 0}, {"digits": "2"}, {"digits": 10}, {"operations": ""}, {"operations": "+/"}, {"terms": 1}]
)
def test_bad_difficulty_is_one_sentence(kwargs):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        Arithmetic(**kwargs)


def test_expected_answer_has_to_be_a_whole_number():
    with pytest.raises(DataError, match="expected_answer"):
        Arithmetic(tasks=[row(expected_answer="8.5")])


def test_example_tasks_can_be_played():
    env = Arithmetic(tasks=str(ROOT / "envs/arithmetic/data/example.jsonl"))
    assert env.num_tasks == 5
    for index in range(5):
        env.reset(options={"task_index": index})
        answer = env.tasks[index].task.expected_answer
        assert env.step(message(f"\\boxed{{{answer}}}"))[1] == 1.0


def test_spec_round_trip_keeps_the_difficulty():
    env = gym.make("gym_llm/Arithmetic-v0", digits=3, operations="*", terms=3)
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.unwrapped.tasks[5].row == env.unwrapped.tasks[5].row
