"""SWERLJudge: which patch a text chooses."""

import pytest
from testing import cpu_seconds, row, scored
from verifier_vectors import replay_all

from gym_llm.envs.swerl_llm_judge.env import SWERLJudge
from gym_llm.errors import DataError

OPTIONS = [{"A": "- a"}, {"B": "- b"}, {"C": "- c"}, {"D": None}]


def choose(text, mode, conform=None):
    fields = {"options": OPTIONS, "expected_answer": "B", "grading_mode": mode}
    reward, info = scored("gym_llm/SWERLJudge-v0", text, {"conform": conform}, **fields)
    assert reward == float(info["extracted_answer"] == "B")
    return info["extracted_answer"]


def test_recorded_episodes_score_as_recorded():
    assert len(replay_all("swerl_llm_judge")) >= 3


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("<solution>B</solution>", "B"),
        ("<solution> [B] </solution>", "B"),
        ("<solution>b</solution>", "B"),
        ("<solution>[B</solution>", "B"),
        ("<solution>Fix A</solution> <solution>B</solution>", "B"),
        ("in <solution> tags: <solution>B</solution>", "B"),
        ("<SOLUTION>B</SOLUTION>", None),
        ("<solution>Fix B</solution>", None),
        ("<solution>D</solution>", None),
        ("B", None),
        ("", None),
    ],
)
def test_strict_reads_the_solution_that_is_a_letter(text, letter):
    assert choose(text, "strict") == choose(text, "strict", "nemo") == letter


def test_of_several_strict_solutions_the_last_counts_and_for_nemo_gym_the_first():
    text = "<solution>A</solution> No: <solution>B</solution>"
    assert (choose(text, "strict"), choose(text, "strict", "nemo")) == ("B", "A")


@pytest.mark.parametrize(
    ("text", "here", "nemo"),
    [
        ("<solution>B</solution>", "B", "B"),
        ("<Solution>b.</SOLUTION>", "B", "B"),
        ("<solution>A</solution> <solution>Fix B</solution>", "B", "B"),
        ("<solution>a better fix is B</solution>", "B", "A"),
        ("<solution>A or B</solution>", None, "A"),
        ("<solution>Z, then B</solution>", "B", None),
        ("<solution>BA</solution>", None, None),
        ("<solution></solution>", None, None),
        ("<solution>B", None, None),
        ("B</solution>", None, None),
        ("</solution><solution>B", None, None),
        ("<solution>C <solution>B</solution>", "B", "C"),
    ],
)
def test_lenient_reads_the_only_option_of_the_last_solution(text, here, nemo):
    assert (choose(text, "lenient"), choose(text, "lenient", "nemo")) == (here, nemo)


def test_nemo_gym_has_no_space_in_the_brackets_of_strict():
    text = "<solution> [ B ] </solution>"
    assert (choose(text, "strict"), choose(text, "strict", "nemo")) == ("B", None)


def test_a_row_that_says_nothing_is_read_leniently():
    fields = {"options": OPTIONS, "expected_answer": "B"}
    assert scored("gym_llm/SWERLJudge-v0", "<solution>Fix B</solution>", **fields)[0] == 1.0


def test_several_letters_may_be_right():
    fields = {"options": OPTIONS, "expected_answer": ["b", "C", "ZZ"]}
    rewards = [scored("gym_llm/SWERLJudge-v0", f"<solution>{letter}</solution>", **fields)[0] for letter in "ABC"]
    assert rewards == [0.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"options": [], "expected_answer": "A"}, "not the letter of an option"),
        ({"options": OPTIONS, "expected_answer": "D"}, "not the letter of an option"),
        ({"options": OPTIONS, "expected_answer": []}, "not the letter of an option"),
        ({"options": OPTIONS, "expected_answer": "A", "grading_mode": "loose"}, "'lenient' or 'strict'"),
    ],
)
def test_a_row_that_no_answer_fits_is_refused(fields, words):
    with pytest.raises(DataError, match=words):
        SWERLJudge([row(**fields)])


@pytest.mark.parametrize("unit", ["<solution>", "</solution>", "<solution>A</solution>", "<solution>   ", "A ", "<"])
@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_a_hostile_megabyte_costs_little(unit, mode):
    assert cpu_seconds(choose, unit * (1_000_000 // len(unit)), mode) < 0.5
    assert cpu_seconds(choose, f"<solution>{unit * (1_000_000 // len(unit))}</solution>", mode) < 0.5
