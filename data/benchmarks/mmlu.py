"""MMLU: the original archive, the set on the hub, and Redux."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, TypedDict

from gym_llm.data.files.conversion import choice_task, uuid_of
from gym_llm.data.recipes.recipe import Benchmark, Load, Source
from gym_llm.types import Row

FACTS = "NeMo Gym 07d6b0d, benchmarks/{}"
ENV = "gym_llm/MultipleChoice-v0"
BOXED = {"grading_mode": "strict_single_letter_boxed"}
LETTERS = "ABCD"

_SUBJECTS = {
    "math": "abstract_algebra college_mathematics elementary_mathematics high_school_mathematics "
    "high_school_statistics",
    "health": "anatomy clinical_knowledge college_medicine human_aging medical_genetics nutrition "
    "professional_medicine virology",
    "physics": "astronomy college_physics conceptual_physics high_school_physics",
    "business": "business_ethics management marketing",
    "biology": "college_biology high_school_biology",
    "chemistry": "college_chemistry high_school_chemistry",
    "computer science": "college_computer_science computer_security high_school_computer_science machine_learning",
    "economics": "econometrics high_school_macroeconomics high_school_microeconomics",
    "engineering": "electrical_engineering",
    "philosophy": "formal_logic logical_fallacies moral_disputes moral_scenarios philosophy world_religions",
    "other": "global_facts miscellaneous professional_accounting",
    "history": "high_school_european_history high_school_us_history high_school_world_history prehistory",
    "geography": "high_school_geography",
    "politics": "high_school_government_and_politics public_relations security_studies us_foreign_policy",
    "psychology": "high_school_psychology professional_psychology",
    "culture": "human_sexuality sociology",
    "law": "international_law jurisprudence professional_law",
}
CATEGORY = {subject: category for category, subjects in _SUBJECTS.items() for subject in subjects.split()}
"""MMLU's 57 subjects, each with its category."""


class TarRow(TypedDict):
    """A line of a subject's table, without a header."""

    question: str
    A: str
    B: str
    C: str
    D: str
    expected_answer: str
    _member: str


def from_tar(row: TarRow) -> Row:
    """Name the subject by the table's file."""
    subject = PurePath(row["_member"]).name.rsplit("_", 1)[0]
    answer = row["expected_answer"].strip().upper()
    if answer not in LETTERS:
        raise ValueError(f"the answer {answer!r} is not a letter")
    question = row["question"].strip()
    choices = [row[letter] for letter in LETTERS]  # type: ignore[literal-required]
    seed = {"subject": subject, "question": question, "answer": answer}
    subset = {"subset_for_metrics": CATEGORY[subject], "subject": subject, "uuid": uuid_of(seed)}
    return choice_task(question, choices, answer, **subset)


class HubRow(TypedDict):
    """A question, its four options, the right one's index, and the subject."""

    question: str
    choices: list[str]
    answer: int
    subject: str


def from_hub(row: HubRow) -> Row:
    """Letter the options."""
    return choice_task(row["question"].strip(), row["choices"], int(row["answer"]), subject=row["subject"])


class ReduxRow(TypedDict):
    """MMLU's row, and what the reviewers found."""

    question: str
    choices: list[str]
    answer: int
    error_type: str
    correct_answer: str | None
    source: str | None


def redux(row: ReduxRow, load: Load) -> Row | None:
    """Keep what is right, or wrong with a known right answer."""
    answer: Any = None
    if row["error_type"] == "ok":
        answer = chr(ord("A") + int(row["answer"]))
    elif row["error_type"] == "wrong_groundtruth" and row["correct_answer"] in list(LETTERS):
        answer = row["correct_answer"]
    if answer is None:
        return None
    choices = [str(choice) for choice in row["choices"]]
    if len(choices) != len(LETTERS):
        raise ValueError(f"{len(choices)} options, expected 4")
    question = row["question"].strip()
    seed = {"subject": load.label, "question": question, "answer": answer}
    return choice_task(
        question,
        choices,
        answer,
        subset_for_metrics=CATEGORY.get(load.label),
        subcategory=load.label,
        source=row["source"],
        uuid=uuid_of(seed),
    )


ASK_BOXED = (
    "Answer this multiple choice question with the letter of the right option. End with a line of the form "
    "'Answer: \\boxed{{LETTER}}'.\n\n{problem}"
)

BENCHMARKS = [
    Benchmark(
        name="mmlu",
        title="MMLU: 57 subjects, from the authors' archive",
        domain="knowledge",
        sources=(
            Source(
                "https://people.eecs.berkeley.edu/~hendrycks/data.tar",
                member="data/test/*.csv",
                columns=("question", *LETTERS, "expected_answer"),
            ),
        ),
        convert=from_tar,
        env_id=ENV,
        env_kwargs=BOXED,
        prompt=ASK_BOXED,
        facts=FACTS.format("mmlu"),
    ),
    Benchmark(
        name="mmlu_hub",
        title="MMLU as it is on the hub; the figure is the mean over subjects",
        domain="knowledge",
        sources=(Source("cais/mmlu", config="all", split="test"),),
        convert=from_hub,
        env_id=ENV,
        env_kwargs=BOXED,
        prompt=ASK_BOXED,
        headline="macro:subject",
        facts="benchmarks/table.md, + mmlu",
    ),
    Benchmark(
        name="mmlu_redux",
        title="MMLU-Redux 2.0: MMLU with its errors found, and corrected or left out",
        domain="knowledge",
        sources=tuple(
            Source("edinburgh-dawg/mmlu-redux-2.0", config=subject, split="test") for subject in sorted(CATEGORY)
        ),
        convert=redux,
        env_id=ENV,
        env_kwargs=BOXED,
        prompt=ASK_BOXED,
        facts=FACTS.format("mmlu-redux"),
    ),
]
