"""`gym-llm rollout --resume`, and runs that end before their end."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from model_server import ModelServer
from rollout_commands import ENV, NOWHERE, gym_llm, play, question, read, start, write_tasks
from testing import has_lines, wait_for
from testing import rollout_ids as pairs

from gym_llm.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("in_an_empty_folder")]


def test_resume_repairs_a_torn_line_and_plays_only_what_is_missing(server):
    argv = ["rollout", ENV, "--engine", server.url, "--tasks", write_tasks(10), "--repeats", 2, "--output", "a.jsonl"]
    assert gym_llm(*argv).returncode == 0
    lines = Path("a.jsonl").read_bytes().splitlines(keepends=True)
    Path("a.jsonl").write_bytes(b"".join(lines[:12]) + lines[12][:-1])
    server.bodies.clear()
    result = gym_llm(*argv, "--resume")
    assert result.returncode == 0, result.stderr
    assert len(server.bodies) == 8
    assert Path("a.jsonl").read_bytes().startswith(b"".join(lines[:12]))
    assert pairs("a.jsonl") == [(task, repeat) for task in range(10) for repeat in range(2)]
    summary = json.loads(Path("a.summary.json").read_text())
    assert (summary["episodes"], summary["episodes_this_run"], summary["complete"]) == (20, 8, True)


def test_resuming_a_complete_run_needs_no_engine(server, capsys):
    assert main(["rollout", ENV, "--engine", server.url, "--output", "a.jsonl"]) == 0
    before = Path("a.jsonl").read_bytes()
    Path("a.summary.json").write_text('{"model": "stub", "complete": false, "settings": {"engine": "old"}}')
    capsys.readouterr()
    assert main(["rollout", ENV, "--engine", NOWHERE, "--output", "a.jsonl", "--resume"]) == 0
    assert "played by stub" in capsys.readouterr().out
    assert Path("a.jsonl").read_bytes() == before
    summary = json.loads(Path("a.summary.json").read_text())
    assert (summary["episodes"], summary["complete"], summary["settings"]) == (5, True, {"engine": "old"})


def test_the_same_model_may_be_served_elsewhere(server):
    assert main(["rollout", ENV, "--engine", server.url, "--output", "a.jsonl", "--limit", "2", "--quiet"]) == 0
    moved = ModelServer()
    try:
        assert main(["rollout", ENV, "--engine", moved.url, "--output", "a.jsonl", "--resume", "--quiet"]) == 0
    finally:
        moved.close()
    assert len(moved.bodies) > 0
    assert pairs("a.jsonl") == [(task, 0) for task in range(5)]


def test_resume_starts_a_file_that_is_not_there(server):
    assert play("--engine", server.url, "--output", "a.jsonl", "--resume") == 0
    assert len(read("a.jsonl")) == 5


def test_resume_can_ask_for_more_episodes(server):
    argv = ["--engine", server.url, "--output", "a.jsonl"]
    assert play(*argv, "--limit", 2) == 0
    assert play(*argv, "--repeats", 3, "--resume") == 0
    assert pairs("a.jsonl") == [(task, repeat) for task in range(5) for repeat in range(3)]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (["--seed", "1"], "seed was 0 and is 1"),
        (["--temperature", "0.1"], "sampling was {} and is {'temperature': 0.1}"),
        (["--env-kwargs", '{"max_turns": 3}'], "env_kwargs was {} and is {'max_turns': 3}"),
        (["--tasks", "tasks.jsonl"], "tasks_sha256 was None"),
        (["--model", "another"], "was played by stub, not another"),
    ],
)
def test_resume_refuses_to_mix_runs(server, change, named, capsys):
    argv = ["rollout", ENV, "--engine", server.url, "--output", "a.jsonl", "--quiet"]
    write_tasks(7)
    assert main([*argv, "--limit", "3"]) == 0
    before = Path("a.jsonl").read_bytes()
    assert main([*argv, "--resume", *change]) == 2
    assert named in capsys.readouterr().err
    assert Path("a.jsonl").read_bytes() == before


def test_a_task_file_that_changed_is_another_one(server, capsys):
    argv = ["rollout", ENV, "--engine", server.url, "--tasks", write_tasks(3), "--output", "a.jsonl", "--quiet"]
    assert main(argv) == 0
    write_tasks(4)
    assert main([*argv, "--resume"]) == 2
    assert "tasks_sha256" in capsys.readouterr().err


def test_resume_without_the_summary_file_goes_by_the_records(server, capsys):
    argv = ["--engine", server.url, "--output", "a.jsonl", "--quiet", "--episodes", "3"]
    assert main(["rollout", ENV, *argv]) == 0
    Path("a.summary.json").unlink()
    assert main(["rollout", "gym_llm/Weather-v0", *argv, "--resume"]) == 2
    assert f"holds rollouts of {ENV}, not of gym_llm/Weather-v0" in capsys.readouterr().err
    assert main(["rollout", ENV, *argv, "--resume"]) == 0
    assert len(read("a.jsonl")) == 3


def test_failed_episodes_stay_finished_unless_they_are_to_be_retried(server):
    server.answer = lambda body: 400 if question(body) % 2 else "yes"
    argv = ["--engine", server.url, "--tasks", write_tasks(6), "--output", "a.jsonl", "--resume"]
    assert play(*argv) == 0
    server.answer = lambda body: "yes"
    assert play(*argv) == 0
    assert sum(bool(record["error"]) for record in read("a.jsonl")) == 3
    server.bodies.clear()
    assert play(*argv, "--retry-failed") == 0
    assert len(server.bodies) == 3
    assert pairs("a.jsonl") == [(task, 0) for task in range(6)]
    assert not any(record["error"] for record in read("a.jsonl"))


def test_of_two_processes_with_one_output_the_second_is_refused(server):
    server.latency = 1.0  # until the second one has been refused
    argv = ["rollout", ENV, "--engine", server.url, "--episodes", 60, "--concurrency", 2, "--output", "a.jsonl"]
    first = start(*argv)
    wait_for(has_lines("a.jsonl", 1))
    second = gym_llm(*argv, "--resume")
    server.latency = 0.01
    assert second.returncode == 2
    assert second.stderr == (
        "gym-llm: a.jsonl is being written by another process: wait for it or name another file.\n"
    )
    first.communicate(timeout=30)
    assert first.returncode == 0
    assert len(set(pairs("a.jsonl"))) == len(read("a.jsonl")) == 60


def test_an_interrupt_before_the_first_record_leaves_nothing(server):
    server.latency = 30.0
    process = start("rollout", ENV, "--engine", server.url, "--output", "a.jsonl")
    wait_for(lambda: len(server.bodies) == 5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "0 episodes are finished" in err
    assert list(Path().iterdir()) == []
