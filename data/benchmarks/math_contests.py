"""Contests of mathematics with a final answer: AIME, HMMT, Apex, IMO AnswerBench, and their translations."""

from __future__ import annotations

from typing import TypedDict, cast

from gym_llm.data.files.conversion import MATH, QUESTION
from gym_llm.data.recipes.recipe import Benchmark, Load, Source
from gym_llm.types import Row

_FACTS = "NeMo Gym 07d6b0d, benchmarks/{}"
_NEWER = "NeMo Gym 0.7.0, benchmarks/{}"
_JUDGED: dict[str, bool] = {}
_UNJUDGED = {"should_use_judge": False}


class Problem(TypedDict):
    """A problem and its answer."""

    problem: str
    answer: str | int


def problem(row: Problem) -> Row:
    """Take the problem and its answer as they are."""
    return {"question": row["problem"], "expected_answer": str(row["answer"])}


class Translated(TypedDict):
    """A problem in the language of its split."""

    problem: str
    expected_answer: str | int


_BOXED = {
    "de": "Lösen Sie das folgende Mathematikproblem. Stellen Sie sicher, dass Sie die Antwort (und nur die Antwort) in "
    "\\boxed{} setzen.",
    "es": "Resuelve el siguiente problema matemático. Asegúrate de poner la respuesta (y solo la respuesta) dentro de "
    "\\boxed{}.",
    "fr": "Résolvez le problème mathématique suivant. Assurez-vous de mettre la réponse (et seulement la réponse) dans "
    "\\boxed{}.",
    "ja": "以下の数学問題を解いてください。答え（答えのみ）を\\boxed{}の中に入れてください。",
}


def translated(row: Translated, load: Load) -> Row:
    """Ask in the problem's language."""
    return {
        "question": f"{_BOXED[load.label]}\n\n{row['problem']}",
        "problem": row["problem"],
        "expected_answer": str(row["expected_answer"]),
        "subset_for_metrics": load.label,
        "target_language": load.label,
    }


AnswerBench = TypedDict(
    "AnswerBench",
    {"Problem ID": str, "Problem": str, "Short Answer": str, "Category": str, "Subcategory": str, "Source": str},
)


_UNCLOSED = "imo-bench-algebra-036"
"""Its problem's quotation mark is closed behind its answer: both are in one value, the others a column early."""


def answer_bench(row: AnswerBench) -> Row:
    """Name the columns as `MathWithAutograder` does."""
    if row["Problem ID"] == _UNCLOSED and "Source" not in row:
        text, _, answer = row["Problem"].rpartition("\n,")
        values = (_UNCLOSED, f"{text}\n", answer.removesuffix('"'), *list(row.values())[2:])
        row = cast(AnswerBench, dict(zip(AnswerBench.__annotations__, values, strict=True)))
    return {
        "problem_id": row["Problem ID"],
        "question": row["Problem"],
        "expected_answer": row["Short Answer"],
        "category": row["Category"],
        "subcategory": row["Subcategory"],
        "source": row["Source"],
    }


def _contest(name: str, title: str, place: str, repeats: int, kwargs: dict[str, bool], rows: int | None) -> Benchmark:
    return Benchmark(
        name=name,
        title=title,
        domain="math",
        sources=(Source(place, split="train"),),
        convert=problem,
        env_id="gym_llm/MathWithJudge-v0",
        env_kwargs=kwargs,
        also_scored_by=("gym_llm/MathVerify-v0",),
        prompt=MATH,
        repeats=repeats,
        rows=rows,
        facts=_FACTS.format(name),
    )


BENCHMARKS = [
    _contest("aime24", "AIME 2024, both papers", "HuggingFaceH4/aime_2024", 32, _JUDGED, None),
    _contest("aime25", "AIME 2025, both papers", "MathArena/aime_2025", 32, _JUDGED, None),
    _contest("aime26", "AIME 2026, both papers", "MathArena/aime_2026", 1, _JUDGED, None),
    _contest("hmmt_feb25", "HMMT, February 2025", "MathArena/hmmt_feb_2025", 4, _UNJUDGED, 30),
    _contest("hmmt_nov25", "HMMT, November 2025", "MathArena/hmmt_nov_2025", 1, _UNJUDGED, None),
    _contest("apex_shortlist", "MathArena's Apex, shortlist", "MathArena/apex-shortlist", 1, _UNJUDGED, None),
    Benchmark(
        name="apex25",
        title="MathArena's Apex 2025: problems that no model solved",
        domain="math",
        sources=(Source("MathArena/apex_2025", split="train", revision="ac8a641db12cc87be39e61ea89f2e04c80c5f2e7"),),
        convert=problem,
        env_id="gym_llm/MathWithJudge-v0",
        env_kwargs=_UNJUDGED,
        also_scored_by=("gym_llm/MathVerify-v0",),
        prompt=MATH,
        rows=12,
        facts=_NEWER.format("apex25"),
    ),
    *(
        Benchmark(
            name=f"arxivmath_{month}",
            title=f"ArXivMath {month[:2]}/20{month[2:]}: questions from new papers",
            domain="math",
            sources=(Source(f"MathArena/arxivmath-{month}", split="train", revision=revision),),
            convert=problem,
            env_id=env_id,
            also_scored_by=("gym_llm/MathVerify-v0",),
            prompt=MATH,
            needs=("judge",),
            facts=_NEWER.format(f"arxivmath_{month}"),
        )
        for month, revision, env_id in (
            ("0426", "5e58127fba079b6db1c5aef0fee5dc61fc43da8d", "gym_llm/MathWithAutograder-v0"),
            ("0526", "69f701c7f266bfba235ef302ff9b19093f7455bb", "gym_llm/MathWithJudge-v0"),
            ("0626", "dca0d771ab20c1b8e8c50d0921bf693f7bfe663d", "gym_llm/MathWithJudge-v0"),
        )
    ),
    *(
        Benchmark(
            name=f"aime{year}_x",
            title=f"AIME 20{year} in German, Spanish, French and Japanese",
            domain="math",
            sources=tuple(
                Source(f"nvidia/Nemotron-Multilinugual-Eval-AIME{year}", split=language) for language in _BOXED
            ),
            convert=translated,
            env_id="gym_llm/MathWithJudge-v0",
            env_kwargs=_UNJUDGED,
            prompt=QUESTION,
            repeats=32,
            headline="macro:target_language",
            facts=_FACTS.format(f"aime{year}-x"),
        )
        for year in (24, 25)
    ),
    Benchmark(
        name="imo_answerbench",
        title="IMO AnswerBench: olympiad problems with a short answer",
        domain="math",
        sources=(
            Source(
                "https://raw.githubusercontent.com/google-deepmind/superhuman/"
                "326a740a6877d5ec098035c534d2fbd931fe83ee/imobench/answerbench_v2.csv",
                ragged=True,
            ),
        ),
        convert=answer_bench,
        env_id="gym_llm/MathWithAutograder-v0",
        prompt=MATH,
        needs=("judge",),
        rows=400,
        facts=_FACTS.format("imo_answerbench"),
        notes=f"The file has the problem and the answer of {_UNCLOSED} in one value: they are taken apart. NeMo Gym "
        "asks both, and expects `Algebra`.",
    ),
]
