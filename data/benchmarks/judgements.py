"""Judging proofs and answers as people did: ProofBench, Proof Arena, answer-judge, RAGTruth."""

from __future__ import annotations

import ast
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gym_llm.data.files.conversion import messages
from gym_llm.data.recipes.recipe import Benchmark, Source
from gym_llm.errors import DataError
from gym_llm.types import Row

_FACTS = "NeMo Gym 07d6b0d, benchmarks/{}"
_NEMO = "https://raw.githubusercontent.com/NVIDIA-NeMo/Gym/07d6b0d07b22fcf530b4c211dae2ee23100428e4/benchmarks/"
_LONG = "NeMo Gym leaves out proofs of more than 10,000 tokens of Qwen3; all are here."
_YES, _NO = "Judgement: Yes", "Judgement: No"
_JUDGE = (
    "Judge whether this proof is right. It is right if it would earn five of seven points or more: small slips may "
    "pass, gaps and unproved steps may not.\n\nEnd with one of these lines:\n<judgement>Judgement: Yes</judgement>\n"
    "<judgement>Judgement: No</judgement>\n\n### Problem\n{problem}\n\n### Proof\n{proof}"
)


def judged_proof(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """A proof with six points or more is right. The order is shuffled with the seed 42."""
    tasks = [
        {
            "problem_id": row["problem_id"],
            "problem": row["problem"].strip(),
            "proof": row["model_solution"].strip(),
            "rubric": row["marking_scheme"],
            "ground_truth_proof": row["reference_solution"],
            "expected_judgement": _YES if row["expert_rating"] >= 6 else _NO,
            "metadata": {
                "model_id": row["generator"],
                "ground_truth_proof": row["reference_solution"],
                "expert_rating": row["expert_rating"],
            },
        }
        for rows in tables.values()
        for row in rows
    ]
    random.Random(42).shuffle(tasks)
    yield from tasks


_TEAMS = ("openai", "gemini")
_CONTESTS = {"usamo": (6, 7), "imo": (6, 7), "imc": (8, 10)}
"""By contest: below the first number of points a proof is wrong, with the second it is right."""


def arena_proof(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """Keep proofs that are clearly right or wrong. The order is shuffled with the seed 42."""
    tasks = [task for team in _TEAMS for task in _gold_medals(team, tables)]
    for contest, (wrong, right) in _CONTESTS.items():
        tasks += [
            {
                "problem": row["problem"].strip(),
                "proof": row["answer"].rpartition("</think>")[2].strip(),
                "expected_judgement": judgement,
                "rubric": _rubric(row["grading_details_judge_1"], "grading_scheme_desc"),
                "subset_for_metrics": "proofs",
                "metadata": {
                    "source": contest,
                    "problem_idx": row["problem_idx"],
                    **{name: row[name] for name in _details(contest)},
                    "model_id": row["model_name"],
                },
            }
            for row in tables.get(contest, ())
            if (judgement := _judgement(_points(row, contest), wrong, right))
        ]
    random.Random(42).shuffle(tasks)
    yield from tasks


def _details(contest: str) -> tuple[str, ...]:
    """IMC's proofs were graded once."""
    return ("grading_details_judge_1", "grading_details_judge_2")[: 1 if contest == "imc" else 2]


def _points(row: Row, contest: str) -> tuple[float, float]:
    first = row["points_judge_1"]
    second = None if contest == "imc" else row["points_judge_2"]
    return first, first if second is None else second


def _judgement(points: tuple[float, float], wrong: float, right: float) -> str | None:
    if max(points) < wrong:
        return _NO
    return _YES if points == (right, right) else None


def _gold_medals(team: str, tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """The proofs of IMO 2025's first five problems that earned a gold medal."""
    texts = [row["text"] for number in range(1, 6) for row in tables.get(f"{team}/{number}", ())]
    for number, (text, problem) in enumerate(zip(texts, tables.get("problems", ()), strict=False), 1):
        if int(problem["problem_idx"]) != number:
            raise ValueError(f"problem {number} is {problem['problem_idx']!r}")
        yield {
            "problem": problem["problem"].strip(),
            "proof": text.strip(),
            "rubric": _rubric(problem["grading_scheme"], "desc"),
            "expected_judgement": _YES,
            "subset_for_metrics": "proofs",
            "metadata": {"source": f"{team}_imo", "problem_idx": number, "model_id": f"{team}_imo"},
        }


def _rubric(scheme: Sequence[Mapping[str, Any]], column: str) -> str:
    return "\n".join(f"- {part[column]}" for part in scheme)


def judged_answer(tables: Mapping[str, Iterable[Row]]) -> Iterator[Row]:
    """Read the list `ROWS` of NeMo Gym's preparation script; nothing in it is executed."""
    for row in (row for rows in tables.values() for row in rows):
        if "text" not in row:
            yield dict(row)
            continue
        for statement in ast.parse(row["text"]).body:
            match statement:
                case ast.Assign(targets=[ast.Name(id="ROWS")], value=value):
                    yield from ast.literal_eval(value)
                    return
        raise DataError("answer_judge: the script has no list ROWS.")


_SPANS = (
    "\n\nFind what in the answer is not supported. It is either a conflict, which contradicts the source, or baseless, "
    "which the source neither says nor implies. Answer with a JSON object that lists these spans of the answer, word "
    'for word: {"hallucination list": ["span", "another span"]}. If there is none: {"hallucination list": []}'
)
_SLICES = ("QA", "Summary", "Data2txt")


def annotated(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """Join the good answers of the test split with their sources; the three kinds follow one another."""
    sources = {row["source_id"]: row for row in tables["sources"]}
    good = [row for row in tables["answers"] if row.get("split") == "test" and row.get("quality") == "good"]
    for kind in _SLICES:
        for row in good:
            source = sources.get(row.get("source_id"), {})
            if source.get("task_type") == kind:
                prompt = _evidence(kind, source.get("source_info")) + f"\n\nAnswer:\n{row.get('response', '')}{_SPANS}"
                yield {
                    "responses_create_params": messages(prompt),
                    "task_type": kind,
                    "is_halu": bool(row.get("labels")),
                }


def _evidence(kind: str, info: Any) -> str:
    if kind == "QA":
        return f"Question:\n{info.get('question', '')}\n\nSource, passages:\n{info.get('passages', '')}"
    if kind == "Summary":
        return f"Source, news that the answer sums up:\n{info if isinstance(info, str) else json.dumps(info)}"
    return f"Source, data that the answer describes:\n{info}"


_RAGTRUTH = "https://raw.githubusercontent.com/ParticleMedia/RAGTruth/c103204b9ce28d6bbad859304bf30de72b8ed8fe/dataset/"
BENCHMARKS = [
    Benchmark(
        name="ragtruth",
        title="RAGTruth: find what an answer has that its source does not",
        domain="knowledge",
        sources=(
            Source(f"{_RAGTRUTH}response.jsonl", label="answers"),
            Source(f"{_RAGTRUTH}source_info.jsonl", label="sources", shared=True),
        ),
        convert=annotated,
        joins=True,
        env_id="gym_llm/RAGTruth-v0",
        license="MIT",
        facts="NeMo Gym 0.7.0, benchmarks/ragtruth",
        notes="The prompt's wording is ours; the authors' baseline/prepare_dataset.py has theirs.",
    ),
    Benchmark(
        name="proof_bench_judge",
        title="ProofBench: judge a model's proof as experts did",
        domain="math",
        sources=(Source("wenjiema02/ProofBench", split="train"),),
        convert=judged_proof,
        joins=True,
        env_id="gym_llm/MathProofJudgement-v0",
        prompt=_JUDGE,
        license="Apache 2.0",
        facts=_FACTS.format("proof_bench_judge"),
        notes=_LONG,
    ),
    Benchmark(
        name="proof_arena_judge",
        title="Proof Arena: judge proofs of IMO, USAMO and IMC 2025 as MathArena's graders did",
        domain="math",
        sources=(
            Source("MathArena/usamo_2025_outputs", split="train", revision="0fafbf629a32", label="usamo"),
            Source("MathArena/imo_2025_outputs", split="train", revision="d995fc906b58", label="imo"),
            Source("MathArena/imc_2025_outputs", split="train", revision="d4f93c209272", label="imc"),
            Source("MathArena/imo_2025", split="train", label="problems"),
            *(
                Source(
                    f"https://raw.githubusercontent.com/aw31/openai-imo-2025-proofs/main/problem_{number}.txt",
                    label=f"openai/{number}",
                )
                for number in range(1, 6)
            ),
            *(
                Source(f"{_NEMO}proof-arena-judge/gemini_imo_2025/{number}.txt", label=f"gemini/{number}")
                for number in range(1, 6)
            ),
        ),
        convert=arena_proof,
        joins=True,
        env_id="gym_llm/MathProofJudgement-v0",
        prompt=_JUDGE,
        facts=_FACTS.format("proof-arena-judge"),
        notes=_LONG,
    ),
    Benchmark(
        name="answer_judge",
        title="Answer judge: judge whether two answers to a problem are the same",
        domain="math",
        sources=(Source(f"{_NEMO}answer-judge/prepare.py"),),
        convert=judged_answer,
        joins=True,
        env_id="gym_llm/MathProofJudgement-v0",
        prompt="Two answers to a mathematics problem are given, a predicted and an expected one. Judge whether they "
        "are the same answer to this problem. Make trivial simplifications only.\n\nAnswer in this form:\nReasoning: a "
        "sentence or two\nJudgement: Yes or No\n\nProblem: {problem}\nPredicted answer: {predicted_answer}\nExpected "
        "answer: {expected_answer}",
        rows=12,
        license="Apache 2.0",
        facts=_FACTS.format("answer-judge") + ", whose script has the rows",
    ),
]
