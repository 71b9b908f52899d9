"""MMLU in other languages: OpenAI's translations, MMLU-ProX, Global MMLU, C-Eval and CMMLU."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, TypedDict

from gym_llm.data.benchmarks.mmlu import ASK_BOXED, BOXED, CATEGORY, ENV, FACTS, LETTERS
from gym_llm.data.files.conversion import QUESTION, choice_task, lettered, listed, options, uuid_of
from gym_llm.data.recipes.recipe import Benchmark, Load, Source
from gym_llm.types import Row
from gym_llm.utils.json_codec import loads

_STEM = {"math", "physics", "biology", "chemistry", "computer science", "engineering"}
_SOCIAL = {"economics", "geography", "politics", "psychology", "culture"}
_HUMANITIES = {"philosophy", "history", "law"}


class SimpleEvalsRow(TypedDict):
    """A row of simple-evals' tables."""

    Question: str
    A: str
    B: str
    C: str
    D: str
    Answer: str
    Subject: str


_ANSWERS: list[str] = loads((Path(__file__).parent / "texts" / "simple_evals_answers.json").read_bytes())
"""The words for "Answer:" in 16 languages, as simple-evals has them."""

_LETTER = "([A-D]|[أ-د]|[অ]|[ব]|[ড]|[ঢ]|[Ａ]|[Ｂ]|[Ｃ]|[Ｄ])"
_PATTERNS = [f"(?i){words}[ \t]*{_LETTER}" for words in _ANSWERS]
_PATTERNS.append(f"[\\s\\S]*\\b\\(?\\s*{_LETTER}\\s*\\)?\\.?\\b")
_ASK = (
    "Answer the following multiple choice question. The last line of your response should be of the following format: "
    "'Answer: $LETTER' (without quotes) where LETTER is one of ABCD. Think step by step before answering.\n\n"
)
_LOCALES = [
    "AR-XY",
    "BN-BD",
    "DE-DE",
    "ES-LA",
    "FR-FR",
    "HI-IN",
    "ID-ID",
    "IT-IT",
    "JA-JP",
    "KO-KR",
    "PT-BR",
    "ZH-CN",
    "SW-KE",
    "YO-NG",
]


def simple_evals(row: SimpleEvalsRow, load: Load) -> Row:
    """Ask as simple-evals does, and read the answer by its patterns."""
    answer = str(row["Answer"]).strip().upper()
    choices = {letter: row[letter] for letter in LETTERS}  # type: ignore[literal-required]
    question = f"{_ASK}{row['Question']}\n\n{listed(choices)}"
    category = CATEGORY.get(row["Subject"], "other")
    groups = {"stem": _STEM, "social_sciences": _SOCIAL, "humanities": _HUMANITIES}
    group = next((name for name, members in groups.items() if category in members), "other")
    return {
        "question": question,
        "options": options(choices),
        "expected_answer": answer,
        "template_metadata": {"output_regex": _PATTERNS},
        "subset_for_metrics": load.label,
        "category": group,
        "uuid": uuid_of({"language": load.label, "question": question, "answer": answer}),
    }


_PROX = [
    "af",
    "ar",
    "bn",
    "cs",
    "de",
    "en",
    "es",
    "fr",
    "hi",
    "hu",
    "id",
    "it",
    "ja",
    "ko",
    "mr",
    "ne",
    "pt",
    "ru",
    "sr",
    "sw",
    "te",
    "th",
    "uk",
    "ur",
    "vi",
    "wo",
    "yo",
    "zh",
    "zu",
]
_INSTRUCTIONS = "instructions"


def prox(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """Ask in the language's own words, which lm-evaluation-harness keeps in `lang_libs.py`."""
    words, subjects = _lang_libs(tables[_INSTRUCTIONS][0]["text"])
    for language, rows in tables.items():
        for row in rows if language != _INSTRUCTIONS else ():
            yield _prox_task(row, language, words[language], subjects[language])


def _prox_task(row: Row, language: str, words: list[str], subjects: dict[str, str]) -> Row:
    category = row["category"].replace(" ", "_")
    choices = [row[f"option_{number}"] for number in range(10)]
    by_letter = lettered(choices)
    suffix = words[5]
    description = words[3].format(subject=subjects[category], ans_suffix=suffix.format("X")) + "\n"
    pattern = suffix.replace("({})", "\\(?([ABCDEFGHIJ])\\)?")
    if language == "en":
        pattern = pattern.lstrip("the").strip().replace("\\(", "\\**\\(").replace("\\)?", "\\)?\\**")
    seed = json.dumps({"question": row["question"], "options": choices, "language": language}, sort_keys=True)
    return {
        "question": f"{description}{words[0]}\n{row['question']}\n{words[1]}\n{listed(by_letter, '{}. {}')}\n",
        "options": options(by_letter),
        "expected_answer": row["answer"],
        "template_metadata": {"output_regex": pattern},
        "language": language,
        "category": category,
        "uuid": uuid_of(seed),
    }


def _lang_libs(code: str) -> tuple[dict[str, list[str]], dict[str, dict[str, str]]]:
    """The two dicts of `lang_libs.py`, which is parsed, not run."""
    found: dict[str, Any] = {}
    for node in ast.parse(code).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
    return ast.literal_eval(found["LANG_LIBS"]), ast.literal_eval(found["LANG_SUBJECTS"])


class GlobalRow(TypedDict):
    """A row of Global MMLU."""

    question: str
    option_a: str
    option_b: str
    option_c: str
    option_d: str
    answer: str
    subject: str


def global_mmlu(row: GlobalRow, load: Load) -> Row:
    """Letter the options."""
    choices = [row[f"option_{letter}"] for letter in "abcd"]  # type: ignore[literal-required]
    return choice_task(row["question"], choices, row["answer"], subject=row["subject"], target_language=load.label)


def chinese(row: dict[str, str], load: Load) -> Row:
    """Letter the options; C-Eval and CMMLU spell their columns with small and capital letters."""
    columns = {name.lower(): value for name, value in row.items()}
    choices = [columns[letter] for letter in "abcd"]
    subject = PurePath(row.get("_member", load.label)).stem
    return choice_task(columns["question"], choices, columns["answer"].strip(), subject=subject)


_CEVAL = [
    "accountant",
    "advanced_mathematics",
    "art_studies",
    "basic_medicine",
    "business_administration",
    "chinese_language_and_literature",
    "civil_servant",
    "clinical_medicine",
    "college_chemistry",
    "college_economics",
    "college_physics",
    "college_programming",
    "computer_architecture",
    "computer_network",
    "discrete_mathematics",
    "education_science",
    "electrical_engineer",
    "environmental_impact_assessment_engineer",
    "fire_engineer",
    "high_school_biology",
    "high_school_chemistry",
    "high_school_chinese",
    "high_school_geography",
    "high_school_history",
    "high_school_mathematics",
    "high_school_physics",
    "high_school_politics",
    "ideological_and_moral_cultivation",
    "law",
    "legal_professional",
    "logic",
    "mao_zedong_thought",
    "marxism",
    "metrology_engineer",
    "middle_school_biology",
    "middle_school_chemistry",
    "middle_school_geography",
    "middle_school_history",
    "middle_school_mathematics",
    "middle_school_physics",
    "middle_school_politics",
    "modern_chinese_history",
    "operating_system",
    "physician",
    "plant_protection",
    "probability_and_statistics",
    "professional_tour_guide",
    "sports_science",
    "tax_accountant",
    "teacher_qualification",
    "urban_and_rural_planner",
    "veterinary_medicine",
]
_GLOBAL = ["ar", "bn", "de", "en", "es", "fr", "hi", "id", "it", "ja", "ko", "pt", "sw", "yo", "zh"]
_HARNESS = "https://raw.githubusercontent.com/EleutherAI/lm-evaluation-harness"
_COMMIT = "f4d4b3de3ee6741a7151a9fe74945ee515262f4c"

BENCHMARKS = [
    Benchmark(
        name="mmmlu",
        title="MMMLU: MMLU in 14 languages, translated by people",
        domain="knowledge",
        sources=tuple(
            Source(f"https://openaipublic.blob.core.windows.net/simple-evals/mmlu_{locale}.csv", label=locale)
            for locale in _LOCALES
        ),
        convert=simple_evals,
        env_id=ENV,
        prompt=QUESTION,
        headline="macro:subset_for_metrics",
        facts=FACTS.format("mmmlu"),
    ),
    Benchmark(
        name="mmlu_prox",
        title="MMLU-ProX: MMLU-Pro in 29 languages",
        domain="knowledge",
        sources=(
            Source(f"{_HARNESS}/{_COMMIT}/lm_eval/tasks/mmlu_prox/lang_libs.py", label=_INSTRUCTIONS, shared=True),
            *(Source("li-lab/MMLU-ProX", config=language, split="test", label=language) for language in _PROX),
        ),
        convert=prox,
        joins=True,
        env_id=ENV,
        prompt=QUESTION,
        headline="macro:language",
        facts=FACTS.format("mmlu_prox"),
    ),
    Benchmark(
        name="global_mmlu",
        title="Global MMLU: MMLU in many languages, cultural bias marked",
        domain="knowledge",
        sources=tuple(Source("CohereLabs/Global-MMLU", config=language, split="test") for language in _GLOBAL),
        convert=global_mmlu,
        env_id=ENV,
        env_kwargs=BOXED,
        prompt=ASK_BOXED,
        headline="macro:target_language",
        facts="benchmarks/table.md, + global_mmlu",
    ),
    Benchmark(
        name="c_eval",
        title="C-Eval: 52 Chinese subjects (the validation split, which has answers)",
        domain="knowledge",
        sources=tuple(Source("ceval/ceval-exam", config=subject, split="val", label=subject) for subject in _CEVAL),
        convert=chinese,
        env_id=ENV,
        env_kwargs=BOXED,
        prompt=ASK_BOXED,
        headline="macro:subject",
        facts="benchmarks/table.md, + c_eval",
        aliases=("ceval",),
    ),
    Benchmark(
        name="cmmlu",
        title="CMMLU: 67 Chinese subjects",
        domain="knowledge",
        sources=(Source("haonan-li/cmmlu", files=("cmmlu_v1_0_1.zip",), member="*test/*.csv"),),
        convert=chinese,
        env_id=ENV,
        env_kwargs=BOXED,
        prompt=ASK_BOXED,
        headline="macro:subject",
        facts="benchmarks/table.md, + cmmlu; the file's name by the dataset's page",
    ),
]
