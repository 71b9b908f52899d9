"""Finding and reading the answer to a question of mathematics."""

import pytest
from testing import cpu_seconds

from gym_llm.grading.answers import boxed_answer
from gym_llm.grading.math_answers import read_answer, stated_answer, verdict_without_algebra


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{4}", "4"),
        (r"So \boxed {4}.", "4"),
        (r"\boxed{46},\]so $p = -46.$" + "\n" + r"\boxed{-46}", "-46"),
        (r"\boxed{}:" + "\n\n" + r"\boxed{10}", "10"),
        (r"The roots are $\boxed{-2}$ and $\boxed{1}$.", "-2, 1"),
        (r"\boxed{3}, \boxed{4}, and \boxed{5}", "3, 4, 5"),
        (r"$x=\boxed{2}$ and $y=\boxed{3}$", "2, 3"),
        (r"\boxed{1}. Then \boxed{2}", "2"),
        (r"\boxed{1}" + "\n\n" + r"\boxed{2}", "2"),
        (r"\boxed{1}, \boxed{} and \boxed{2}", "2"),
        (r"\boxed{7}, that is, \boxed{7}", "7"),
        (r"So $\boxed 4$. Or \boxed-42.", "-42"),
        (r"\boxed or not", None),
        (r"$\boxed{10}$ percent", r"10\%"),
        (r"\(\boxed{36}\) percent of it", r"36\%"),
        (r"\boxed{10}\%", r"10\%"),
        (r"\boxed{?}", "?"),
        ("4", None),
        (r"\boxed{}", None),
    ],
)
def test_the_last_box_or_boxes_that_are_joined_hold_the_answer(text: str, answer: str | None) -> None:
    assert boxed_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("答案：42", "42"),
        ("答案是 42。", "42"),
        ("答えは42です。", "42"),
        ("정답은 42입니다", "42"),
        ("Ответ: 42.", "42"),
        ("La respuesta: 42", "42"),
        ("Final Answer: __73__", "73"),
        ("**Answer:** 12 apples", "12 apples"),
        ("**Final Answer**: $1,234$", "1,234"),
        ("The answer is -73.", "-73"),
        ("5 < 7, so\n#### 1,234", "1,234"),
        ("The final answer is 12. I hope it is correct.", "12"),
        ("The answer is 5 or 6.", "5 or 6"),
        ("因此，答案是**42**个。", "42个"),
        ("答：42元。", "42元"),
        ("<answer>42</answer>", "42"),
        ("The answer is 42!", "42"),
        ("Answer: 42 (i.e., 6 × 7)", "42"),
        ("Answer: 42 (if n is odd)", None),
        ("Answer: 2 (x+1)", "2 (x+1)"),
        ("答えは「42」です。", "42"),
        ("The answer is x = 5 and x = -5.", "x = 5 and x = -5"),
        ("The answer is 2*pi.", "2*pi"),
        ("Answer: (1, 2)", "(1, 2)"),
        ("The answer is 0 < x < 1.", "0 < x < 1"),
        ("The answer is no. It is odd.", None),
        ("The answer is a 3 by 4 grid.", None),
        ("Answer: A", None),
        ("#### Step 1", None),
        ("The answer is clear: none.", None),
        ("42", "42"),
        ("x = 1 or x = 2", "x = 1 or x = 2"),
        ("She has 42 apples.", "She has 42 apples"),
        (r"\[x = 5\]", "x = 5"),
        (r"$2+3=5$ \[x = 5\]", None),
        ("Answer: $x=1$ and $x=2$.", "x=1 and x=2"),
    ],
)
def test_a_number_that_is_said_to_be_the_answer_is_found(text: str, answer: str | None) -> None:
    assert stated_answer(text) == answer


@pytest.mark.parametrize(
    "content",
    [
        "",
        "?",
        "??",
        "-",
        r"\{",
        "(",
        ")",
        r"\foo{3}",
        r"\frac{1}{2}+",
        "3 +",
        r"\frac{1}{",
        "1}",
        "(1",
        r"5 \text{ and }",
        "...",
    ],
)
def test_what_cannot_be_read_whole_is_no_answer(content: str) -> None:
    assert read_answer(content) is None


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (r"\text{Evelyn}", "evelyn"),
        ("Evelyn.", "evelyn"),
        (r"\mathbf{Evelyn}", "evelyn"),
        ("dog", "dog"),
        ("There are 4 boxes, for a total of 10", "thereare4boxes,foratotalof10"),
        (r"7 \text{ if } n \text{ is odd}", "7ifnisodd"),
        ("100!!", "100!!"),
        ("3.5.0", "3.5.0"),
    ],
)
def test_words_and_what_algebra_misreads_equal_only_themselves(content: str, key: str) -> None:
    answer = read_answer(content)
    assert answer is not None
    assert (answer.key, answer.quantity, answer.latex) == (key, None, None)


@pytest.mark.parametrize(
    ("content", "latex", "unit"),
    [
        ("√13", r"\sqrt{13}", ""),
        ("3√(x+1)", r"3\sqrt{x+1}", ""),
        ("x²−1", r"x^{2}-1", ""),
        ("∞", r"\infty", ""),
        (r"1+2\mathrm{i}", "1+2i", ""),
        (r"3\sqrt{2}\text{ cm}", r"3\sqrt{2}", "cm"),
        (r"144 / 12 = 12 inches", "144 / 12 = 12", "in"),
        (r"45\sqrt{3}\%", r"45\sqrt{3}", "%"),
        (r"8 \text{ and } \frac{1}{2}", r"8, \frac{1}{2}", ""),
        ("$200 + $150 = $350", "200 + 150 = 350", ""),
        (r"120^\circ, 60^\circ", "120, 60", "deg"),
        (r"\cotx", r"\cot x", ""),
        (r"7 \\sqrt{3}", r"7 \sqrt{3}", ""),
        ("sin(x)", r"\sin (x)", ""),
        ("∛2", r"\sqrt[3]{2}", ""),
        (r"sqrt(2)+4\sqrt(3)", r"\sqrt{2}+4\sqrt{3}", ""),
        (r"\mathrm{no solution}", r"\emptyset", ""),
        (r"\text{There are no real solutions.}", r"\emptyset", ""),
        (r"\text{all real numbers}", r"\mathbb{R}", ""),
        (r"\{x \in \mathbb{R} : 1<x\le2\}", r"1<x\le2", ""),
        (r"\{x\mid x\ge 1\}", r"x\ge 1", ""),
        (r"\text{Area} = 5\sqrt{2}\text{ cm}^2", r"5\sqrt{2}", "cm2"),
        ("2π=x", r"x=2\pi", ""),
        ("]1,2]", "(1,2]", ""),
        (r"3\text{ to }2", "3:2", ""),
        (r"A3_{\text{sixteen}}", "A3", "base 16"),
        (r"11_{\text{two}}", "11", "base 2"),
    ],
)
def test_typography_and_units_are_taken_off(content: str, latex: str, unit: str) -> None:
    answer = read_answer(content)
    assert answer is not None
    assert (answer.latex, answer.unit) == (latex, unit)


@pytest.mark.parametrize(
    ("content", "right"),
    [
        ("Jenny eats 9 cookies.", True),
        ("Mr. Josue now has $9 in capital", True),
        ("After selling and giving some to his mother, Joe remains with 9 cars.", True),
        ("Joe has three cars and 9 toys", False),
        ("Jenny does not eat 9 cookies.", False),
        ("Jenny eats 9 cookies if she may.", False),
        ("Jenny eats 9 or more cookies.", False),
        ("Jenny eats at least 9 cookies.", False),
        ("Jenny eats 9 of 36 cookies.", False),
        ("It is minus 9 degrees", False),
    ],
)
def test_a_sentence_with_one_number_and_no_doubt_is_that_number(content: str, right: bool) -> None:
    gold = read_answer("9")
    assert gold is not None
    assert verdict_without_algebra(gold, rf"\boxed{{{content}}}")[0] is right


@pytest.mark.parametrize(
    "part", ["\\boxed{1}, ", "answer is ", "\\text{", "a", "$1$ and ", "\\frac", "(", "1 ", "\\boxed{\\text{a} "]
)
def test_hostile_text_takes_linear_time(part: str) -> None:
    gold = read_answer("9")
    assert gold is not None
    text = part * (1_000_000 // len(part))
    assert cpu_seconds(verdict_without_algebra, gold, text) < 2.0
    assert cpu_seconds(read_answer, text[:2_000]) < 1.0
