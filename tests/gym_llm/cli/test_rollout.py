"""`gym-llm rollout`, run as users run it: in a process of its own, against a server on loopback."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rollout_commands import COMMAND, ENV, gym_llm, play, question, read, write_tasks
from testing import rollout_ids as pairs
from testing import row

from gym_llm.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("in_an_empty_folder")]


def test_a_run_writes_records_a_summary_and_a_table(server):
    server.answer = lambda body: "yes" if question(body) % 4 else "no"
    result = gym_llm("rollout", ENV, "--engine", server.url, "--tasks", write_tasks(40), "--output", "deep/a.jsonl")
    assert result.returncode == 0, result.stderr
    records = read("deep/a.jsonl")
    assert pairs("deep/a.jsonl") == [(task, 0) for task in range(40)]
    assert {record["env_id"] for record in records} == {ENV}
    summary = json.loads(Path("deep/a.summary.json").read_text())
    assert summary["episodes"] == 40
    assert summary["complete"] is True
    assert summary["mean_reward"] == summary["pass_at"]["1"] == sum(record["reward"] for record in records) / 40 == 0.75
    assert (summary["input_tokens"], summary["output_tokens"], summary["turns_per_episode"]) == (280, 80, 1.0)
    assert summary["settings"]["tasks"] == "tasks.jsonl"
    assert summary["episodes_per_second"] == pytest.approx(40 / summary["seconds"])
    for figure in ("0.7500 ± 0.0693", "280 / 80", "deep/a.jsonl", "deep/a.summary.json"):
        assert figure in result.stdout


def test_the_built_in_model_plays_in_front_of_the_user():
    pytest.importorskip("transformers")
    result = gym_llm("rollout", "gym_llm/Arithmetic-v0", "--episodes", 8, "--show", 1, "--output", "a.jsonl")
    assert result.returncode == 0, result.stderr
    assert "gym_llm/Arithmetic-v0 played by pocket" in result.stdout
    assert "│ user: " in result.stdout
    assert not any(record["error"] for record in read("a.jsonl"))
    assert json.loads(Path("a.summary.json").read_text())["output_tokens"] > 8


def test_without_an_output_the_file_is_named_and_told(server):
    result = gym_llm("rollout", ENV, "--engine", server.url, "--limit", 2)
    (path,) = Path("rollouts").glob("*.jsonl")
    assert re.fullmatch(r"FollowUp-\d{8}-\d{6}\.jsonl", path.name)
    assert f"records: {path}" in result.stdout
    assert len(read(path)) == 2


def test_repeats_give_pass_at_k(server, capsys):
    counts: dict[int, int] = {}

    def every_second(body: dict[str, Any]) -> str:
        counts[question(body)] = counts.get(question(body), 0) + 1
        return "yes" if counts[question(body)] % 2 else "no"

    server.answer = every_second
    argv = ["--tasks", write_tasks(9), "--limit", 3, "--repeats", 4, "--output", "a.jsonl"]
    assert play("--engine", server.url, *argv) == 0
    assert pairs("a.jsonl") == [(task, repeat) for task in range(3) for repeat in range(4)]
    summary = json.loads(Path("a.summary.json").read_text())
    assert summary["pass_at"] == {"1": 0.5, "2": pytest.approx(5 / 6), "4": 1.0}
    assert re.search(r"pass@2 .*0\.8333", capsys.readouterr().out)


def test_episodes_go_round_the_tasks(server):
    assert play("--engine", server.url, "--episodes", 7, "--output", "a.jsonl") == 0
    assert pairs("a.jsonl") == sorted((number % 5, number // 5) for number in range(7))


def test_model_and_sampling_reach_the_server_and_the_records(server):
    sampling = ["--temperature", "0.5", "--top-p", "0.9", "--max-output-tokens", "64", "--model", "mine"]
    assert play("--engine", server.url, "--limit", 1, "--output", "a.jsonl", *sampling) == 0
    body = server.bodies[0]
    assert (body["model"], body["temperature"], body["top_p"]) == ("mine", 0.5, 0.9)
    assert 64 in (body.get("max_tokens"), body.get("max_completion_tokens"))
    params = read("a.jsonl")[0]["responses_create_params"]
    assert (params["temperature"], params["top_p"], params["max_output_tokens"]) == (0.5, 0.9, 64)


def test_engine_options_reach_the_engine_and_secrets_no_file(server, capsys):
    argv = ["--engine", server.url, "--limit", 1, "--output", "a.jsonl", "--model", "first"]
    options = ["model=mine", "api_key=sk-0123456789", 'extra_body={"top_k": 5, "token": "t-0123456789"}', "timeout=9"]
    for option in options:
        argv += ["--engine-option", option]
    assert play(*argv) == 0
    body = server.bodies[0]
    assert (body["model"], body["top_k"], body["token"]) == ("mine", 5, "t-0123456789")
    settings = json.loads(Path("a.summary.json").read_text())["settings"]
    masked = {"model": "mine", "api_key": "***", "extra_body": {"top_k": 5, "token": "***"}, "timeout": 9}
    assert settings["engine_options"] == masked
    written = capsys.readouterr().out + "".join(path.read_text() for path in Path().iterdir())
    assert "0123456789" not in written


def test_engine_options_go_over_a_configurations(server):
    text = (
        f"{{m: {{engine: '{server.url}', kwargs: {{model: theirs, timeout: 5}}}}, e: {{env: gym_llm/Arithmetic-v0}}}}"
    )
    Path("c.yaml").write_text(text)
    argv = ["rollout", "--config", "c.yaml", "e.kwargs.digits=1", "--limit", "1", "--output", "a.jsonl"]
    assert main([*argv, "--engine-option", "model=mine", "e.engine=m"]) == 0
    assert server.bodies[0]["model"] == "mine"
    settings = json.loads(Path("a.summary.json").read_text())["settings"]
    assert settings["datasets"]["e"]["engine_options"] == {"model": "mine", "timeout": 5}


@pytest.mark.parametrize("option", ["max_model_len", "=3", "max-model-len=3", "sk-0123456789", ""])
def test_an_engine_option_without_a_name_is_an_error_that_does_not_repeat_it(option, capsys):
    assert play("--engine-option", option) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith("argument --engine-option: expected NAME=VALUE such as max_model_len=4096")


def test_env_kwargs_reach_the_environment(server):
    server.answer = lambda body: "no"
    argv = ["--engine", server.url, "--output", "a.jsonl", "--env-kwargs", '{"max_turns": 1}']
    assert play(*argv) == 0
    assert any(record["truncated"] for record in read("a.jsonl"))
    assert {record["info"]["turn"] for record in read("a.jsonl")} == {1}


def test_recorded_answers_play_again(server):
    server.answer = lambda body: "yes" if question(body) % 2 else "no"
    tasks = write_tasks(10)
    assert play("--engine", server.url, "--tasks", tasks, "--output", "a.jsonl") == 0
    assert play("--engine", "replay:a.jsonl", "--tasks", tasks, "--output", "b.jsonl") == 0
    recorded, replayed = (
        {record["rollout_id"]["task_index"]: record["reward"] for record in read(path)}
        for path in ("a.jsonl", "b.jsonl")
    )
    assert recorded == replayed == {task: float(task % 2) for task in range(10)}


def test_show_prints_conversations_that_cannot_steer_the_terminal(server):
    server.answer = lambda body: "yes \x1b[2J\x07 [bold]not markup[/bold] \u202f"
    result = gym_llm("rollout", ENV, "--engine", server.url, "--tasks", write_tasks(5), "--show", 2)
    assert result.stdout.count("user: Question") == 2
    assert "reward 1" in result.stdout
    assert "[bold]not markup[/bold]" in result.stdout
    assert "\x1b" not in result.stdout
    assert "\x07" not in result.stdout
    assert result.stdout.index("user: Question") < result.stdout.index("mean reward")


def test_quiet_prints_nothing(server):
    result = gym_llm("rollout", ENV, "--engine", server.url, "--quiet", "--show", 1, "--output", "a.jsonl")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert len(read("a.jsonl")) == 5


def test_without_a_terminal_thousands_of_episodes_are_a_few_lines(server):
    result = gym_llm("rollout", ENV, "--engine", server.url, "--episodes", 1500, "--output", "a.jsonl")
    assert len(read("a.jsonl")) == 1500
    assert len(result.stderr.splitlines()) < 10
    assert len(result.stdout.splitlines()) < 30


def test_on_a_terminal_a_bar_shows_reward_and_speed(server):
    server.latency = 0.05
    argv = ["rollout", ENV, "--engine", server.url, "--episodes", "40", "--concurrency", "4", "--output", "a.jsonl"]
    child, terminal = pty.fork()
    if child == 0:
        os.execve(sys.executable, [*COMMAND, *argv], {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"})
    seen = b""
    while select.select([terminal], [], [], 30)[0]:
        try:
            seen += os.read(terminal, 65536)
        except OSError:
            break
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(terminal)
    assert re.search(rb"mean reward \d\.\d{3}, \d+\.\d episodes/s", seen)
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l"), "the cursor is hidden"


def test_failed_episodes_are_records_and_the_others_count(server):
    server.answer = lambda body: 400 if question(body) == 3 else "yes"
    result = gym_llm("rollout", ENV, "--engine", server.url, "--tasks", write_tasks(5), "--output", "a.jsonl")
    assert result.returncode == 0
    failed = [record for record in read("a.jsonl") if record["error"]]
    assert [record["rollout_id"]["task_index"] for record in failed] == [3]
    assert "on strike" in failed[0]["error"]
    assert "on strike" in result.stdout
    assert json.loads(Path("a.summary.json").read_text())["failures"] == 1


def test_if_every_episode_failed_the_exit_code_is_1(server):
    server.answer = lambda body: 400
    result = gym_llm("rollout", ENV, "--engine", server.url, "--output", "a.jsonl")
    assert result.returncode == 1
    assert [bool(record["error"]) for record in read("a.jsonl")] == [True] * 5
    assert "Traceback" not in result.stdout + result.stderr


def test_too_many_masked_episodes_end_a_run_with_1_and_a_way_on(server):
    server.answer = lambda body: 400 if question(body) >= 5 else "yes"
    argv = ["rollout", ENV, "--engine", server.url, "--tasks", write_tasks(60), "--output", "a.jsonl"]
    result = gym_llm(*argv, "--concurrency", "2")
    assert result.returncode == 1 and len(read("a.jsonl")) < 40
    assert "more than max_failures allows" in result.stderr and "on strike" in result.stderr
    assert "Add --retry-failed" in result.stderr
    assert "--resume" in result.stderr and "Traceback" not in result.stderr
    assert "21 agent_request_failed" in result.stdout and "mean reward" in result.stdout
    numbers = json.loads(Path("a.summary.json").read_text())
    assert (numbers["mean_reward"], numbers["scored"], numbers["failures"]) == (1.0, 5, 21)
    assert numbers["failure_kinds"] == {"agent_request_failed": 21} and not numbers["complete"]
    assert gym_llm(*argv, "--resume", "--max-failures", "any").returncode == 0
    assert len(read("a.jsonl")) == 60
    wrong = gym_llm(*argv, "--max-failures", "ten")
    assert wrong.returncode == 2 and "expected a number of episodes, a share such as 10%, or any" in wrong.stderr


def test_mixed_verifiers_have_numbers_of_their_own_and_can_be_resumed(server):
    mixed = [
        {**row("Question 1", expected_answer="yes"), "env_id": ENV},
        {**row("Question 2", initial_count=1, expected_count=2), "env_id": "gym_llm/Counter-v0"},
    ]
    Path("mixed.jsonl").write_text("".join(json.dumps(line) + "\n" for line in mixed))
    arguments = ["gym_llm/Mixed-v0", "--engine", server.url, "--tasks", "mixed.jsonl", "--output", "a.jsonl"]
    assert main(["rollout", *arguments, "--limit", "1"]) == 0
    assert main(["rollout", *arguments, "--resume"]) == 0
    assert pairs("a.jsonl") == [(0, 0), (1, 0)]
    environments = json.loads(Path("a.summary.json").read_text())["environments"]
    assert {name: numbers["mean_reward"] for name, numbers in environments.items()} == {
        ENV: 1.0,
        "gym_llm/Counter-v0": 0.0,
    }


# -- over Ray ------------------------------------------------------------------------------------------------------


def test_workers_play_every_episode_once_and_tell_what_is_waited_for(server):
    server.answer = lambda body: "yes" if question(body) % 4 else "no"
    server.latency = 1.5
    arguments = ["--tasks", write_tasks(40), "--output", "a.jsonl", "--concurrency", 10, "--workers", 2]
    result = subprocess.run(
        [*COMMAND, "rollout", ENV, "--engine", server.url, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, "RAY_ADDRESS": "127.0.0.1:1"},  # a cluster nobody named is not looked for
    )
    assert result.returncode == 0, result.stderr
    assert pairs("a.jsonl") == [(task, 0) for task in range(40)]
    assert sum(record["reward"] for record in read("a.jsonl")) == 30
    assert json.loads(Path("a.summary.json").read_text())["settings"]["workers"] == 2


def test_a_cluster_that_is_not_there_is_one_sentence(server):
    result = gym_llm(
        "rollout",
        ENV,
        "--engine",
        server.url,
        "--tasks",
        write_tasks(2),
        "--workers",
        1,
        "--ray-address",
        "127.0.0.1:1",
    )
    assert result.returncode == 2
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("gym-llm: Ray at 127.0.0.1:1 cannot be reached")
    assert "--workers 0" in last


def test_a_budget_of_the_run_ends_it_with_a_code_of_its_own(server):
    argv = (
        "rollout",
        ENV,
        "--engine",
        server.url,
        "--tasks",
        write_tasks(6),
        "--concurrency",
        1,
        "--output",
        "a.jsonl",
    )
    ended = gym_llm(*argv, "--run-max-tokens", 20)
    assert ended.returncode == 3
    assert "Ended: run_max_tokens is 20, and the run's episodes have 27 tokens. Resume" in ended.stderr
    assert len(read("a.jsonl")) == 3
    assert gym_llm(*argv, "--resume", "--run-max-tokens", 1000).returncode == 0
    assert len(read("a.jsonl")) == 6
    wrong = gym_llm(*argv, "--run-max-dollars", 1)
    assert wrong.returncode == 2 and "--run-max-dollars needs --prices FILE" in wrong.stderr
    wrong = gym_llm(*argv, "--max-tokens", 0)
    assert wrong.returncode == 2 and "expected an integer, 1 or more" in wrong.stderr
