"""Records as statistics see them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from testing import ROOT

from gym_llm.errors import DataError, UsageError
from gym_llm.records.record import check_record
from gym_llm.stats.episode_scores import NO_GROUP, read_scores, score_of

FILE = ROOT / "envs" / "arithmetic" / "data" / "example_rollouts.jsonl"


def record(**fields: Any) -> Any:
    return {
        "rollout_id": {"task_index": 3, "repeat_index": 1}, "env_id": "e", "outcome": "scored", "reward": 0.5,
        "info": {"turn": 2, "tool_errors": 1}, **fields,
    }  # fmt: skip


def test_a_rollout_file_is_read_as_rows() -> None:
    scores = read_scores(FILE)
    assert len(scores) == 5
    first = scores[0]
    assert (first.env_id, first.model, first.task, first.answer) == ("gym_llm/Arithmetic-v0", "pocket", ("", 0), "54")
    segment = json.loads(FILE.read_text().splitlines()[0])["trajectory"][0]
    assert first.sampled_tokens == sum(segment["loss_mask"]) == first.output_tokens
    assert first.log_prob == pytest.approx(sum(segment["logprobs"]))


def test_a_folder_is_its_rollout_files(tmp_path: Path) -> None:
    records = tmp_path / "records"
    records.mkdir()
    for name in ("a.jsonl", "b.jsonl"):
        (records / name).write_bytes(FILE.read_bytes())
    read: list[int] = []
    assert len(read_scores(tmp_path, on_bytes=read.append)) == 10
    assert sum(read) == 2 * FILE.stat().st_size
    with pytest.raises(DataError, match="no rollout files"):
        read_scores(ROOT / "gym_llm")


def test_groups_are_of_the_record_the_task_or_the_info() -> None:
    by = ("level", "meta.source", "a.b", "dataset", "extracted_answer", "nothing")
    info = {"turn": 1, "extracted_answer": 7}
    groups = score_of(
        record(level=3, meta={"source": "web"}, **{"a.b": True}, task_fields={"dataset": "aime"}, info=info), by
    ).groups
    assert groups == {
        "level": "3", "meta.source": "web", "a.b": "true", "dataset": "aime", "extracted_answer": "7",
        "nothing": NO_GROUP,
    }  # fmt: skip


def test_a_field_to_group_by_that_no_record_has_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'expected_answr' to group by. Did you mean expected_answer\?"):
        read_scores(FILE, by=["expected_answr"])


def test_numbers_and_short_texts_of_the_info_are_kept() -> None:
    info = {
        "turn": 1, "right": True, "loss": 0.5, "note": "short", "essay": "x" * 500, "list": [1], "none": None,
        "huge": 10**400, "reward_components": {"format": 1.0, "loss": 9.0},
    }  # fmt: skip
    score = score_of(record(info=info))
    assert score.info == {"format": 1.0, "loss": 0.5, "turn": 1.0, "right": 1.0, "note": "short"}


@pytest.mark.parametrize(
    "trajectory",
    [None, [], [{"input_ids": [1]}], [{"loss_mask": [1], "logprobs": [None]}], [{"loss_mask": [0], "logprobs": [0.0]}]],
)
def test_without_sampled_log_probabilities_there_is_no_sum(trajectory: Any) -> None:
    assert score_of(record(trajectory=trajectory)).log_prob is None


def test_a_masked_record_without_a_response_is_a_row_too() -> None:
    score = score_of(record(outcome="masked", reward=None, failure_kind="kill_shaped"))
    assert (score.reward, score.failure_kind, score.model, score.output_tokens) == (None, "kill_shaped", "", 0)


def test_tokens_that_are_no_numbers_are_refused() -> None:
    usage = {"input_tokens": 1, "output_tokens": ""}
    with pytest.raises(DataError, match="whole numbers in `usage`"):
        check_record({"rollout_id": {"task_index": 0, "repeat_index": 0}, "reward": 1.0, "response": {"usage": usage}})
