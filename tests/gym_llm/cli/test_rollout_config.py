"""`gym-llm rollout --config`: several environments in one run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from model_server import ModelServer
from testing import row

from gym_llm.cli import main

CHOICES = [{"A": "one"}, {"B": "two"}]


class Server(ModelServer):
    """A model that always says the same."""

    def __init__(self, says: str) -> None:
        super().__init__()
        self.answer = lambda body: says


@pytest.fixture
def server():
    server = Server(r"\boxed{B}")
    yield server
    server.close()


def write(name: str, text: str) -> str:
    Path(name).write_text(text, "utf-8")
    return name


def write_rows(name: str, answers: str) -> None:
    rows = [row(f"{n}?", options=CHOICES, expected_answer=answer) for n, answer in enumerate(answers)]
    Path(name).write_text("".join(json.dumps(task) + "\n" for task in rows), "utf-8")


CONFIG = r"""
letters:
  env: gym_llm/MultipleChoice-v0
  domain: knowledge
  datasets:
  - {name: train, type: train, jsonl_fpath: train.jsonl, license: MIT, num_repeats: 2, start_idx: 1, end_idx: 3}
  - {name: validation, type: validation, jsonl_fpath: validation.jsonl, license: MIT}
  - {name: example, type: example, jsonl_fpath: train.jsonl}
sums:
  env: gym_llm/Arithmetic-v0
  kwargs: {digits: 1}
"""


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_rows("train.jsonl", "ABAB")
    write_rows("validation.jsonl", "BB")
    return write("config.yaml", CONFIG)


def records() -> list[dict]:
    return [json.loads(line) for line in Path("a.jsonl").read_text("utf-8").splitlines()]


def summary() -> dict:
    return json.loads(Path("a.summary.json").read_text("utf-8"))


def rollout(*argv: object) -> int:
    return main(["rollout", *map(str, argv), "--output", "a.jsonl"])


def settings(server: Server) -> list[str]:
    return [f"policy_base_url={server.url}", "policy_api_key=sk-0123456789", "policy_model_name=m"]


def test_each_dataset_is_played_by_its_own_verifier(server, config, capsys):
    assert rollout("--config", config, *settings(server), "--limit", 3) == 0
    told = {
        (
            record["dataset"],
            record["env_id"],
            record["rollout_id"]["task_index"],
            record["rollout_id"]["repeat_index"],
        ): (record["reward"])
        for record in records()
    }
    letters, sums = "gym_llm/MultipleChoice-v0", "gym_llm/Arithmetic-v0"
    assert told == {
        ("letters/train", letters, 0, 0): 1.0,
        ("letters/train", letters, 0, 1): 1.0,
        ("letters/train", letters, 1, 0): 0.0,
        ("letters/train", letters, 1, 1): 0.0,
        ("letters/validation", letters, 0, 0): 1.0,
        ("letters/validation", letters, 1, 0): 1.0,
        ("sums", sums, 0, 0): 0.0,
        ("sums", sums, 1, 0): 0.0,
        ("sums", sums, 2, 0): 0.0,
    }
    assert set(server.asked) == {("m", "Bearer sk-0123456789")}
    numbers = summary()
    assert {name: (part["episodes"], part["mean_reward"]) for name, part in numbers["datasets"].items()} == {
        "letters/train": (4, 0.5),
        "letters/validation": (2, 1.0),
        "sums": (3, 0.0),
    }
    assert (numbers["episodes"], numbers["tasks"], numbers["complete"], numbers["model"]) == (9, 7, True, "m")
    shown = capsys.readouterr().out
    assert "letters/validation" in shown
    assert "sk-0123456789" not in shown + Path("a.jsonl").read_text() + Path("a.summary.json").read_text()


def test_each_environment_has_its_engine(server, config):
    other = Server("7")
    text = f"""
first: {{engine: '{server.url}', kwargs: {{model: one, api_key: k1}}}}
second: {{engine: '{other.url}'}}
letters: {{engine: first}}
sums: {{engine: second}}
"""
    try:
        assert rollout("--config", config, "--config", write("engines.yaml", text), "--limit", 2, "--quiet") == 0
    finally:
        other.close()
    assert set(server.asked) == {("one", "Bearer k1")}
    assert {model for model, _ in other.asked} == {"stub"}
    assert {name: part["model"] for name, part in summary()["datasets"].items()} == {
        "letters/train": "one",
        "letters/validation": "one",
        "sums": "stub",
    }
    assert summary()["settings"]["datasets"]["letters/train"]["engine_options"] == {"model": "one", "api_key": "***"}


def test_files_may_be_named_as_nemo_gym_does(server, config):
    assert rollout(f"+config_paths=[{config}]", *settings(server), "--limit", 1, "--quiet") == 0
    assert summary()["datasets"]["sums"]["episodes"] == 1


def test_arguments_go_over_the_configuration(server, config):
    argv = ["--config", config, "--engine", server.url, "--model", "n", "--repeats", 3, "--limit", 1]
    assert rollout(*argv, "letters.datasets.0.end_idx=2", "--quiet") == 0
    assert {model for model, _ in server.asked} == {"n"}
    assert [part["episodes"] for part in summary()["datasets"].values()] == [3, 3, 3]


def test_a_section_says_how_much_of_its_tasks_is_played_how_often_and_with_what_sampling(server, config, capsys):
    Path("suites").mkdir()
    text = """
letters: {env: gym_llm/MultipleChoice-v0, tasks: letters.jsonl, repeats: 2, limit: 1, sampling: {temperature: 0.5}}
sums: {env: gym_llm/Arithmetic-v0, limit: 3, sampling: {top_p: 0.5, temperature: 0.1}}
"""
    write_rows("suites/letters.jsonl", "BA")
    argv = ["--config", write("suites/both.yaml", text), "--engine", server.url, "--quiet"]
    assert rollout(*argv, "--temperature", 0) == 0
    told = {(record["dataset"], *record["rollout_id"].values()): record for record in records()}
    assert set(told) == {("letters", 0, 0), ("letters", 0, 1), ("sums", 0, 0), ("sums", 1, 0), ("sums", 2, 0)}
    assert told["letters", 0, 0]["responses_create_params"]["temperature"] == 0  # the command line goes over the file
    assert told["sums", 0, 0]["responses_create_params"]["top_p"] == 0.5
    assert rollout(*argv, "--temperature", 0, "sums.sampling.top_p=0.6", "--resume") == 2
    assert "(sums.sampling was {'top_p': 0.5, 'temperature': 0.1} and is {'top_p': 0.6," in capsys.readouterr().err
    assert rollout(*argv, "--temperature", 0, "sums.limit=4", "--resume") == 0  # how much is played may change
    assert len(records()) == 6
    assert rollout(*argv, "sums.sampling.temprature=0.6", "--resume") == 2
    assert "sums: A request has no field 'temprature'. Did you mean temperature?" in capsys.readouterr().err


def test_a_run_of_a_configuration_is_resumed(server, config, capsys):
    argv = ["--config", config, *settings(server), "--limit", 3, "--quiet"]
    assert rollout(*argv) == 0
    whole = records()
    lines = Path("a.jsonl").read_text().splitlines(keepends=True)
    Path("a.jsonl").write_text("".join(lines[::2]))
    server.asked.clear()
    assert rollout(*argv, "--resume") == 0
    assert len(server.asked) == len(lines) // 2
    identities = [(record["dataset"], str(record["rollout_id"])) for record in records()]
    assert sorted(identities) == sorted((record["dataset"], str(record["rollout_id"])) for record in whole)
    assert summary()["episodes"] == 9
    assert rollout(*argv, "--resume") == 0
    assert rollout(*argv, "sums.kwargs.digits=2", "--resume") == 2
    assert "was made with other settings" in capsys.readouterr().err
    assert rollout(*argv, "policy_model_name=other", "--repeats", 3, "--resume") == 2
    assert "was played by m, not other" in capsys.readouterr().err


def test_the_records_of_a_configuration_are_replayed(server, config, capsys):
    argv = ["--config", config, *settings(server), "--limit", 3, "--quiet"]
    assert rollout(*argv) == 0
    first = records()
    Path("a.jsonl").rename("recorded.jsonl")
    server.asked.clear()
    assert rollout(*argv, "--engine", "replay:recorded.jsonl") == 0
    assert server.asked == []

    def key(record: dict) -> tuple:
        return record["dataset"], *record["rollout_id"].values()

    replayed = {key(record): (record["reward"], record["response"]["output"]) for record in records()}
    assert replayed == {key(record): (record["reward"], record["response"]["output"]) for record in first}
    assert main(["rollout", "gym_llm/Arithmetic-v0", "--engine", "replay:recorded.jsonl", "--output", "b.jsonl"]) == 2
    assert "several datasets" in capsys.readouterr().err


def test_examples_are_played_where_there_is_nothing_else(server, config):
    only = "letters: {datasets: [{name: example, type: example, jsonl_fpath: train.jsonl}]}"
    assert (
        rollout("--config", config, "--config", write("b.yaml", only), *settings(server), "--limit", 2, "--quiet") == 0
    )
    assert list(summary()["datasets"]) == ["letters/example", "sums"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--config", "config.yaml", "--tasks", "a.jsonl"], "--tasks does not go with --config: give `datasets`"),
        (["--config", "config.yaml", "--env-kwargs", "{}"], "--env-kwargs does not go with --config"),
        (["--config", "config.yaml", "--episodes", "3"], "give --limit and --repeats"),
        (
            ["--config", "config.yaml", "letters.datasets.1.jsonl_fpath=no.jsonl"],
            "letters/validation: Cannot read the task",
        ),
        (["--config", "config.yaml", "sums.kwargs.digit=2"], "sums: "),
        (["--config", "config.yaml", "sums.engine=plicy"], "`engine: plicy` names no section"),
        (["--config", "empty.yaml"], "names no environment to play"),
        ([], "Give one benchmark or ENV_ID"),
        (["gym_llm/Weather-v0", "a=b"], ", got gym_llm/Weather-v0 a=b"),
    ],
)
def test_what_cannot_be_played_is_said(argv, said, capsys):
    write("empty.yaml", "policy_model_name: m\n")
    assert rollout(*argv) == 2
    assert said in capsys.readouterr().err
    assert not Path("a.jsonl").exists()


def test_nemo_gyms_files_are_played(server, config, capsys):
    text = """
policy_model:
  responses_api_models:
    vllm_model:
      entrypoint: app.py
      base_url: ${policy_base_url}
      api_key: ${policy_api_key}
      model: ${policy_model_name}
mcqa:
  resources_servers:
    mcqa: {entrypoint: app.py, domain: knowledge, half_credit: true}
mcqa_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: mcqa}
      model_server: {type: responses_api_models, name: policy_model}
      datasets:
      - {name: validation, type: validation, jsonl_fpath: validation.jsonl, license: MIT}
"""
    assert rollout("--config", write("nemo.yaml", text), *settings(server), "--quiet") == 0
    assert summary()["datasets"]["mcqa_simple_agent/validation"]["mean_reward"] == 1.0
    assert {record["env_id"] for record in records()} == {"gym_llm/MultipleChoice-v0"}
    assert capsys.readouterr().err == ""
    assert rollout("--config", "nemo.yaml", *settings(server), "--limit", "1", "--resume") == 0
    said = "Warning: not mapped: mcqa.resources_servers.mcqa.half_credit (nemo.yaml): gym_llm/MultipleChoice"
    assert said in capsys.readouterr().err
