"""Puzzles of coloured grids: ARC-AGI 1 and 2."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from gym_llm.data.files.conversion import messages
from gym_llm.data.recipes.recipe import Benchmark, Source
from gym_llm.types import Row

_ASK = (
    "One rule turns each input grid into its output grid. Each number is a colour.\n\n{examples}\n\nTest "
    "input:\n{test}\n\n"
    "Find the rule, and give the test output as a list of rows in a box, like this: \\boxed{{[[1,2],[3,4]]}}"
)


def puzzles(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """Make a task of each test input: a puzzle may have several."""
    for row in (row for rows in tables.values() for row in rows):
        name = row.get("id") or PurePath(row["_member"]).stem
        examples = "\n\n".join(
            f"Example {number}\nInput:\n{_grid(each['input'])}\nOutput:\n{_grid(each['output'])}"
            for number, each in enumerate(row["train"], 1)
        )
        for number, test in enumerate(row["test"]):
            yield {
                "responses_create_params": messages(_ASK.format(examples=examples, test=_grid(test["input"]))),
                "train": row["train"],
                "test_input": test["input"],
                "expected_output": test["output"],
                "task_id": f"{name}-{number}",
            }


def _grid(grid: list[list[int]]) -> str:
    return json.dumps(grid, separators=(",", ":")).replace("],[", "],\n[")


def _arc(name: str, title: str, archive: str, facts: str) -> Benchmark:
    fields: dict[str, Any] = {"member": "*/data/evaluation/*.json"}
    return Benchmark(
        name=name,
        title=title,
        domain="reasoning",
        sources=(Source(archive, label="evaluation", **fields),),
        convert=puzzles,
        joins=True,
        env_id="gym_llm/ArcAGI-v0",
        facts=facts,
        notes="One answer for each test input; the official rule allows two.",
    )


BENCHMARKS = [
    _arc(
        "arc_agi_1",
        "ARC-AGI 1, the public evaluation puzzles",
        "https://github.com/fchollet/ARC-AGI/archive/refs/heads/master.zip",
        "the README of fchollet/ARC-AGI",
    ),
    _arc(
        "arc_agi_2",
        "ARC-AGI 2, the public evaluation puzzles",
        "https://github.com/arcprize/ARC-AGI-2/archive/refs/heads/main.zip",
        "the README of arcprize/ARC-AGI-2",
    ),
]
