"""AGIEval: exams for people, with lettered options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypedDict

from gym_llm.data.files.conversion import choice_task
from gym_llm.data.recipes.recipe import Benchmark, Load, Source
from gym_llm.types import Row

_ENGLISH = (
    ("aqua-rat", "logiqa-en", "lsat-ar", "lsat-lr", "lsat-rc", "sat-en", "sat-en-without-passage", "sat-math")
)  # fmt: skip
_CHINESE = (
    *(f"gaokao-{subject}" for subject in ("biology", "chemistry", "chinese", "english", "geography", "history")),
    *("gaokao-mathqa", "gaokao-physics", "jec-qa-ca", "jec-qa-kd", "logiqa-zh"),
)


class Exam(TypedDict):
    """A question with its options in it, the options as `(A) …`, and the indices of the right ones."""

    query: str
    choices: list[str]
    gold: list[int]


def exam(row: Exam, load: Load) -> Row | None:
    """Keep the questions with one right option; rows of the authors' own files get the question that the hub has."""
    if "gold" not in row:
        row = _as_on_the_hub(row)
    if len(row["gold"]) != 1:
        return None
    texts = [re.sub(r"^\([A-Z]\)\s*", "", text) for text in row["choices"]]
    task = choice_task(row["query"], texts, row["gold"][0], exam=load.label)
    return task | {"problem": row["query"]}


def _as_on_the_hub(row: Mapping[str, Any]) -> Exam:
    passage, question, options, label = (row[name] for name in ("passage", "question", "options", "label"))
    last = chr(ord("A") + len(options) - 1)
    asked = (
        f"{passage or ''}Q: {question} Answer Choices: {' '.join(options)}\nA: Among A through {last}, the answer is"
    )
    return {"query": asked, "choices": options, "gold": [ord(letter) - ord("A") for letter in label]}


def _sources(names: tuple[str, ...]) -> tuple[Source, ...]:
    return tuple(Source(f"hails/agieval-{name}", split="test", label=name) for name in names)


BENCHMARKS = [
    Benchmark(
        name="agieval",
        title="AGIEval: questions of LSAT, SAT and other exams in English",
        domain="knowledge",
        sources=_sources(_ENGLISH),
        convert=exam,
        env_id="gym_llm/MultipleChoice-v0",
        env_kwargs={"grading_mode": "strict_single_letter_boxed"},
        prompt="Answer this multiple choice question with the letter of the right option. End with a line of the form "
        "'Answer: \\boxed{{LETTER}}'.\n\n{problem}",
        headline="macro:exam",
        facts="EleutherAI/lm-evaluation-harness, lm_eval/tasks/agieval",
        notes="Questions with several right options are left out, and so are MATH and Gaokao's cloze questions. Asked "
        "as questions with lettered options; figures from log-likelihoods differ.",
        variants={
            "zh": {"sources": _sources(_CHINESE), "title": "AGIEval: Gaokao and law exams in Chinese"},
            **{name: {"sources": _sources((name,))} for name in _CHINESE},
        },
    ),
]
