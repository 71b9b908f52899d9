"""Following instructions: IFEval, IFBench, AgentIF, RoleMRC; and safely: XSTest, Aegis v4."""

from __future__ import annotations

from typing import Any, TypedDict

from gym_llm.data.files.conversion import messages
from gym_llm.data.recipes.recipe import Benchmark, Load, Source
from gym_llm.types import Row

_FACTS = "NeMo Gym 07d6b0d, benchmarks/{}"
_NEWER = "NeMo Gym 0.7.0, benchmarks/{}"


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


def agent_prompt(row: dict[str, Any]) -> Row:
    """Keep the conversation and the constraints, without the scores of another model's answers."""
    constraints = [{name: part for name, part in each.items() if name != "score"} for each in row["constraints"]]
    kept = ("query_id", "turn_id", "domain", "agent_name", "prompt_type")
    return {
        "responses_create_params": {"input": row["input"]},
        "verifier_metadata": {**{name: row.get(name) for name in kept}, "constraints": constraints},
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


_DIMENSIONS = {
    "2ndrefused": "multi_turn",
    "2ndanswer": "multi_turn",
    "special-content": "nested_instruction",
    "special-format": "nested_instruction",
    "refused": "instruction_priority",
}
"""By what a task's name has behind its first hyphen."""


def role_played(row: dict[str, Any]) -> Row:
    """Keep the conversation and the reference; releases of the dataset name them differently."""
    task = row.get("task", "")
    turns = _first_of(row, "question", "conversations", "prompt", "messages")
    said = [
        {"role": str(turn.get("role", "user")).lower(), "content": str(turn.get("content", ""))}
        for turn in (turns if isinstance(turns, list) else [])
    ]
    return {
        "responses_create_params": {"input": said},
        "reference": str(_first_of(row, "reference", "chosen", "answer", "target") or ""),
        "task": task,
        "dimension": _DIMENSIONS.get(task.partition("-")[2], "on_scene_dialogue"),
    }


def _first_of(row: dict[str, Any], *names: str) -> Any:
    return next((row[name] for name in names if row.get(name) not in (None, "", [])), None)


def request(row: dict[str, Any]) -> Row:
    """Ask the request, with room for a long answer."""
    return {
        "sample_id": row["sample_id"],
        "dataset_name": "aegis_v4_safety",
        "prompt": row["prompt"],
        "responses_create_params": {"max_output_tokens": 131_072},
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
        name="agentif",
        title="AgentIF: prompts of agents with many constraints, all to be followed",
        domain="instruction_following",
        sources=(Source("THU-KEG/AgentIF", files=("eval.json",)),),
        convert=agent_prompt,
        env_id="gym_llm/AgentIF-v0",
        rows=707,
        license="Creative Commons Attribution 4.0 International",
        needs=("judge", "sandbox"),
        facts=_NEWER.format("agentif"),
        notes="The figure is ISR: all constraints that apply are followed. CSR is `csr`, a mean over prompts.",
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
    Benchmark(
        name="rolemrc",
        title="RoleMRC: staying in a role, compared with a reference answer",
        domain="chat",
        sources=(Source("Junrulu/RoleMRC", files=("roleMRC_test.jsonl",)),),
        convert=role_played,
        env_id="gym_llm/RoleMRC-v0",
        rows=1400,
        license="Creative Commons Attribution 4.0 International",
        facts=_NEWER.format("rolemrc"),
        notes="The figure is ROUGE-L. NeMo Gym's second mode, five judged aspects, is not here.",
    ),
    Benchmark(
        name="aegis_v4_safety",
        title="Aegis v4: five requests that try a safety classifier",
        domain="safety",
        sources=(
            Source(
                "https://raw.githubusercontent.com/NVIDIA-NeMo/Gym/main/benchmarks/aegis_v4_safety/data/source.jsonl"
            ),
        ),
        convert=request,
        env_id="gym_llm/AegisV4Safety-v0",
        prompt="{prompt}",
        rows=5,
        license="Apache 2.0",
        needs=("judge",),
        facts=_NEWER.format("aegis_v4_safety"),
        notes="The judge is the classifier: NVIDIA's Nemotron 3 Content Safety, or a model that answers as it does.",
    ),
]
