"""The choices that users of lm-evaluation-harness expect: ARC, HellaSwag, WinoGrande, PIQA, TruthfulQA, BBH, MuSR.

They are asked as questions with lettered options. The harness compares log-likelihoods of the options' texts, so its
figures differ.
"""

from __future__ import annotations

import ast
from typing import Any, TypedDict

from gym_llm.data.files.conversion import choice_task, shuffled_by, uuid_of
from gym_llm.data.recipes.recipe import EVERY, Benchmark, Load, Source
from gym_llm.types import Row

_ENV = "gym_llm/MultipleChoice-v0"
_ASK = (
    "Answer this multiple choice question with the letter of the right option. End with a line of the form "
    "'Answer: \\boxed{{LETTER}}'.\n\n{problem}"
)
_NOTE = "Asked as a question with lettered options; figures from log-likelihoods differ."


class Labelled(TypedDict):
    """A question; its options have labels, letters or digits."""

    question: str
    choices: dict[str, list[str]]
    answerKey: str


def labelled(row: dict[str, Any]) -> Row:
    """Letter the options, whatever their labels are."""
    question = row.get("question") or row["question_stem"]
    return choice_task(question, row["choices"]["text"], row["choices"]["label"].index(row["answerKey"]))


def endings(row: dict[str, Any]) -> Row:
    """Ask which ending continues the text."""
    question = f"{row['activity_label']}: {row['ctx']}\n\nWhich ending continues this best?"
    return choice_task(question, row["endings"], int(row["label"]))


def blank(row: dict[str, str]) -> Row:
    """Ask what fills the blank."""
    question = f"{row['sentence']}\n\nWhat does _ stand for?"
    return choice_task(question, [row["option1"], row["option2"]], int(row["answer"]) - 1)


def goal(row: dict[str, Any]) -> Row:
    """Ask which way reaches the goal."""
    return choice_task(f"Goal: {row['goal']}\n\nWhich way reaches it?", [row["sol1"], row["sol2"]], int(row["label"]))


def yes_no(row: dict[str, Any]) -> Row:
    """Ask about the passage."""
    return choice_task(f"{row['passage']}\n\nQuestion: {row['question']}?", ["Yes", "No"], 0 if row["answer"] else 1)


def one_true(row: dict[str, Any]) -> Row:
    """Shuffle the options by a seed of the question: the right one stands first upstream."""
    targets = row["mc1_targets"]
    right = targets["choices"][targets["labels"].index(1)]
    choices = shuffled_by(row["question"], targets["choices"])
    return choice_task(row["question"], choices, choices.index(right))


def story(row: dict[str, Any], load: Load) -> Row:
    """Put the story before the question; the dataset keeps the options as the text of a list."""
    choices = row["choices"]
    choices = ast.literal_eval(choices) if isinstance(choices, str) else choices
    question = f"{row['narrative']}\n\n{row['question']}"
    return choice_task(question, choices, int(row["answer_index"]), domain=load.label)


def situation(row: dict[str, Any], load: Load) -> Row:
    """Global PIQA: two ways that a situation may go on, in one of many languages."""
    question, first, second = (row[name].strip() for name in ("prompt", "solution0", "solution1"))
    seed = {
        "language": load.label,
        "prompt": question,
        "solution0": first,
        "solution1": second,
        "label": row["label"],
    }
    return {
        "question": question,
        "problem": question,
        "A": first,
        "B": second,
        "options": [{"A": first}, {"B": second}],
        "expected_answer": "AB"[int(row["label"])],
        "template_metadata": {"output_regex": _PATTERNS},
        "subset_for_metrics": load.label,
        "target_language": load.label,
        "uuid": uuid_of(seed),
    }


_PATTERNS = [
    "(?i)[Tt]he (?:[Bb]est [Aa]nswer|[Ff]inal [Aa]nswer|[Aa]nswer)[^A-B]*([A-B])",
    "(?i)[Aa]nswer\\s*:[^A-B]*([A-B])",
    "(?i)\\\\boxed\\{([A-B])\\}",
    "[\\s\\S]*\\b\\(?\\s*([A-B])\\s*\\)?\\.?\\b",
]
_BBH = [
    "boolean_expressions",
    "causal_judgement",
    "date_understanding",
    "disambiguation_qa",
    "dyck_languages",
    "formal_fallacies",
    "geometric_shapes",
    "hyperbaton",
    "logical_deduction_five_objects",
    "logical_deduction_seven_objects",
    "logical_deduction_three_objects",
    "movie_recommendation",
    "multistep_arithmetic_two",
    "navigate",
    "object_counting",
    "penguins_in_a_table",
    "reasoning_about_colored_objects",
    "ruin_names",
    "salient_translation_error_detection",
    "snarks",
    "sports_understanding",
    "temporal_sequences",
    "tracking_shuffled_objects_five_objects",
    "tracking_shuffled_objects_seven_objects",
    "tracking_shuffled_objects_three_objects",
    "web_of_lies",
    "word_sorting",
]


def hard_task(row: dict[str, str], load: Load) -> Row:
    """Compare the answer as text; letters stand in brackets."""
    return {"question": row["input"], "expected_answer": row["target"], "subset": load.label}


def _choices(name: str, title: str, source: Source, convert: Any, facts: str = "") -> Benchmark:
    return Benchmark(
        name=name,
        title=title,
        domain="knowledge",
        sources=(source,),
        convert=convert,
        env_id=_ENV,
        env_kwargs={"grading_mode": "strict_single_letter_boxed"},
        prompt=_ASK,
        facts=facts or f"benchmarks/table.md, + {name}; columns by the dataset's page",
        notes=_NOTE,
    )


BENCHMARKS = [
    _choices(
        "arc_challenge",
        "ARC Challenge: science questions of school",
        Source("allenai/ai2_arc", "ARC-Challenge", "test"),
        labelled,
    ),
    _choices(
        "arc_easy", "ARC Easy: science questions of school", Source("allenai/ai2_arc", "ARC-Easy", "test"), labelled
    ),
    _choices("hellaswag", "HellaSwag: which ending continues", Source("Rowan/hellaswag", split="validation"), endings),
    _choices(
        "winogrande",
        "WinoGrande: what a word refers to",
        Source("allenai/winogrande", "winogrande_xl", "validation"),
        blank,
    ),
    _choices("piqa", "PIQA: physical common sense", Source("ybisk/piqa", split="validation"), goal),
    _choices("openbookqa", "OpenBookQA: elementary science", Source("allenai/openbookqa", "main", "test"), labelled),
    _choices(
        "commonsense_qa",
        "CommonsenseQA: concepts of every day",
        Source("tau/commonsense_qa", split="validation"),
        labelled,
    ),
    _choices("boolq", "BoolQ: yes or no about a passage", Source("google/boolq", split="validation"), yes_no),
    _choices(
        "truthfulqa_mc1",
        "TruthfulQA, one right option",
        Source("truthfulqa/truthful_qa", "multiple_choice", "validation"),
        one_true,
    ),
    Benchmark(
        name="musr",
        title="MuSR: reasoning in long stories of three kinds",
        domain="reasoning",
        sources=tuple(
            Source("TAUR-Lab/MuSR", split=kind) for kind in ("murder_mysteries", "object_placements", "team_allocation")
        ),
        convert=story,
        env_id=_ENV,
        env_kwargs={"grading_mode": "strict_single_letter_boxed"},
        prompt=_ASK,
        headline="macro:domain",
        facts="benchmarks/table.md, + musr",
        notes=_NOTE,
    ),
    Benchmark(
        name="bbh",
        title="BIG-Bench Hard: 27 tasks",
        domain="reasoning",
        sources=tuple(Source("lukaemon/bbh", config=task, split="test") for task in _BBH),
        convert=hard_task,
        env_id="gym_llm/StringMatch-v0",
        prompt="{question}\n\nThink step by step, then end with a line of the form 'Answer: YOUR ANSWER'. Answer "
        "a choice by "
        "its letter in brackets, for example (A).",
        headline="macro:subset",
        facts="benchmarks/table.md, + bbh; the names of the tasks by the dataset's page",
    ),
    Benchmark(
        name="global_piqa",
        title="Global PIQA: physical common sense in many languages, written anew in each",
        domain="knowledge",
        sources=(Source("mrlbenchmarks/global-piqa-nonparallel", config=EVERY, split="test", label="en"),),
        convert=situation,
        env_id=_ENV,
        prompt="Which way is this situation likelier to go on?\n\nSituation:\n{question}\n\nOption A: "
        "{A}\n\nOption B: {B}\n\nEnd "
        'with "The best answer is: LETTER", where LETTER is A or B.',
        headline="macro:target_language",
        facts="NeMo Gym 07d6b0d, benchmarks/global-piqa",
    ),
]
