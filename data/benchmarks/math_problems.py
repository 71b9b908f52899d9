"""Problems of mathematics from school to university: GSM8K, MGSM, MATH and PolyMath."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from gym_llm.data.files.conversion import MATH, QUESTION
from gym_llm.data.recipes.recipe import Benchmark, Load, Source
from gym_llm.types import Row

_FACTS = "NeMo Gym 07d6b0d, benchmarks/{}"
_STEPS = re.compile("<<.*?>>")


class WordProblem(TypedDict):
    """A word problem; the solution ends with `#### ANSWER`."""

    question: str
    answer: str


_CORRECTED = {
    "Mr. Finnegan has 3 tanks with a capacity of 7000": 10750,
    "If you double a number and add 5 to the result, t": 10,
    "John has 2 hives of bees.  One of the hives has 1": 2740,
    "Three blue chips are in a jar which is 10% of the": 15,
    "Janet filmed a new movie that is 60% longer than ": 19200,
    "Students at Highridge High earn 2 points for each": 64,
    "Robert and Teddy are planning to buy snacks for t": 108,
    "James invests $2000 a week into his bank account.": 531000,
    "James does chores around the class.  There are 3 ": 6,
    "During one game, a total of 50 people attended a ": 13,
    "Pete has to take a 10-minute walk down to the tra": "07:30",
}
"""Answers that are wrong upstream, by the beginning of the question (NeMo Gym corrects the same)."""


def word_problem(row: WordProblem) -> Row:
    """Take the number after `####`, without commas; correct the known errors."""
    solution, _, answer = row["answer"].partition("####")
    number = float(answer.replace(",", ""))
    expected = _CORRECTED.get(row["question"][:49], int(number) if number == int(number) else number)
    return {
        "question": row["question"],
        "expected_answer": expected,
        "reference_solution": _STEPS.sub("", solution),
    }


def number_only(row: WordProblem) -> Row:
    """Take the number after `####` as text, without commas."""
    answer = row["answer"].rpartition("####")[2].strip().replace(",", "")
    return {"question": row["question"], "expected_answer": answer}


def competition(row: dict[str, Any]) -> Row:
    """Keep every column; the problem is the question."""
    task = dict(row)
    if "answer" in task:
        task["expected_answer"] = task.pop("answer")
    if "problem" not in task:
        task["problem"] = task.pop("question")
    task["question"] = task.pop("problem")
    return task


def math_500(row: dict[str, Any]) -> Row:
    """Keep every column; the problem is the question, too."""
    task = dict(row)
    problem = task.get("problem", task.get("question"))
    if problem is None:
        raise KeyError("problem")
    task["question"] = task["problem"] = problem
    task["expected_answer"] = task.pop("answer")
    task["reference_solution"] = task.pop("solution")
    return task


class MultilingualProblem(TypedDict):
    """A word problem in the language of its file."""

    question: str
    answer_number: str


def multilingual(row: MultilingualProblem, load: Load) -> Row:
    """Take the number as text, without commas."""
    number = str(row["answer_number"]).replace(",", "")
    return {"question": row["question"], "expected_answer": number, "target_language": load.label}


_LEVELS = {"low": 1, "medium": 2, "high": 4, "top": 8}
_POLYMATH_LANGUAGES = tuple(
    ["ar", "bn", "de", "en", "es", "fr", "id", "it", "ja", "ko", "ms", "pt", "ru", "sw", "te", "th", "vi", "zh"]
)


def polymath(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """Append each language's instruction, which PolyMath's `instruction.py` has as a dict of texts."""
    queries = _dict_in(tables["instructions"][0]["text"], "query_dic")
    for label, rows in tables.items():
        if label == "instructions":
            continue
        language, level = label.split("/")
        for row in rows:
            yield {
                "question": f"{row['question']}\n\n{queries[language]}".strip(),
                "problem": row["question"],
                "expected_answer": row["answer"],
                "language": language,
                "subset_for_metrics": language,
                "difficulty": level,
                "weight": _LEVELS[level],
                "language_control_mode": None,
            }


def _dict_in(code: str, name: str) -> dict[str, str]:
    """A dict of texts that a Python file assigns to a name; the file is parsed, not run."""
    for node in ast.parse(code).body:
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in node.targets):
            value: dict[str, str] = ast.literal_eval(node.value)
            return value
    raise KeyError(name)


BENCHMARKS = [
    Benchmark(
        name="gsm8k",
        title="GSM8K: word problems of grade school, eleven wrong answers corrected",
        domain="math",
        sources=(
            Source(
                "https://raw.githubusercontent.com/openai/grade-school-math/master/grade_school_math/data/test.jsonl"
            ),
        ),
        convert=word_problem,
        env_id="gym_llm/MathWithJudge-v0",
        prompt=MATH,
        rows=1319,
        facts=_FACTS.format("gsm8k"),
    ),
    Benchmark(
        name="gsm8k_hub",
        title="GSM8K as it is on the hub",
        domain="math",
        sources=(Source("openai/gsm8k", config="main", split="test"),),
        convert=number_only,
        env_id="gym_llm/MathVerify-v0",
        prompt=MATH,
        facts="benchmarks/table.md, + gsm8k (hub)",
    ),
    Benchmark(
        name="mgsm",
        title="MGSM: GSM8K's first problems in eleven languages",
        domain="math",
        sources=tuple(
            Source(
                "juletxara/mgsm", files=(f"mgsm_{language}.tsv",), label=language, columns=("question", "answer_number")
            )
            for language in ["bn", "de", "en", "es", "fr", "ja", "ru", "sw", "te", "th", "zh"]
        ),
        convert=multilingual,
        env_id="gym_llm/MathVerify-v0",
        prompt=MATH,
        headline="macro:target_language",
        facts="benchmarks/table.md, + mgsm",
        notes="The instruction is in English for every language.",
    ),
    Benchmark(
        name="math_500",
        title="MATH-500: 500 problems of MATH's test set",
        domain="math",
        sources=(Source("https://github.com/openai/prm800k/raw/main/prm800k/math_splits/test.jsonl"),),
        convert=math_500,
        env_id="gym_llm/MathWithJudge-v0",
        env_kwargs={"should_use_judge": False},
        prompt=MATH,
        facts=_FACTS.format("math-500"),
        aliases=("math500",),
    ),
    Benchmark(
        name="hendrycks_math",
        title="MATH: competition problems, the whole test set",
        domain="math",
        sources=(
            Source(
                "https://raw.githubusercontent.com/QwenLM/Qwen2.5-Math/refs/heads/main/evaluation/data/math/test.jsonl"
            ),
        ),
        convert=competition,
        env_id="gym_llm/MathWithJudge-v0",
        prompt=MATH,
        rows=5000,
        facts=_FACTS.format("hendrycks_math"),
        aliases=("math",),
    ),
    Benchmark(
        name="polymath",
        title="PolyMath: four levels of mathematics in 18 languages",
        domain="math",
        sources=(
            Source(
                "https://raw.githubusercontent.com/QwenLM/PolyMath/main/instruction.py",
                label="instructions",
                shared=True,
            ),
            *(
                Source("Qwen/PolyMath", config=language, split=level, label=f"{language}/{level}")
                for language in _POLYMATH_LANGUAGES
                for level in _LEVELS
            ),
        ),
        convert=polymath,
        joins=True,
        env_id="gym_llm/PolyMath-v0",
        env_kwargs={"should_use_judge": False},
        prompt=QUESTION,
        facts=_FACTS.format("polymath"),
    ),
]
