"""InstructionFollowing: whole rows. What each constraint asks for is tested with `gym_llm.grading.constraints`."""

import gymnasium as gym
import pytest
from testing import ROOT, cpu_seconds, function_call, message, row
from verifier_vectors import agree, all_vectors_of, vector_id

from gym_llm.envs.instruction_following.env import InstructionFollowing
from gym_llm.errors import DataError
from gym_llm.grading.constraints.ifevalg import constraint

NO_COMMA, RED = ("punctuation:no_comma", {}), ("keywords:word_once", {"keyword": "red", "N": None})


def instructions(*constraints, **fields):
    return {
        "instruction_id_list": [name for name, _ in constraints],
        "kwargs": [given for _, given in constraints],
        **fields,
    }


def play(metadata, *items, **kwargs):
    """(reward, what was followed) of an answer."""
    env = gym.make("gym_llm/InstructionFollowing-v0", **kwargs)
    env.reset(options={"task": row(id=1, verifier_metadata=metadata)})
    _, reward, terminated, _, info = env.step(list(items))
    assert terminated and info["follow_all_instructions"] is all(info["follow_instruction_list"])
    return reward, info["follow_instruction_list"]


@pytest.mark.parametrize("vector", all_vectors_of("instruction_following"), ids=vector_id)
def test_recorded_episodes_score_as_recorded(vector):
    agree({**vector, "check": "derived"})  # nobody has run upstream's code on them, but its verdicts are recorded


@pytest.mark.parametrize(
    ("mode", "text", "reward", "followed"),
    [
        ("binary", "So red", 1.0, [True, True]),
        ("binary", "So red, so", 0.0, [False, True]),
        ("fraction", "So red, so", 0.5, [False, True]),
        ("fraction", "So red", 1.0, [True, True]),
        ("fraction", "", 0.0, [False, False]),
    ],
)
def test_all_or_the_share_is_paid(mode, text, reward, followed):
    assert play(instructions(NO_COMMA, RED, grading_mode=mode), *message(text)) == (reward, followed)


def test_saying_nothing_follows_nothing_but_in_nemo_gym():
    assert play(instructions(NO_COMMA), *message(" ")) == (0.0, [False])
    assert play(instructions(NO_COMMA), *message(" "), conform="nemo") == (1.0, [True])


def test_old_rows_have_their_constraints_beside():
    env = gym.make("gym_llm/InstructionFollowing-v0")
    env.reset(options={"task": row(id=1, prompt="So?", **instructions(NO_COMMA, RED))})
    assert env.step(message("red"))[1] == 1.0


def test_long_answers_are_read_elsewhere():
    answer = message("<<[*. " * 170_000 + " red")
    env = gym.make("gym_llm/InstructionFollowing-v0")
    env.reset(options={"task": row(verifier_metadata=instructions(NO_COMMA, RED))})
    steps = []
    assert cpu_seconds(lambda: steps.append(env.step(answer))) < 0.5
    assert steps[0][1] == 1.0


def test_languages_are_told():
    metadata = instructions(("language:response_language", {"language": "de"}), NO_COMMA, grading_mode="fraction")
    assert play(metadata, *message("Das Wetter ist heute wirklich sehr schön und warm.")) == (1.0, [True, True])
    assert play(metadata, *message("The weather is very nice and warm today.")) == (0.5, [False, True])


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (None, "verifier_metadata"),
        ([], "verifier_metadata"),
        (instructions(), "instruction_id_list"),
        (instructions(("keywords:once", {})), "IFEvalG has no constraint 'keywords:once'"),
        (instructions(("keywords:word_once", {})), "keywords:word_once: keyword: Field required"),
        (instructions(NO_COMMA, grading_mode="all"), "grading_mode"),
        ({**instructions(NO_COMMA), "kwargs": [{}, {}]}, "1 constraints are named, and arguments given for 2"),
    ],
)
def test_a_row_that_nothing_can_follow_is_refused(metadata, said):
    with pytest.raises(DataError) as error:
        InstructionFollowing(tasks=[row(verifier_metadata=metadata)]).reset(options={"task_index": 0})
    assert said in str(error.value)


def test_a_call_at_the_end_is_no_answer_in_nemo_gym():
    env = InstructionFollowing(conform="nemo", max_turns=1)
    env.reset(options={"task": row(verifier_metadata=instructions(RED))})
    assert env.step([*message("red"), function_call("f")])[1] == 0.0


def test_the_page_names_every_constraint():
    page = (ROOT / "envs/instruction_following/README.md").read_text("utf-8")
    for one in constraint:
        arguments = ", ".join(f"`{name}`" for name in one.arguments.model_fields)
        assert f"| `{one.name}` | {arguments} | " in page
