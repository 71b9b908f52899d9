"""IFBench: whole rows. What each constraint asks for is tested with `gym_llm.grading.constraints`."""

import gymnasium as gym
import pytest
from testing import ROOT, cpu_seconds, function_call, message, row
from verifier_vectors import agree, all_vectors_of, vector_id

from gym_llm.envs.ifbench.env import IFBench
from gym_llm.errors import DataError
from gym_llm.grading.constraints.ifbench import constraint

NO_BLANKS, TWO = ("format:no_whitespace", None), ("count:numbers", {"N": 2.0, "word": None})


def fields(*constraints, **others):
    names, given = [name for name, _ in constraints], [given for _, given in constraints]
    return {"id": 1, "instruction_id_list": names, "kwargs": given, **others}


def play(task, *items, **kwargs):
    """(reward, info) of an answer."""
    env = gym.make("gym_llm/IFBench-v0", **kwargs)
    env.reset(options={"task": row(**task)})
    _, reward, terminated, _, info = env.step(list(items))
    assert terminated
    return reward, info


@pytest.mark.parametrize("vector", all_vectors_of("ifbench"), ids=vector_id)
def test_recorded_episodes_score_as_recorded(vector):
    agree({**vector, "check": "derived"})  # nobody has run upstream's code on them, but its verdicts are recorded


@pytest.mark.parametrize(
    ("text", "share", "strict", "loose"),
    [
        ("1,a;2", 1.0, [True, True], [True, True]),
        ("1 a 2", 0.5, [False, True], [False, True]),
        ("Sure:\n*1*a 2 3", 0.0, [False, False], [True, False]),
        ("Sure:\n1a2", 0.5, [False, True], [True, True]),
        (" \n", 0.0, [False, False], [False, False]),
    ],
)
def test_strict_is_paid_and_loose_is_told(text, share, strict, loose):
    reward, info = play(fields(NO_BLANKS, TWO), *message(text))
    assert reward == share and info["follow_instruction_list"] == strict
    assert info["follow_all_instructions"] is all(strict) and info["follow_all_instructions_loose"] is all(loose)
    assert info["follow_instruction_list_loose"] == loose and info["reward_loose"] == sum(loose) / 2
    reward, info = play(fields(NO_BLANKS, TWO, grading_mode="binary"), *message(text))
    assert (reward, info["reward_loose"]) == (float(all(strict)), float(all(loose)))


def test_long_answers_are_read_elsewhere():
    env = IFBench()
    env.reset(options={"task": row(**fields(NO_BLANKS, TWO))})
    steps = []
    assert cpu_seconds(lambda: steps.append(env.step(message("1" + "([{\"'" * 200_000 + "2 ")))) < 0.5
    assert steps[0][4]["follow_instruction_list"] == [False, False] and steps[0][1] == 0.0


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (fields(), "instruction_id_list"),
        (fields(("count:number", {})), "IFBench has no constraint 'count:number'. Did you mean count:numbers?"),
        (fields(("count:numbers", None)), "count:numbers: N: Field required"),
        (fields(("punctuation:no_comma", {})), "IFBench has no constraint 'punctuation:no_comma'"),
        (fields(NO_BLANKS, grading_mode="all"), "grading_mode"),
    ],
)
def test_a_row_that_nothing_can_follow_is_refused(task, said):
    with pytest.raises(DataError) as error:
        IFBench(tasks=[row(**task)]).reset(options={"task_index": 0})
    assert said in str(error.value)


def test_a_call_at_the_end_is_no_answer_in_nemo_gym():
    env = IFBench(conform="nemo", max_turns=1)
    env.reset(options={"task": row(**fields(NO_BLANKS))})
    assert env.step([*message("red"), function_call("f")])[1] == 0.0


def test_the_page_names_every_constraint():
    page = (ROOT / "envs/ifbench/README.md").read_text("utf-8")
    for one in constraint:
        arguments = ", ".join(f"`{name}`" for name in one.arguments.model_fields)
        assert f"| `{one.name}` | {arguments} | " in page
