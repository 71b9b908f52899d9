"""Proofs: written for people (IMO ProofBench, GradingBench, BrokenArXiv), and for Lean (miniF2F, MOBench, ProofNet)."""

from __future__ import annotations

import re
from typing import Any, TypedDict

from gym_llm.data.recipes.recipe import Benchmark, Source
from gym_llm.types import Row

_FACTS = "NeMo Gym 07d6b0d, benchmarks/{}"
_IMO = "https://raw.githubusercontent.com/google-deepmind/superhuman/c1ee02e03d4cdb2ab21cd01ac927d895f5287fc8/imobench/"
_GOEDEL = (
    "https://raw.githubusercontent.com/Goedel-LM/Goedel-Prover-V2/2e9036e118464aa96a8bebaf9f5b9d091aa3585c/dataset/"
)


def graded_proof(row: dict[str, str]) -> Row:
    """Name the columns; the expected answer is the grade that people gave."""
    columns = {
        "grading_id": "Grading ID",
        "problem_id": "Problem ID",
        "problem_statement": "Problem",
        "reference_solution": "Solution",
        "rubric": "Grading guidelines",
        "proof": "Response",
        "points": "Points",
        "reward": "Reward",
        "source": "Problem Source",
        "expected_answer": "Reward",
    }
    return {name: str(row[column]) for name, column in columns.items()}


def proof_problem(row: dict[str, str]) -> Row:
    """Name the columns."""
    columns = {
        "problem_id": "Problem ID",
        "problem": "Problem",
        "reference_solution": "Solution",
        "rubric": "Grading guidelines",
        "category": "Category",
        "level": "Level",
        "expected_answer": "Short Answer",
        "source": "Source",
    }
    return {name: str(row[column]) for name, column in columns.items()}


class Formal(TypedDict, total=False):
    """A theorem in Lean, and in words."""

    name: str
    split: str
    category: str
    informal_prefix: str
    formal_statement: str
    lean4_code: str
    full_formal_statement: str
    goal: str


def theorem(row: Formal) -> Row | None:
    """Keep the test split; cut the theorem off where its proof has to begin."""
    code = row.get("formal_statement") or row.get("lean4_code") or ""
    comment, start = code.find("/--"), code.find("theorem ")
    ends = start if comment == -1 or (start != -1 and start < comment) else comment
    statement = code[start:] if start != -1 else code
    for sorry, proof in ((" by sorry", " by"), ("by sorry", "by"), ("sorry", "")):
        statement = statement.replace(sorry, proof)
    head, by, _ = statement.rpartition(":= by")
    task: Row = {
        "name": row.get("name", ""),
        "split": row.get("split", row.get("category", "")),
        "informal_prefix": row.get("informal_prefix", ""),
        "formal_statement": f"{head}{by}\n" if by else statement,
        "goal": row.get("goal", ""),
        "header": code[:ends] if ends > 0 else "",
    }
    return task if task["split"] == "test" else None


_HEADER = "import Mathlib\nimport Aesop\n\nset_option maxHeartbeats 0\n\nopen BigOperators Real Nat Topology Rat\n\n"


def olympiad_theorem(row: Formal) -> Row:
    """Keep what stands before the theorem, and cut its proof off."""
    code = row.get("full_formal_statement") or row.get("formal_statement") or ""
    match = re.search(r"(?m)^\s*theorem\s", code)
    before, statement = (code[: match.start()].strip(), code[match.start() :].strip()) if match else ("", code)
    statement = re.sub(r"(?s)(:=\s*by)\s*sorry\s*$", r"\1", statement.strip())
    cut = re.search(r"(?s)^(.*?:=\s*by)\b", statement)
    statement = (cut[1].rstrip() if cut else f"{statement.rstrip()} := by") + "\n"
    return {
        "name": row.get("name", ""),
        "split": row.get("split", "test"),
        "informal_prefix": row.get("informal_prefix", ""),
        "formal_statement": f"{before}\n\n{statement}" if before else statement,
        "goal": "",
        "header": _HEADER,
    }


def of_test_split(row: dict[str, Any]) -> Row | None:
    """Keep the test split unchanged."""
    return dict(row) if row.get("split") == "test" else None


_LEAN = (
    "Complete this Lean 4 code:\n\n```lean4\n{header}{informal_prefix}{formal_statement}  sorry\n```\n\nFirst write "
    "a plan of "
    "the proof: its main steps, and the lemmas between. Then write the whole code in one ```lean4 block."
)


def _formal(name: str, title: str, place: str, convert: Any, rows: int) -> Benchmark:
    return Benchmark(
        name=name,
        title=title,
        domain="formal_math",
        sources=(Source(place),),
        convert=convert,
        prompt=_LEAN,
        repeats=32,
        rows=rows,
        facts=_FACTS.format(name),
        notes="gym_llm has no verifier that runs Lean.",
    )


def false_statement(row: dict[str, str]) -> Row:
    """Keep the false statement and the true one; no answer is expected."""
    return {"question": row["problem"], "original_problem": row["original_problem"]}


_BROKEN = {
    "0426": "1c64bf1ce72ebc997b0a92896a1414a4d010add0",
    "0526": "2761f4553fdc3c49cf9776e740bc8f641a8937aa",
    "0626": "73dd424784fbdeab599557fcba3d77559c89d1ee",
}
BENCHMARKS = [
    *(
        Benchmark(
            name=f"brokenarxiv_{month}",
            title=f"BrokenArXiv {month[:2]}/20{month[2:]}: false statements that the model is asked to prove",
            domain="math",
            sources=(Source(f"MathArena/brokenarxiv-{month}", split="train", revision=revision),),
            convert=false_statement,
            env_id="gym_llm/FalseStatementJudge-v0",
            prompt="Try to prove this statement:\n\n{question}",
            needs=("judge",),
            facts=f"NeMo Gym 0.7.0, benchmarks/brokenarxiv_{month}",
            notes="The wording and the judge's prompt are ours; MathArena's are others.",
        )
        for month, revision in _BROKEN.items()
    ),
    Benchmark(
        name="imo_gradingbench",
        title="IMO GradingBench: grade a proof as people did",
        domain="math",
        sources=(Source(f"{_IMO}gradingbench.csv"),),
        convert=graded_proof,
        env_id="gym_llm/IMOGradingBench-v0",
        prompt="Analyse the proposed solution of this problem, then grade it with one word:\n* incorrect: wrong "
        "or beside the "
        "point\n* partial: right in part, with large errors or gaps\n* almost: right but for small errors\n* "
        "correct: right "
        "and complete\n\nThe last word of your response must be the grade.\n\nProblem: {problem_statement}\n"
        "Solution: {proof}",
        license="Apache 2.0",
        facts=_FACTS.format("imo_gradingbench"),
    ),
    Benchmark(
        name="imo_proofbench",
        title="IMO ProofBench: write a proof, graded by a judge",
        domain="math",
        sources=(Source(f"{_IMO}proofbench.csv"),),
        convert=proof_problem,
        env_id="gym_llm/IMOProofBenchJudge-v0",
        prompt="Solve this mathematics problem with a complete proof. If it has a final answer, put it inside "
        "\\boxed{{}}.\n\n"
        "{problem}",
        license="Apache 2.0",
        needs=("judge",),
        facts=_FACTS.format("imo_proofbench"),
    ),
    _formal("minif2f", "miniF2F: olympiad problems to prove in Lean 4", f"{_GOEDEL}minif2f.jsonl", theorem, 244),
    _formal(
        "mobench", "MOBench: olympiad problems to prove in Lean 4", f"{_GOEDEL}MOBench.jsonl", olympiad_theorem, 360
    ),
    _formal(
        "proofnet",
        "ProofNet: undergraduate theorems to prove in Lean",
        "https://raw.githubusercontent.com/deepseek-ai/DeepSeek-Prover-V1.5/2c4ba9119eef74d0d611f494261b2c5bae98c69a/"
        "datasets/proofnet.jsonl",
        of_test_split,
        186,
    ),
]
