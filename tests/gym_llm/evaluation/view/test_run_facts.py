"""The facts that distinguish runs: environment, model, date, settings and headline figure."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from gym_llm.evaluation.view.index import RunIndex
from gym_llm.evaluation.view.run_facts import describe, run_keys


def facts(path: Path, records: list[dict[str, Any]], summary: Any = None) -> dict[str, Any]:
    """The facts of a run of these records."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    if summary is not None:
        path.with_name(path.stem + ".summary.json").write_text(json.dumps(summary))
    run = RunIndex(path)
    asyncio.run(run.update())
    found: dict[str, Any] = describe(0, run)["facts"]
    run.close()
    return found


def settings(**fields: Any) -> dict[str, Any]:
    return {"model": "M", "settings": {"env_id": "gym_llm/Weather-v0", "engine": "vllm:M", "repeats": 4, **fields}}


def test_a_run_says_what_it_played_and_how(tmp_path: Path, make: Any) -> None:
    record = make.record(0, env_id="gym_llm/Weather-v0")
    record["response"]["created_at"] = 1.7e9
    summary = settings(sampling={"temperature": 0.6}, seed=3, engine_options={"max_model_len": 8192}, tasks=None)
    summary["pass_at"] = {"1": 0.5, "4": 0.75}
    found = facts(tmp_path / "a.jsonl", [record], summary)
    assert found["environments"] == ["gym_llm/Weather-v0"]
    assert (found["model"], found["engine"], found["date"]) == ("M", "vllm:M", 1.7e9)
    assert found["settings"] == [("temperature", "0.6"), ("repeats", "4"), ("seed", "3"), ("max_model_len", "8192")]
    assert found["pass_at"] == {"1": 0.5, "4": 0.75}


def test_a_run_without_a_summary_is_described_by_its_records(tmp_path: Path, make: Any) -> None:
    found = facts(tmp_path / "a.jsonl", [make.record(0), make.record(1)])
    assert (found["environments"], found["model"], found["engine"]) == (["gym_llm/Test-v0"], "test", "")
    assert found["date"] == (tmp_path / "a.jsonl").stat().st_mtime


def test_only_runs_of_the_same_tasks_are_in_a_group(tmp_path: Path, make: Any) -> None:
    def group(name: str, env_id: str, **fields: Any) -> str:
        path = tmp_path / f"{name}.jsonl"
        return facts(path, [make.record(0, env_id=env_id)], settings(env_id=env_id, **fields))["group"]

    first = group("first", "gym_llm/Weather-v0", tasks="a.jsonl")
    assert group("again", "gym_llm/Weather-v0", tasks="a.jsonl", engine="pocket", seed=5, repeats=1) == first
    others = [
        group("file", "gym_llm/Weather-v0", tasks="b.jsonl"),
        group("env", "gym_llm/Arithmetic-v0", tasks="a.jsonl"),
        group("kwargs", "gym_llm/Weather-v0", tasks="a.jsonl", env_kwargs={"max_turns": 1}),
    ]
    assert len({first, *others}) == 4


def test_a_benchmarks_own_figure_is_the_headline(tmp_path: Path, make: Any) -> None:
    benchmark = {"title": "AIME 2025", "rule": "majority", "figure": {"value": 0.4, "low": 0.3, "high": 0.5}}
    results = {"results": [{"engine": "base", "benchmark": benchmark}, {"engine": "other", "benchmark": None}]}
    (tmp_path / "results.json").write_text(json.dumps(results))
    found = facts(tmp_path / "records/base.jsonl", [make.record(0)])
    assert found["headline"] == {"value": 0.4, "low": 0.3, "high": 0.5, "title": "AIME 2025", "rule": "majority"}
    assert facts(tmp_path / "records/other.jsonl", [make.record(0)])["headline"] is None
    assert facts(tmp_path / "elsewhere/base.jsonl", [make.record(0)])["headline"] is None


def test_summaries_of_any_shape_are_described(tmp_path: Path, make: Any) -> None:
    for summary in (
        [],
        {"settings": 5},
        {"settings": {"datasets": [1]}},
        {"model": 5, "pass_at": [1]},
        {"settings": {}},
    ):
        found = facts(tmp_path / "a.jsonl", [make.record(0)], summary)
        assert (found["model"], found["engine"], found["settings"]) == ("test", "", [])
    long = settings(sampling={"x" * 500: "y" * 500}, agent={"command": "codex"})
    (agent, setting, *_) = facts(tmp_path / "a.jsonl", [make.record(0)], long)["settings"]
    assert agent == ("agent", "codex") and all(len(text) <= 81 for text in setting)


def test_addresses_name_runs_by_their_files() -> None:
    assert run_keys([Path("a.jsonl"), Path("x/a.jsonl"), Path("x/records/a.jsonl"), Path("b.jsonl")]) == [
        "a",
        "x/a",
        "x/a~2",
        "b",
    ]
