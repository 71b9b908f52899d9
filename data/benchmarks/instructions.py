"""Following instructions: IFEval, IFBench, XSTest."""

from __future__ import annotations

from typing import Any, TypedDict

from gym_llm.data.files.conversion import messages
from gym_llm.data.recipes.recipe import Benchmark, Load, Source
from gym_llm.types import Row

_FACTS = "NeMo Gym 07d6b0d, benchmarks/{}"


class Instructed(TypedDict):
    """A prompt, and the checks that its answer must pass."""

    prompt: str
    instruction_id_list: list[str]
    kwargs: list[dict[str, Any]]


def ifeval(row: Instructed, load: Load) -> Row:
    """Reward an answer that follows every instruction."""
    return {
        "id": load.number,
        "responses_create_params": {**messages(row["prompt"]), "tools": [], "parallel_tool_calls": False},
        "verifier_metadata": {
            "prompt": row["prompt"],
            "instruction_id_list": row["instruction_id_list"],
            "kwargs": row["kwargs"],
            "grading_mode": "binary",
        },
    }


def ifbench(row: Instructed, load: Load) -> Row:
    """Reward the share of instructions that an answer follows."""
    return {
        "id": load.number,
        "instruction_id_list": row["instruction_id_list"],
        "prompt": row["prompt"],
        "kwargs": row["kwargs"],
        "grading_mode": "fraction",
    }


class Safety(TypedDict):
    """A prompt that only seems unsafe, or is."""

    prompt: str
    label: Any
    type: str


def safety(row: Safety) -> Row:
    """Ask the prompt unchanged."""
    return {
        "responses_create_params": messages(row["prompt"]),
        "verifier_metadata": {"label": row["label"], "type": row["type"]},
    }


BENCHMARKS = [
    Benchmark(
        name="ifeval",
        title="IFEval: instructions whose following a program checks",
        domain="instruction_following",
        sources=(
            Source(
                "https://raw.githubusercontent.com/google-research/google-research/master/instruction_following_eval/"
                "data/input_data.jsonl"
            ),
        ),
        convert=ifeval,
        env_id="gym_llm/InstructionFollowing-v0",
        rows=541,
        license="Apache 2.0",
        facts=_FACTS.format("ifeval"),
        notes="The figure is prompt-level strict: the share of prompts whose instructions are all followed.",
    ),
    Benchmark(
        name="ifbench",
        title="IFBench: instructions that models were not trained on",
        domain="instruction_following",
        sources=(Source("https://raw.githubusercontent.com/allenai/IFBench/refs/heads/main/data/IFBench_test.jsonl"),),
        convert=ifbench,
        env_id="gym_llm/IFBench-v0",
        prompt="{prompt}",
        repeats=5,
        facts=_FACTS.format("ifbench"),
    ),
    Benchmark(
        name="xstest",
        title="XSTest: safe prompts that sound unsafe, and unsafe ones",
        domain="safety",
        sources=(Source("https://raw.githubusercontent.com/paul-rottger/xstest/refs/heads/main/xstest_prompts.csv"),),
        convert=safety,
        env_id="gym_llm/XSTest-v0",
        repeats=4,
        needs=("judge",),
        facts=_FACTS.format("xstest"),
    ),
]
