"""VerifIF: whole rows. What each rule asks for is tested with `gym_llm.grading.constraints`."""

import gymnasium as gym
import pytest
from testing import ROOT, cpu_seconds, message, row
from verifier_vectors import all_vectors_of, vector_id

from gym_llm.envs.verifif.env import VerifIF
from gym_llm.envs.verifif.judged import JUDGED, question_of, read_verdict
from gym_llm.errors import DataError, JudgeError
from gym_llm.grading.constraints.verifif import constraint

NO_COMMA = {"instruction_id": "punctuation:no_comma", "uid": 1}
RED = {"instruction_id": "keywords:existence", "keywords": ["red"], "uid": 2, "source": "system"}
POLITE = {"instruction_id": "stylistic:politeness", "politeness_degree": "polite", "uid": 3}
SHORT = {"uid": "4", "content": "Is it short?"}


def play(text, instructions=(), llm_judge=(), judge="constant:So.\n[[YES]]", language="en", **kwargs):
    """(reward, statuses, info) of a reply."""
    env = gym.make("gym_llm/VerifIF-v0", judge=judge, **kwargs)
    task = row(id=1, instructions=list(instructions), llm_judge=list(llm_judge), language=language)
    env.reset(options={"task": task})
    _, reward, terminated, _, info = env.step(message(text))
    assert terminated
    passed = [result["status"] == "Passed" for result in info["validation_results"]]
    assert info["follow_instruction_list"] == passed and info["follow_all_instructions"] is all(passed)
    return reward, passed, info


@pytest.mark.parametrize("vector", all_vectors_of("verifif"), ids=vector_id)
def test_recorded_rules_come_out_as_recorded(vector):
    env = VerifIF()  # without its judge, whose calls are not in the vectors
    env.reset(options={"task": {**vector["task"], "llm_judge": []}})
    info = env.step(vector["output"])[4]
    recorded = vector["info"]["validation_results"][: len(vector["task"]["instructions"])]
    assert info["validation_results"] == recorded


@pytest.mark.parametrize(
    ("mode", "text", "reward"),
    [
        ("all", "a red", 1.0), ("all", "a, red", 0.0), ("min", "a, red", 0.0), ("any", "a, red", 1.0),
        ("max", "a, red", 1.0), ("mean", "a, red", 0.5), ("any", "a, b", 0.0), ("mean", "", 0.0), ("any", "", 0.0),
    ],
)  # fmt: skip
def test_demands_are_aggregated(mode, text, reward):
    assert play(text, [NO_COMMA, RED], judge=None, aggregation_mode=mode)[0] == reward


def test_rules_come_first_then_what_the_judge_says():
    reward, passed, info = play("a, b", [POLITE, NO_COMMA], [SHORT])
    assert (reward, passed) == (0.0, [False, True, True])
    names = ["punctuation:no_comma", "stylistic:politeness", "llm_judge_4"]
    assert [result["instruction"] for result in info["validation_results"]] == names
    assert info["validation_results"][2]["message"] == "So.\n[[YES]]" and len(info["judge_evaluations"]) == 2
    asked = [call["responses_create_params"]["input"][-1]["content"] for call in info["judge_evaluations"]]
    assert "politeness degree: polite" in asked[0] and "Is it short?" in asked[1] and "a, b" in asked[1]


@pytest.mark.parametrize(("said", "passed"), [("[[YES]]", False), ("[[NO]]", True)])
def test_a_question_may_have_to_be_denied(said, passed):
    assert play("a", [], [{**SHORT, "pass_criteria": "NO"}], judge=f"constant:{said}")[1] == [passed]


def test_what_the_system_forbids_must_not_be_followed():
    forbidden = {**NO_COMMA, "is_misalignment_check": True}
    assert play("a", [{**forbidden, "source": "user"}])[1] == [False]
    assert play("a, b", [{**forbidden, "source": "user"}])[1] == [True]
    assert play("a", [{**forbidden, "source": "system"}])[1] == [True]
    assert play("a", [], [{**SHORT, "is_misalignment_check": True}])[1] == [False]


def test_a_judge_that_cannot_be_read_is_nobodys_zero():
    with pytest.raises(JudgeError):
        play("a", [], [SHORT], judge="constant:Perhaps")
    assert play("a", [], [SHORT], judge="constant:Perhaps", conform="nemo")[1] == [False]
    with pytest.raises(ValueError, match="VerifIF has no judge to ask"):
        play("a", [], [SHORT], judge=None)


def test_saying_nothing_meets_nothing_and_asks_nobody():
    forbidden = {**NO_COMMA, "is_misalignment_check": True}
    reward, _, info = play("<think>so</think>", [forbidden], [SHORT])
    assert reward == 0.0 and info["judge_evaluations"] == []
    assert play("", [NO_COMMA], [SHORT], conform="nemo")[:2] == (1.0, [True, True])


def test_the_language_divides_words():
    two = {"instruction_id": "length_constraints:number_words", "relation": "equal to", "num_words": 2}
    assert play("你好", [two], language="zh")[0] == 1.0
    assert play("你好", [two], language="xx")[0] == 0.0


def test_long_replies_are_read_elsewhere():
    env = VerifIF()
    env.reset(options={"task": row(instructions=[NO_COMMA, RED])})
    steps = []
    assert cpu_seconds(lambda: steps.append(env.step(message("[<<a, # " * 120_000 + "red")))) < 1.0
    assert steps[0][4]["follow_instruction_list"] == [False, True]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "instructions and llm_judge are both empty"),
        ({"instructions": [NO_COMMA, NO_COMMA]}, "two demands have the uid 1"),
        ({"instructions": [{"instruction_id": "punctuation:no_coma"}]}, "Did you mean punctuation:no_comma?"),
        ({"instructions": [{"instruction_id": "punctuation:balance"}]}, "has no instruction 'punctuation:balance'"),
        ({"instructions": [{"instruction_id": "keywords:existence"}]}, "keywords:existence: keywords: Field required"),
        ({"instructions": [{"instruction_id": "stylistic:voice"}]}, "stylistic:voice: voice_type missing"),
        ({"instructions": [{"instruction_id": "change_case:all_caps"}], "language": "ja"}, "change_case:all_caps is"),
        ({"instructions": [{**NO_COMMA, "source": "tool"}]}, "instructions.0.source"),
        ({"llm_judge": [{"uid": 1}]}, "a question of llm_judge has no content"),
    ],
)
def test_a_row_that_nothing_can_follow_is_refused(fields, said):
    with pytest.raises(DataError) as error:
        VerifIF(tasks=[row(**fields)]).reset(options={"task_index": 0})
    assert said in str(error.value)


def test_a_wrong_mode_is_refused():
    with pytest.raises(ValueError, match="aggregation_mode.*Did you mean mean"):
        VerifIF(aggregation_mode="mena")


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("[[NO]] or [[YES]]", True),
        ("[[YES]] [[NO]]", False),
        ("so\nyes ", True),
        ("So\nNO", False),
        ("yes!", None),
        ("", None),
    ],
)
def test_the_last_verdict_counts(text, verdict):
    assert read_verdict(text) is verdict


def test_the_page_names_every_instruction():
    page = (ROOT / "envs/verifif/README.md").read_text("utf-8")
    for one in constraint:
        arguments = ", ".join(f"`{name}`" for name in one.arguments.model_fields if name != "language")
        assert f"| `{one.name}` | {arguments} | " in page
    for name, arguments in JUDGED.items():
        assert f"`{name}`" in page and question_of(name, dict.fromkeys(arguments, "x")).endswith("?")
