"""MathVerify: the math-verify library's verdicts, in processes that can be killed."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.error import DependencyNotInstalled
from gymnasium.utils.env_checker import check_env
from testing import cpu_seconds, scored

import gym_llm  # noqa: F401 - registers the ids
from gym_llm.envs.math_verify.grading import grade
from gym_llm.errors import DataError

pytest.importorskip("math_verify")
VECTORS = Path(os.environ.get("GYM_LLM_VECTORS") or Path(__file__).parents[3] / "shared" / "vectors")


INTEGRAL = r"\int_0^{\infty} \frac{\sin(\tan(x^x))}{\log(1+x^x)} dx"


def play(expected: str, text: str, question: str = "?", **kwargs: Any) -> tuple[float, dict[str, Any]]:
    """(reward, info) of an episode in which the model says `text`."""
    env = gym.make("gym_llm/MathVerify-v0", **kwargs)
    env.reset(options={"task": {"responses_create_params": {"input": question}, "expected_answer": expected}})
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    _, reward, terminated, _, info = env.step([message])
    assert terminated
    return float(reward), info


@pytest.mark.parametrize(
    ("expected", "text", "reward"),
    [
        ("12", r"so \boxed{12}.", 1.0),
        (r"\(12\)", r"\boxed{12}", 1.0),
        ("$12$", "The final answer is 12. I hope it is correct.", 1.0),
        ("$$12$$", "The answer is $12$", 1.0),
        (r"\frac{1}{2}", r"\boxed{0.5}", 1.0),
        (r"\frac{1}{2}", r"\boxed{2/4}", 1.0),
        (r"\{2, 3\}", r"\boxed{3, 2}", 1.0),
        ("x^2+1", r"\boxed{1+x^2}", 1.0),
        ("720", r"\boxed{6!}", 1.0),
        ("12", r"\boxed{12} no, \boxed{13}", 0.0),
        ("12", r"\boxed{21}", 0.0),
        ("12", "I do not know", 0.0),
        ("12", "", 0.0),
        ("12", r"\boxed{NaN}", 0.0),
        ("12", "\\boxed{\ud800}", 0.0),
        ("12", "\\boxed{\x00", 0.0),
        ("12", "{" * 300 + r"\boxed{" + "}" * 200, 0.0),
    ],
)
def test_answers_are_compared_as_mathematics(expected: str, text: str, reward: float) -> None:
    got, info = play(expected, text)
    assert (got, info["timed_out"]) == (reward, False)


@pytest.mark.parametrize(
    ("expected", "text", "reward", "nemo"),
    [
        ("70", r"\boxed{70\%}", 1.0, 0.0),
        ("70", "70%", 1.0, 0.0),  # NeMo Gym needs a box
        ("70", "The answer is 70 percent.", 1.0, 0.0),
        ("12.5", r"\boxed{12.5\%}", 1.0, 0.0),
        ("0.7", r"\boxed{70\%}", 1.0, 1.0),
        ("7", r"\boxed{70\%}", 0.0, 0.0),
        (r"70\%", r"\boxed{70}", 1.0, 0.0),
        (r"12.5\%", r"\boxed{12.5}", 1.0, 0.0),
        (r"70\%", r"\boxed{0.7}", 1.0, 1.0),
        (r"70\%", r"\boxed{70\%}", 1.0, 1.0),
        ("3.5", "3.5.0", 0.0, 0.0),
        ("0", r"\boxed{3.5.0}", 0.0, 1.0),
        ("3.5", "It is 3.5.", 1.0, 0.0),
        ("3.5", r"In version 3.5.0 it is \boxed{3.5}.", 1.0, 1.0),
    ],
)
def test_a_percentage_counts_by_its_number_and_by_its_value(
    expected: str, text: str, reward: float, nemo: float
) -> None:
    task = {"responses_create_params": {"input": "?"}, "expected_answer": expected, "question": "?"}
    as_theirs, _ = scored("gym_llm/MathWithJudge-v0", text, {"conform": "nemo"}, **task)
    assert (play(expected, text)[0], as_theirs) == (reward, nemo)


@pytest.mark.parametrize(
    ("expected", "right", "wrong"),
    [
        (r"\frac{1}{2004!}", [r"\frac{1}{2004!}", r"\frac{2005}{2005!}"], [r"\frac{1}{2006!}", "0", "10^{-40}"]),
        (r"\frac{2^{100}}{2^{101}}", ["0.5", r"\frac12", "50\\%"],
         ["10^{-40}", "0", "e^{-100}", "1", r"\frac{1}{100!}"]),
        (r"\frac{100!}{50!50!}", [r"\binom{100}{50}"], ["10^{-40}", "0", "1", r"\binom{100}{49}"]),
        (r"\frac{3^{100}}{4^{100}}", [r"\left(\frac{3}{4}\right)^{100}", "0.75^{100}"],
         ["e^{-100}", "0", "10^{-13}"]),
        ("2^{-60}", [r"\frac{1}{2^{60}}", "4^{-30}"], ["2^{-61}", "0", "10^{-18}"]),
        ("10^{-40}", ["1e-40", r"\frac{1}{10^{40}}"], ["0", "10^{-41}", "e^{-92}"]),
        ("0", ["0.0", r"\sqrt{2}\sqrt{3}-\sqrt{6}", r"\sin(\pi)", "0^\\circ"],
         ["10^{-40}", "e^{-100}", "1e-30", r"\emptyset"]),
        ("e^{-50}", [r"\frac{1}{e^{50}}"], ["0", "e^{-51}", "10^{-22}"]),
        (r"6.63\times 10^{-34}", ["6.63e-34", r"6.63 \cdot 10^{-34}"],
         [r"1.6\times 10^{-19}", "0", r"6.63\times 10^{-33}"]),
        (r"\sqrt{2}", ["1.414214", "1.41421356", r"\frac{2}{\sqrt 2}", "√2", "2^{1/2}"],
         ["1.41", "1.4142", "1.5", r"-\sqrt2"]),
        (r"\pi", ["3.141593", "π", "3.14159265358979"], ["3.14", "3.1416", r"\frac{22}{7}"]),
        (r"\frac{\mathrm{e}}{2}", [r"\frac{e}{2}", r"\mathrm{e}/2"],
         [r"\frac{\mathrm{e}}{3}", r"\frac{\mathrm{d}}{2}", "1"]),
        ("1+2i", [r"1+2\mathrm{i}", "2i+1", r"1 + 2i"], [r"1-2i", "3", "1+2j"]),
        (r"-1", [r"i^2", r"e^{i\pi}"], ["i", "1"]),
        (r"2\,\text{m/s}", ["2", r"2\text{ m/s}", "2 meters per second"],
         [r"2\,\text{km/h}", r"2\text{ m}", r"3\text{ m/s}"]),
        (r"3\sqrt{2}\text{ cm}", [r"3\sqrt{2}", r"\sqrt{18}\,\mathrm{cm}", r"3\sqrt2\text{ centimeters}"],
         [r"3\sqrt{2}\text{ m}"]),
        ("7", ["7", "7.", "x = 7", "7 dozens", r"\text{7}", r"\mathrm{7}", r"3+4", r"\frac{14}{2}", "(7)", r"\$7"],
         [r"7 \text{ if } n \text{ is odd, } 8 \text{ if } n \text{ is even}", r"7 \text{ or } 8", "7, 8",
          r"7\foo", "7x", "7 < x", "?", r"x = 7y", r"7\pm 1", r"\text{not } 7", "77", "7_8 9"]),
        ("15", ["15", "15.0"], [r"15.\overline{3}", r"15.\dot{4}", "15.1.2"]),
        (r"\frac{46}{3}", [r"15.\overline{3}", r"15\frac13", "15.333333"], ["15.3", "15"]),
        (r"\sqrt{1/n}", [r"\frac{1}{\sqrt{n}}", r"n^{-1/2}"], [r"\frac{1}{n}", r"\sqrt{n}", r"-\frac{1}{\sqrt n}"]),
        (r"\sqrt{x^2}", [r"|x|"], ["x", "-x", "x^2"]),
        ("x^2+2x+1", ["(x+1)^2", "1+2x+x^2", r"x(x+2)+1"], ["(x-1)^2", "x^2+2x", "x^2+1", "(y+1)^2"]),
        ("(0,1)", ["0<x<1", r"\left(0,1\right)", "0 < t < 1"], [r"0\le x\le 1", "[0,1]", "(1,0)", "(0,2)"]),
        (r"[2,\infty)", [r"x\ge 2", r"\left[2,\infty\right)", r"[2,∞)"], [r"x>2", r"(2,\infty)", r"(-\infty,2]"]),
        (r"x \in [-2,7]", ["[-2,7]", r"-2\le x\le 7"], ["(-2,7)", "[-2,8]", "{-2,7}"]),
        (r"(-\infty,1)\cup(1,\infty)", [r"(1,\infty)\cup(-\infty,1)"], [r"(-\infty,\infty)", r"(-\infty,1)"]),
        ("(14,7,18)", ["(14, 7, 18)", r"\left(14,7,18\right)", "14,7,18"],
         ["(7,14,18)", "(14,18,7)", "7,14,18", "14,7", "(14,7,18,1)"]),
        (r"\{7,14,18\}", ["14,7,18", r"\{18,7,14\}", r"7 \text{ and } 14 \text{ and } 18"],
         ["7,14", "7,14,19", r"\{7,14\}"]),
        ("1,-2", ["-2, 1", r"1 \text{ and } -2", r"x=1 \text{ or } x=-2", r"-2\text{ or }1"],
         ["1", "-1,2", "1,2", "1,-2,3"]),
        (r"\pm 2", ["2,-2", r"\{-2,2\}"], ["2", "-2", r"\pm 3"]),
        ("1,234", ["1234", r"1\,234", "1 234"], ["234", "1.234", "1"]),
        ("1234567", [r"1\,234\,567", "1,234,567", r"1{,}234{,}567", "1234567.0"], ["1,234,568", "802", "123456"]),
        ("-73", ["−73", "- 73", r"-73.0"], ["73", "-7.3"]),
        (r"\infty", ["∞", r"+\infty", "infinity"], [r"-\infty", "0", "10^{40}"]),
        ("12", ["12;", r"\underline{12}", r"{\bf 12}", r"\color{blue}{12}", r"12 \checkmark"],
         ["1 2", "12!", r"12\pi", "12π"]),
        (r"(-\infty,1)\cup(3,\infty)", [r"x<1 \text{ or } x>3", "x<1, x>3"],
         [r"x<1", r"x\le 1 \text{ or } x>3", r"1<x<3", r"x>1 \text{ and } x<3"]),
        ("-1<x<1", ["|x|<1", "(-1,1)", "x>-1, x<1", r"\{x : -1<x<1\}"], [r"|x|\le 1", "|x|>1", "x<1"]),
        (r"\frac{dy}{dx}=2x", ["2x", r"\frac{\mathrm{d}y}{\mathrm{d}x}=2x"], [r"\frac{dy}{dx}=3x", "0", "y=2x"]),
        ("f'(x)=2x", ["2x", "f'(x)=2x"], ["f'(x)=3x", "f(x)=2x+1"]),
        (r"\cos 60^\circ", [r"\frac12", r"\sin 30^\circ"], [r"\cos 60", r"\cos 30^\circ", "60"]),
        ("F_{n+1}", ["F_{n+1}"], ["F_n", "F_{n}+1"]),
        ("2:3:4", ["4:6:8"], ["2:3:5", "2:3", "4:3:2"]),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", ["(1,2)", r"\langle 1,2\rangle", r"\begin{bmatrix}1\\2\end{bmatrix}"],
         ["(2,1)", "[1,2]", r"\{1,2\}"]),
        (r"x\equiv 3\pmod 7", [r"x \equiv 3 \pmod{7}", r"x\equiv 3\mod 7", r"x\equiv 3\ (\text{mod } 7)"],
         [r"x\equiv 3\pmod 8", r"x\equiv 4 \pmod 7"]),
        (r"6:00\text{ p.m.}", ["6:00 PM", r"6:00\text{ pm}"], ["6:00 a.m.", "7:00 PM"]),
        (r"\langle 1,2,3\rangle", ["(1,2,3)"], ["(3,2,1)", r"\{1,2,3\}"]),
        (r"\frac12", ["½", "0.5", "1/2", r"\frac{1}{2}", ".5", r"2^{-1}"], ["2", "12", r"\frac21"]),
        (r"45^\circ", ["45°", "45", "45 degrees", r"45^{\circ}"], ["54°", "45^2", "46"]),
        ("12_{5}", ["12_5", "12"], ["12_6", "7"]),
        (r"\text{Evelyn}", ["Evelyn", "evelyn", r"\textbf{Evelyn}", r"\text{Evelyn.}"],
         ["E", "Eve", "Evelyn and Navin", "0", "e"]),
        (r"\text{(A)}", ["A", "(A)", r"\text{A}"], ["B", "a b", "(B)", "0"]),
        (r"\text{E}", ["E", "(E)"], ["e", "2.718281828", "D"]),
        ("dog", ["dog"], ["god", "dg o", "d", "o"]),
        (r"\emptyset", [r"\emptyset", "∅", r"\varnothing", r"\{\}"], ["0", r"\{0\}", "1"]),
        (r"\begin{pmatrix}1/5\\-2\end{pmatrix}", [r"\begin{pmatrix} \frac{1}{5} \\ -2 \end{pmatrix}",
          r"\begin{bmatrix}0.2\\-2\end{bmatrix}"],
         [r"\begin{pmatrix} \frac{1}{5} \\ 2 \end{pmatrix}", r"\begin{pmatrix}1/5&-2\end{pmatrix}", "1/5"]),
        (r"\frac{3}{4}\%", [r"0.75\%", r"\frac34"], [r"75\%", "3"]),
        ("227", ["3 * 15 + 5 * 22 + 4 * 18 = 45 + 110 + 72 = 227", "(45+110+72)", "$227"],
         ["227 + 1", "228 = 228", "2 + 227"]),
        ("2x+3y=5", ["3y+2x=5", "4x+6y=10", "2x+3y-5=0"], ["2x+3y=6", "5", "2x-3y=5"]),
        ("y''", ["y''", r"y^{\prime\prime}"], ["y'", "y"]),
        ("AB'", ["AB'", r"AB^\prime"], ["AB", "A'B", "AB''"]),
        (r"\{1,2\}", ["1,2", r"\{2,1\}", r"1 \text{ and } 2"], ["(1,2)", "[1,2]", r"\{1\}"]),
        (r"\{(1,2),(3,4)\}", ["(1,2),(3,4)", r"\{(3,4),(1,2)\}"], ["(2,1),(3,4)"]),
        ("A^T", ["A^T", "A^{T}"], ["A", "A^2"]),
        ("2{,}5", ["2{,}5"], ["25"]),
        ("5", [r"\text{exactly }5", r"\text{only }5"], [r"\text{over }5", r"5\text{ or more}"]),
        ("x_1'", ["x_1'", "x_{1}'"], ["x_1", "x_2'"]),
        ("-5", ["negative 5", r"\text{minus five}"], ["5", r"\text{five}", "negative 4"]),
        ("f(x)=x^2", ["x^2", "f(x) = x^2"], ["x", "f(x)=x^3", "2x"]),
    ],
)  # fmt: skip
def test_answers_that_are_right_and_near_misses(expected: str, right: list[str], wrong: list[str]) -> None:
    verdicts = {text: play(expected, rf"So \boxed{{{text}}}.")[0] for text in right + wrong}
    assert verdicts == dict.fromkeys(right, 1.0) | dict.fromkeys(wrong, 0.0)


@pytest.mark.parametrize(
    ("expected", "text", "reward"),
    [
        ("4", "I will put it in \\boxed{}.\n\nSo \\boxed{4}.", 1.0),
        ("4", r"So \boxed{4}. I put it in \boxed{\text{your answer}}, as asked.", 1.0),
        ("4", r"It is 4. \boxed{5}", 0.0),
        ("3", r"Surely not $3$. \boxed{?}", 0.0),
        ("3", r"$3$ fails. \boxed{0.\dot{4}}", 0.0),
        ("3", r"Surely not $3$. \boxed{\{}", 0.0),
        ("3", r"I think of 3, but \boxed{}", 0.0),
        *(("5", f"So 5. {end}", 0.0) for end in ("$$5^2 = 5^2", r"\[ 5 + 5", r"\begin{align*} x &= 5 \\\\")),
        ("5", r"$$2+3=5$$ so \[x = 5\]", 1.0),
        ("3", r"The answer is 3. I leave \boxed{} empty.", 1.0),
        ("10", r"It grew by $\boxed{10}$ percent.", 1.0),
        ("-2,1", r"The roots are $\boxed{-2}$ and $\boxed{1}$.", 1.0),
        ("1", r"The roots are $\boxed{-2}$ and $\boxed{1}$.", 0.0),
        ("\\text{Monday}", "The answer is Monday.", 1.0),
        ("\\text{Monday}", "The answer is Tuesday.", 0.0),
        ("42", "这里一共有42个苹果。", 1.0),
        ("x^2+1", "The answer is x^2 + 1.", 1.0),
        ("x^2+1", "The answer is x^2 - 1.", 0.0),
        ("42", "答案：42", 1.0),
        ("42", "答えは42です。", 1.0),
        ("73", "Final Answer: __73__", 1.0),
        ("-73", "The answer is −73.", 1.0),
        *(("42", text, 0.0) for text in (
            "The answer is between 42 and 43.", "The answer is more than 42.", "The answer is at least 42.",
            "The answer is 42 or more.", "The answer exceeds 42.", "It is on page 42.",
            "The answer is 42. No wait, it is 24.",
            "I doubt that the answer is 42.", "If x = 1, the answer is 42; otherwise it is 41.",
            "It could be 42, but it could also be 24.", "Step 42. I give up", "See below.\n42. I give up",
            "This follows from Lemma 42.", "The answer is negative 42.", "The answer is not 42 but 24.")),
        *(("42", text, 1.0) for text in (
            "The answer is not 24. It is 42.", "The answer is not 24 but 42.", "Step 4: 6 * 7 = 42")),
        ("-42", "It equals negative 42.", 1.0),
        ("41", "26 points + 15 points = <<26+15=41>>41 points\n#### 41", 1.0),
        ("40", "60 / 150 * 100% = 40%\n#### 40", 1.0),
        ("16", r"\boxed{After selling some, Joe remains with 16 cars.}", 1.0),
        ("16", r"\boxed{Joe had 20 cars and remains with 16 cars.}", 0.0),
        ("14", r"\boxed{We cannot determine the number, 14 or not.}", 0.0),
    ],
)  # fmt: skip
def test_what_stands_outside_a_box_counts_only_without_one(expected: str, text: str, reward: float) -> None:
    assert play(expected, text)[0] == reward


@pytest.mark.parametrize(
    ("question", "reward"),
    [
        ("Find a, b and c, in that order.", 0.0),
        ("Give the values from least to greatest.", 0.0),
        ("What are a, b and c, respectively?", 0.0),
        ("Find all values of x.", 1.0),
        ("Find all values, in any order.", 1.0),
    ],
)
def test_a_bare_list_is_ordered_if_the_question_says_so(question: str, reward: float) -> None:
    answers = (r"\boxed{14,7,18}", r"\boxed{7,14,18}")
    assert [play("7,14,18", answer, question)[0] for answer in answers] == [reward, 1.0]


@pytest.mark.parametrize(
    "tower",
    [
        *(
            r"9^{9^{9^9}}",
            "(10^9)!",
            "((10^3)!)!",
            r"\binom{10^9}{5\cdot 10^8}",
            r"\sum_{k=1}^{10^9} k!",
            "10^{10^{10}}",
        ),
        *(
            r"\prod_{k=1}^{10^7} k",
            r"2^{3^{4^{5^6}}}+1",
            r"\frac{1}{9^{9^9}}",
            r"\sqrt{9^{9^{9}}}",
            r"(x+y+z)^{10000000}",
            "(x+y+z+w+a+b)^{60}",
        ),
        *(
            r"\lfloor 9^{9^{9^9}} \rfloor",
            r"\gcd(9^{9^{9}}, 10^{10^{10}})",
            r"9^{9^{9^9}} \bmod 7",
            r"\log(9^{9^{9^9}})",
        ),
        *(
            r"\{9^{9^{9^9}}, 1\}",
            r"(1, 9^{9^{9^9}})",
            r"x = 9^{9^{9^9}}",
            r"e^{e^{e^{e^{e}}}}",
            "10**10**10",
            "9^9^9^9",
        ),
    ],
)
def test_towers_are_refused_by_size_before_they_cost_seconds(tower: str) -> None:
    play("12", r"\boxed{2 + 10}")  # the worker is up
    started = time.monotonic()
    reward, info = play("12", rf"\boxed{{{tower}}}")
    assert (reward, info["timed_out"], info["extracted_answer"]) == (0.0, False, tower)
    assert time.monotonic() - started < 3.0
    assert play(tower, rf"\boxed{{{tower}}}")[0] == 1.0  # equal as it is written


def test_details_say_what_was_found() -> None:
    _, info = play("12", r"\boxed{\frac{24}{2}}")
    assert info["extracted_answer"] == r"\frac{24}{2}"
    assert info["math_verify_version"]
    assert play("12", "Who knows?")[1]["extracted_answer"] is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hang", "answer"),
    [
        (rf"\boxed{{{INTEGRAL}}}", INTEGRAL),
        ("1 " * 500_000, None),
    ],
    ids=["an integral", "many numbers"],
)
def test_what_hangs_sympy_costs_the_deadline_and_the_answer_is_kept_if_it_was_found(
    hang: str, answer: str | None
) -> None:
    play("12", r"\boxed{12}", deadline=1.0, workers=1)  # the worker is up
    reward, info = play("12", hang, deadline=1.0, workers=1)
    assert (reward, info["timed_out"], info["extracted_answer"]) == (0.0, True, answer)
    assert play("12", r"\boxed{12}", deadline=1.0, workers=1)[0] == 1.0


def test_the_limit_is_the_same_as_nemo_gyms_for_reading_and_comparing_together() -> None:
    assert gym.make("gym_llm/MathVerify-v0").unwrapped.deadline == 10.0  # type: ignore[attr-defined]


def test_the_shortcuts_for_numbers_give_what_the_library_gives() -> None:
    script = """
import math_verify.parser, random
library = math_verify.parser.parse_latex_cached.__wrapped__
from gym_llm.envs.math_verify.grading import parse_number
from sympy import srepr
rng = random.Random(0)
numbers = [0, 1, 7, 10, 100, 10**15 - 1] + [rng.randrange(10 ** rng.randint(1, 15)) for _ in range(60)]
texts = [f"{n}" for n in numbers] + [f"-{n}" for n in numbers if n]
texts += [f"\\\\frac{{{n}}}{{{d}}}" for n, d in zip(numbers, numbers[1:] + [3]) if d]
for text in texts:
    assert parse_number(text) is not None, text
    assert srepr(parse_number(text)) == srepr(library(text)), text
for text in ["", "-0", "007", "1.5", "1,000", "x", "12x", "\\\\frac{1}{0}", "\\\\frac{1}{2}x", "1" * 16]:
    assert parse_number(text) is None, text
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_parent_process_never_imports_sympy() -> None:
    code = (
        "import sys, gymnasium, gym_llm; env = gymnasium.make('gym_llm/MathVerify-v0'); env.reset(seed=0);"
        "env.step([{'type': 'message', 'role': 'assistant', 'content': [{'type': 'output_text', 'text': '1'}]}]);"
        "assert 'sympy' not in sys.modules and 'math_verify' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_wrong_settings_and_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for kwargs in ({"deadline": 0}, {"deadline": "5"}, {"workers": 0}):
        with pytest.raises(ValueError, match="got"):
            gym.make("gym_llm/MathVerify-v0", **kwargs)
    for expected in ("", " ", "$$", r"\(\)"):
        with pytest.raises(DataError, match="expected_answer is empty"):
            play(expected, "1")
    for expected in ("$", " $ ", "$ $$"):
        with pytest.raises(DataError, match="is not an expression"):
            play(expected, "1")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DependencyNotInstalled, match=r"pip install -e '.*\[math\]'"):
        gym.make("gym_llm/MathVerify-v0")


@pytest.mark.parametrize("expected", [r"\text{}", "?", r"\frac{1}{\foo}", r"\frac{1}{", "3 +", "...", r"(1, 2"])
def test_a_row_whose_expected_answer_cannot_be_read_is_refused_by_name(expected: str) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        play(expected, "1")


def test_recorded_episodes_replay_exactly() -> None:
    path = VECTORS / "math_verify.jsonl"
    if not path.exists():
        pytest.skip(f"no vectors in {VECTORS}")
    for line in path.read_text().splitlines():
        vector = json.loads(line)
        # One of them takes 4 to 8 s of CPU time: a slow machine is not to decide whether they are right.
        env = gym.make("gym_llm/MathVerify-v0", tasks=[vector["task"]], deadline=120.0)
        env.reset(options={"task_index": 0})
        assert env.step(vector["output"])[1] == vector["library_reward"], vector["source"]


def test_the_example_tasks_are_five_and_pass_gymnasiums_checker() -> None:
    env = gym.make("gym_llm/MathVerify-v0").unwrapped
    assert env.num_tasks == 5  # type: ignore[attr-defined]
    check_env(env, skip_render_check=True)


@pytest.mark.parametrize("unit", ["\n", "Answer: A\n", "\\boxed{", "\\frac{1}{", "<answer>", "7"])
def test_ten_megabytes_without_an_answer_cost_a_worker_little(unit):
    text = unit * (10_000_000 // len(unit))
    assert cpu_seconds(grade, ("3", text)) < 8
    assert grade(("3", f"{text}\n$3$."))[0] or unit == "\\boxed{"
