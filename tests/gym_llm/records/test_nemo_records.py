"""Files of NeMo Gym 0.7 are read: with numbers or without, with fields that have our names, and Aviary's lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gym_llm.cli import main
from gym_llm.errors import DataError
from gym_llm.records.record_files import read_records

SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "B", "annotations": []}]}
PARAMS: dict[str, Any] = {"input": [{"role": "user", "content": "?"}]}


def nemo(**fields: Any) -> dict[str, Any]:
    return {"responses_create_params": PARAMS, "response": {"output": [SAID]}, "reward": 1.0, **fields}


def read(path: Path, *rows: dict[str, Any]) -> list[Any]:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [record for _, record in read_records(path)]


def test_records_without_numbers_are_numbered_by_line(tmp_path: Path) -> None:
    records = read(tmp_path / "a.jsonl", nemo(), nemo(reward=0.0), nemo(_ng_task_index=7, _ng_rollout_index=2))
    assert [tuple(record["rollout_id"].values()) for record in records] == [(0, 0), (1, 0), (7, 2)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"task_source": "some_agent"}, {"task_fields": {"task_source": "some_agent"}}),
        ({"info": "a note", "dataset": 3}, {"task_fields": {"info": "a note", "dataset": 3}}),
        ({"response": {"output": [[SAID], [SAID, SAID]]}}, {"response": {"output": [SAID, SAID]}}),
        ({"reward": None}, {"outcome": "masked", "failure_kind": "verifier_error"}),
        (
            {"mask_sample": True, "failure_reason": "down", "task_source": "agent"},
            {"outcome": "masked", "error": "down", "task_fields": {"task_source": "agent"}},
        ),
    ],
)
def test_fields_are_read_as_ours(fields: dict[str, Any], expected: dict[str, Any], tmp_path: Path) -> None:
    (record,) = read(tmp_path / "a.jsonl", nemo(**fields))
    assert {name: record[name] for name in expected} == expected


def test_a_record_without_a_reward_is_masked(tmp_path: Path) -> None:
    row = nemo()
    del row["reward"]
    assert read(tmp_path / "a.jsonl", row)[0]["outcome"] == "masked"


def test_rows_that_are_not_rollouts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 1 is not a rollout"):
        read(tmp_path / "a.jsonl", {"responses_create_params": PARAMS, "expected_answer": "B"})


def test_commands_take_such_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    row = nemo(expected_answer="B", options=[{"A": "x"}, {"B": "y"}], grading_mode="lenient_boxed")
    read(tmp_path / "a.jsonl", row, row)
    assert main(["show", "a.jsonl"]) == 0
    assert main(["reverify", "a.jsonl", "--env", "gym_llm/MultipleChoice-v0", "--output", "b.jsonl"]) == 0
    assert main(["profile", "gym_llm/MultipleChoice-v0", "--rollouts", "a.jsonl"]) == 0
    assert main(["view", "a.jsonl", "--export", "page.html"]) == 0
