"""Questions to answer with SQL: BIRD and Spider 2.0-Lite. Their databases are fetched with the tasks."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from math import isfinite
from pathlib import PurePosixPath
from string import ascii_lowercase
from typing import Any

from gym_llm.data.recipes.recipe import Benchmark, Source
from gym_llm.types import Row

_FACTS = "NeMo Gym 07d6b0d, benchmarks/{}"
_BIRD = "https://bird-bench.oss-cn-beijing.aliyuncs.com/dev.zip"
_MORE_INSERTS = re.compile(r"((?:INSERT.*$\n){10})(?:INSERT.*\n)*", re.MULTILINE)
_MORE_VALUES = re.compile(r"VALUES (?:(?:\([^)]*)\)[,;]\s*){10}.*;", re.MULTILINE)


def bird_questions(tables: Mapping[str, Iterable[Row]]) -> Iterator[Row]:
    """Show each question's database as SQL, with ten rows of a table at most."""
    dumps = {PurePosixPath(row["_member"]).stem: _shortened(row["text"]) for row in tables["databases"]}
    for number, row in enumerate(tables["questions"]):
        yield {
            "question": row["question"],
            "gt_sql": row["SQL"],
            "sql_context": dumps[row["db_id"]],
            "difficulty": row["difficulty"],
            "db_id": row["db_id"],
            "id": number,
        }


def _shortened(dump: str) -> str:
    return _MORE_VALUES.sub("...", _MORE_INSERTS.sub(r"\1\n...\n", re.sub(" +", " ", dump)))


_SPIDER = "https://github.com/xlang-ai/Spider2/archive/refs/heads/main.zip"
_SPIDER_DATABASES = (
    "https://drive.usercontent.google.com/download?id=1coEVsCZq-Xvj9p2TnhBFoFTsY-UoYGmG&export=download&authuser=0"
    "&confirm=t"
)
_SQL_EXPERT = (
    "You are a SQL expert. Given a database schema and a natural language question, generate a SQLite query that "
    "answers the question. Return only the SQL query inside a ```sql``` code block."
)


def spider_questions(tables: Mapping[str, Iterable[Row]]) -> Iterator[Row]:
    """Keep the questions about SQLite databases, with the results that the benchmark accepts."""
    rules = {row["instance_id"]: row for row in tables["rules"]}
    schemas = {_plain(PurePosixPath(row["_member"]).parent.name): _schema(row["text"]) for row in tables["schemas"]}
    results = {PurePosixPath(row["_member"]).stem: _cells(row["text"]) for row in tables["results"]}
    queries = {PurePosixPath(row["_member"]).stem: row["text"].strip() for row in tables["queries"]}
    local = [row for row in tables["questions"] if row["instance_id"].startswith("local")]
    for row in sorted(local, key=lambda row: int(re.findall(r"\d+", row["instance_id"])[0])):
        name = row["instance_id"]
        text = (
            f"<DATABASE_SCHEMA>\n{schemas[_plain(row['db'])]}\n</DATABASE_SCHEMA>\n\n<QUESTION>\n{row['question']}\n"
            "</QUESTION>"
        )
        task: Row = {
            "responses_create_params": {
                "input": [{"role": "system", "content": _SQL_EXPERT}, {"role": "user", "content": text}]
            },
            "instance_id": name,
            "db_id": row["db"],
            "question": row["question"],
        }
        if name in queries:
            task["gold_sql"] = queries[name]
        yield task | {
            "gold_result": _accepted(results, name),
            "ignore_order": rules[name]["ignore_order"],
            "condition_cols": rules[name].get("condition_cols", []),
        }


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def _schema(text: str) -> str:
    return "\n\n".join(row["DDL"] for row in csv.DictReader(io.StringIO(text, newline="")))


def _cells(text: str) -> list[list[Any]]:
    return [[_value(cell) for cell in row] for row in list(csv.reader(io.StringIO(text, newline="")))[1:]]


def _value(text: str) -> Any:
    """An integer, a finite number, or the text."""
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        return value if isfinite(value) else text
    return text


def _accepted(results: Mapping[str, list[list[Any]]], name: str) -> list[list[list[Any]]]:
    """The results `NAME_a`, `NAME_b`, …; where there are none, `NAME`."""
    several = (results.get(f"{name}_{letter}") for letter in ascii_lowercase)
    return [rows for rows in takewhile(lambda rows: rows is not None, several) if rows is not None] or [results[name]]


_GOLD = "*/spider2-lite/evaluation_suite/gold/"

BENCHMARKS = [
    Benchmark(
        name="birdbench",
        title="BIRD: questions about large databases, answered with SQL (dev)",
        domain="coding",
        sources=(
            Source(_BIRD, member="*/dev.json", label="questions"),
            Source(_BIRD, member="*/dev_databases.zip!*.sqlite", label="databases"),
        ),
        convert=bird_questions,
        joins=True,
        env_id="gym_llm/BirdSQL-v0",
        attachments={"bird_sql_dir": "databases"},
        system="Think step by step. Then give the query in a ```sql block.",
        prompt="### Question\n{question}\n\nThis SQL dump describes the database and its tables:\n{sql_context}\n\n"
        "Write a SQL query that answers the question. Put it in a ```sql block; the last block counts.\n\n### Answer:",
        repeats=16,
        facts=_FACTS.format("birdbench"),
        notes="The databases take more than a gigabyte.",
        aliases=("bird", "bird_sql"),
    ),
    Benchmark(
        name="spider2_lite",
        title="Spider 2.0-Lite: questions of companies about SQLite databases",
        domain="coding",
        sources=(
            Source(_SPIDER, member="*/spider2-lite/spider2-lite.jsonl", label="questions"),
            Source(_SPIDER, member=f"{_GOLD}spider2lite_eval.jsonl", label="rules"),
            Source(_SPIDER, member="*/spider2-lite/resource/databases/sqlite/*/DDL.csv", label="schemas", text=True),
            Source(_SPIDER, member=f"{_GOLD}exec_result/local*.csv", label="results", text=True),
            Source(_SPIDER, member=f"{_GOLD}sql/local*.sql", label="queries", text=True),
            Source(_SPIDER_DATABASES, files=("sqlite.zip",), member="*.sqlite", label="databases", unread=True),
        ),
        convert=spider_questions,
        joins=True,
        env_id="gym_llm/Spider2Lite-v0",
        attachments={"spider2_lite_dir": "databases"},
        repeats=16,
        rows=135,
        facts=_FACTS.format("spider2_lite") + "; 135 rows by resources_servers/spider2_lite/scripts/prepare_dataset.py",
        notes="BigQuery's and Snowflake's questions are left out, as in NeMo Gym.",
        aliases=("spider2",),
    ),
]
