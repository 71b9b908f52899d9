"""The command line, run as users run it: in a process of its own, against a server on loopback."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from model_server import ModelServer
from testing import has_lines, row, wait_for
from testing import rollout_ids as pairs

from gym_llm.cli import main
from gym_llm.errors import EngineUnavailable
from gym_llm.rollout import part

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "gym_llm.cli"]
ENV = "gym_llm/FollowUp-v0"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    running = ModelServer()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def gym_llm(*argv: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, argv)], capture_output=True, text=True, timeout=60, **options)


def start(*argv: object, **options: Any) -> subprocess.Popen[str]:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*COMMAND, *map(str, argv)], **pipes, **options)


def play(*argv: object) -> int:
    """The command in this process, where the process does not matter: saves a start."""
    return main(["rollout", ENV, *map(str, argv)])


def write_tasks(count: int, path: str = "tasks.jsonl") -> str:
    rows = (row(f"Question {number}", expected_answer="yes") for number in range(count))
    Path(path).write_text("".join(json.dumps(line) + "\n" for line in rows))
    return path


def question(body: dict[str, Any]) -> int:
    """The number in a request's question."""
    return int(body["messages"][0]["content"].split()[-1])


def read(path: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_bytes().splitlines()]


# -- help and list -------------------------------------------------------------------------------------------------


def test_help_is_quick_and_loads_no_model_library():
    code = "import sys; from gym_llm.cli import main; main(['--help'])\n"
    code += "heavy = {'torch', 'ray', 'transformers', 'vllm', 'datasets', 'openai', 'math_verify'}\n"
    code += "print(heavy & sys.modules.keys(), file=sys.stderr)"
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert result.stderr == "set()\n"
    assert min(spent) < 0.5


@pytest.mark.parametrize(
    "command",
    [
        *("", "list", "rollout", "config", "data", "data prepare", "data upload", "data list", "env", "env test"),
        *("filter", "profile", "reverify", "show"),
    ],
)
def test_every_help_has_examples(command, capsys):
    assert main([*command.split(), "--help"]) == 0
    assert "examples:\n  gym-llm " in capsys.readouterr().out


def test_without_a_command_there_is_help(capsys):
    assert main([]) == main(["data"]) == 2
    output = capsys.readouterr()
    assert "rollout" in output.out and "prepare" in output.out
    assert output.err == ""


@pytest.mark.parametrize(
    ("command", "sentence", "see"),
    [
        ("rolout", "No such command 'rolout'. Did you mean 'rollout'?", None),
        ("data uplod", "No such command 'uplod'. Did you mean 'upload'?", None),
        ("frobnicate", "No such command 'frobnicate'.", "gym-llm"),
        ("list --api-key=sk-0123456789", "No such option: --api-key.", "gym-llm list"),
        ("list here", "Got unexpected extra argument(s) (here).", "gym-llm list"),
        ("list --format html", "argument --format: 'html' is not one of 'table', 'markdown'.", None),
        ("data upload a.jsonl", "Missing option '--to'. Choose from: huggingface, gitlab.", "gym-llm data upload"),
        ("data upload --to gitlab", "Missing argument 'FILE'.", "gym-llm data upload"),
    ],
)
def test_what_is_no_command_is_answered_in_one_line(command, sentence, see, capsys):
    assert main(command.split()) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == f"gym-llm: {sentence}{f' See `{see} --help`.' if see else ''}\n"


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("gym-llm ro", ["rollout"]),
        ("gym-llm rollout gym_llm/Mu", ["gym_llm/MultiChallenge-v0", "gym_llm/MultipleChoice-v0"]),
        ("gym-llm data upload --to h", ["huggingface"]),
    ],
)
def test_the_shell_completes(words, completed):
    asked = {"_GYM_LLM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert gym_llm(env={**os.environ, **asked}).stdout.split() == completed


def test_the_installed_command_knows_its_version():
    command = Path(sys.executable).with_name("gym-llm")
    if not command.exists():
        pytest.skip("the package is not installed beside this interpreter")
    result = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"gym-llm \d+\.\d+\.\d+\n", result.stdout)


def test_list_shows_what_each_environment_is_and_has():
    result = gym_llm("list")
    assert (result.returncode, result.stderr) == (0, "")
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if "gym_llm/" in line}
    assert "The user asks on" in lines[ENV]
    assert re.search(r"\b5\b", lines[ENV])
    assert "generated" in lines["gym_llm/Arithmetic-v0"]
    assert "increment_counter, get_counter_value" in lines["gym_llm/Counter-v0"]


def test_list_breaks_no_name_on_a_narrow_terminal():
    shown = gym_llm("list", env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": "80"}).stdout
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert max(map(len, lines)) <= 80
    words = " ".join(lines).replace(",", "").split()
    for name in ("gym_llm/SynonymExtraction-v0", "get_synonym_value", "extract_synonym_values", "`extracted_answer`"):
        assert name in words


def test_an_environment_that_cannot_be_made_does_not_hide_the_others(capsys):
    gymnasium.register("gym_llm/Broken-v0", entry_point="no_such_module:Broken")
    try:
        assert main(["list"]) == 0
    finally:
        del gymnasium.registry["gym_llm/Broken-v0"]
    out = capsys.readouterr().out
    assert "cannot be made: ModuleNotFoundError: No module named 'no_such_module'" in out
    assert ENV in out


def test_a_file_that_ends_too_early_is_not_taken_for_an_interrupt(monkeypatch):
    def end(env_id):
        raise EOFError("Ran out of input")

    monkeypatch.setattr("gym_llm.catalogue.describe", end)
    with pytest.raises(EOFError, match="Ran out of input"):
        main(["list"])


def test_a_reader_that_leaves_early_is_no_error():
    listing = start("list", env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert listing.stdout is not None
    assert listing.stderr is not None
    listing.stdout.close()
    assert listing.stderr.read() == ""
    assert listing.wait() == 1
    listing.stderr.close()


# -- a run ---------------------------------------------------------------------------------------------------------


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


# -- what a user can get wrong -------------------------------------------------------------------------------------

NOWHERE = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["arithmetic"], r"no environment 'arithmetic'\. Did you mean gym_llm/Arithmetic-v0\?"),
        (["gym_llm/Arithmetc-v0"], r"Did you mean gym_llm/Arithmetic-v0\?"),
        (["gym_llm/MultipleChoice-v7"], r"Did you mean gym_llm/MultipleChoice-v0\?"),
        (["zzzzzzzzz"], r"no environment 'zzzzzzzzz'\. `gym-llm list`"),
        (["CartPole-v1"], "not a gym_llm.VerifierEnv"),
        (["no_such_module:x/Y-v0"], "There is no module 'no_such_module'"),
        ([ENV, "--engine", NOWHERE], r"127\.0\.0\.1:9.*cannot be reached"),
        ([ENV, "--engine", "pokcet"], "did you mean pocket"),
        ([ENV, "--engine", "localhost:8000/v1"], r"did you mean http://localhost:8000/v1\?"),
        ([ENV, "--engine", "10.0.0.7:8000"], r"did you mean http://10\.0\.0\.7:8000\?"),
        ([ENV, "--engine", "transformers:/no/such/folder"], "the model /no/such/folder: there is no such folder"),
        ([ENV, "--engine", "transformers:runs/no/model"], "the model runs/no/model: there is no such folder"),
        ([ENV, "--tasks", "empty.jsonl"], r"There are no tasks: .*empty\.jsonl is empty\."),
        ([ENV, "--engine", "replay:missing.jsonl"], r"missing\.jsonl.*No such file"),
        ([ENV, "--engine", "replay:x", "--model", "m"], "replay has no option 'model'"),
        ([ENV, "--engine-option", "treads=1"], "pocket has no option 'treads'; its options are max_batch_size"),
        ([ENV, "--engine-option", "history=keep"], "history is 'template' or 'append'; got 'keep'"),
        ([ENV, "--engine", "transformers:m", "--engine-option", "model=n"], "transformers has no option 'model'"),
        ([ENV, "--engine", NOWHERE, "--engine-option", "api_key=12345678"], r"api_key is a text, got int\."),
        ([ENV, "--env-kwargs", "{"], "--env-kwargs is not JSON"),
        ([ENV, "--env-kwargs", "[]"], "--env-kwargs is a JSON object"),
        ([ENV, "--env-kwargs", '{"max_turns": 0}'], "max_turns is the number of model turns"),
        (
            [ENV, "--env-kwargs", '{"colour": 1}'],
            r"no argument 'colour'\. It has max_turns, prompt_config, render_mode",
        ),
        ([ENV, "--env-kwargs", '{"max_turn": 1}'], r"no argument 'max_turn'\. Did you mean max_turns\?"),
        ([ENV, "--tasks", "missing.jsonl"], r"Cannot read the task file missing\.jsonl"),
        ([ENV, "--tasks", "bad.jsonl"], r"bad\.jsonl, line 2: expected_answer: Field required"),
        ([ENV, "--tasks", "torn.jsonl"], r"torn\.jsonl, line 2: not JSON"),
        ([ENV, "--episodes", "5", "--repeats", "1"], "either --episodes, or --limit and --repeats"),
        ([ENV, "--resume"], "--resume needs --output"),
        ([ENV, "--retry-failed"], "--retry-failed only makes sense with --resume"),
        ([ENV, "--ray-address", "head:6379"], "--ray-address only makes sense with --workers"),
        ([ENV, "--runtime-env", "{}"], "--runtime-env only makes sense with --workers"),
        ([ENV, "--runtime-env", "pip", "--workers", "1"], "--runtime-env is not JSON"),
        ([ENV, "--runtime-env", "3", "--workers", "1"], "--runtime-env is a JSON object such as"),
        ([ENV, "--output", "bad.jsonl"], r"bad\.jsonl already exists"),
        ([ENV, "--output", "bad.jsonl/x.jsonl"], r"Cannot write bad\.jsonl/x\.jsonl"),
        ([ENV, "--output", "bad.jsonl", "--resume"], r"bad\.jsonl, line 1 is no rollout"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_sentence(argv, sentence, capsys):
    good = json.dumps(row(expected_answer="yes"))
    Path("empty.jsonl").touch()
    Path("bad.jsonl").write_text(good + "\n" + json.dumps(row()) + "\n")
    Path("torn.jsonl").write_text(good + "\n" + good[:20])
    before = {path: path.read_bytes() for path in Path().iterdir()}
    assert main(["rollout", *argv]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert re.search(sentence, output.err.strip())
    assert output.err.startswith("gym-llm: ")
    assert output.err.count("\n") == 1
    after = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize("option", ["--episode 3", "--epsodes=3"])
def test_a_misspelt_option_is_answered_by_its_command_with_the_nearest_one(option, capsys):
    assert main(["rollout", ENV, *option.split()]) == 2
    said = capsys.readouterr().err
    name = re.split("[ =]", option)[0]  # what follows it may be a secret
    assert said == f"gym-llm: No such option: {name}. Did you mean --episodes?\n"


@pytest.mark.parametrize(
    ("engine", "argv", "seed"),
    [
        ("pocket", [], 0),
        ("pocket", ["--seed", "5"], 5),
        ("vllm:m", [], None),
        ("vllm:m", ["--seed", "5"], 5),
        ("vllm:m", ["--seed", "0"], 0),
        ("http://h/v1", ["--seed", "5"], None),
    ],
)
def test_the_seed_is_that_of_engines_that_sample_here(engine, argv, seed, monkeypatch):
    made = []

    def refuse(spec, **options):
        made.append(options)
        raise EngineUnavailable("That is enough.")

    monkeypatch.setattr(part, "make_engine", refuse)
    assert main(["rollout", ENV, "--engine", engine, *argv, "--output", "a.jsonl"]) == 2
    assert made[0].get("seed") == seed


@pytest.mark.parametrize(
    ("argv", "settings"),
    [
        ([], (600.0, None)),
        (["--step-timeout", "2.5"], (2.5, None)),
        (["--step-timeout", "0"], (None, None)),
        (["--workers", "2", "--runtime-env", '{"pip": ["a"]}'], (600.0, {"pip": ["a"]})),
        (["--workers", "2", "--runtime-env", '[null, {"pip": ["a"]}]'], (600.0, [None, {"pip": ["a"]}])),
    ],
)
def test_limits_and_packages_of_the_processes_reach_the_episodes(argv, settings, monkeypatch):
    used = []

    def refuse(plan, engine, settings, **more):
        used.append((settings.step_timeout, settings.runtime_env))
        raise EngineUnavailable("That is enough.")

    monkeypatch.setattr(part, "play", refuse)
    assert play(*argv, "--output", "a.jsonl") == 2
    assert used == [settings]


@pytest.mark.parametrize(
    "argv",
    [
        ["--episodes", "0"],
        ["--limit", "x"],
        ["--temperature", "-1"],
        ["--top-p", "nan"],
        ["--seed", "-1"],
        ["--step-timeout", "-1"],
    ],
)
def test_a_number_out_of_range_is_named(argv, capsys):
    assert main(["rollout", ENV, *argv]) == 2
    assert f"argument {argv[0]}: expected " in capsys.readouterr().err


# -- resuming ------------------------------------------------------------------------------------------------------


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


# -- ends before the end -------------------------------------------------------------------------------------------


def test_an_interrupt_before_the_first_record_leaves_nothing(server):
    server.latency = 30.0
    process = start("rollout", ENV, "--engine", server.url, "--output", "a.jsonl")
    wait_for(lambda: len(server.bodies) == 5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "0 episodes are finished" in err
    assert list(Path().iterdir()) == []
