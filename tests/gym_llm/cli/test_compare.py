"""`gym-llm compare`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gym_llm.cli import main


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    paths = []
    for name, solved in (("base", 12), ("tuned", 15)):
        lines = [
            {
                "rollout_id": {"task_index": task, "repeat_index": 0}, "env_id": "Sums-v0", "outcome": "scored",
                "reward": float(task < solved), "info": {"turn": 1}, "error_phase": None, "schema_version": 2,
            }
            for task in range(20)
        ]  # fmt: skip
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        paths.append(str(path))
    return paths[0], paths[1]


def test_two_runs_are_compared_in_tables(runs: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *runs, "--detect", "0.05"]) == 0
    out = capsys.readouterr().out
    assert "tuned against base" in out and "+0.1500" in out and "3 tasks gained" in out
    assert "A difference of 0.05 needs" in out


def test_the_engines_of_one_evaluation_are_compared_in_the_order_of_its_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "evaluation"
    engines = ["--engine", "right=constant:\\boxed{1}", "--engine", "nothing=constant:x"]
    command = ["eval", "gym_llm/Arithmetic-v0", *engines, "--limit", "2", "--output", str(folder)]
    assert main(command) == 0
    assert f"gym-llm compare {folder}" in capsys.readouterr().out
    for path in (folder, folder / "records"):
        assert main(["compare", str(path)]) == 0
        assert "nothing against right" in capsys.readouterr().out


def test_json_has_all_and_the_gate(runs: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", runs[0], "--fail-if-worse-than", runs[1], "--by", "0.1", "--json"]) == 1
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["comparisons"][0]["difference"]["value"] == pytest.approx(-0.15)
    assert found["comparisons"][0]["p_value"] == 0.25
    assert [flip["task_index"] for flip in found["comparisons"][0]["lost"]] == [12, 13, 14]
    assert found["gate"]["passed"] is False
    assert captured.err == f"failed: {found['gate']['failures'][0]}\n"


def test_gates_let_pass_what_is_good_enough(runs: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", runs[1], "--fail-if-worse-than", runs[0]]) == 0
    assert main(["compare", runs[1], "--fail-below", "0.75"]) == 0
    assert main(["compare", runs[1], "--fail-below", "0.76"]) == 1
    assert "failed: tuned: the mean reward is 0.7500; expected 0.76 or more." in capsys.readouterr().err


def test_pictures_and_markdown(runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *runs, "--markdown", "--plots", str(tmp_path / "plots")]) == 0
    assert capsys.readouterr().out.startswith("# Comparison of runs\n")
    assert len(list((tmp_path / "plots").iterdir())) == 6


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["RUN"], "--fail-below"),
        (["RUN", "missing.jsonl"], "Cannot read missing.jsonl"),
        (["RUN", "RUN", "--by", "0.1"], "--fail-if-worse-than"),
        (["RUN", "RUN", "--json", "--markdown"], "--markdown"),
        (["RUN", "RUN", "--level", "95"], "--level is a confidence between 0 and 1"),
        (["RUN", "RUN", "--detect", "0"], "--detect is a difference above 0"),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_line(
    arguments: list[str], sentence: str, runs: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *(runs[0] if each == "RUN" else each for each in arguments)]) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "option",
    [
        ("--fail-below", "nan"), ("--pass-threshold", "nan"), ("--detect", "1e-300"), ("--detect", "inf"),
        ("--level", "0.9999999999999999"),
    ],
)  # fmt: skip
def test_numbers_that_make_no_sense_are_refused(
    option: tuple[str, str], runs: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *runs, *option]) == 2
    assert f"{option[0]} is a" in capsys.readouterr().err
