from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pydantic
import pytest
from testing import row

from gym_llm import collect
from gym_llm.core.tasks import BaseTask, GeneratedTasks, PreparedTask, RowTasks, TaskKind
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.errors import DataError


class Owner(VerifierEnv):
    """Has a task schema."""

    class Task(BaseTask):
        answer: str
        options: list[dict[str, str | None]] = []


KIND = TaskKind(Owner.Task, Owner.tool_schemas)


def prepare(given: Any) -> PreparedTask:
    return KIND.prepare(given)


def test_a_task_has_the_rows_fields_and_keeps_the_unknown_ones() -> None:
    task = prepare(row(answer="B", options=[{"A": "x", "B": None}], source={"a": [1]})).task
    assert (task.answer, task.options, task.source) == ("B", [{"A": "x", "B": None}], {"a": [1]})


def test_a_task_is_frozen() -> None:
    task = prepare(row(answer="B")).task
    with pytest.raises(pydantic.ValidationError):
        task.answer = "C"


def test_row_fields_named_like_pydantics_methods_do_no_harm() -> None:
    prepared = prepare(row(answer="B", copy="x", json="y", model_config={}, model_fields=3))
    assert prepared.task.answer == "B"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("temprature", r"responses_create_params\.temprature: .* Did you mean temperature\? .*`extra_body`"),
        ("max_tokens", r"Did you mean max_output_tokens\?"),
        ("n", "unknown parameter"),
    ],
)
def test_a_parameter_that_does_not_exist_is_refused_with_the_nearest_name(name: str, words: str) -> None:
    given = row(answer="B")
    given["responses_create_params"][name] = 1
    with pytest.raises(DataError, match=words):
        prepare(given)


def test_a_context_that_a_server_manages_is_refused_by_name_and_null_is_none() -> None:
    given = row(answer="B")
    given["responses_create_params"] |= {"context_management": None, "moderation": None}
    assert not prepare(given).request.get("context_management")
    given["responses_create_params"]["context_management"] = [{"type": "compaction"}]
    with pytest.raises(DataError, match="context_management must be null: `--compact native`"):
        prepare(given)


def test_parameters_of_openais_and_of_vllms_are_passed_on_and_whole_numbers_are_such() -> None:
    given = row(answer="B")
    params = {"stop": ["!"], "seed": 3.0, "store": False, "max_output_tokens": 5.0, "temperature": 1.0, "top_k": 2.5}
    given["responses_create_params"].update(params)
    request: dict[str, Any] = dict(prepare(given).request)
    assert {name: request[name] for name in params} == {**params, "seed": 3, "max_output_tokens": 5}
    assert isinstance(request["max_output_tokens"], int) and isinstance(request["seed"], int)
    assert isinstance(given["responses_create_params"]["max_output_tokens"], float)


def test_preparing_leaves_the_row_alone() -> None:
    given = row(answer="B")
    given["responses_create_params"]["input"] = "text"
    before = json.dumps(given)
    prepared = prepare(given)
    assert json.dumps(given) == before and prepared.row is given and isinstance(prepared.request["input"], list)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"level": 1, "Question": "2+2?", "Answer": "4"}, "--map 'Question=input, Answer=answer'"),
        ({"the problem": "2+2?", "n": 4}, "columns are the problem, n. Try --map 'the problem=input, COLUMN=answer'"),
        ({"n": 4, "answer": "B"}, "--map 'n=input'"),
    ],
)
def test_columns_without_a_request_are_named_once_with_a_mapping(given: Any, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        RowTasks.from_rows([given] * 3, KIND)
    assert str(caught.value).count("no `responses_create_params`") == 1


@pytest.mark.parametrize(
    "given, words",
    [
        (3, "JSON object, got int"),
        ({}, "no `responses_create_params`"),
        ({"responses_create_params": 3, "answer": "B"}, "responses_create_params"),
        ({"responses_create_params": {}, "answer": "B"}, r"responses_create_params\.input"),
        ({"responses_create_params": {"input": 3}, "answer": "B"}, r"responses_create_params\.input"),
        ({"responses_create_params": {"input": [{"role": "robot", "content": ""}]}, "answer": "B"}, "role"),
        ({"responses_create_params": {"input": "x", "tools": 3}, "answer": "B"}, "tools"),
        (row(), "answer: Field required"),
        (row(answer=3), "answer"),
        (row(answer="B", options=[{"A": 3}]), r"options\.0"),
    ],
)
def test_a_wrong_row_names_the_field(given: Any, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        prepare(given)
    assert "\n" not in str(caught.value)


def test_every_wrong_row_is_counted_and_the_first_are_named() -> None:
    with pytest.raises(DataError, match=r"Row 1: answer.* \| Row 2: .*string \(and 6 more rows\)"):
        RowTasks.from_rows([row(answer="x"), row(), row(answer=3), *[row() for _ in range(6)]], KIND)


def test_a_wrong_line_of_a_file_is_named_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps(row(answer="x")) + "\n\n" + json.dumps(row()) + "\n")
    with pytest.raises(DataError, match=r"tasks\.jsonl, line 3: answer"):
        RowTasks.from_file(str(file), KIND)
    file.write_text("{\n")
    with pytest.raises(DataError, match="line 1: not JSON"):
        RowTasks.from_file(str(file), KIND)
    file.write_text("\n")
    with pytest.raises(DataError, match="no tasks"):
        RowTasks.from_file(str(file), KIND)
    with pytest.raises(DataError, match="Cannot read"):
        RowTasks.from_file(str(tmp_path), KIND)


def test_a_file_means_the_same_tasks_to_different_classes_only_if_they_fit(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps(row()) + "\n")
    assert RowTasks.from_file(str(file), TaskKind(BaseTask, VerifierEnv.tool_schemas)).size == 1
    with pytest.raises(DataError):
        RowTasks.from_file(str(file), KIND)


class Ignores(VerifierEnv):
    """Draws from elsewhere."""

    draw: Any = staticmethod(random.random)

    def generate(self, rng: np.random.Generator) -> Any:
        return self.row(f"What is {self.draw()}?")

    def verify(self, task: Any, episode: Any) -> float:
        return 0.0


class Obeys(Ignores):
    def generate(self, rng: np.random.Generator) -> Any:
        return self.row("Hm?", size=float("nan"), grid=rng.integers(2, size=3))


gym.register("test/Ignores-v0", Ignores)
gym.register("test/Obeys-v0", Obeys)


def test_a_generator_that_ignores_its_seed_is_refused() -> None:
    with pytest.raises(DataError, match=r"Ignores\.generate makes other rows from equal seeds"):
        Ignores().reset(seed=0)
    with pytest.raises(DataError, match="equal seeds"):
        collect("test/Ignores-v0", "random", repeats=4)


def test_so_is_one_that_ignores_it_now_and_then() -> None:
    numbers = itertools.count()
    tasks = GeneratedTasks(lambda rng: row(f"What is {next(numbers) // 9}?"), KIND._replace(schema=BaseTask))
    assert tasks[0]
    with pytest.raises(DataError, match="equal seeds"):
        tasks.check(1)


def test_rows_with_arrays_and_nan_are_compared_too() -> None:
    assert len(collect("test/Obeys-v0", "random", limit=3)) == 3
