"""BunsenBench: which option a text chooses, and why it chooses none."""

import pytest
from testing import cpu_seconds, message, message_item, response, row, scored
from verifier_vectors import replay_all

from gym_llm.envs.bunsenbench.env import BunsenBench
from gym_llm.envs.bunsenbench.grading import chosen_letter, plain_chemistry, why_no_choice
from gym_llm.envs.bunsenbench.nemo import choice as nemo_choice
from gym_llm.errors import DataError

OPTIONS = [{"A": "OH-"}, {"B": "SO4²⁻"}, {"C": "2-butanol"}, {"D": "5 µg & more"}]
TEXTS = {letter: plain_chemistry(text) for option in OPTIONS for letter, text in option.items()}


def play(action, **fields):
    return scored("gym_llm/BunsenBench-v0", action, **({"options": OPTIONS, "expected_answer": "B"} | fields))


def test_recorded_episodes_score_as_recorded():
    assert len(replay_all("bunsenbench_chemistry_mcq")) >= 3


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("<choice>SO4²⁻</choice>", "B"),
        ("<choice> SO₄2- </choice>", "B"),
        ("<choice>so42-</choice>", None),
        ("<choice>5 &micro;g &amp; more</choice>", "D"),
        ("<choice>B</choice>", "B"),
        ('<Choice id="1">B</ choice>', "B"),
        ("<answer>b</answer>", "B"),
        ("<response>(B)</response>", "B"),
        ("<final_answer>B.</final_answer>", "B"),
        ("<final-answer>option B</final-answer>", "B"),
        ("<choice>B: SO4</choice>", "B"),
        ("<choice>**B**</choice>", "B"),
        ("<choice>A</choice> <choice>B</choice>", "B"),
        ("<choice>B</choice> <choice>of none</choice>", None),
        ("Answer: B\nAnswer: A or C", None),
        ("<choice>not B</choice>", None),
        ("<choice>A, B, C</choice>", None),
        (r"<choice>\textbf{(B)}</choice>", "B"),
        ("<choice>B. subtilis</choice>", None),
        ("37 °C", None),
        (r"\boxed{5\ \mathrm{C}}", None),
        ("Answer: C-H bond", None),
        ("Answer: Both", None),
        ("<choices><choice>A</choice><choice>C</choice></choices>\nAnswer: B\nas above", "B"),
        ("<choices><choice>A</choice><choice>C</choice></choices>", None),
        ("<choice>B</answer>", None),
        (r"\boxed{B}", "B"),
        (r"\boxed{\text{2-butanol}}", "C"),
        (r"\boxed{\mathrm{SO4²⁻}}", "B"),
        ("Answer: B", "B"),
        ("Answer:\nB\nby the way", "B"),
        ("**Answer:** 2-butanol, as I said\nAnswer: C\nok", "C"),
        ("The correct answer is B\nok", "B"),
        ("the answer is: (c)\nok", "C"),
        ("My answer is SO4²⁻.\nok", "B"),
        ("I choose option B\nok", "B"),
        ("I select\nB\nok", "B"),
        ("Some words\n2-butanol", "C"),
        ("2-butanol\nsome words", "C"),
        ("B", "B"),
        ("E", None),
        ("Answer: E", None),
        ("It is 2-butanol, I think", None),
        ("", None),
    ],
)
def test_the_last_that_names_an_option_decides(text, letter):
    assert chosen_letter(text, TEXTS) == letter
    reward, info = play(text)
    assert (reward, info["extracted_answer"], info["no_answer"]) == (float(letter == "B"), letter, letter is None)


@pytest.mark.parametrize(
    ("action", "mode"),
    [
        ("<choice>B</choice>", "correct"),
        ("<choice>A</choice>", "wrong_answer"),
        ("I'm sorry, but I can't say.", "refusal"),
        ("As an AI language model, I have no lab.", "refusal"),
        ("I must decline.", "refusal"),
        ("<think>or is it", "early_termination"),
        (response(message_item("Let me see"), status="incomplete"), "early_termination"),
        (response(message_item("Let me see"), incomplete_details={"reason": "max_output_tokens"}), "early_termination"),
        ([{**message_item("Let me see"), "status": "incomplete"}], "early_termination"),
        ([{"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}], "refusal"),
        ("<choice>CO2</choice>", "malformed_choice"),
        ("<choice>CO2", "format_violation"),
        ("<choices><choice>CO2</choice></choices>", "format_violation"),
        ("Hard to tell.", "format_violation"),
        (message(""), "format_violation"),
    ],
)
def test_each_episode_has_an_error_mode(action, mode):
    assert play(action)[1]["error_mode"] == mode


def test_the_labels_of_the_question_are_reported():
    _, info = play("B", metadata={"source": "own", "bct_field": "organic"}, bunsen_id="7")
    assert (info["source"], info["bct_field"], info["bunsen_id"]) == ("own", "organic", "7")


@pytest.mark.parametrize(
    "choices",
    [
        ["OH-", "H2O"],
        [{"text": "OH-"}, {"content": "H2O"}],
        [{"label": "b", "text": "H2O"}, {"letter": "A", "value": "OH-"}],
    ],
)
def test_options_may_be_choices_in_order(choices):
    reward, info = play("<choice>H2O</choice>", options=None, choices=choices)
    assert (reward, info["extracted_answer"]) == (1.0, "B")


def test_the_expected_answer_may_be_a_text_and_options_may_be_missing():
    assert play("B", expected_answer="SO₄²⁻")[0] == 1.0
    assert play("B", options=None)[0] == 1.0
    assert play("C", options=None)[1]["error_mode"] == "format_violation"


@pytest.mark.parametrize("expected", ["E", "H2O", ""])
def test_a_row_that_no_answer_fits_is_refused(expected):
    with pytest.raises(DataError, match="is not one of the options"):
        BunsenBench([row(options=OPTIONS, expected_answer=expected)])


@pytest.mark.parametrize(
    "unit",
    [
        "<choice",
        "<choice>",
        "<choice>A ",
        "\\boxed{",
        "answer:",
        "answer: \n",
        "the answer is ",
        "(",
        "&",
        "\u0301",
        "<think>",
    ],
)
def test_a_hostile_megabyte_costs_little(unit):
    text = unit * (1_000_000 // len(unit))
    assert cpu_seconds(chosen_letter, text, TEXTS) < 0.5
    assert cpu_seconds(lambda: why_no_choice(text, refused=False, cut_short=False)) < 0.5


@pytest.mark.parametrize(
    ("text", "here", "nemo"),
    [
        ("<choice>SO₄2-</choice>", "B", "B"),
        (r"<choice>\mathrm{(B)}.</choice>", "B", None),
        ("The answer is: B\nok", "B", None),
        ("hi choose B\nok", None, "B"),
        ("Answer: C\n<answer>A</answer> not", "A", "A"),
        (r"\boxed{B} \boxed{A\}", "B", "B"),
        ("", None, None),
    ],
)
def test_to_conform_answers_are_read_as_nemo_gym_reads_them(text, here, nemo):
    row = {"options": OPTIONS, "expected_answer": "B"}
    for conform, letter in ((None, here), ("nemo", nemo)):
        reward, info = scored("gym_llm/BunsenBench-v0", text, {"conform": conform}, **row)
        assert (info["extracted_answer"], reward) == (letter, float(letter == "B"))


@pytest.mark.parametrize("piece", ["<answer>", "<answer ", "\\boxed{", "answer: ", "\n", "I choose ", "(", "<choices>"])
def test_to_conform_a_megabyte_of_anything_takes_little_time(piece):
    text = "answer: " + piece * (1_000_000 // len(piece)) + "x"
    assert cpu_seconds(lambda said: nemo_choice(said, [("A", "x"), ("B", "y")], "B"), text) < 1.0
