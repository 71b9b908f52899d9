"""Stored episodes in the terminal: the right one, harmless, with what its verifier said."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from played import boxed, play, sum_of
from testing import function_call, row

from gym_llm.cli import main

ARITHMETIC = "gym_llm/Arithmetic-v0"


@pytest.fixture
def arithmetic(tmp_path: Path) -> str:
    def say(request: Any, task: int, repeat: int) -> str:
        if task == 2:
            raise ConnectionRefusedError("no server there")
        return f"Episode {task}-{repeat}. {boxed(sum_of(request) + repeat)}"

    return str(play(tmp_path / "a.jsonl", ARITHMETIC, say, limit=3, repeats=2, retries=0, concurrency=1))


def shown(capsys: Any, *arguments: str, code: int = 0) -> str:
    assert main(["show", *arguments]) == code
    out, err = capsys.readouterr()
    return out if code == 0 else err


def test_one_episode_is_found_by_its_numbers(arithmetic: str, capsys: Any) -> None:
    said = shown(capsys, arithmetic, "--task", "1", "--repeat", "1")
    assert "task 1, repeat 1: reward 0" in said and "assistant: Episode 1-1." in said
    assert "expected_answer: " in said and "extracted_answer: " in said
    assert "Episode 0-0" in shown(capsys, arithmetic)
    assert shown(capsys, arithmetic, "--task", "7", "--repeat", "0", code=1).endswith(
        "a.jsonl has no episode of task 7, repeat 0.\n"
    )
    assert "only makes sense with --task" in shown(capsys, arithmetic, "--repeat", "0", code=2)


def test_a_judges_verdict_and_words_are_shown_without_its_prompt(tmp_path: Path, capsys: Any) -> None:
    kwargs = {"judge": "constant:A"}
    path = play(tmp_path / "q.jsonl", "gym_llm/SimpleQA-v0", lambda *_: "Paris", limit=1, env_kwargs=kwargs)
    said = shown(capsys, str(path))
    assert said.endswith("judge\n  1, A: assistant: A\n") and "reference answer" not in said


def test_the_first_failed_one_is_below_the_threshold_or_masked(arithmetic: str, capsys: Any) -> None:
    assert "task 0, repeat 1: reward 0" in shown(capsys, arithmetic, "--failed")
    masked = shown(capsys, arithmetic, "--failed", "--pass-threshold", "-1")
    assert "task 2, repeat 0: masked" in masked
    assert "failed: ConnectionRefusedError: no server there" in masked
    assert "kind: transport_unreachable" in masked and "phase: engine" in masked
    assert 'raise ConnectionRefusedError("no server there")' in masked  # the traceback
    assert "no failed episode of task 9" in shown(capsys, arithmetic, "--task", "9", "--failed", code=1)


def test_the_pager_walks_forth_and_back(arithmetic: str, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("pn\nn\npxqn"))
    walked = shown(capsys, arithmetic, "--pager")
    titles = [line.split(":")[0].strip("╭─ ") for line in walked.splitlines() if line.startswith("╭")]
    assert titles == ["task 0, repeat 0", "task 0, repeat 1", "task 1, repeat 0", "task 0, repeat 1"]
    monkeypatch.setattr("sys.stdin", io.StringIO("nnn"))
    assert "That was the last one." in shown(capsys, arithmetic, "--pager", "--task", "2")


def test_calls_stand_beside_their_results(tmp_path: Path, capsys: Any) -> None:
    def say(request: Any, task: int, repeat: int) -> Any:
        if len(request["input"]) > 1:
            return "Done."
        cities = ("Rome", "Oslo")
        return [function_call("get_weather", {"city": city}, f"call_{city}") for city in cities]

    path = play(tmp_path / "w.jsonl", "gym_llm/Weather-v0", say, tasks=[row("?", expected_city="Rome")])
    lines = [line.strip("│ ") for line in shown(capsys, str(path)).splitlines()]
    at = lines.index('call: get_weather({"city": "Rome"})')
    assert lines[at + 1].startswith('tool: {"city":"Rome"')
    assert lines[at + 3] == 'call: get_weather({"city": "Oslo"})' and "Oslo" in lines[at + 4]


def test_what_a_model_wrote_cannot_steer_the_terminal(tmp_path: Path, capsys: Any) -> None:
    hostile = "\x1b[2J\x1b]0;title\x07 [bold]\x9b31m \x00 \\boxed{\x1b[31m5}"
    tasks = [row("?", expected_answer="5", note=hostile, **{hostile: 1})]
    path = play(tmp_path / "a.jsonl", ARITHMETIC, lambda *_: hostile, tasks=tasks)
    said = shown(capsys, str(path))
    assert not set(said) & set("\x1b\x07\x9b\x00")
    assert "[bold]" in said


def test_reward_components_and_details_are_told(tmp_path: Path, capsys: Any) -> None:
    path = play(tmp_path / "a.jsonl", ARITHMETIC, lambda *_: "no", limit=1)
    record = json.loads(path.read_bytes())
    record["info"] |= {"reward_components": {"format": 0.25}, "judge": {"said": "bad"}}
    path.write_text(json.dumps(record))
    said = shown(capsys, str(path))
    assert "reward components\n  format: 0.25" in said and '  judge: {"said": "bad"}' in said
    assert "  extracted_answer: null" in said


def test_nemo_gym_s_records_are_shown_and_a_torn_line_is_not(tmp_path: Path, capsys: Any) -> None:
    theirs = {
        **{"responses_create_params": {"input": "What?"}, "_ng_task_index": 3, "_ng_rollout_index": 1, "reward": 0.0},
        "response": {"output": [{"type": "message", "role": "assistant", "content": "That."}]},
    }
    path = tmp_path / "theirs.jsonl"
    path.write_text(json.dumps(theirs) + "\n" + json.dumps(theirs | {"_ng_rollout_index": 2})[:-9])
    said = shown(capsys, str(path), "--task", "3", "--repeat", "1")
    assert "user: What?" in said and "assistant: That." in said
    assert "has no episode of task 3, repeat 2" in shown(capsys, str(path), "--task", "3", "--repeat", "2", code=1)


def test_calls_whose_id_is_no_text_are_shown(tmp_path: Path, capsys: Any) -> None:
    record = {
        "rollout_id": {"task_index": 0, "repeat_index": 0}, "reward": 1.0, "responses_create_params": {"input": "?"},
        "response": {"output": [{"type": "function_call", "name": "look", "arguments": "{}", "call_id": []}]},
    }  # fmt: skip
    path = tmp_path / "edited.jsonl"
    path.write_text(json.dumps(record) + "\n")
    assert "look" in shown(capsys, str(path))
