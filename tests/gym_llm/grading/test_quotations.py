"""What an answer copies whole from its prompt earns nothing, and right answers that quote parts of it do."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import pytest
from testing import cpu_seconds, message, row

from gym_llm.grading.denials import is_withdrawn
from gym_llm.grading.quotations import own_words
from gym_llm.types import Episode

SUM = "What is $1+2*3$? Put the answer in \\boxed{}."
JUDGE = "Problem: x.\n\nIs the proof complete? Argue briefly, and end with `Judgement: Yes` or `Judgement: No`."
BETTER = "Which is better? Write <best_solution>1</best_solution> or <best_solution>2</best_solution>."
PATCHES = "Which patch?\nA: one\nB: two\nWrite <solution>A</solution> or <solution>B</solution>."
PLACE = "The red cup is on the shelf.\nWhere does the jug stand, if the box is below it? Final answer: the cup"
HAY = "Grass is green. " * 20 + "The magic number is 4711. " + "The sky is blue. " * 20 + "What is the magic number?"
MATH = {"expected_answer": "7", "question": "x"}
ICE = "Is ice lighter than water?\nWrite it at the very end, as **Answer: no** or as **Answer: yes**."
VERIFIERS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "MathVerify": (SUM, MATH, ["\\boxed{7}", "$1+2*3$", SUM + " It is \\boxed{7}", "\\boxed{7}\n\n" + SUM]),
    "MathWithJudge": (SUM, MATH, ["\\boxed{7}"]),
    "MathProofJudgement": (
        JUDGE,
        {"expected_judgement": "Judgement: No"},
        ["Judgement: No", JUDGE + "\nJudgement: No"],
    ),
    "ProofGenSelect": (BETTER, {"correct_index": 2}, ["<best_solution>2</best_solution>"]),
    "SWERLJudge": (
        PATCHES,
        {"options": [{"A": "one"}, {"B": "two"}], "expected_answer": "B"},
        ["<solution>B</solution>", PATCHES + "\n\n<solution>B</solution>"],
    ),
    "SpartQA": (PLACE, {"target": "the cup", "options": ["the cup", "the box"]}, ["Final answer: the cup", "the cup"]),
    "LitmusAgent": (
        ICE,
        {"expected_answer": "yes", "answer_type": "bool", "answer_format": "fmt_18"},
        ["**Answer: yes**", ICE + "\n**Answer: yes**"],
    ),
    "Ruler": (HAY, {"outputs": ["4711"], "subset": "niah_single_1"}, ["4711", "The magic number is 4711."]),
    "Ruler2": (HAY, {"expected_answer": "4711"}, ["4711", "The magic number is 4711."]),
}
ECHOES = ["{}", "{}\n\nI do not know.", "You ask: {}", "<answer>{}</answer>", "\\boxed{{{}}}", "> {}\n", "{}\n{}"]


def reward(name: str, prompt: str, fields: dict[str, Any], text: str, **kwargs: Any) -> float:
    env = gym.make(f"gym_llm/{name}-v0", disable_env_checker=True, **kwargs)
    env.reset(options={"task": row(prompt, **fields)})
    return float(env.step(message(text))[1])


@pytest.mark.parametrize("name", VERIFIERS)
def test_the_question_is_no_answer_and_an_answer_beside_it_is(name: str) -> None:
    prompt, fields, right = VERIFIERS[name]
    echoes = [form.format(*[prompt] * form.count("{}")) for form in ECHOES]
    echoes += [prompt.rpartition("\n")[2], prompt.upper(), prompt.replace(" ", "\n"), json.dumps({"input": prompt})]
    assert {text: reward(name, prompt, fields, text) for text in echoes if text} == dict.fromkeys(echoes, 0.0)
    assert {text: reward(name, prompt, fields, text) for text in right} == dict.fromkeys(right, 1.0)


@pytest.mark.parametrize("name", ["MathWithJudge", "MathProofJudgement", "Ruler"])
def test_as_nemo_gym_the_question_may_be_the_answer(name: str) -> None:
    prompt, fields, _ = VERIFIERS[name]
    fields = fields | ({"expected_judgement": "Judgement: Yes"} if "expected_judgement" in fields else {})
    assert reward(name, prompt, fields, prompt + "\\boxed{7}", conform="nemo") == 1.0


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("Where?\nA) Rome\nB) The old town of Oslo, which lies at the end of a long fjord", "B) The old town of Oslo"),
        ("x^2 + 1", "x^2 + 1"),
        ("Simplify this as far as you can:\n$a^2 + 2ab - 3cd + x_1 - 7y^3$", "$a^2 + 2ab - 3cd + x_1 - 7y^3$"),
        ("\\frac{1}{2}", "\\boxed{\\frac{1}{2}}"),
        ("Oslo is the capital of Norway. True or false?", "Oslo is the capital of Norway. True"),
        ("Is it right?\n- B) Yes, since all of them are even", "- B) Yes, since all of them are even"),
        ("", "Yes"),
    ],
)
def test_a_part_of_the_prompt_may_be_the_answer(prompt: str, text: str) -> None:
    assert own_words(text, Episode(0, {}, {"input": [{"role": "user", "content": prompt}]})) == text


def test_half_of_a_long_prompt_is_a_quotation_and_costs_little() -> None:
    words = [f"word{number}" for number in range(40_000)]
    episode = Episode(
        0, {}, {"input": [{"role": "user", "content": [{"type": "input_text", "text": " ".join(words)}]}]}
    )
    assert len(own_words(" ".join(words[:20_000]), episode)) < 50_000
    for text in (" ".join(words), "word1 " * 50_000, " ".join(words[:6_000]) * 5):
        assert cpu_seconds(own_words, text, episode) < 2.0


FIX = {"options": [{"A": "one"}, {"B": "two"}], "expected_answer": "B"}
GAS = {"options": [{"A": "H2"}, {"B": "O2"}], "expected_answer": "B"}
STRICT = FIX | {"grading_mode": "strict"}


@pytest.mark.parametrize(
    ("name", "fields", "answers"),
    [
        (
            "MathVerify",
            MATH,
            {
                "Answer: 7 or 8": 0,
                "6 or 7": 0,
                "It is 7, maybe 8.": 0,
                "Case 7:": 0,
                "7e-40": 0,
                "6 or 7? It is $7$": 1,
                "So 7": 1,
            },
        ),
        ("MathVerify", MATH | {"expected_answer": "10^{-40}"}, {"1e-40": 1, "**1e-40**": 1, "2e-40": 0, "1": 0}),
        (
            "IMOGradingBench",
            {"expected_answer": "correct"},
            {"It is not correct.": 0, "almost or *correct*": 0, "Is it not? Correct": 1},
        ),
        (
            "IMOGradingBench",
            {"expected_answer": "incorrect"},
            {"partial/incorrect": 0, "partial or incorrect": 0, "So: incorrect": 1},
        ),
        (
            "ProofGenSelect",
            {"correct_index": 2},
            {
                "<best_solution>1</best_solution> or <best_solution>2</best_solution>": 0,
                "1 or 2? <best_solution>2</best_solution>": 1,
            },
        ),
        (
            "SWERLJudge",
            FIX,
            {
                "<solution>A</solution> or <solution>B</solution>": 0,
                "not <solution>B</solution>": 0,
                "Not A. <solution>B</solution>": 1,
            },
        ),
        (
            "SWERLJudge",
            STRICT,
            {"<solution>A</solution> / <solution>B</solution>": 0, "A or B: <solution>B</solution>": 1},
        ),
        (
            "MathProofJudgement",
            {"expected_judgement": "Judgement: Yes"},
            {"Judgement: Yes or No": 0, "Judgement: Yes/No": 0, "Judgement: Yes": 1},
        ),
        (
            "MathProofJudgement",
            {"expected_judgement": "Judgement: No"},
            {"Judgement: Yes or **Judgement: No**": 0, "Judgement: Yes? or no? Judgement: No": 1},
        ),
        ("BunsenBench", GAS, {"A\nB": 0, "H2\nO2": 0, "A) \nB) ": 0, "The second.\nO2": 1, "B\nB": 1}),
        (
            "GPQADiamond",
            FIX | {"options": [{"A": "2.4"}, {"B": "4.8"}]},
            {"\\boxed{Its pKa is 4.8. What is its pH in it?}": 0, "\\boxed{4.8}": 1},
        ),
        (
            "HotpotQA",
            {"expected_answer": "no"},
            {"No answer.": 0, "No idea, ask her": 0, "No lo sé.": 0, "No, they are not.": 1, "no they did not": 1},
        ),
        ("HotpotQA", {"expected_answer": "4"}, {"1, 2, 3, 4, 5": 0, "\\boxed{3; 4; 5}": 0, "4, in 1990": 1, "4": 1}),
    ],
)
def test_several_choices_or_a_denied_one_are_none(name: str, fields: dict[str, Any], answers: dict[str, int]) -> None:
    asked = "Its pKa is 4.8. What is its pH in it?\n\nEnd with the letter of the right one."
    assert {text: reward(name, asked, fields, text) for text in answers} == answers


@pytest.mark.parametrize(
    ("text", "withdrawn"),
    [
        ("\\boxed{7}\n\nNo wait, that is wrong.", True),
        ("\\boxed{B} Actually, that is not correct. I do not know the answer.", True),
        ("Answer: B\nHmm, wait, no, that's incorrect.", True),
        ("**B** I take that back.", True),
        ("B. Please ignore my last answer.", True),
        ("B. My answer is wrong.", True),
        ("He says 5. That is wrong.", False),
        ("No, that is wrong. \\boxed{B}", False),
        ("Wait, that is wrong: it is C.", False),
        ("B. Actually, that is not wrong.", False),
        ("Is the proof right? No, it is incorrect.", False),
        ("\\boxed{False}. The claim is wrong.", False),
    ],
)
def test_an_answer_that_is_taken_back_at_the_end_is_none(text: str, withdrawn: bool) -> None:
    assert is_withdrawn(text) is withdrawn


@pytest.mark.parametrize("name", ["MathVerify", "ProofGenSelect", "SWERLJudge", "SpartQA", "LitmusAgent"])
def test_a_right_answer_that_is_taken_back_earns_nothing(name: str) -> None:
    prompt, fields, right = VERIFIERS[name]
    assert reward(name, prompt, fields, right[0] + "\n\nNo wait, that is wrong.") == 0.0
