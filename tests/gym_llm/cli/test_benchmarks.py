"""Benchmarks by name on the command line: fetched from a local hub, played, reported with their own figure."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_process import CommandProcess, Shell
from hub_server import HubServer, Repo, serving

from gym_llm.data.recipes import prepared
from gym_llm.data.recipes.catalogue import find_benchmark

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("benchmarks_cli")]
RIGHT = "Correct Answer"


def parquet(rows: list[dict[str, Any]]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    return file.getvalue()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HubServer, CommandProcess]]:
    hub = HubServer()
    with serving(hub.app()) as url:
        hub.url = url
        settings = {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "COLUMNS": "200"}
        commands = CommandProcess(HF_ENDPOINT=url, HF_HOME=str(tmp_path_factory.mktemp("home")), **settings)
        problems = [{"problem": f"Double the number {n}.", "answer": 2 * n, "problem_idx": n} for n in range(1, 31)]
        hub.repos["MathArena/aime_2025"] = Repo(False, {"main": {"data/train-0.parquet": parquet(problems)}})
        questions = [
            {"Question": f"Which is {n}?", RIGHT: f"r{n}", **{f"Incorrect Answer {k}": f"w{k}" for k in (1, 2, 3)}}
            for n in range(20)
        ]
        card = b"---\nconfigs:\n- config_name: gpqa_diamond\n  data_files:\n  - split: train\n    path: d/*\n---\n"
        files = {"d/train-0.parquet": parquet(questions), "README.md": card}
        hub.repos["Idavidrein/gpqa"] = Repo(False, {"main": files})
        rows = [{"responses_create_params": {"input": f"{n} + 1"}, "expected_answer": str(n + 1)} for n in range(4)]
        data = b"".join(json.dumps({**row, "question": "?"}).encode() + b"\n" for row in rows)
        hub.repos["nvidia/Nemotron-RL-math-OpenMathReasoning"] = Repo(False, {"main": {"train.jsonl": data}})
        hub.repos["nvidia/Nemotron-RL-math-stack_overflow"] = Repo(
            False, {"main": {"math_stack_overflow_problems.jsonl": data}}
        )
        yield hub, commands
        commands.close()


@pytest.fixture
def shell(place: tuple[HubServer, CommandProcess], tmp_path: Path) -> Shell:
    return Shell(place[1], tmp_path)


def test_two_benchmarks_are_evaluated_by_name(shell: Shell) -> None:
    said = shell("eval", "aime25", "gpqa_diamond", "--engine", "random", "--repeats", "2", "--output", "out")
    assert "gpqa_diamond" in said and "2 repeats, not 32" in said
    results = json.loads((shell.folder / "out/results.json").read_text())["results"]
    by_name = {result["dataset"]: result for result in results}
    about = by_name["gpqa_diamond"]["benchmark"]
    assert (about["tasks"], about["tasks_played"], about["rule"]) == (20, 20, "mean")
    assert about["benchmark"] == "gpqa" and len(about["digest"]) == 64 and len(about["revision"]) == 40
    assert about["differences"] == ["2 repeats, not 8", "20 tasks in the data, not 198"]
    record = json.loads((shell.folder / "out/records/random.jsonl").read_text().splitlines()[0])
    assert record["task_source"] == {
        **{name: by_name["aime25"]["benchmark"][name] for name in ("benchmark", "revision", "digest")},
        "task_id": record["task_source"]["task_id"],
    }
    assert "Scores" in (shell.folder / "out/report.md").read_text()
    assert (shell.folder / "out/plots/scores.png").exists()
    again = shell(
        "eval", "aime25", "gpqa_diamond", "--engine", "random", "--repeats", "2", "--output", "out", "--resume"
    )
    assert "complete" in again


def test_a_drawn_part_is_the_same_everywhere(shell: Shell) -> None:
    ids = []
    for name in ("a", "b"):
        shell(
            "rollout", "aime25", "--engine", "random", "--repeats", "1", "--limit", "7", "--seed", "3", "--output", name
        )
        ids.append(
            [json.loads(line)["task_source"]["task_id"] for line in (shell.folder / name).read_text().splitlines()]
        )
    assert sorted(ids[0]) == sorted(ids[1]) and len(set(ids[0])) == 7


def test_wrong_names_and_missing_judges(shell: Shell) -> None:
    assert "Did you mean the benchmark aime25?" in shell.sentence("rollout", "aim25")
    assert shell.sentence("eval", "simpleqa").startswith("simpleqa needs a judge: give --judge")
    assert "has no verifier for gdpval yet" in shell.sentence("rollout", "gdpval")
    assert "is a benchmark, which has its own tasks" in shell.sentence("eval", "aime25", "--tasks", "a.jsonl")
    assert "There is no suite 'cod'. Did you mean code?" in shell.sentence("eval", "--suite", "cod")
    assert "--map needs --tasks" in shell.sentence("rollout", "gym_llm/MathVerify-v0", "--map", "a=b")


def test_public_training_data_is_played(shell: Shell) -> None:
    shell("rollout", "gym_llm/MathWithJudge-v0", "--tasks", "train", "--engine", "random", "--output", "out.jsonl")
    records = [json.loads(line) for line in (shell.folder / "out.jsonl").read_text().splitlines()]
    assert len(records) == 8 and records[0]["task_source"]["benchmark"] == "math_with_judge.train"
    assert "names no public train data" in shell.sentence("rollout", "gym_llm/Weather-v0", "--tasks", "train")


def test_examples_say_what_they_are(shell: Shell) -> None:
    said = shell("rollout", "gym_llm/GPQADiamond-v0", "--engine", "random", "--output", "out.jsonl")
    notice = "sample data (example, 5 rows, ours), not a benchmark: the figures measure nothing."
    notice += " Play the benchmark: gym-llm eval gpqa_diamond."
    assert notice in " ".join(said.split())
    record = json.loads((shell.folder / "out.jsonl").read_text().splitlines()[0])
    assert record["task_source"] == {"tasks": "example, 5 rows, ours"}
    said = " ".join(shell("eval", "gym_llm/GPQADiamond-v0", "--engine", "random", "--output", "report").split())
    assert said.index(notice) < said.index("Results") and said.count("measure nothing") == 1
    text = (shell.folder / "report/report.md").read_text()
    assert "intervals are over 5 tasks" in text and text.index("**GPQADiamond: sample data") < text.index("## Results")
    assert f'<p class="notice">GPQADiamond: {notice}' in (shell.folder / "report/report.html").read_text()


def test_data_commands(shell: Shell, place: tuple[HubServer, CommandProcess]) -> None:
    line = shell("data", "fetch", "aime25", "--to", "copies").split("\t")
    assert line[:2] == ["aime25", "30 tasks"]
    place[0].seen.clear()
    elsewhere = {"HF_HOME": str(shell.folder / "home"), "GYM_LLM_BENCHMARKS": str(shell.folder / "copies")}
    assert shell("data", "fetch", "aime25", **elsewhere).split("\t")[:4] == line[:4] and place[0].seen == []
    (shell.folder / "raw.csv").write_text('problem,answer\n"1 + 1",2\n')
    assert json.loads(shell("data", "convert", "aime25", "raw.csv")) == {"question": "1 + 1", "expected_answer": "2"}
    card = shell("data", "audit", "aime25", "--limit", "5", "--card", "card.md")
    assert "| the official one (full reward) | 5 | 5 |" in card and (shell.folder / "card.md").read_text() == card
    (shell.folder / "wrong.jsonl").write_text('{"question": "1 + 1"}\n')
    assert "lacks 'problem'" in shell.sentence("data", "convert", "aime25", "wrong.jsonl")


def test_list(shell: Shell) -> None:
    lines = shell("list", "--benchmarks").splitlines()
    assert len(lines) >= 100 and lines[0].startswith("benchmark\ttitle\tdomain")
    judged = shell("list", "--benchmarks", "--domain", "math", "--needs", "judge").splitlines()[1:]
    assert judged and all("\tmath\t" in line and line.endswith("judge") for line in judged)
    assert "Did you mean judge" in shell.sentence("list", "--benchmarks", "--needs", "juge")
    assert "add --benchmarks" in shell.sentence("list", "--needs", "judge")
    assert "train" in next(line for line in shell("list").splitlines() if line.startswith("gym_llm/Calendar-v0"))


def test_a_pin_is_written_into_the_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "PINS", tmp_path / "pins.json")
    about = {"revision": "a", "digest": "b", "rows": 1, "raw": "c", "recipe": "d", "revisions": {}}
    prepared.write_pin(prepared.Prepared("aime25", tmp_path, "a", "b", 1, about))
    assert prepared.pin_of(find_benchmark("aime25")) == about and prepared.pinned() == {"aime25": about}


def test_the_page_names_every_benchmark() -> None:
    from testing import ROOT

    from gym_llm.cli.list_benchmarks import markdown
    from gym_llm.data.recipes.catalogue import benchmarks

    page = (ROOT / "docs/how-to/run-benchmarks.md").read_text("utf-8")
    assert markdown(benchmarks().values()) in page, "run `make environments`"
