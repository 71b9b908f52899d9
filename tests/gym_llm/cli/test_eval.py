"""`gym-llm eval`: several environments and engines in one folder, against a server on loopback."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer
from testing import row, wait_for

from gym_llm.cli import main

COMMAND = [sys.executable, "-m", "gym_llm.cli"]
FOLLOW, CHOICE = "gym_llm/FollowUp-v0", "gym_llm/MultipleChoice-v0"
LETTERS = [{"A": "one"}, {"B": "two"}]

SUITE = """
chat:
  env: gym_llm/FollowUp-v0
  tasks: chat.jsonl
  repeats: 2
letters: {env: gym_llm/MultipleChoice-v0, tasks: letters.jsonl, limit: 2}
"""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    running = ModelServer()
    running.answer = lambda body: "yes" if "Question" in said(body) else r"\boxed{B}"
    yield running
    running.close()


@pytest.fixture(autouse=True)
def suite(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    write_rows("chat.jsonl", [row(f"Question {n}", expected_answer="yes", level=n % 2) for n in range(3)])
    rows = [row(f"{n}?", options=LETTERS, expected_answer=letter) for n, letter in enumerate("BAB")]
    write_rows("letters.jsonl", rows)
    Path("suite.yaml").write_text(SUITE)


@pytest.fixture
def drawing() -> None:
    """For tests that look at plots."""


@pytest.fixture(autouse=True)
def no_matplotlib(request, monkeypatch) -> None:
    """Plots take longer than everything else here: they are drawn where a test looks at them."""
    if "drawing" not in request.fixturenames:
        monkeypatch.setitem(sys.modules, "matplotlib", None)


def write_rows(path: str, rows: list[Any]) -> None:
    Path(path).write_text("".join(json.dumps(line) + "\n" for line in rows))


def said(body: dict[str, Any]) -> str:
    return str(body["messages"][0]["content"])


def evaluate(*argv: object) -> int:
    return main(["eval", *map(str, argv)])


def results(folder: str = "out") -> dict[str, Any]:
    return json.loads(Path(folder, "results.json").read_text())


def episodes(folder: str = "out") -> dict[tuple[str, str], int]:
    return {(r["dataset"], r["engine"]): r["metrics"]["episodes"] for r in results(folder)["results"]}


def means(folder: str = "out") -> dict[tuple[str, str], float]:
    return {(r["dataset"], r["engine"]): r["metrics"]["mean_reward"]["value"] for r in results(folder)["results"]}


def lines(folder: str = "out") -> dict[str, list[str]]:
    return {path.name: path.read_text().splitlines() for path in sorted(Path(folder, "records").glob("*.jsonl"))}


@pytest.mark.slow
def test_every_engine_plays_every_environment_into_one_folder(server, capsys, drawing):
    argv = ["suite.yaml", "--engine", f"base={server.url}", "--engine", "random", "--output", "out"]
    assert evaluate(*argv, "--by", "level", "--repeats", 2) == 0
    assert means() == {
        ("chat", "base"): 1.0,
        ("chat", "random"): 0.0,
        ("letters", "base"): 0.5,
        ("letters", "random"): 0,
    }
    assert episodes() == {("chat", "base"): 6, ("chat", "random"): 6, ("letters", "base"): 4, ("letters", "random"): 4}
    assert {name: len(each) for name, each in lines().items()} == {"base.jsonl": 10, "random.jsonl": 10}
    told = results()
    assert (told["schema_version"], told["complete"]) == (1, True)
    assert told["files"] == ["records/base.jsonl", "records/random.jsonl"]
    assert [result["model"] for result in told["results"]] == ["stub", "random", "stub", "random"]
    assert set(told["results"][0]["groups"]["level"]) == {"0", "1"}  # only those rows have levels
    assert told["results"][2]["groups"] == {}
    out = capsys.readouterr().out
    table = [line.split() for line in out.splitlines() if line.strip().startswith(("chat ", "letters "))]
    assert table[0][:4] == ["chat", "base", "6", "1.000"]
    assert table[0][-3:] == ["0.0%", "0.0%", "0.0%"]  # truncated, masked, tool errors
    assert [cells[2] for cells in table[4:]] == ["0", "1", "0", "1"]  # a table of the levels
    page = Path("out/report.html").read_text()
    assert page.startswith("<!doctype html>") and Path("out/episodes.html").exists()
    examples = [episode for episode in told["examples"] if episode["engine"] == "random"]
    assert {episode["kind"] for episode in examples} <= {"failed", "solved"} and len(examples) == 10
    for episode in examples:
        link = f"run=random&amp;task={episode['task']}&amp;repeat={episode['repeat']}&amp;of={episode['dataset']}"
        assert f'href="./episodes.html#{link}"' in page
    assert "| chat | base | 6 | 1.000" in Path("out/report.md").read_text()
    names = ("mean_reward", "pass_at_k", "rewards", "group_1")
    plots = {f"{name}.{suffix}" for name in names for suffix in ("png", "svg")}
    assert {path.name for path in Path("out/plots").iterdir()} == plots


def test_an_engine_without_a_name_is_called_by_its_model(server, capsys):
    assert evaluate("suite.yaml", "--engine", server.url, "--output", "out", "--repeats", 2) == 0
    out = capsys.readouterr().out
    assert "played by stub" in out and server.url not in out
    assert "stub" in Path("out/report.md").read_text() and f"| {server.url} |" not in Path("out/report.md").read_text()
    assert {result["engine"] for result in results()["results"]} == {server.url}
    assert "chat, played by stub: all 3 groups have equal rewards." in out


def test_environments_are_named_one_by_one_too(server, capsys):
    assert evaluate(FOLLOW, CHOICE, "--engine", server.url, "--limit", 2, "--quiet", "--output", "out") == 0
    name = server.url
    assert episodes() == {("FollowUp", name): 2, ("MultipleChoice", name): 2}
    assert evaluate(FOLLOW, "--tasks", "chat.jsonl", "--engine", server.url, "--episodes", 5, "--quiet") == 0
    (folder,) = Path("evaluations").iterdir()
    assert folder.name.startswith("FollowUp-")
    assert episodes(str(folder)) == {("FollowUp", name): 5}
    assert capsys.readouterr() == ("", "")


def test_arguments_are_for_every_environment_or_for_one(capsys):
    argv = [FOLLOW, CHOICE, "--engine", "random", "--limit", 1, "--quiet", "--output", "out"]
    own = [f'{CHOICE}={{"conform": "nemo"}}', f'{CHOICE}={{"max_turns": 2}}', '{"max_turns": 3, "render_mode": null}']
    assert evaluate(*argv, *(word for text in own for word in ("--env-kwargs", text))) == 0
    parts = json.loads(Path("out/records/random.summary.json").read_text())["settings"]["datasets"]
    assert {part["env_id"]: part["env_kwargs"] for part in parts.values()} == {
        FOLLOW: {"max_turns": 3, "render_mode": None},
        CHOICE: {"max_turns": 2, "render_mode": None, "conform": "nemo"},
    }
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"tools": []}', "FollowUp: gym_llm/FollowUp-v0 has no argument 'tools'. "),
        (f'{FOLLOW}={{"max_turn": 3}}', "has no argument 'max_turn'. Did you mean max_turns?"),
        ('gym_llm/FolowUp-v0={"max_turns": 3}', "'gym_llm/FolowUp-v0', which is not played. Did you mean " + FOLLOW),
        (
            "max_turns=3",
            f"'max_turns', which is not played. Played: {FOLLOW}, {CHOICE}; JSON alone is for all of them.",
        ),
        (f"{FOLLOW}=[3]", f"--env-kwargs {FOLLOW} is a JSON object such as"),
        (f"{FOLLOW}=", f"--env-kwargs {FOLLOW} is not JSON"),
        ("3", "--env-kwargs is a JSON object such as"),
    ],
)
def test_arguments_of_nobody_are_refused_in_one_sentence(capsys, text, expected):
    assert evaluate(FOLLOW, CHOICE, "--engine", "random", "--env-kwargs", text) == 2
    message = capsys.readouterr().err
    assert expected in message and message.count("\n") == 1
    assert not Path("evaluations").exists()


def test_what_is_finished_is_not_played_again(server, capsys):
    argv = ["suite.yaml", "--engine", f"base={server.url}", "--output", "out", "--resume", "--quiet"]
    assert evaluate(*argv) == 0
    whole = lines()
    assert len(server.bodies) == 8
    assert evaluate(*argv, "--by", "level", "--pass-threshold", 2) == 0  # only the reports are written again
    assert len(server.bodies) == 8
    assert lines() == whole
    assert results()["results"][0]["metrics"]["pass_at"]["1"]["value"] == 0.0
    Path("out/records/base.jsonl").write_text("".join(f"{line}\n" for line in whole["base.jsonl"][::2]) + '{"torn')
    for path in ("out/results.json", "out/records/base.summary.json"):
        Path(path).unlink()  # a kill may leave none
    assert evaluate(*argv) == 0
    assert len(server.bodies) == 12
    assert sorted(map(identity, lines()["base.jsonl"])) == sorted(map(identity, whole["base.jsonl"]))
    assert means() == {("chat", "base"): 1.0, ("letters", "base"): 0.5}
    assert evaluate(*argv, "--repeats", 3, "--limit", 3, "--engine", "random") == 0  # it may grow
    assert episodes() == {("chat", "base"): 9, ("chat", "random"): 9, ("letters", "base"): 9, ("letters", "random"): 9}
    assert len(server.bodies) == 22
    assert capsys.readouterr().err == ""


def identity(line: str) -> tuple[Any, ...]:
    record = json.loads(line)
    return record["dataset"], *record["rollout_id"].values()


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], "out holds an evaluation already: resume it (--resume) or name another folder."),
        (["--resume", "--seed", 3], "base.jsonl was made with other settings (seed was 0 and is 3): name another"),
        (
            ["--resume", "chat.kwargs.max_turns=3"],
            "(chat.env_kwargs was {} and is {'max_turns': 3})",
        ),
        (["--resume", "chat.tasks=letters.jsonl"], "chat.tasks_sha256 was "),
        (
            ["--resume", "--engine", "b=random"],
            "has records/base.jsonl from another engine",
        ),
        (
            ["--resume", "--engine", "base=random", "--repeats", 9],
            "chat.engine was 'http' and is 'random'",
        ),
        (["--resume", "other.yaml"], "(it does not have the dataset more): name another output"),
    ],
)
def test_a_folder_that_was_made_in_another_way_is_refused_with_what_differs(server, capsys, argv, expected):
    Path("other.yaml").write_text("more: {env: gym_llm/FollowUp-v0}\n")
    assert evaluate("suite.yaml", "--engine", f"base={server.url}", "--output", "out", "--quiet") == 0
    before = lines()
    engine = [] if "--engine" in argv else ["--engine", f"base={server.url}"]
    assert evaluate("suite.yaml", *engine, "--output", "out", "--quiet", *argv) == 2
    message = capsys.readouterr().err
    assert expected in message
    assert message.count("\n") == 1
    assert lines() == before


ENGINES = """
base: {engine: "URL", kwargs: {model: one}}
chance: {engine: random}
"""


def test_a_suites_engines_play_every_environment_that_names_none(server, capsys):
    Path("engines.yaml").write_text(ENGINES.replace("URL", server.url) + "letters: {engine: chance}\n")
    argv = ["suite.yaml", "engines.yaml", "--quiet"]
    assert evaluate(*argv, "--output", "out") == 0
    assert episodes() == {("chat", "base"): 6, ("chat", "chance"): 6, ("letters", "chance"): 2}
    assert {body["model"] for body in server.bodies} == {"one"}
    argv = ["--config", *argv[:1], "--config", *argv[1:]]
    assert evaluate(*argv, "--engine", "base", "--output", "two", "chat.limit=1", "letters.limit=1") == 0
    assert episodes("two") == {("chat", "base"): 2, ("letters", "base"): 1}
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "argv", "expected"),
    [
        ("chat: {env: gym_llm/FollowUp-v0, repeats: 0}", [], "chat.repeats (wrong.yaml): Input should be greater"),
        ("chat: {env: gym_llm/FollowUp-v0, repeat: 2}", [], "there is no such key. Did you mean repeats?"),
        ("chat: {env: gym_llm/FollowUpp-v0}", [], "Did you mean gym_llm/FollowUp-v0?"),
        ("chat: {env: gym_llm/FollowUp-v0, tasks: no.jsonl}", [], "no.jsonl"),
        ("chat: {env: gym_llm/FollowUp-v0, tasks: a.jsonl, kwargs: {tasks: b.jsonl}}", [], "both say which tasks"),
        ("chat: {env: gym_llm/FollowUp-v0, engine: nobody}", [], "`engine: nobody` names no section of an engine"),
        ("base: {engine: random}", [], "The configuration names no environment to play."),
        ("[1, 2]", [], "a configuration is a mapping of sections, this is a list."),
        (SUITE, ["--tasks", "chat.jsonl"], "--tasks does not go with a suite"),
        (SUITE, [FOLLOW], "Give either ENV_ID or a suite, not both; got 'gym_llm/FollowUp-v0'."),
        (SUITE, ["--engine", "pockett"], "Unknown engine 'pockett': did you mean pocket?"),
        (SUITE, ["--engine", "a=random", "--engine", "A=random"], "The engines a and A have too much the same name"),
        (SUITE, ["--engine", "random", "--engine", "random"], "Two engines are called random: name them"),
        (SUITE, ["--engine", "random", "--engine-option", "temprature=1"], "random has no option 'temprature'"),
        (SUITE, ["--by", "a,,b"], "Fields to group by have names"),
        (SUITE, ["--prices", "chat.jsonl"], "chat.jsonl is not a table of prices"),
        (SUITE, ["--prices", "no.yaml"], "Cannot read no.yaml: No such file or directory."),
        (SUITE, ["--output", "chat.jsonl"], "Cannot write chat.jsonl: it is a file; name a folder."),
        (SUITE, ["--resume"], "--resume needs --output DIR"),
    ],
)  # fmt: skip
def test_a_wrong_suite_or_option_is_refused_before_anything_is_played(capsys, text, argv, expected):
    Path("wrong.yaml").write_text(text)
    if "--engine" not in argv:
        argv = [*argv, "--engine", "random"] if "engine" not in text else argv
    assert evaluate("wrong.yaml", *argv) == 2
    message = capsys.readouterr().err
    assert expected in message, message
    assert "Traceback" not in message
    assert not Path("evaluations").exists() or not list(Path("evaluations").iterdir())


def test_what_goes_over_a_suite_needs_one(capsys):
    assert evaluate(FOLLOW, "chat.limit=2") == 2
    assert "no suite" in capsys.readouterr().err
    assert evaluate() == 2
    assert "Name a benchmark, an environment or a suite" in capsys.readouterr().err


def test_a_field_that_no_record_has_is_told_when_all_else_is_written(server, capsys):
    argv = ["suite.yaml", "--engine", f"base={server.url}", "--output", "out", "--quiet"]
    assert evaluate(*argv, "--by", "levl") == 2
    message = capsys.readouterr().err
    assert "No record has the field 'levl' to group by. Did you mean level? Resume out" in message
    assert results()["complete"]
    assert evaluate(*argv, "--by", "level", "--resume") == 0
    assert "By level" in Path("out/report.md").read_text()
    assert len(server.bodies) == 8


def test_tokens_cost_what_the_price_table_says(server, capsys):
    Path("prices.yaml").write_text("stub: {input: 1, output: 10}\n")
    argv = ["suite.yaml", "--engine", f"base={server.url}", "--output", "out"]
    assert evaluate(*argv, "--prices", "prices.yaml") == 0
    chat, letters = (result["metrics"]["cost"] for result in results()["results"])
    assert chat["total"] == pytest.approx(6 * (7 * 1 + 2 * 10) / 1e6)
    assert letters["per_solved"] == pytest.approx(2 * 27 / 1e6)
    Path("prices.yaml").write_text("other: {input: 1, output: 10}\n")
    assert evaluate(*argv, "--prices", "prices.yaml", "--resume", "--quiet") == 0
    assert "no price of stub" in Path("out/report.md").read_text()
    Path("prices.yaml").write_text("stub: {input: -1, output: 10}\n")
    capsys.readouterr()
    assert evaluate(*argv, "--prices", "prices.yaml", "--resume") == 2
    assert "prices.yaml: stub.input: expected dollars per million tokens" in capsys.readouterr().err


def test_no_secret_is_in_any_file_or_shown(server, capsys, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "environment-s3cret-1")
    monkeypatch.setenv("OPENAI_API_KEY", "environment-s3cret-1")
    secrets = "{api_key: sk-0123456789, extra_body: {auth_token: tok-9876543}}"
    text = f"base: {{engine: '{server.url}', kwargs: {secrets}}}"
    Path("engines.yaml").write_text(text)
    server.answer = lambda body: "sk-0123456789 and environment-s3cret-1 and tok-9876543"
    assert evaluate("suite.yaml", "engines.yaml", "--by", "level", "--output", "out") == 0
    captured = capsys.readouterr()
    texts = [captured.out + captured.err]
    texts += [path.read_text(errors="replace") + path.name for path in Path("out").rglob("*") if path.is_file()]
    for secret in ("sk-0123456789", "environment-s3cret-1", "tok-9876543"):
        assert not any(secret in each for each in texts), secret
    assert "***" in Path("out/results.json").read_text()


def test_the_key_of_one_environments_judge_is_not_in_the_command_to_go_on(server, capsys):
    server.answer = lambda body: 400
    judge = {"engine": server.url, "kwargs": {"api_key": "sk-0123456789", "max_retries": 0}}
    argv = ["gym_llm/SimpleQA-v0", "--env-kwargs", f"gym_llm/SimpleQA-v0={json.dumps({'judge': judge})}"]
    limits = ["--concurrency", 1, "--retries", 0, "--max-failures", 1]
    assert evaluate(*argv, "--engine", "constant:Oslo", *limits, "--output", "out") == 1
    hint = capsys.readouterr().err.partition("Resume with (put the secrets in for ***): ")[2]
    assert 'gym_llm/SimpleQA-v0={"judge": ' in hint and '"api_key": "***"' in hint
    assert not any("sk-0123456789" in path.read_text() for path in Path("out").rglob("*.*") if path.is_file())


def test_too_many_masked_episodes_end_it_with_a_report_and_how_to_go_on(server, capsys):
    server.answer = lambda body: 400
    argv = ["suite.yaml", "--engine", f"base={server.url}", "--output", "out", "--max-failures", 2, "--retries", 0]
    assert evaluate(*argv, "--concurrency", 1) == 1
    captured = capsys.readouterr()
    assert "3 of 3 episodes are masked" in captured.err
    assert "100.0%" in captured.out
    assert not results()["complete"]
    assert "not complete · 3 of 8 episodes" in Path("out/report.md").read_text()
    server.answer = lambda body: "yes"
    command = captured.err.partition("Resume with: gym-llm ")[2].splitlines()[0]
    assert main([*shlex.split(command), "--retry-failed", "--quiet"]) == 0
    assert episodes() == {("chat", "base"): 6, ("letters", "base"): 2}


def test_an_engine_that_is_not_there_ends_it_without_a_loss(server, capsys):
    argv = ["suite.yaml", "--engine", f"base={server.url}", "--engine", "replay:no.jsonl", "--output", "out", "--quiet"]
    assert evaluate(*argv) == 2
    message = capsys.readouterr().err
    assert "Cannot read the rollout file 'no.jsonl'" in message and "Resume with: gym-llm eval suite.yaml" in message
    assert episodes()["chat", "base"] == 6
    assert evaluate("suite.yaml", "--engine", "replay:no.jsonl", "--output", "two") == 2  # nothing was played at all
    assert not Path("two").exists()


def test_recorded_episodes_are_replayed_by_dataset(server):
    assert evaluate("suite.yaml", "--engine", f"base={server.url}", "--output", "out", "--quiet") == 0
    server.bodies.clear()
    argv = ["--engine", "again=replay:out/records/base.jsonl", "--output", "two", "--quiet"]
    assert evaluate("suite.yaml", *argv) == 0
    assert server.bodies == []
    assert list(means("two").values()) == list(means().values())


def start(*argv: object) -> subprocess.Popen[str]:
    def unignored() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*COMMAND, "eval", *map(str, argv)], preexec_fn=unignored, **pipes)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_evaluation_that_is_ended_is_completed_by_playing_what_is_missing(server, number):
    write_rows("chat.jsonl", [row(f"Question {n}", expected_answer="yes") for n in range(20)])

    def stop_answering(body: dict[str, Any]) -> str:
        server.latency = 3600.0 if len(server.bodies) >= 50 else 0.0  # in the second engine's part
        return "yes"

    server.answer = stop_answering
    engines = ["--engine", f"base={server.url}", "--engine", f"other={server.url}"]
    process = start("suite.yaml", *engines, "--output", "out", "--concurrency", 2)
    try:
        wait_for(lambda: server.latency > 0, seconds=60)
    finally:
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    done = sum(path.read_bytes().count(b"\n") for path in Path("out/records").glob("*.jsonl"))
    assert 42 <= done <= 52
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert f"Interrupted: {done} episodes are finished. Resume with: gym-llm eval suite.yaml" in err
        assert f"not complete · {done} of 84 episodes" in " ".join(out.split())
        assert sum(episodes().values()) == done
        argv = shlex.split(err.partition("Resume with: gym-llm ")[2].splitlines()[0])
    else:
        assert not Path("out/results.json").exists()
        argv = ["eval", "suite.yaml", *engines, "--output", "out", "--resume"]
    server.latency, server.answer = 0.0, lambda body: "yes"
    assert main([*argv, "--quiet"]) == 0
    assert [len(each) for each in lines().values()] == [42, 42]
    assert len({(name, identity(line)) for name, each in lines().items() for line in each}) == 84
    assert results()["complete"] and means()["chat", "other"] == 1.0
