"""Open prompts that a judge compares or grades: Arena-Hard, m-ArenaHard, LMArena, AlpacaEval, HealthBench."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gym_llm.data.files.conversion import QUESTION
from gym_llm.data.recipes.recipe import EVERY, Benchmark, Load, Source
from gym_llm.types import Row

_FACTS = "NeMo Gym 07d6b0d, benchmarks/{}"
_ARENA = "https://raw.githubusercontent.com/lmarena/arena-hard-auto/main/data"
_HEALTH = "https://openaipublic.blob.core.windows.net/simple-evals/healthbench"


def arena_hard(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """Join each question with the baseline's answer; all are of one category."""
    answers = {row["uid"]: _answer(row) for row in tables["baseline"]}
    for row in tables["questions"]:
        kept = {name: value for name, value in row.items() if name not in ("prompt", "category")}
        yield {**kept, "question": row["prompt"], "baseline_answer": answers[row["uid"]]}


def arena_hard_v2(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """Join each question with the answer of its category's baseline."""
    answers = {
        (row["uid"], category): _answer(row)
        for category in ("hard_prompt", "creative_writing")
        for row in tables[category]
    }
    for row in tables["questions"]:
        kept = {name: value for name, value in row.items() if name != "prompt"}
        answer = answers[row["uid"], row["category"]]
        yield {**kept, "question": row["prompt"], "baseline_answer": answer}


def _answer(row: Row) -> str:
    """The text of a model's first message."""
    for message in row["messages"]:
        if message["role"] == "assistant":
            content = message["content"]
            text: str = content["answer"] if isinstance(content, dict) else content
            return text
    raise ValueError("the baseline's row has no message of the assistant")


def multilingual(row: dict[str, Any], load: Load) -> Row:
    """All prompts are hard ones; the dataset's own category is kept beside."""
    return {
        "uid": row["question_id"],
        "question": row["prompt"],
        "language": load.label,
        "category": "hard_prompt",
        "original_category": row["category"],
        "cluster": row["cluster"],
        "subset_for_metrics": load.label,
        "baseline_answer": "",
    }


def multilingual_v2(row: dict[str, Any], load: Load) -> Row:
    """Keep the category, and the subcategory where there is one."""
    subcategory = row.get("subcategory")
    return {
        "uid": row["question_id"],
        "question": row["prompt"],
        "baseline_answer": "",
        "category": row["category"],
        "language": load.label,
        "subset_for_metrics": load.label,
        **({"subcategory": subcategory} if subcategory else {}),
    }


def alpaca(row: dict[str, Any], load: Load) -> Row:
    """The baseline's output is the other answer."""
    return {
        "uid": f"alpaca-{load.number}",
        "question": row["instruction"],
        "baseline_answer": row["output"],
        "category": "creative_writing",
        "dataset_name": row.get("dataset"),
    }


def health(row: dict[str, Any]) -> Row:
    """Take the conversation unchanged, and the physicians' criteria with their points."""
    return {
        "responses_create_params": {"input": row["prompt"]},
        "prompt_id": row["prompt_id"],
        "rubrics": row["rubrics"],
        "tags": row.get("example_tags", []),
    }


def chat(row: dict[str, Any]) -> Row:
    """Keep the row: NVIDIA's file has NeMo Gym's form."""
    return row


def _lmarena(version: int, most: int, **kwargs: Any) -> Benchmark:
    name = f"lmarena_v{version}"
    return Benchmark(
        name=name,
        title=f"LMArena proxy v{version}: chats, compared with another model's answer",
        domain="chat",
        sources=(Source("", files=(f"{name}_validation.jsonl",)),),
        convert=chat,
        env_id="gym_llm/Arena-v0",
        env_kwargs=kwargs,
        sampling={"temperature": 1.0, "top_p": 0.95, "max_output_tokens": most},
        needs=("judge",),
        facts=f"NeMo Gym 0.7.0, benchmarks/{name}",
        notes=f"Download {name}_validation.jsonl: gym-llm data download --from gitlab --name {name} --version 0.0.1 "
        f"--artifact {name}_validation.jsonl --output-dir . Then: gym-llm data convert {name} {name}_validation.jsonl",
    )


_NO_BASELINE = (
    "The dataset has no baseline's answers: generate them, and give them as baseline_answer, before comparing."
)

BENCHMARKS = [
    Benchmark(
        name="arena_hard",
        title="Arena-Hard v0.1: hard prompts against GPT-4-0314's answers",
        domain="chat",
        sources=(
            Source(f"{_ARENA}/arena-hard-v0.1/question.jsonl", label="questions"),
            Source(f"{_ARENA}/arena-hard-v0.1/model_answer/gpt-4-0314.jsonl", label="baseline"),
        ),
        convert=arena_hard,
        joins=True,
        env_id="gym_llm/ArenaJudge-v0",
        prompt=QUESTION,
        license="Apache 2.0",
        needs=("judge",),
        facts=_FACTS.format("arena_hard"),
    ),
    Benchmark(
        name="arena_hard_v2",
        title="Arena-Hard v2: hard prompts and creative writing, each with a baseline of its own",
        domain="chat",
        sources=(
            Source(f"{_ARENA}/arena-hard-v2.0/question.jsonl", label="questions"),
            Source(f"{_ARENA}/arena-hard-v2.0/model_answer/o3-mini-2025-01-31.jsonl", label="hard_prompt"),
            Source(f"{_ARENA}/arena-hard-v2.0/model_answer/gemini-2.0-flash-001.jsonl", label="creative_writing"),
        ),
        convert=arena_hard_v2,
        joins=True,
        env_id="gym_llm/ArenaJudge-v0",
        prompt=QUESTION,
        license="Apache 2.0",
        needs=("judge",),
        facts=_FACTS.format("arena_hard_v2"),
    ),
    Benchmark(
        name="m_arena_hard",
        title="m-ArenaHard: Arena-Hard's prompts in 23 languages",
        domain="chat",
        sources=(Source("CohereLabs/m-ArenaHard", config=EVERY, split="test", label="en"),),
        convert=multilingual,
        env_id="gym_llm/ArenaJudge-v0",
        prompt=QUESTION,
        license="Apache 2.0",
        needs=("judge",),
        facts=_FACTS.format("m_arena_hard"),
        notes=_NO_BASELINE,
    ),
    Benchmark(
        name="m_arena_hard_v2",
        title="m-ArenaHard v2: hard prompts in 23 languages",
        domain="chat",
        sources=(Source("CohereLabs/m-ArenaHard-v2.0", config=EVERY, split="test", label="en"),),
        convert=multilingual_v2,
        env_id="gym_llm/ArenaJudge-v0",
        prompt=QUESTION,
        license="Apache 2.0",
        needs=("judge",),
        facts=_FACTS.format("m_arena_hard_v2"),
        notes=_NO_BASELINE,
    ),
    Benchmark(
        name="alpaca_eval_2",
        title="AlpacaEval 2: instructions against GPT-4 Turbo's answers",
        domain="chat",
        sources=(Source("tatsu-lab/alpaca_eval", files=("alpaca_eval_gpt4_baseline.json",), label="eval"),),
        convert=alpaca,
        env_id="gym_llm/ArenaJudge-v0",
        prompt=QUESTION,
        needs=("judge",),
        facts="benchmarks/table.md, + alpaca_eval_2; the file's name by the dataset's loading script",
        notes="The figure is a plain win rate; AlpacaEval 2 publishes one that is corrected for length.",
    ),
    _lmarena(2, 16384, verdict_weight=3, style_control_method="bradley_terry"),
    _lmarena(3, 32768),
    Benchmark(
        name="healthbench",
        title="HealthBench: conversations about health, graded by physicians' criteria",
        domain="health",
        sources=(Source(f"{_HEALTH}/2025-05-07-06-14-12_oss_eval.jsonl"),),
        convert=health,
        env_id="gym_llm/HealthBench-v0",
        headline="metric:score",
        needs=("judge",),
        facts="benchmarks/table.md, + healthbench; the URL as simple-evals has it",
    ),
    Benchmark(
        name="healthbench_hard",
        title="HealthBench Hard: the conversations that models do badly",
        domain="health",
        sources=(Source(f"{_HEALTH}/hard_2025-05-08-21-00-10.jsonl"),),
        convert=health,
        env_id="gym_llm/HealthBench-v0",
        headline="metric:score",
        needs=("judge",),
        facts="benchmarks/table.md, + healthbench_hard; the URL as simple-evals has it",
    ),
]
