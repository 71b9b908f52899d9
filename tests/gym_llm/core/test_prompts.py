"""Rows without `input`, and the prompts that make it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import gymnasium as gym
import pytest

from gym_llm import VerifierEnv
from gym_llm.cli import main
from gym_llm.core.prompts import read_row_prompt
from gym_llm.errors import DataError
from gym_llm.evaluation.reverify.reverify import reverify

CHOICE = "gym_llm/MultipleChoice-v0"
OPTIONS = [{"A": "one"}, {"B": "two"}]
ROW = {"question": "1 + 1 = {x}?", "options": OPTIONS, "expected_answer": "B", "level": {"name": "easy"}}
MESSAGES = [{"role": "system", "content": "Be easy."}, {"role": "user", "content": "1 + 1 = {x}? {B}"}]
B = r"constant:\boxed{B}"


@pytest.fixture(autouse=True)
def prompt(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("prompt.yaml", "system: 'Be {level[name]}.'\nuser: '{question} {{B}}'\n")
    write("rows.jsonl", json.dumps(ROW) + "\n" + json.dumps(ROW | {"expected_answer": "A"}) + "\n")


def write(name: str, text: str) -> str:
    Path(name).write_text(text, "utf-8")
    return name


def make(**kwargs) -> VerifierEnv:
    return gym.make(CHOICE, prompt_config="prompt.yaml", **kwargs).unwrapped


def records(name: str) -> list[dict]:
    return [json.loads(line) for line in Path(name).read_text("utf-8").splitlines()]


def test_a_rows_fields_fill_the_prompt_and_its_other_parameters_stay():
    task = ROW | {"responses_create_params": {"temperature": 0.5}}
    request, _ = make(tasks=[task]).reset()
    assert (request["input"], request["temperature"]) == (MESSAGES, 0.5)
    assert task["responses_create_params"] == {"temperature": 0.5}  # the row given is left alone
    request, _ = make(tasks="rows.jsonl").reset(options={"task_index": 1})
    assert request["input"] == MESSAGES
    request, _ = make().reset(options={"task": ROW})
    assert request["input"] == MESSAGES


def test_a_row_with_input_of_its_own_and_a_prompt_is_an_error():
    with pytest.raises(DataError, match=r"Row 1: the row has `input`, and prompt.yaml is a prompt to make one"):
        make(tasks=[ROW, ROW | {"responses_create_params": {"input": "2?"}}])
    empty = ROW | {"responses_create_params": {"input": []}}
    assert make(tasks=[empty]).reset()[0]["input"] == MESSAGES


def test_what_the_prompt_has_made_already_stays_as_it_is():
    filled = read_row_prompt("prompt.yaml").fill(ROW)
    assert read_row_prompt("prompt.yaml").fill(filled) is filled
    assert make(tasks=[filled]).reset()[0]["input"] == MESSAGES


def test_an_environments_own_examples_need_no_prompt():
    assert make().tasks[0].request["input"] == gym.make(CHOICE).unwrapped.tasks[0].request["input"]


def test_a_field_that_the_row_lacks_is_named():
    lacking = {name: value for name, value in ROW.items() if name != "question"}
    with pytest.raises(DataError) as caught:
        make(tasks=[ROW, lacking])
    said = (
        "Row 1: the prompt prompt.yaml needs 'question', which the row has not; it has options, expected_answer, level"
    )
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("system: x", "The prompt bad.yaml has to have a text `user`, and may have a text `system`."),
        ("- a", "has to have a text `user`"),
        ("user: 3", "has to have a text `user`"),
        ("user: x\nsystem: [1]", "The prompt bad.yaml: `system` is a text, got list."),
        ("user: {", "Cannot read the prompt bad.yaml"),
        ("user: '{question'", "the prompt bad.yaml cannot be filled from the row: expected '}'"),
        ("user: '{} ?'", "the prompt bad.yaml cannot be filled from the row"),
        ("user: '{question.nothing}'", "the prompt bad.yaml cannot be filled from the row"),
        ("user: '{question:d}'", "the prompt bad.yaml cannot be filled from the row"),
    ],
)
def test_a_prompt_that_is_none_is_said(text, said):
    write("bad.yaml", text)
    with pytest.raises(DataError) as caught:
        gym.make(CHOICE, prompt_config="bad.yaml", tasks="rows.jsonl")
    assert said in str(caught.value)


def test_a_prompt_that_is_not_there_is_said():
    with pytest.raises(DataError, match=r"Cannot read the prompt no.yaml: No such file"):
        gym.make(CHOICE, prompt_config="no.yaml")


def test_a_changed_prompt_is_read_again():
    assert make(tasks=[ROW]).reset()[0]["input"] == MESSAGES
    write("prompt.yaml", "user: 'New: {question}'\n")
    os.utime("prompt.yaml", ns=(1, 1))
    assert make(tasks=[ROW]).reset()[0]["input"] == [{"role": "user", "content": "New: 1 + 1 = {x}?"}]


def test_records_hold_the_filled_input_and_are_resumed_and_scored_again(capsys):
    kwargs = {"prompt_config": "prompt.yaml"}
    argv = ["rollout", CHOICE, "--engine", B, "--tasks", "rows.jsonl", "--output", "a.jsonl"]
    argv += ["--env-kwargs", json.dumps(kwargs)]
    assert main(argv) == 0
    assert [record["reward"] for record in records("a.jsonl")] == [1.0, 0.0]
    assert [record["responses_create_params"]["input"] for record in records("a.jsonl")] == [MESSAGES] * 2
    report = reverify("a.jsonl", CHOICE, env_kwargs=kwargs)
    assert (report.summary.episodes, sum(report.counts().values())) == (2, 0)
    argv.append("--resume")
    Path("a.jsonl").write_text(Path("a.jsonl").read_text().splitlines()[0] + "\n")
    assert main(argv) == 0
    assert len(records("a.jsonl")) == 2
    write("prompt.yaml", "user: 'New: {question}'\n")
    Path("a.jsonl").write_text(Path("a.jsonl").read_text().splitlines()[0] + "\n")
    assert main(argv) == 2
    assert "prompt_sha256 was" in capsys.readouterr().err


CONFIG = """
letters:
  env: gym_llm/MultipleChoice-v0
  datasets:
  - {name: one, type: train, jsonl_fpath: rows.jsonl, license: MIT, prompt_config: prompt.yaml}
  - {name: two, type: benchmark, jsonl_fpath: rows.jsonl, prompt_config: other.yaml}
"""


def test_each_dataset_of_a_configuration_has_its_own_prompt(tmp_path, monkeypatch):
    write("other.yaml", "user: 'Other: {question}'\n")
    write("config.yaml", CONFIG)
    monkeypatch.chdir("/")
    config, output = str(tmp_path / "config.yaml"), str(tmp_path / "a.jsonl")
    assert main(["rollout", "--config", config, "--engine", B, "--output", output]) == 0
    asked = {(r["dataset"], r["responses_create_params"]["input"][-1]["content"]) for r in records(output)}
    assert asked == {("letters/one", MESSAGES[1]["content"]), ("letters/two", "Other: 1 + 1 = {x}?")}
    prepare = ["data", "prepare", "--config", config, "--mode", "train_preparation", "--tokenizer", "none"]
    assert main([*prepare, "--output-dir", str(tmp_path / "out")]) == 0
    prepared = records(str(tmp_path / "out/train.jsonl"))
    assert [row["responses_create_params"]["input"] for row in prepared] == [MESSAGES] * 2
    (row, _) = records(str(tmp_path / "out/benchmark.jsonl"))
    assert row["responses_create_params"]["input"] == [{"role": "user", "content": "Other: 1 + 1 = {x}?"}]
    assert row["agent_ref"]["name"] == "letters" and row["expected_answer"] == "B"


@pytest.mark.slow
def test_prompts_are_filled_in_rays_workers(tmp_path):
    argv = ["rollout", CHOICE, "--engine", B, "--tasks", "rows.jsonl", "--output", "a.jsonl", "--workers", "1"]
    assert main([*argv, "--env-kwargs", json.dumps({"prompt_config": str(tmp_path / "prompt.yaml")})]) == 0
    assert [record["responses_create_params"]["input"] for record in records("a.jsonl")] == [MESSAGES] * 2
