"""Which option an answer chooses, read as a whole."""

from __future__ import annotations

import pytest
from testing import cpu_seconds

from gym_llm.grading.choices import (
    ANY_LETTER,
    Options,
    boxed_choice,
    line_choice,
    option_within,
    read_choice,
    stated_choice,
)

COLOURS = Options.read([{"A": "red"}, {"B": "green"}, {"C": "blue"}, {"D": "yellow"}])
NUMBERS = Options.read([{"A": "1"}, {"B": "2"}, {"C": "12"}, {"D": "0.5"}, {"E": "5"}])
PLAIN = (
    r"""
B; (B); [B]; {B}; <B>; B.; B); (B).; B!; "B"; “B”; «B»; B ; **B**; __B__; `B`; ***(B)***; *B*.; $B$; $$B$$; \(B\); \[B\]
\textbf{B}; \mathrm{B}; \mathbf{B}; \text{B}; \boxed{B}; \textsf{B}; \mbox{B};  \textbf{(B)}; \textbf{B}.; \emph{B}
\mathbf B; \text B; \bf B; \color{red} B; \large\textbf{B}; \{B\}; {\rm B}; 'B'
""".strip()
    .replace("\n", "; ")
    .split("; ")
)
NO_CHOICE = (
    r"""
not B| neither A nor B| either A or B| A or B| A/B| A, B| A and B| (A), (B), (C)| (A) and (D)| A & B| A; B| A B| AB| B+C
A-D| A, B, C, D| B, C or D| (B) or (C) depending on the rounding| B or so| Both| both of them| all of them| any| None
All of the above| Don't know| Cannot say| Can't tell| Depends| C'est la vie| D’accord| A mixture of both| a bit unsure
A guess| D-glucose| C-H bond| D. melanogaster| B-cell| B cells| C major| A:B = 3:2| A(t) = e^{-t}| A = 5| B_2| B^2
C6H12O6| B2| B is wrong| B is not right| (B) is incorrect| B isn't it| B cannot be| B?| Is it B?| B. red| B: red
(B) blue| {"b":{"b":| "b": 1| ["B", "C"]| F| (E)| ...| ?| I refuse| 0| 1
B … D| (A) … (D)| (A)...(D)| A to D| (A) through (D)| A–D
B (or C)| B (and C)| B, maybe C| B; alternatively, (C)| B, possibly also C| B, or maybe C| B, A
A \to B| A \cup B| \neg B| P(B)| \frac{B}{2}| f(B)| B'| \mathrm{D}\text{-glucose}| B_{2}
""".strip()
    .replace("\n", "| ")
    .split("| ")
)
SPECIES = Options.read([{"A": "E. coli"}, {"B": "Drosophila melanogaster"}, {"C": "both A and B"}, {"I": "yeast"}])


@pytest.mark.parametrize(
    ("answer", "line", "box"),
    [
        *((form, "B", "B") for form in PLAIN),
        (r"\textcolor{red}{B}", "B", "B"),
        (r"\displaystyle B", "B", "B"),
        (r"\left(\textbf{B}\right)", "B", "B"),
        (r"\textbf{(B)}\ 12", "B", "B"),
        (r"\text{\textbf{B}}\,", "B", "B"),
        (r"\text{B. green}", "B", "B"),
        ("Ｂ", "B", "B"),
        ("ب", "B", "B"),
        ("<b>B</b>", "B", "B"),
        ("B</answer>", "B", "B"),
        ("B </b>", "B", "B"),
        ("option B", "B", "B"),
        ("Option (B)", "B", "B"),
        ("The correct answer is B", "B", "B"),
        ("So, I choose (B).", "B", "B"),
        ("b", "B", None),
        ("(b)", "B", None),
        ("I'd go with B", "B", "B"),
        ("It’s B", "B", "B"),
        ("Definitely B.", "B", "B"),
        ("Hence option (B) is correct", "B", "B"),
        ("B ✅", "B", "B"),
        ("B (90 % sure)", "B", "B"),
        ("b) green", "B", None),
        ("B green", "B", "B"),
        ("B. green", "B", "B"),
        ("B: Green", "B", "B"),
        ("B - green", "B", "B"),
        ("B) greenish, I would say", "B", "B"),
        ("(B) green, because grass is", "B", "B"),
        ("B (green)", "B", "B"),
        ("B (not C)", "B", "B"),
        ("B, not C", "B", None),
        ("B because C is far", "B", "B"),
        ("B, because A is wrong", "B", "B"),
        ("B. The others are wrong.", "B", None),
        ("B. A is wrong", "B", None),
        ("B: this follows from the text", "B", None),
        ("B – it is green", "B", "B"),
        ("B, a long one", "B", None),
        ("B. 12", "B", "B"),
        ("B/B", "B", "B"),
        ("I think it is B", "B", "B"),
        ("green", "B", None),
        ("**Green.**", "B", None),
        ("The answer is green.", "B", None),
        ("green (B)", "B", None),
        ("green (A)", None, None),
        ("Not C but B", "B", "B"),
        ("B rather than C", "B", "B"),
        # A letter where there is none, or more than one.
        *((form, None, None) for form in NO_CHOICE),
        ("not green", None, None),
        ("red and green", None, None),
    ],
)
def test_an_answer_is_read_as_a_whole(answer: str, line: str | None, box: str | None) -> None:
    assert read_choice(answer, COLOURS) == line
    assert read_choice(answer, COLOURS, small=False, in_box=True, texts=False) == box


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("E. coli", "A"),
        ("D. melanogaster", "B"),
        ("B. melanogaster", "B"),
        ("both A and B", "C"),
        ("I do not know", None),
        ("I think so", None),
        ("I am sure", None),
        ("I. yeast", "I"),
        ("I", "I"),
    ],
)
def test_the_options_texts_help(answer: str, letter: str | None) -> None:
    assert read_choice(answer, SPECIES) == (letter if answer != "D. melanogaster" else None)


LAW = Options.read(
    [{"A": "not guilty, because"}, {"B": "guilty"}, {"C": "– 9"}, {"D": "E = 1 (A or B)"}, {"E": "2.2 J"}]
)


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("(A) not guilty, because", "A"),
        ("A. not guilty, because", "A"),
        ("B. guilty", "B"),
        ("B. not guilty, because", None),
        ("A. guilty", None),
        ("(C) – 9", "C"),
        ("D (E = 1 (A or B))", "D"),
        ("D. E = 1 (A or B)", "D"),
        ("E. 2 J", "E"),
        ("E: 2.2 J (exactly)", "E"),
        ("(A) not guilty, because (B) guilty", None),
        ("~B", None),
    ],
)
def test_an_options_own_words_deny_and_list_nothing(answer: str, letter: str | None) -> None:
    assert read_choice(answer, LAW, small=False, in_box=True, texts=False) == letter


@pytest.mark.parametrize(
    ("options", "box", "letter"),
    [
        (COLOURS, "infrared", None),
        (COLOURS, "infra-red", None),
        *((COLOURS, f"{words} red", None) for words in ("anything but", "all but", "other than", "instead of")),
        (COLOURS, "greenish", None),
        (COLOURS, "not green", None),
        (COLOURS, "anything except green", None),
        (COLOURS, "it isn't green", None),
        (COLOURS, "red or green", None),
        (COLOURS, "red, green, blue, yellow", None),
        (COLOURS, "the green one", "B"),
        (COLOURS, r"\text{Green}", "B"),
        (NUMBERS, "12", "C"),
        (NUMBERS, "25", None),
        (NUMBERS, "-5", None),
        (NUMBERS, "5.5", None),
        (NUMBERS, "15", None),
        *((NUMBERS, box, "D") for box in ("1/2", ".5", r"\frac12", "0.50")),
        (NUMBERS, "5.0", "E"),
        (NUMBERS, r"\sqrt{5}", None),
        (NUMBERS, "5%", None),
        (NUMBERS, "5^2", None),
        (NUMBERS, "5 million", None),
        (NUMBERS, "5 + 7 = 12", None),
        (NUMBERS, "x = 5", "E"),
        (NUMBERS, r"5\,\mathrm{cm}", "E"),
        (NUMBERS, "0.5", "D"),
        (NUMBERS, "2.", "B"),
        (NUMBERS, "1, 2", None),
        (SPECIES, "it is E. coli", "A"),
    ],
)
def test_an_options_text_counts_among_other_words_only_as_it_stands(
    options: Options, box: str, letter: str | None
) -> None:
    assert (read_choice(box, options, small=False, in_box=True) or option_within(box, options)) == letter
    assert boxed_choice(f"So \\boxed{{{box}}}.", options, within=True) == letter


@pytest.mark.parametrize(
    ("text", "stated", "line"),
    [
        ("Answer: B", "B", "B"),
        ("**Answer: (B)**", "B", "B"),
        ("__Answer__: b.", "B", "B"),
        ("### Answer\nB", "B", "B"),
        ("Final answer:\n\n**B**", "B", "B"),
        ("The answer is (B).", "B", None),
        ("The correct answer is: **B**", "B", None),
        ("So the answer is B because it rains.", "B", None),
        ("Thus $\\boxed{B}$.", "B", None),
        ("Answer:\n\\[\n\\boxed{B}\n\\]", "B", None),
        (r"Answer: $\boxed{\textbf{B}}$", "B", "B"),
        ("Answer: A\nAnswer: B", "B", "B"),
        ("Answer: A, no. Answer: B", "B", "B"),
        ("The answer is (A). Wait. The answer is (B).", "B", None),
        ("Answer: B\n(in the form 'Answer: $LETTER')", "B", "B"),
        ("Answer: B\nThe answer is in the second line.", "B", "B"),
        (r"\boxed{A:B = 3:2}" + "\n\nAnswer: B", "B", "B"),
        (r"\boxed{A(t) = e^{-t}}" + "\n\n**Answer: B**", "B", "B"),
        (r"The amplitude is \boxed{A}." + "\nAnswer: B", "B", "B"),
        ("Answer: B\n" + r"so \boxed{3.5}", "B", "B"),
        ("The answer is (B).\n\nQuestion:\nWhat?\nAnswer: Let's think. The answer is (A).", "B", None),
        ("Answer: (B).\n\n**Question 2:** What?\nAnswer: (A).", "B", "A"),
        ("The answer is (B).\n\nNow, combining all the answers:\n\nAnswer: (A).", "B", "A"),
        ("Question: which?\nOptions:\nA. red\nB. green\nAnswer: B", "B", "B"),
        # What cannot be read is no answer, and what stands elsewhere does not replace it.
        ("Answer: B\nAnswer: A or B", None, None),
        ("Answer: B\nAnswer: unknown", None, None),
        ("Answer: (A), (B), (C), (D).", None, None),
        ("The answer is (B), (C).", None, None),
        ("The answer is not (B).", None, None),
        ("The answer is unclear; a guess.", None, None),
        ("Answer: B or C\n\nQuestion: What?\nAnswer: B", None, "B"),
        ("Answer:", None, None),
        ("Answer: [your letter]", None, None),
        ("The answer", None, None),
        ("A. red\nB. green\nC. blue\nD. yellow", None, None),
        ("Answer:\nA. red\nB. green\nC. blue\nD. yellow", None, None),
        ("Answer: A\nB\nC\nD", None, None),
        ("Answer: A. red B. green C. blue D. yellow", None, None),
        ("Answer: (A) red, (B) green, (C) blue", None, None),
        ("B", None, None),
        (r"\boxed{}", None, None),
        (r"\boxed{B", None, None),
        (r"\boxed{A or B}", None, None),
        (r"\boxed{b}", None, None),
        ("Whether the answer is", None, None),
        ("the wrong answer is B", None, None),
        ("If the answer is B, then", None, None),
        ("I don't think that the answer is B", None, None),
        ("", None, None),
    ],
)
def test_the_last_statement_decides(text: str, stated: str | None, line: str | None) -> None:
    assert (stated_choice(text, COLOURS), line_choice(text, COLOURS)) == (stated, line)


def test_any_letter_can_be_chosen_where_no_options_are_known() -> None:
    assert (stated_choice("Answer: J", ANY_LETTER), boxed_choice(r"\boxed{(J)}", ANY_LETTER)) == ("J", "J")
    assert stated_choice("Answer: (A) 12/1/1937 (B) 12/2/1937 (C) 12/3/1937", ANY_LETTER) is None
    assert (stated_choice("Answer: I do not know", ANY_LETTER), boxed_choice(r"\boxed{x}", ANY_LETTER)) == (None, None)


@pytest.mark.parametrize(
    "piece",
    ["answer: ", "the answer is ", "answer", "A, ", "B or ", "(B) ", "*B* ", "**", "`a", "\\textbf{", "so ", "the ",
     "\\boxed{B", "\n", " ", "red ", "\u0301", "question:\n", "\nQuestion: 1\nAnswer: B", "<a", "? ", "$", "_a"],
)  # fmt: skip
def test_a_hostile_megabyte_costs_little(piece: str) -> None:
    for text in (piece * (1_000_000 // len(piece)), "Answer: B" + piece * (6_000 // len(piece))):
        for read in (stated_choice, line_choice, boxed_choice, read_choice, option_within):
            assert cpu_seconds(read, text, COLOURS) < 0.6, (read, text[:20])
