"""Training rows that repeat a benchmark's words are found and left out; others are not."""

from __future__ import annotations

import json
import time
from pathlib import Path

from gym_llm.cli import main
from gym_llm.data.recipes.overlap import Excluder, compare, index_of

LONG = "A train leaves the old station at noon and travels north for three hours before it meets another train."
ROWS = [
    {"question": LONG.upper().replace(".", " !!")},
    {"question": "A locomotive departs at midday, heading north; three hours later it passes a second one on the way."},
    {"responses_create_params": {"input": [{"role": "user", "content": f"Answer in a word. {LONG}"}]}},
    {"question": "What is 1 + 1?"},
]


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_copy_is_found_and_a_paraphrase_is_not(tmp_path: Path) -> None:
    tasks = write(
        tmp_path / "tasks.jsonl", [{"question": "Something else"}, {"question": LONG}, {"question": "What is 1+1?"}]
    )
    report = compare(str(write(tmp_path / "train.jsonl", ROWS)), index_of([str(tasks)]))
    assert [(hit.row, hit.task) for hit in report.hits] == [(1, 1), (3, 1)], "four words are too few to tell"
    assert report.hits[0].share == 1.0 and 0 < report.hits[1].share < 1
    assert report.rows_with_overlap == 2 and report.by_benchmark() == {str(tasks): (2, 1)}


def test_the_command_and_its_file(tmp_path: Path, capsys: object) -> None:
    tasks = write(tmp_path / "tasks.jsonl", [{"question": LONG}])
    train, hits = write(tmp_path / "train.jsonl", ROWS), tmp_path / "hits.jsonl"
    assert main(["data", "overlap", str(train), str(tasks), "--output", str(hits)]) == 0
    assert "2 of 4 training rows overlap." in capsys.readouterr().out  # type: ignore[attr-defined]
    assert [json.loads(line)["row"] for line in hits.read_text().splitlines()] == [1, 3]


def test_rows_that_overlap_are_left_out(tmp_path: Path, capsys: object) -> None:
    tasks = write(tmp_path / "tasks.jsonl", [{"question": LONG}])
    rows = [{**row, "responses_create_params": {"input": "?"}, "expected_answer": "2"} for row in ROWS]
    write(tmp_path / "train.jsonl", rows)
    config = tmp_path / "config.yaml"
    config.write_text(
        "sums:\n  env: gym_llm/MathVerify-v0\n  datasets:\n"
        "    - {name: a, type: train, license: TBD, jsonl_fpath: train.jsonl}\n"
    )
    out = tmp_path / "out"
    command = ["data", "prepare", "--config", str(config), "--output-dir", str(out), "--mode", "train_preparation"]
    assert main([*command, "--tokenizer", "none", "--exclude-overlap", str(tasks)]) == 0
    said = capsys.readouterr()  # type: ignore[attr-defined]
    assert "1 training rows overlap" in " ".join((said.out + said.err).split())
    assert len((out / "train.jsonl").read_text().splitlines()) == 3


def test_many_rows_take_little_time(tmp_path: Path) -> None:
    index = index_of([str(write(tmp_path / "tasks.jsonl", [{"question": LONG}]))])
    excluder = Excluder(index)
    line = json.dumps(
        {"question": "How many apples are left if Tom eats three of the twelve apples in his basket?"}
    ).encode()
    began = time.process_time()
    assert not any(excluder(number, line) for number in range(20_000))
    assert time.process_time() - began < 10 and excluder.count == 0
