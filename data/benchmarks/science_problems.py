"""Science with free answers: FrontierScience, PHYSICS, UGPhysics, CritPt; and functions for it: SciCodePile."""

from __future__ import annotations

import re
from typing import Any, TypedDict

from gym_llm.data.files.conversion import QUESTION
from gym_llm.data.recipes.recipe import Benchmark, Load, Source
from gym_llm.types import Row

_FACTS = "NeMo Gym 07d6b0d, benchmarks/{}"
_SUBJECTS = ("chemistry", "biology", "physics")


def frontier(row: dict[str, Any], load: Load) -> Row | None:
    """Keep three subjects; research problems are scored by points of a rubric."""
    subject = (row.get("subject") or "").lower()
    if subject not in _SUBJECTS:
        return None
    answer = row.get("answer") or ""
    is_research = load.label == "research"
    return {
        "id": f"{load.label}-{load.number}",
        "question": row.get("problem", ""),
        "expected_answer": answer.strip() if is_research else re.sub("^`+|`+$", "", answer).strip(),
        "subject": subject,
        "task_group_id": row.get("task_group_id") or "",
        **({"scoring_threshold": 7.0, "scoring_max_points": 10.0} if is_research else {}),
    }


class Physics(TypedDict):
    """A problem; each part has a list of boxed answers."""

    question: str
    answer: list[list[str]]
    domain: str
    difficulty: str
    answer_type: str
    language: str
    solution: str


def physics(row: Physics) -> Row | None:
    """Keep the English problems, and put all answers into one box."""
    if row["language"] != "en":
        return None
    answers = [
        text[7:-1] if text.startswith("\\boxed{") and text.endswith("}") else text
        for part in row["answer"]
        for text in part
    ]
    kept = ("domain", "difficulty", "answer_type", "language", "solution")
    return {
        "question": row["question"],
        "expected_answer": f"\\boxed{{{', '.join(answers)}}}",
        **{name: row[name] for name in kept},  # type: ignore[literal-required]
    }


class Undergraduate(TypedDict):
    """A problem with one or several answers of named types."""

    index: Any
    problem: str
    answers: Any
    solution: str
    answer_type: str
    subject: str
    language: str
    is_multiple_answer: bool


_TYPES = {
    "IN": "a range interval",
    "TF": "either True or False",
    "EX": "an expression",
    "EQ": "an equation",
    "MC": "one option of a multiple choice question",
    "NV": "a numerical value without units",
    "TUP": "multiple numbers, separated by comma, such as (x, y, z)",
}
_UG_SUBJECTS = [
    "AtomicPhysics",
    "ClassicalElectromagnetism",
    "ClassicalMechanics",
    "Electrodynamics",
    "GeometricalOptics",
    "QuantumMechanics",
    "Relativity",
    "SemiconductorPhysics",
    "Solid-StatePhysics",
    "StatisticalMechanics",
    "TheoreticalMechanics",
    "Thermodynamics",
    "WaveOptics",
]


def undergraduate(row: Undergraduate) -> Row:
    """Say in words what kinds of answers are wanted."""
    kinds = [_TYPES.get(kind.strip(), kind.strip()) for kind in row["answer_type"].split(",")]
    several = row["is_multiple_answer"]
    if not several:
        sentence = f"The answer of the problem should be {kinds[0]}."
    elif len(set(kinds)) == 1:
        sentence = f"The problem has multiple answers, each of them should be {kinds[0]}."
    else:
        sentence = f"The problem has multiple answers, with the answers in order being {', '.join(kinds)}."
    return {
        "index": row["index"],
        "question": row["problem"],
        "expected_answer": row["answers"],
        "solution": row["solution"],
        "answer_type": row["answer_type"],
        "subject": row["subject"],
        "language": row["language"].lower(),
        "is_multiple_answer": several,
        "prompt_sentence": sentence,
        "boxed_answer_example": "\\boxed{multiple answers connected with commas}"
        if several
        else "\\boxed{answer}(unit)",
    }


class CritPt(TypedDict):
    """A research problem, and the code in which its answer is given."""

    problem_id: str
    problem_description: str
    code_template: str


def critpt(row: CritPt) -> Row:
    """Name the problem by its id."""
    return {
        "problem_id": row["problem_id"],
        "problem": row["problem_description"],
        "code_template": row["code_template"],
        "uuid": row["problem_id"],
    }


def _frontier(kind: str, kwargs: dict[str, Any]) -> Benchmark:
    return Benchmark(
        name=f"frontierscience_{kind}",
        title=f"FrontierScience: {kind} problems of physics, chemistry and biology",
        domain="science",
        sources=(Source("openai/frontierscience", files=(f"{kind}/test.jsonl",), label=kind),),
        convert=frontier,
        env_id="gym_llm/FrontierScienceJudge-v0",
        env_kwargs=kwargs,
        prompt=QUESTION,
        license="Apache 2.0",
        needs=("judge",),
        facts=_FACTS.format(f"frontierscience_{kind}"),
    )


def science_function(row: dict[str, Any]) -> Row | None:
    """Ask with the signature and its description alone, as the authors do."""
    if not row["runnable"]:
        return None
    about = row.get("benchmark_meta") or {}
    if not isinstance(about, dict):
        raise ValueError(f"benchmark_meta is a {type(about).__name__}, not an object")
    return {
        "question": row["prompt"],
        "verifier_metadata": {
            "task_id": row["task_id"],
            "test": row["test"],
            "entry_point": row["entry_point"],
            "setup_code": row.get("setup_code") or "",
            "audit_flags": about.get("audit_flags"),
            "primary_score_eligible": about.get("primary_score_eligible"),
        },
    }


BENCHMARKS = [
    _frontier("olympiad", {}),
    _frontier("research", {"judge_mode": "research", "rubric_pass_score_threshold": 7.0, "rubric_max_score": 10.0}),
    Benchmark(
        name="physics",
        title="PHYSICS: university problems, the English ones",
        domain="science",
        sources=(Source("desimfj/PHYSICS", split="test"),),
        convert=physics,
        env_id="gym_llm/PhysicsJudge-v0",
        prompt="Solve this open problem of physics.\n1. Write variables and formulas in LaTeX.\n2. Put the final "
        "answer into "
        "\\boxed{{}}, without its unit.\n3. Separate several answers by commas in one box: \\boxed{{answer 1, answer "
        "2}}.\n"
        "Problem: {question}",
        license="Apache 2.0",
        needs=("judge",),
        facts=_FACTS.format("physics"),
    ),
    Benchmark(
        name="ugphysics",
        title="UGPhysics: undergraduate physics in 13 subjects, in English",
        domain="science",
        sources=tuple(Source("UGPhysics/ugphysics", config=subject, split="en") for subject in _UG_SUBJECTS),
        convert=undergraduate,
        env_id="gym_llm/UGPhysicsJudge-v0",
        prompt="This is an open problem of undergraduate physics, from {subject}.\n{prompt_sentence}\nCalculate "
        "the answer "
        'as the problem asks. Write variables, formulas and results in LaTeX. End with the sentence "So the '
        "final answer "
        'is {boxed_answer_example}.", the unit outside \\boxed{{}}.\nProblem: {question}',
        license="Apache 2.0",
        headline="macro:subject",
        needs=("judge",),
        facts=_FACTS.format("ugphysics"),
    ),
    Benchmark(
        name="critpt",
        title="CritPt: research problems of physics (its answers are not public)",
        domain="science",
        sources=(Source("CritPt-Benchmark/CritPt", split="train"),),
        convert=critpt,
        prompt="{problem}\n\nDerive the result step by step. End with a line 'Final Answer:' and the result.",
        repeats=5,
        license="Apache 2.0",
        facts=_FACTS.format("critpt"),
    ),
    Benchmark(
        name="scicodepile",
        title="SciCodePile: functions of the sciences, run with the authors' tests",
        domain="coding",
        sources=(
            Source(
                "SciCodePile/SciCode-Runnable-Benchmark-Reviewed",
                split="train",
                revision="9afb3a95c7fa8e470119cf6f74b44ec735c5a95b",
            ),
        ),
        convert=science_function,
        env_id="gym_llm/SciCodePile-v0",
        prompt=QUESTION,
        rows=200,
        license="Apache 2.0",
        needs=("sandbox",),
        facts="NeMo Gym 0.7.0, benchmarks/scicodepile",
    ),
]
