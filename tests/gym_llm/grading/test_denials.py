"""An answer counts if the text gives it: not if it is denied, asked for, taken back, or in a thought that broke off."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from testing import cpu_seconds, message, row

from gym_llm.grading.answers import last_boxed

NOT_GIVEN = [
    *("It is not {}.", "NOT {}", "**Not** ${}$", "It isn't {}", "It isn’t \\({}\\)", "never {}", "neither {} nor {}"),
    *("The answer is not option {}", "It cannot be {}.", "It can't possibly be {}", "The result is certainly not {}."),
    *("I doubt that it is {}", "I doubt it's {}", "I don't think that the answer is {}", "I'm not sure if it is {}"),
    *("Is it {}?", "Hmm, could the answer be ${}$?", "Is it {}? I don't know.", "How about {}?"),
    *("{}$ is not the answer.", "E.g. {} would only be a guess.", "It is {}. Wait, it is not {}.", "\\text{not } {}"),
]
GIVEN = [
    *("x is not {}", "$x$ cannot be ${}$", "It is not 3 but {}", "not A. {}", "Is it {}? Yes.", "Is 7 prime? {}"),
    *(
        "The one that is NOT: {}",
        "The statement {} is not true.",
        "It is not only {}",
        "It is {} rather than \\boxed{5}",
    ),
    *("There is no doubt that it is {}", "I don't doubt it is {}", "Not sure, but I think it is {}", "So {}?"),
    *("It is none other than {}", "It is greater than {}", "It is {}, not \\boxed{5}", "Any other than {} is wrong"),
]


@pytest.mark.parametrize("content", ["B", "\\frac{1}{2}"])
def test_a_box_counts_if_its_answer_is_given(content: str) -> None:
    box = f"\\boxed{{{content}}}"
    read = {form: last_boxed(form.replace("{}", box)) for form in (*NOT_GIVEN, *GIVEN)}
    # Of larger boxes the one before a denied one is not compared with it.
    exception = "It is {}. Wait, it is not {}."
    expected = {form: None if form in NOT_GIVEN else content for form in read}
    assert read == expected | ({exception: content} if content != "B" else {})
    assert last_boxed("It is not \\boxed{4}.", mentions=True) == "4"


def test_reading_denials_takes_linear_time() -> None:
    for text in ("It is not \\boxed{4} ", "not " * 10 + "\\boxed{", "\\boxed{4}?" + " " * 9, "is it is it \\boxed{{4}"):
        assert cpu_seconds(last_boxed, text * (400_000 // len(text))) < 1.0


MATH = {"expected_answer": "7", "question": "x"}
GAS = {"options": {"A": "H2", "B": "O2"}, "expected_answer": "B"}
VERIFIERS: dict[str, tuple[str, dict[str, Any]]] = {
    "MathVerify": ("\\boxed{7}", MATH),
    "Arithmetic": ("\\boxed{7}", {"expected_answer": "7"}),
    "ArcAGI": ("\\boxed{[[1, 2]]}", {"expected_output": [[1, 2]]}),
    "StringMatch": ("\\boxed{7}", {"expected_answer": "7", "extraction_mode": "boxed"}),
    "HotpotQA": ("Oslo", {"expected_answer": "Oslo"}),
    "SpartQA": ("the cup", {"target": "the cup", "options": ["the cup", "the box"]}),
    "BunsenBench": ("\\boxed{B}", {"question": "x", "choices": ["H2", "O2"], "expected_answer": "B"}),
    "MultipleChoice": ("\\boxed{B}", {"options": [{"A": "H2"}, {"B": "O2"}], "expected_answer": "B"}),
}


@pytest.mark.parametrize("name", VERIFIERS)
def test_no_verifier_pays_for_an_answer_that_is_not_given(name: str) -> None:
    answer, fields = VERIFIERS[name]
    env = gym.make(f"gym_llm/{name}-v0", disable_env_checker=True)

    def reward(text: str) -> float:
        env.reset(options={"task": row("x", **fields)})
        return float(env.step(message(text))[1])

    forms = (
        "It is not {}.",
        "I doubt that it is {}",
        "{}\n\nNo wait, that is wrong.",
        "<think>It is {}",
        "<think>\n{}\n",
    )
    assert {form: reward(form.replace("{}", answer)) for form in forms} == dict.fromkeys(forms, 0.0)
    assert reward(f"<think>not {answer}</think>{answer}") == 1.0
