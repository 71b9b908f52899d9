"""GPQADiamond: which letter a text chooses."""

import gymnasium as gym
import pytest
from testing import cpu_seconds, row, scored
from verifier_vectors import replay_all

from gym_llm.envs.gpqa_diamond.env import GPQADiamond
from gym_llm.errors import DataError

OPTIONS = [{"A": "1 s"}, {"B": "2 s"}, {"C": "3 s"}, {"I": "no s"}]


def choose(text, conform=None, **fields):
    fields = {"options": OPTIONS, "expected_answer": "B"} | fields
    reward, info = scored("gym_llm/GPQADiamond-v0", text, {"conform": conform}, **fields)
    assert reward == float(info["extracted_answer"] == "B")
    return info["extracted_answer"]


def test_recorded_episodes_score_as_recorded():
    assert len(replay_all("gpqa_diamond")) >= 3


@pytest.mark.parametrize(
    ("text", "here", "nemo"),
    [
        (r"\boxed{B}", "B", "B"),
        (r"\boxed{ B }", "B", "B"),
        (r"\boxed{\text{B}}", "B", "B"),
        (r"\boxed{A} no, \boxed{B}", "B", "B"),
        (r"\boxed{B: 2 s}", "B", "B"),
        (r"\boxed{(B)}", "B", "B"),
        (r"\boxed{B (not C)}", "B", "C"),
        (r"\boxed{\textbf{B}}", "B", "B"),
        (r"\boxed{\mathrm{B}}", "B", "B"),
        (r"\boxed{\left(B\right)}", "B", "B"),
        (r"\boxed{$\mathbf{B}$}", "B", "B"),
        (r"\boxed{2\ \mathrm{s}}", "B", None),
        (r"\boxed{A and B}", None, "B"),
        ("ANSWER: B, C", None, "B"),
        ("Answer: B or C", None, "B"),
        ("Answer: (B) and/or (C)", None, None),
        ("Answer: **B** / **C**", None, None),
        ("Answer: B, a long one", "B", "B"),
        ("Answer: b a lot", None, "B"),
        (r"\boxed{A:B = 3:2}" + "\n\nAnswer: B", "B", "B"),
        (r"\boxed{A(t) = e^{-t}}" + "\n\n**Answer: B**", "B", "A"),
        (r"\boxed{B-cell}", None, "B"),
        ("The answer is (B).", "B", None),
        (r"\boxed{12 s}", None, None),
        ("Answer: B, because A is wrong", "B", "B"),
        ("Answer: B\nC is wrong", "B", "B"),
        (r"\boxed{I am sure}", None, "I"),
        (r"\boxed{2 s}", "B", None),
        (r"\boxed{b}", None, None),
        (r"\boxed{D}", None, None),
        (r"\boxed{B} so \boxed{A", "B", "B"),
        (r"\boxed{\frac{1}{2}} Answer: B", "B", "B"),
        ("Answer: A\nAnswer: B", "B", "B"),
        ("**Answer:** b", "B", "B"),
        ("answer : (B)", "B", None),
        ("Answer: **B**", "B", None),
        (r"\boxed{A, or \boxed{c}", None, "A"),
        ("Answer: B2", None, None),
        ("Answer: Both", None, None),
        (r"Answer: \text{B}", "B", None),
        ("Answer: D", None, None),
        ("B", None, None),
        ("", None, None),
    ],
)
def test_the_box_decides_and_then_the_answer_line(text, here, nemo):
    assert (choose(text), choose(text, "nemo")) == (here, nemo)


def test_the_rows_pattern_comes_first_and_its_grading_mode_does_not_count():
    fields = {"template_metadata": {"output_regex": r"choice=(\w)"}, "grading_mode": "anything"}
    assert choose(r"choice=b \boxed{A}", **fields) == "B"
    assert choose(r"\boxed{B}", **fields) == "B"


def test_without_options_any_letter_can_be_chosen():
    assert choose(r"\boxed{B}", options=[]) == "B"
    assert choose(r"\boxed{D}", options=[]) == "D"


@pytest.mark.parametrize("fields", [{"options": OPTIONS, "expected_answer": "D"}, {"expected_answer": "BC"}])
def test_a_row_that_no_answer_fits_is_refused(fields):
    with pytest.raises(DataError, match="expected_answer"):
        GPQADiamond([row(**fields)])


def test_arguments_that_make_no_sense_are_refused():
    with pytest.raises(TypeError, match="grading_mode"):
        gym.make("gym_llm/GPQADiamond-v0", grading_mode="lenient_boxed")


@pytest.mark.parametrize(
    "unit", ["\\boxed{", "\\boxed{A", "Answer: ", "Answer:", "answer:" + " " * 99, "A ", "}", "a*"]
)
def test_a_hostile_megabyte_costs_little(unit):
    text = unit * (1_000_000 // len(unit))
    for conform in (None, "nemo"):
        assert cpu_seconds(choose, text, conform) < 0.6
        assert cpu_seconds(choose, "\\boxed{" + text + "}", conform) < 0.6
