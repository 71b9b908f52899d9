"""In thirty-one recipes, a right answer to every row scores 1.0 and a wrong one 0.0; the rows have the real columns."""

from __future__ import annotations

import json
from typing import Any

import pytest
from audited import played

from gym_llm.data.recipes.catalogue import find_benchmark

NUMBERS = range(3, 9)
WORDS = ["ash", "beech", "cedar", "dogwood", "elm", "fir"]
PROBLEMS = [{"problem": f"What is {n} times {n}?", "answer": n * n} for n in NUMBERS]
TEXT_PROBLEMS = [
    {"problem": f"What is {n}/7?", "answer": f"\\frac{{{n}}}{{7}}", "solution": "By division.", "subject": "Algebra"}
    for n in NUMBERS
    if n != 7
]
WORD_PROBLEMS = [{"question": f"{n} boxes of {n} pens?", "answer": f"{n} * {n}\n#### {n * n:,}"} for n in NUMBERS]


def four(number: int, right: int) -> list[str]:
    """Four options; the right one is the number of trees."""
    others = [number + step for step in (1, 2, 3)]
    return [str(each) for each in [*others[:right], number, *others[right:]]]


def choices(right: str, options: str, form: Any = int) -> list[dict[str, Any]]:
    """Rows with a question, options and the index of the right one."""
    return [
        {"question": f"How many trees are {n} trees?", options: four(n, n % 4), right: form(n % 4), "subject": "botany"}
        for n in NUMBERS
    ]


ASKED = [
    {
        "id": f"a{n}",
        "question": f"How many trees are {n} trees?",
        "question_stem": f"How many trees are {n} trees?",
        "choices": {"text": four(n, n % 4), "label": list("ABCD")},
        "answerKey": "ABCD"[n % 4],
    }
    for n in NUMBERS
]
DIGITS = [
    row | {"choices": {**row["choices"], "label": list("1234")}, "answerKey": str(n % 4 + 1)}
    for n, row in zip(NUMBERS, ASKED, strict=True)
]
GRADUATE = [
    {
        "Question": f"How many trees are {n} trees?",
        "Correct Answer": str(n),
        **{f"Incorrect Answer {step}": str(n + step) for step in (1, 2, 3)},
    }
    for n in NUMBERS
]
SUPER = [
    {
        "uuid": str(n),
        "question": f"How many trees are {n} trees?",
        "options": four(n, n % 4),
        "answer": str(n),
        "answer_letter": "ABCD"[n % 4],
        "discipline": "Science",
        "field": "Biology",
        "subfield": "Botany",
        "difficulty": "easy",
        "is_calculation": False,
    }
    for n in NUMBERS
]
TRIVIA = [
    {"question_id": word, "question": f"Which tree is {word}?", "answer": {"value": word, "aliases": [word.upper()]}}
    for word in WORDS
]

ROWS: dict[str, list[dict[str, Any]]] = {
    **dict.fromkeys(("aime24", "aime25", "aime26", "hmmt_feb25", "hmmt_nov25", "apex_shortlist"), PROBLEMS),
    "gsm8k": WORD_PROBLEMS,
    "gsm8k_hub": WORD_PROBLEMS,
    "math_500": TEXT_PROBLEMS,
    "hendrycks_math": TEXT_PROBLEMS,
    "mgsm": [{"question": f"{n} plus {n}?", "answer_number": f"{2 * n}"} for n in NUMBERS],
    "gpqa": GRADUATE,
    "mmlu_hub": choices("answer", "choices"),
    "mmlu_pro": [row | {"category": "biology"} for row in choices("answer", "options", "ABCD".__getitem__)],
    "supergpqa": SUPER,
    "arc_challenge": ASKED,
    "arc_easy": DIGITS,
    "openbookqa": ASKED,
    "commonsense_qa": ASKED,
    "hellaswag": [
        {
            "activity_label": "Trees",
            "ctx": f"There are {n} trees, so many:",
            "endings": four(n, n % 4),
            "label": str(n % 4),
        }
        for n in NUMBERS
    ],
    "winogrande": [
        {
            "sentence": f"{n} is a _ .",
            "option1": "tree" if n % 2 else "stone",
            "option2": "stone" if n % 2 else "tree",
            "answer": "1" if n % 2 else "2",
        }
        for n in NUMBERS
    ],
    "piqa": [
        {
            "goal": f"Plant {n} trees",
            "sol1": "Dig" if n % 2 else "Sing",
            "sol2": "Sing" if n % 2 else "Dig",
            "label": 1 - n % 2,
        }
        for n in NUMBERS
    ],
    "boolq": [{"passage": f"There are {n} trees.", "question": f"is {n} odd", "answer": bool(n % 2)} for n in NUMBERS],
    "truthfulqa_mc1": [
        {"question": f"How many are {n} trees?", "mc1_targets": {"choices": four(n, 0), "labels": [1, 0, 0, 0]}}
        for n in NUMBERS
    ],
    "musr": [
        {
            "narrative": f"There were {n} trees.",
            "question": "How many?",
            "choices": str(four(n, n % 4)),
            "answer_index": n % 4,
        }
        for n in NUMBERS
    ],
    "agieval": [
        {
            "query": f"Q: How many are {n} trees?",
            "choices": [f"({letter}) {text}" for letter, text in zip("ABCD", four(n, n % 4), strict=True)],
            "gold": [n % 4],
        }
        for n in NUMBERS
    ],
    "bbh": [{"input": f"Which tree? Options: ({letter})", "target": f"({letter})"} for letter in "ABCDEF"],
    "trivia_qa": TRIVIA,
    "nq_open": [{"question": f"which tree is {word}", "answer": [word, word.title()]} for word in WORDS],
    "popqa": [
        {"id": n, "question": f"Which tree is {word}?", "possible_answers": json.dumps([word])}
        for n, word in enumerate(WORDS)
    ],
    "hotpotqa_closedbook": [
        {"id": word, "question": f"Which tree is {word}?", "answer": word, "type": "bridge", "level": "hard"}
        for word in WORDS
    ],
}


@pytest.mark.parametrize("name", ROWS)
def test_right_answers_are_paid_and_wrong_ones_are_not(name: str) -> None:
    audit = played(find_benchmark(name), ROWS[name])
    assert audit.rows == audit.official == len(ROWS[name]) and not audit.unanswered, audit.card()
    wrong = {kind: audit.junk[kind] for kind in ("nothing", "a refusal")}
    assert not any(wrong.values()), audit.card()
    # Of lettered options, another task's letter may be the right one.
    assert audit.junk["another task's answer"] < audit.rows, audit.card()
