"""Questions for a search on the web: DeepSearchQA and WideSearch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gym_llm.data.files.conversion import messages
from gym_llm.data.recipes.recipe import Benchmark, Load, Source
from gym_llm.types import Row

_FACTS = "NeMo Gym 0.7.0, benchmarks/{}"
_PLACE = "ByteDance-Seed/WideSearch"
_IDS = tuple(f"ws_{language}_{number:03}" for language in ("en", "zh") for number in range(1, 101))
_TOOLS = "Play it as an agent with a tool for searches, such as `--agent codex`: the model alone searches nothing."


def deep_question(row: dict[str, Any], load: Load) -> Row:
    """Number the questions, and ask each unchanged."""
    return {**row, "example_id": str(load.number), "responses_create_params": messages(row["problem"])}


def wide_question(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """Join each question with its table; a cell that a line lacks is None."""
    for row in tables["questions"]:
        table = tables[row["instance_id"]]
        columns = list(dict.fromkeys(name for line in table for name in line))
        yield {
            **row,
            "evaluation": json.loads(row["evaluation"]),
            "gold_answer": [{name: line.get(name) for name in columns} for line in table],
            "responses_create_params": messages(row["query"]),
        }


BENCHMARKS = [
    Benchmark(
        name="deepsearchqa",
        title="DeepSearchQA: questions for a search, with one answer or a set",
        domain="knowledge",
        sources=(Source("google/deepsearchqa", files=("DSQA-full.csv",)),),
        convert=deep_question,
        env_id="gym_llm/DeepSearchQA-v0",
        needs=("judge", "search"),
        facts=_FACTS.format("deepsearchqa"),
        notes=_TOOLS,
    ),
    Benchmark(
        name="widesearch",
        title="WideSearch: tables to be filled by searches, in English and Chinese",
        domain="knowledge",
        sources=(
            Source(_PLACE, files=("widesearch.jsonl",), label="questions"),
            *(Source(_PLACE, files=(f"widesearch_gold/{name}.csv",), label=name, ragged=True) for name in _IDS),
        ),
        convert=wide_question,
        joins=True,
        env_id="gym_llm/WideSearch-v0",
        license="MIT",
        needs=("judge", "search"),
        facts=_FACTS.format("widesearch"),
        notes=_TOOLS,
    ),
]
