"""Reporting bad rows: every kind with its lines, compactly."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from testing import row

from gym_llm import BaseTask, VerifierEnv
from gym_llm.core.registry.classes import env_class
from gym_llm.core.tasks import TaskKind
from gym_llm.data.files.row_faults import Faults
from gym_llm.data.prepare.validation import Chunk, RowChecker, check_row
from gym_llm.errors import BadRow, DataError


class Broken(VerifierEnv):
    class Task(BaseTask):
        def __init__(self, **fields: Any) -> None:
            super().__init__(**fields)
            raise KeyError("surprise")


def test_rows_with_one_fault_are_one_line_of_the_report() -> None:
    faults = Faults("a.jsonl")
    for number in (1, 2, 3, 5, 9, 10):
        faults.add(number, "the line is empty", "")
    faults.add(4, "not JSON", "position 3")
    assert faults.report().splitlines() == [
        "a.jsonl: 7 bad rows",
        "  lines 1-3, 5, 9-10: the line is empty",
        "  line 4: not JSON (position 3)",
    ]


def test_millions_of_bad_rows_make_a_short_report() -> None:
    faults = Faults("a.jsonl")
    for number in range(1, 20001, 2):
        faults.add(number, "the line is empty", "")
    for number in range(2, 1002, 2):
        faults.add(number, f"fault {number}", "")
    report = faults.report()
    assert "10,500 bad rows" in report
    assert "and 9,980 more: the line is empty" in report
    assert report.endswith("and 401 more rows with other faults")
    assert len(report.splitlines()) == 102


def test_a_class_whose_task_fails_on_a_row_refuses_the_row() -> None:
    with pytest.raises(BadRow, match="KeyError"):
        check_row(row(), TaskKind(Broken.Task, list))


def test_environments_that_cannot_check_rows_are_refused() -> None:
    assert env_class("gym_llm/MultipleChoice-v0").Task.model_fields["expected_answer"].is_required()
    for env_id in ("gym_llm/NoSuchEnvironment-v0", "CartPole-v1"):
        with pytest.raises(DataError, match=env_id):
            env_class(env_id)


def test_environments_registered_with_their_class_are_found() -> None:
    gym.register("test/Broken-v0", entry_point=Broken)
    try:
        assert env_class("test/Broken-v0") is Broken
    finally:
        del gym.registry["test/Broken-v0"]


def test_every_wrong_field_of_a_row_is_named() -> None:
    checker = RowChecker(env_class("gym_llm/MultipleChoice-v0"), {}, None, None)
    bad = b'{"responses_create_params": {"input": "?", "temperature": "hot", "tools": 3}}'
    checked = checker(Chunk(7, [bad]))
    ((line, reason, _),) = checked.problems
    assert line == 7
    assert "responses_create_params.temperature" in reason
    assert "responses_create_params.tools" in reason
    assert checked.output == b""
