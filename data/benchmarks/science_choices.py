"""Hard questions with lettered options: GPQA, SuperGPQA, MMLU-Pro, and their translations."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from gym_llm.data.files.conversion import QUESTION, lettered, listed, options, shuffled_by, uuid_of
from gym_llm.data.recipes.recipe import Benchmark, Load, Source
from gym_llm.types import Row

_FACTS = "NeMo Gym 07d6b0d, benchmarks/{}"
_ENV = "gym_llm/MultipleChoice-v0"
_MARKDOWN = {"grading_mode": "lenient_answer_colon_md"}

Graduate = TypedDict(
    "Graduate",
    {
        "Question": str,
        "Correct Answer": str,
        "Incorrect Answer 1": str,
        "Incorrect Answer 2": str,
        "Incorrect Answer 3": str,
    },
)


def graduate(row: Graduate) -> Row:
    """Shuffle the options by a seed of the question, so that the right letter is the same everywhere."""
    wrong = (row["Incorrect Answer 1"], row["Incorrect Answer 2"], row["Incorrect Answer 3"])
    choices = shuffled_by(row["Question"], [row["Correct Answer"], *wrong])
    by_letter = lettered(choices)
    text = listed(by_letter, "{}: {}")
    return {
        "question": row["Question"],
        "options_text": text,
        "problem": f"{row['Question']}\n{text}",
        "options": options(by_letter),
        "expected_answer": "ABCD"[choices.index(row["Correct Answer"])],
        "uuid": uuid_of(row["Question"]),
    }


class TranslatedGraduate(TypedDict):
    """A translated question, its options as text and by letter."""

    problem: str
    options: Any
    A: str
    B: str
    C: str
    D: str
    expected_answer: str


_BOXED = {
    "de": "Lösen Sie das folgende Problem. Stellen Sie sicher, dass Sie die Antwort (und nur die Antwort) in \\boxed{} "
    "setzen.",
    "es": "Resuelve el siguiente problema. Asegúrate de poner la respuesta (y solo la respuesta) dentro de \\boxed{}.",
    "fr": "Résolvez le problème suivant. Assurez-vous de mettre la réponse (et seulement la réponse) dans \\boxed{}.",
    "ja": "以下の問題を解いてください。答え（答えのみ）を\\boxed{}の中に入れてください。",
}


def translated_graduate(row: TranslatedGraduate, load: Load) -> Row:
    """Ask in the question's language for a letter in a box."""
    choices = {letter: row[letter] for letter in "ABCD"}  # type: ignore[literal-required]
    return {
        "question": f"{_BOXED[load.label]}\n\n{row['problem']}\n\n{row['options']}",
        "problem": row["problem"],
        "expected_answer": str(row["expected_answer"]),
        "options": options(choices),
        "template_metadata": {"output_regex": "\\\\boxed\\{([A-D])\\}"},
        **choices,
        "subset_for_metrics": load.label,
        "target_language": load.label,
        "uuid": uuid_of({"problem": row["problem"], "options": row["options"], "language": load.label}),
    }


class TenOptions(TypedDict):
    """A question with three to ten options, and the right one's letter."""

    question: str
    options: list[str]
    answer: str
    category: str


def ten_options(row: TenOptions) -> Row:
    """Letter the options in their own order."""
    by_letter = lettered(row["options"])
    text = listed(by_letter)
    seed = json.dumps({"question": row["question"], "options": row["options"]}, sort_keys=True)
    stripped = row["question"].strip("\n")
    return {
        "question": row["question"],
        "options_text": text,
        "problem": f"{stripped}\n\n{text}",
        "options": options(by_letter),
        "expected_answer": row["answer"],
        "category": row["category"],
        "uuid": uuid_of(seed),
    }


def super_graduate(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """Shuffle each row's options with one generator for all rows, seeded with 42."""
    order = random.Random(42)
    for row in (row for rows in tables.values() for row in rows):
        choices = [" " if text is None else text.strip().replace("  ", " ") for text in row["options"]]
        if len(choices) != len(set(choices)):
            raise ValueError(f"the options are not unique: {choices}")
        right = choices[ord(row["answer_letter"].strip().upper()) - ord("A")]
        order.shuffle(choices)
        by_letter = lettered(choices)
        yield {
            "question": row["question"],
            "problem": f"{row['question']}\n\n{listed(by_letter, '{}: {}')}",
            "options": options(by_letter),
            "expected_answer": chr(ord("A") + choices.index(right)),
            "uuid": uuid_of({"uuid": row["uuid"], "split": "test", "choices": choices}),
            "subset_for_metrics": row["discipline"],
            **{name: row[name] for name in ("discipline", "field", "subfield", "difficulty", "is_calculation")},
        }


_FOUR = (
    "Answer this multiple choice question. Think step by step first. The last line of your response must have the form "
    "'Answer: A/B/C/D', for example 'Answer: A'.\n\n{problem}"
)
_TEN = (
    "Answer this multiple choice question. Think step by step first. The last line of your response must have the form "
    "'Answer: LETTER', where LETTER is one of A, B, C, D, E, F, G, H, I, J.\n\n{problem}"
)

BENCHMARKS = [
    Benchmark(
        name="gpqa",
        title="GPQA Diamond: graduate questions of physics, chemistry and biology",
        domain="knowledge",
        sources=(Source("Idavidrein/gpqa", config="gpqa_diamond", split="train"),),
        convert=graduate,
        env_id=_ENV,
        env_kwargs=_MARKDOWN,
        also_scored_by=("gym_llm/GPQADiamond-v0",),
        prompt=_FOUR,
        repeats=8,
        rows=198,
        gated=True,
        facts=_FACTS.format("gpqa"),
        aliases=("gpqa_diamond",),
    ),
    Benchmark(
        name="gpqa_x",
        title="GPQA Diamond in German, Spanish, French and Japanese",
        domain="knowledge",
        sources=tuple(Source("nvidia/Nemotron-Multilinugual-Eval-GPQA", split=language) for language in _BOXED),
        convert=translated_graduate,
        env_id=_ENV,
        prompt=QUESTION,
        repeats=8,
        headline="macro:target_language",
        facts=_FACTS.format("gpqa-x"),
    ),
    Benchmark(
        name="mmlu_pro",
        title="MMLU-Pro: 14 subjects, up to ten options",
        domain="knowledge",
        sources=(Source("TIGER-Lab/MMLU-Pro", split="test"),),
        convert=ten_options,
        env_id=_ENV,
        env_kwargs=_MARKDOWN,
        prompt=_TEN,
        facts=_FACTS.format("mmlu_pro"),
    ),
    Benchmark(
        name="supergpqa",
        title="SuperGPQA: 285 graduate disciplines",
        domain="knowledge",
        sources=(Source("m-a-p/SuperGPQA", split="train"),),
        convert=super_graduate,
        joins=True,
        env_id=_ENV,
        env_kwargs=_MARKDOWN,
        prompt=_TEN,
        facts=_FACTS.format("supergpqa"),
    ),
]
