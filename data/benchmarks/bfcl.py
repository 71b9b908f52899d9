"""The Berkeley Function Calling Leaderboard: calls of one turn by our verifier, the rest by its own code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gym_llm.data.recipes.recipe import Benchmark, Source
from gym_llm.types import Row

_CATEGORIES = [
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "live_irrelevance",
    "live_relevance",
]
_ANSWERS = "answers/"
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}


def calls(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """Join each question with its accepted calls, and offer the functions as tools."""
    for category, rows in tables.items():
        if category.startswith(_ANSWERS):
            continue
        truths = {row["id"]: row["ground_truth"] for row in tables.get(_ANSWERS + category, ())}
        for row in rows:
            yield {
                "responses_create_params": {
                    "input": row["question"][0],
                    "tools": [_tool(function) for function in row["function"]],
                },
                "id": row["id"],
                "category": category,
                "functions": row["function"],
                "ground_truth": [] if "relevance" in category else truths[row["id"]],
            }


def _tool(function: Row) -> Row:
    return {
        "type": "function",
        "name": re.sub(r"[^\w-]", "_", function["name"]),
        "description": function.get("description", ""),
        "parameters": _schema(function["parameters"]),
        "strict": False,
    }


def _schema(value: Any) -> Any:
    """A JSON Schema of BFCL's, which has Python's names for types."""
    if isinstance(value, list):
        return [_schema(item) for item in value]
    if not isinstance(value, dict):
        return value
    schema = {name: _schema(item) for name, item in value.items()}
    if isinstance(kind := schema.get("type"), str):
        schema["type"] = _TYPES.get(kind, kind)
    return schema


def of_package(row: Row) -> Row:
    """Name a task, whose data the package bfcl-eval has."""
    category = row["id"].rpartition("_")[0]
    task = {"responses_create_params": {"input": []}, "arguments": {"task": row["id"]}}
    return {**task, "id": row["id"], "category": category}


def _of_package(category: str, title: str) -> Benchmark:
    return Benchmark(
        name=f"bfcl_{category}",
        title=f"BFCL v4: {title}",
        domain="agent",
        sources=(Source(f"{_REPOSITORY}BFCL_v4_{category}.json", label=category),),
        convert=of_package,
        env_id="gym_llm/BFCLEval-v0",
        facts="the files as the package bfcl-eval has them",
        notes="Played by bfcl-eval 2026.3.23 in an environment of its own, which is made on demand.",
        aliases=(f"bfcl_v4_{category}",),
    )


def _bfcl(version: int, simple: str, questions: str, answers: str, facts: str, aliases: tuple[str, ...]) -> Benchmark:
    def source(category: str, pattern: str, label: str) -> Source:
        name = pattern.format(f"BFCL_v{version}_{category}.json")
        if name.startswith("https://"):
            return Source(name, label=label)
        return Source("gorilla-llm/Berkeley-Function-Calling-Leaderboard", files=(name,), label=label)

    names = [simple, *_CATEGORIES]
    return Benchmark(
        name=f"bfcl_v{version}",
        title=f"BFCL v{version}: function calls of one turn",
        domain="agent",
        sources=(
            *(source(name, questions, name) for name in names),
            *(source(name, answers, _ANSWERS + name) for name in names if "relevance" not in name),
        ),
        convert=calls,
        joins=True,
        env_id="gym_llm/BFCL-v0",
        headline="macro:category",
        facts=facts,
        notes="The mean over categories. BFCL's own overall figure is weighted, and has multi-turn and agentic "
        "categories.",
        aliases=aliases,
    )


_REPOSITORY = (
    "https://raw.githubusercontent.com/ShishirPatil/gorilla/main/berkeley-function-call-leaderboard/bfcl_eval/data/"
)
BENCHMARKS = [
    _bfcl(
        3,
        "simple",
        "{}",
        "possible_answer/{}",
        "benchmarks/table.md, + bfcl_v3; the names of the files by the dataset's page",
        (),
    ),
    _bfcl(
        4,
        "simple_python",
        _REPOSITORY + "{}",
        _REPOSITORY + "possible_answer/{}",
        "benchmarks/table.md, + bfcl_v4; the files as the package bfcl-eval has them",
        ("bfcl",),
    ),
    _of_package("multi_turn_base", "conversations with services"),
    _of_package("multi_turn_miss_func", "conversations in which functions come later"),
    _of_package("multi_turn_miss_param", "conversations in which parameters come later"),
    _of_package("multi_turn_long_context", "conversations with long outputs"),
    _of_package("simple_java", "a call of a Java function"),
    _of_package("simple_javascript", "a call of a JavaScript function"),
]
