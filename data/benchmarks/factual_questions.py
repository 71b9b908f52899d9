"""Questions of fact: SimpleQA, Omniscience, HotpotQA, TriviaQA, Natural Questions, PopQA, HLE, DROP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypedDict

from gym_llm.data.files.conversion import QUESTION
from gym_llm.data.recipes.recipe import Benchmark, Load, Source
from gym_llm.types import Row

_FACTS = "NeMo Gym 07d6b0d, benchmarks/{}"


class Verified(TypedDict):
    """A question of SimpleQA Verified."""

    problem: str
    answer: str


def simple_question(row: dict[str, Any], load: Load) -> Row:
    """Keep the whole row as metadata."""
    name = row.get("original_index", f"simpleqa_{load.number}")
    return {"id": name, "metadata": dict(row), "question": row["problem"], "expected_answer": row["answer"]}


class Omniscience(TypedDict):
    """A question, its topic, and the answer."""

    question_id: Any
    domain: str
    topic: str
    question: str
    answer: str


def omniscience(row: Omniscience) -> Row:
    """Name the columns as `Omniscience` does."""
    fields = {name: row[name] for name in ("domain", "topic", "question")}  # type: ignore[literal-required]
    return {"id": row["question_id"], **fields, "expected_answer": row["answer"]}


class Hotpot(TypedDict):
    """A question that two articles answer together."""

    id: str
    question: str
    answer: str
    type: str
    level: str


def hotpot(row: Hotpot) -> Row:
    """Leave the articles out: the book is closed."""
    fields = {name: row[name] for name in ("type", "level")}  # type: ignore[literal-required]
    return {"id": row["id"], "question": row["question"], "expected_answer": row["answer"], **fields}


class Trivia(TypedDict):
    """A question; the answer has a value and aliases."""

    question_id: str
    question: str
    answer: dict[str, Any]


def trivia(row: Trivia) -> Row:
    """Accept every alias."""
    answer = row["answer"]
    return _aliases(row["question_id"], row["question"], [answer["value"], *answer["aliases"]])


def natural_question(row: dict[str, Any], load: Load) -> Row:
    """Accept every annotated answer."""
    return _aliases(f"nq-{load.number}", row["question"], row["answer"])


def popular(row: dict[str, Any]) -> Row:
    """Accept every possible answer, which the dataset keeps as JSON text."""
    return _aliases(str(row["id"]), row["question"], json.loads(row["possible_answers"]))


def _aliases(name: str, question: str, answers: list[str]) -> Row:
    accepted = list(dict.fromkeys(answer.strip() for answer in answers if answer.strip()))
    return {"id": name, "question": question, "expected_answer": accepted[0], "aliases": accepted[1:]}


class Drop(TypedDict):
    """A passage, a question about it, and the spans that answer it."""

    query_id: str
    passage: str
    question: str
    answers_spans: dict[str, list[str]]


def drop(row: Drop) -> Row:
    """Join the passage and the question; several spans are one answer."""
    spans = list(dict.fromkeys(row["answers_spans"]["spans"]))
    return {
        "id": row["query_id"],
        "passage": row["passage"],
        "question": row["question"],
        "expected_answer": spans[0],
        "aliases": spans[1:],
    }


def last_exam(row: dict[str, Any]) -> Row | None:
    """Leave out the questions with an image."""
    if row.get("image"):
        return None
    answer = {"expected_answer": row["answer"], "answer_type": row["answer_type"]}
    return {"question": row["question"], **answer, "uuid": row["id"]}


_EXAM = (
    "Write your response in this form:\nExplanation: why your answer is right\nAnswer: your answer, in a few words\n"
    "Confidence: how sure you are, from 0% to 100%"
)
_CLASSES = {"Gold subset": "gold", "Revision subset": "revision", "Uncertain subset": "uncertain"}


def verified_exam(row: dict[str, Any]) -> Row | None:
    """Leave out questions with an image, and the uncertain ones."""
    task = _of_exam(row)
    return None if task is None or task["verified_class"] == "uncertain" else task


def _only(verified: str) -> Callable[[dict[str, Any]], Row | None]:
    def convert(row: dict[str, Any]) -> Row | None:
        task = _of_exam(row)
        return task if task is not None and task["verified_class"] == verified else None

    return convert


def _of_exam(row: dict[str, Any]) -> Row | None:
    try:
        packed = json.loads(row.get("json") or "{}")
    except ValueError:
        packed = {}
    image, kind = (row[name] if row.get(name) is not None else packed.get(name) for name in ("image", "answer_type"))
    verified = row.get("Verified_Classes")
    verified = _CLASSES.get(str(verified), verified)
    if image:
        return None
    return {
        "question": row["question"],
        "expected_answer": row["answer"],
        "answer_type": kind,
        "uuid": row["id"],
        "category": row.get("category"),
        "raw_subject": row.get("raw_subject"),
        "verified_class": verified,
    }


_JSON = (
    "{question}\n\nAnswer from your own knowledge. Write one JSON object and nothing else, in the form "
    '{{"answer": "YOUR ANSWER"}}.'
)
_PASSAGE = (
    "Passage: {passage}\n\nQuestion: {question}\n\nAnswer with a few words or a number from the passage. Write one "
    "JSON "
    'object and nothing else, in the form {{"answer": "YOUR ANSWER"}}.'
)


def _with_aliases(
    name: str, title: str, source: Source, convert: Any, prompt: str = _JSON, headline: str = "metric:answer_em"
) -> Benchmark:
    return Benchmark(
        name=name,
        title=title,
        domain="knowledge",
        sources=(source,),
        convert=convert,
        env_id="gym_llm/HotpotQA-v0",
        prompt=prompt,
        headline=headline,
        facts=f"benchmarks/table.md, + {name}; columns by the dataset's page",
    )


BENCHMARKS = [
    Benchmark(
        name="simpleqa",
        title="SimpleQA Verified: short answers of fact, as NeMo Gym reads it",
        domain="knowledge",
        sources=(Source("codelion/SimpleQA-Verified", split="train"),),
        convert=simple_question,
        env_id="gym_llm/SimpleQA-v0",
        prompt=QUESTION,
        headline="f1",
        license="MIT",
        needs=("judge",),
        facts=_FACTS.format("simpleqa"),
        notes="The figure is F1 of correct and attempted answers.",
    ),
    Benchmark(
        name="simpleqa_verified",
        title="SimpleQA Verified: short answers of fact, from its authors",
        domain="knowledge",
        sources=(Source("google/simpleqa-verified", split="eval"),),
        convert=simple_question,
        env_id="gym_llm/SimpleQA-v0",
        prompt=QUESTION,
        headline="f1",
        needs=("judge",),
        facts="benchmarks/table.md, + simpleqa_verified",
        notes="The figure is F1 of correct and attempted answers.",
    ),
    Benchmark(
        name="omniscience",
        title="AA-Omniscience: facts of many fields, with a penalty for guesses",
        domain="knowledge",
        sources=(Source("ArtificialAnalysis/AA-Omniscience-Public", split="train"),),
        convert=omniscience,
        env_id="gym_llm/Omniscience-v0",
        system="You answer questions about {domain}, more exactly {topic}. Write the answer alone, without an "
        "explanation. "
        "If you do not know it, or would need context or tools, say so: that is better than a wrong answer.",
        prompt=QUESTION,
        repeats=8,
        needs=("judge",),
        facts=_FACTS.format("omniscience"),
    ),
    Benchmark(
        name="hotpotqa_closedbook",
        title="HotpotQA without its articles",
        domain="knowledge",
        sources=(Source("hotpotqa/hotpot_qa", config="distractor", split="validation"),),
        convert=hotpot,
        env_id="gym_llm/HotpotQA-v0",
        prompt=_JSON,
        license="CC BY-SA 4.0",
        facts=_FACTS.format("hotpotqa_closedbook"),
    ),
    Benchmark(
        name="hle",
        title="Humanity's Last Exam, the questions without an image",
        domain="knowledge",
        sources=(Source("cais/hle", split="test"),),
        convert=last_exam,
        env_id="gym_llm/EquivalenceLLMJudge-v0",
        env_kwargs={"use_per_record_regex": False},
        system=_EXAM,
        prompt=QUESTION,
        rows=2158,
        gated=True,
        needs=("judge",),
        facts=_FACTS.format("hle"),
        notes="Judged with the prompt of EquivalenceLLMJudge, not with that of the authors.",
    ),
    Benchmark(
        name="hle_verified",
        title="HLE-Verified: Humanity's Last Exam, the checked and the revised questions without an image",
        domain="knowledge",
        sources=(Source("skylenage/HLE-Verified", split="train"),),
        convert=verified_exam,
        env_id="gym_llm/EquivalenceLLMJudge-v0",
        env_kwargs={"use_per_record_regex": False},
        system=_EXAM,
        prompt=QUESTION,
        rows=1600,
        needs=("judge",),
        facts="NeMo Gym 0.7.0, benchmarks/hle_verified",
        notes="Judged with the prompt of EquivalenceLLMJudge, not with that of the authors.",
        variants={subset: {"convert": _only(subset)} for subset in ("gold", "revision", "uncertain")},
    ),
    _with_aliases(
        "trivia_qa",
        "TriviaQA without context",
        Source("mandarjoshi/trivia_qa", config="rc.nocontext", split="validation"),
        trivia,
    ),
    _with_aliases(
        "nq_open",
        "Natural Questions, open",
        Source("google-research-datasets/nq_open", split="validation"),
        natural_question,
    ),
    _with_aliases("popqa", "PopQA: facts about rarer things", Source("akariasai/PopQA", split="test"), popular),
    _with_aliases(
        "drop",
        "DROP: reading, counting and arithmetic over a passage",
        Source("ucinlp/drop", split="validation"),
        drop,
        _PASSAGE,
        "metric:answer_f1",
    ),
]
