"""MT-Bench: open questions of two turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gym_llm.data.files.conversion import messages
from gym_llm.data.recipes.recipe import Benchmark, Source
from gym_llm.types import Row

_DATA = "https://raw.githubusercontent.com/lm-sys/FastChat/main/fastchat/llm_judge/data/mt_bench"
_WITH_REFERENCE = ("math", "reasoning", "coding")
_TEMPERATURES = {"writing": 0.7, "roleplay": 0.7, "stem": 0.1, "humanities": 0.1} | dict.fromkeys(
    ("extraction", *_WITH_REFERENCE), 0.0
)


def two_turns(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """Ask at the category's temperature, and add GPT-4's answers where an answer can be right or wrong."""
    references = {row["question_id"]: row["choices"][0]["turns"] for row in tables["references"]}
    for row in tables["questions"]:
        number, category, turns = row["question_id"], row["category"], row["turns"]
        yield {
            "responses_create_params": {**messages(turns[0]), "temperature": _TEMPERATURES[category]},
            "question_id": number,
            "category": category,
            "turns": turns,
            "reference": references[number] if category in _WITH_REFERENCE else None,
        }


BENCHMARKS = [
    Benchmark(
        name="mt_bench",
        title="MT-Bench: open questions of two turns, each answer rated from 1 to 10",
        domain="chat",
        sources=(
            Source(f"{_DATA}/question.jsonl", label="questions"),
            Source(f"{_DATA}/reference_answer/gpt-4.jsonl", label="references", shared=True),
        ),
        convert=two_turns,
        joins=True,
        env_id="gym_llm/MTBench-v0",
        headline="metric:rating",
        is_share=False,
        rows=80,
        license="Apache 2.0",
        needs=("judge",),
        facts="lm-sys/FastChat 0e6d3e4b, fastchat/llm_judge: data/mt_bench, common.py and gen_judgment.py; LICENSE",
        notes="The figure is from 1 to 10. Published figures are GPT-4's ratings; the judge's prompts here are ours.",
    ),
]
