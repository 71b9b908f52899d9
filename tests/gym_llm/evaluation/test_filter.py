"""Tasks chosen by how a run went, and played again."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from played import Scripted, boxed, play, sum_of
from testing import function_call, row

import gym_llm
from gym_llm.cli import main
from gym_llm.errors import DataError, UsageError
from gym_llm.evaluation.filter import TaskRules, filter_tasks
from gym_llm.evaluation.stored_runs import check_output

ENV = "gym_llm/Arithmetic-v0"


def right_up_to_the_task_s_number(request: Any, task: int, repeat: int) -> str:
    """Of task n the first n of four episodes are right."""
    return boxed(sum_of(request) if repeat < task else "?")


@pytest.fixture
def first_run(tmp_path: Path) -> Path:
    sampling = {"temperature": 0.5}
    path = tmp_path / "first.jsonl"
    return play(path, ENV, right_up_to_the_task_s_number, limit=5, repeats=4, sampling=sampling)


def test_tasks_of_medium_difficulty_are_played_again_as_they_were(first_run: Path, tmp_path: Path) -> None:
    output = tmp_path / "medium.jsonl"
    filtered = filter_tasks(first_run, TaskRules(lowest=0.1, highest=0.5), output=output)
    assert filtered.tasks == 5
    assert filtered.dropped == {"pass rate below 0.1": 1, "pass rate above 0.5": 2}
    rows = [json.loads(line) for line in output.read_bytes().splitlines()]
    assert rows == filtered.rows
    assert [(one["pass_rate"], one["episodes"]) for one in rows] == [(0.25, 4), (0.5, 4)]
    tasks = gym_llm.collect(ENV, Scripted(lambda *_: "no"), limit=3)
    for one, played in zip(rows, tasks[1:], strict=True):
        assert one["responses_create_params"] == played["responses_create_params"]  # without the run's temperature
        assert one["expected_answer"] == played["expected_answer"]  # type: ignore[typeddict-item]
    again = gym_llm.collect(ENV, Scripted(lambda request, *_: boxed(sum_of(request))), tasks=str(output))
    assert [(one["reward"], one["pass_rate"]) for one in again] == [(1.0, 0.25), (1.0, 0.5)]  # type: ignore[typeddict-item]


def test_a_group_whose_rewards_are_all_the_same_can_be_dropped(first_run: Path) -> None:
    filtered = filter_tasks(first_run, TaskRules(drop_zero_variance=True))
    assert [one["pass_rate"] for one in filtered.rows] == [0.25, 0.5, 0.75]
    assert filtered.dropped == {"zero variance": 2}


def test_lengths_are_the_episodes_mean_of_generated_tokens(first_run: Path) -> None:
    assert len(filter_tasks(first_run, TaskRules(min_tokens=17.5, max_tokens=17.5)).rows) == 5
    assert filter_tasks(first_run, TaskRules(min_tokens=18)).dropped == {"fewer than 18 tokens": 5}
    assert filter_tasks(first_run, TaskRules(max_tokens=17)).dropped == {"more than 17 tokens": 5}


def test_a_threshold_says_what_a_pass_is(first_run: Path) -> None:
    assert len(filter_tasks(first_run, TaskRules(lowest=1.0, pass_threshold=0.0)).rows) == 5


def test_masked_episodes_are_no_rewards_and_their_tasks_can_be_dropped(tmp_path: Path) -> None:
    def say(request: Any, task: int, repeat: int) -> Any:
        if task == 0 or (task == 1 and repeat == 0):
            raise ConnectionRefusedError("no server")
        return boxed(sum_of(request))

    path = play(tmp_path / "a.jsonl", ENV, say, limit=3, repeats=2, retries=0)
    filtered = filter_tasks(path)
    assert filtered.dropped == {"no episode has a reward": 1}
    assert [(one["pass_rate"], one["episodes"]) for one in filtered.rows] == [(1.0, 1), (1.0, 2)]
    assert filter_tasks(path, TaskRules(drop_masked=True)).dropped == {"an episode was masked": 2}
    kind = frozenset({"transport_unreachable"})
    assert filter_tasks(path, TaskRules(drop_errors=kind)).dropped == {"an episode failed: transport_unreachable": 2}
    assert not filter_tasks(path, TaskRules(drop_errors=frozenset({"judge_failed"}), lowest=1)).dropped["judge_failed"]


def test_rows_keep_their_fields_and_their_own_tools_only(tmp_path: Path) -> None:
    tool = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
    theirs = row("Rome?", expected_city="Rome", reward=3, dataset=["a", "b"], info="a text")
    own = row("Paris?", expected_city="Paris")
    own["responses_create_params"] |= {"tools": [tool], "temperature": 0.1}
    path = tmp_path / "a.jsonl"
    play(path, "gym_llm/Weather-v0", lambda *_: [function_call("get_weather", {"city": "Rome"})], tasks=[theirs, own])
    measured = {"pass_rate": 0.0, "episodes": 1}
    assert filter_tasks(path).rows == [{**theirs, **measured, "pass_rate": 1.0}, {**own, **measured}]


def test_a_file_of_several_datasets_needs_the_name_of_one(tmp_path: Path) -> None:
    parts = [gym_llm.Part(ENV, Scripted(lambda *_: "no"), dataset=name) for name in ("a", "b")]
    with gym_llm.Run(parts, limit=2, output=tmp_path / "r.jsonl") as run:
        run.play()
    with pytest.raises(UsageError, match=r"several datasets: choose one with --dataset, e\.g\. a or b"):
        filter_tasks(run.path)
    with pytest.raises(UsageError, match="no dataset 'c': it has a, b"):
        filter_tasks(run.path, dataset="c")
    assert filter_tasks(run.path, dataset="b").tasks == 2


def test_files_that_were_joined_may_have_two_tasks_of_one_number(first_run: Path, tmp_path: Path) -> None:
    second = play(tmp_path / "second.jsonl", ENV, lambda *_: "no", limit=5, env_kwargs={"digits": 5})
    (tmp_path / "both.jsonl").write_bytes(first_run.read_bytes() + second.read_bytes())
    assert filter_tasks(tmp_path / "both.jsonl").tasks == 10


def test_nemo_gym_s_compressed_rollouts_are_filtered(tmp_path: Path) -> None:
    lines = []
    for rollout, reward in enumerate((0.0, 1.0, 0.0)):
        params = {"input": [{"role": "user", "content": "?"}]}
        ids = {"_ng_task_index": 4, "_ng_rollout_index": rollout, "mask_sample": rollout == 2}
        fields = {"expected_answer": "4", "agent_ref": {"name": "x"}, "reward": reward, "response": {"output": []}}
        lines.append(json.dumps({"responses_create_params": params, **ids, **fields}))
    path = tmp_path / "theirs.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    (chosen,) = filter_tasks(path).rows
    assert chosen == {
        **{"responses_create_params": {"input": [{"role": "user", "content": "?"}]}, "expected_answer": "4"},
        **{"agent_ref": {"name": "x"}, "pass_rate": 0.5, "episodes": 2},
    }


def test_a_task_s_own_field_is_not_overwritten(tmp_path: Path) -> None:
    path = play(tmp_path / "a.jsonl", ENV, lambda *_: "no", tasks=[row(expected_answer="1", episodes=3)])
    with pytest.raises(DataError, match="task 0 already has the field episodes"):
        filter_tasks(path)


def test_lengths_that_nobody_recorded_are_said_to_be_missing(first_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    record = json.loads(first_run.read_bytes().splitlines()[0])
    record["response"]["usage"] = None
    path.write_text(json.dumps(record))
    with pytest.raises(UsageError, match="does not say how many tokens"):
        filter_tasks(path, TaskRules(max_tokens=10))
    assert filter_tasks(path).dropped == Counter()


def test_the_command_counts_and_writes(first_run: Path, tmp_path: Path, capsys: Any) -> None:
    output = str(tmp_path / "out.jsonl")
    assert main(["filter", str(first_run), "--min", "0.3", "--output", output]) == 0
    assert "dropped: pass rate below 0.3" in capsys.readouterr().out
    assert main(["filter", str(first_run), "--min", "0.3", "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers == {"tasks": 5, "kept": 3, "dropped": {"pass rate below 0.3": 2}, "output": None}
    assert main(["filter", str(first_run), "--min", "1", "--max-tokens", "1"]) == 1
    capsys.readouterr()
    for wrong, sentence in (
        ([], "--min"),
        (["--min", "0.9", "--max", "0.1"], "the lowest first"),
        (["--output", output], "already exists"),
        (["--drop-error", "judge_fail"], "Did you mean judge_failed?"),
        (["--min-tokens", "9", "--max-tokens", "3"], "No length is between 9 and 3"),
    ):
        assert main(["filter", str(first_run), *wrong]) == 2
        said = capsys.readouterr().err
        assert sentence in said and said.count("\n") == 1


@pytest.mark.parametrize("command", ["filter", "eval", "show"])
def test_a_threshold_that_is_no_number_is_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "x", "--pass-threshold", "nan"]) == 2
    assert "expected a finite number" in capsys.readouterr().err


def test_a_compressed_files_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"written uncompressed: name it .*tasks\.jsonl\."):
        check_output(tmp_path / "tasks.jsonl.gz")
