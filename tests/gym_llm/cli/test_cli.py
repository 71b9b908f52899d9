"""The command line's help, its lists, and what a user can get wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest
from rollout_commands import ENV, NOWHERE, gym_llm, play, start
from testing import row
from typer.main import get_command

from gym_llm.cli import app, main
from gym_llm.errors import EngineUnavailable
from gym_llm.rollouts import run as run_module
from gym_llm.rollouts import workload

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("in_an_empty_folder")]


# -- help and list -------------------------------------------------------------------------------------------------


def test_help_is_quick_and_loads_no_model_library():
    code = "import sys; from gym_llm.cli import main; main(['--help'])\n"
    code += "heavy = {'torch', 'ray', 'transformers', 'vllm', 'datasets', 'openai', 'math_verify'}\n"
    code += "print(heavy & sys.modules.keys(), len(sys.modules), file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy, count = result.stderr.rsplit(maxsplit=1)
    assert heavy == "set()"
    assert int(count) < 850  # its time is measured by benchmarks/startup.py


@pytest.mark.parametrize(
    "command",
    [
        *("", "list", "rollout", "config", "data", "data prepare", "data upload", "data list", "env", "env test"),
        *("filter", "profile", "reverify", "serve", "show"),
    ],
)
def test_every_help_has_examples(command, capsys):
    assert main([*command.split(), "--help"]) == 0
    assert "examples:\n  gym-llm " in capsys.readouterr().out


@pytest.mark.parametrize("command", ["rollout", "eval"])
def test_help_of_many_options_fits_on_a_screen_and_help_all_has_the_rest(command, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([command, "--help"]) == 0
    short = capsys.readouterr().out
    assert len(short.splitlines()) <= 60
    assert max(map(len, short.splitlines())) <= 80
    assert "--engine " in short and f"gym-llm {command} --help-all" in short and "--otel" not in short
    assert main([command, "--help-all"]) == 0
    full = capsys.readouterr().out
    options = [name for param in get_command(app).commands[command].params for name in param.opts if name[0] == "-"]
    assert [name for name in options if f"{name} " not in full] == []
    assert {"Engine", "Episodes", "Budgets"} <= set(full.split()) and "exit codes:" in full


def test_rare_commands_have_a_group_of_their_own(capsys):
    assert main(["--help"]) == 0
    common, rare = capsys.readouterr().out.split("─ Less common commands ─")
    assert "│ rollout " in common and "│ plan " not in common
    assert all(f"│ {name} " in rare for name in ("drift", "plan", "serve-model"))


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
        ("list math here", "Got unexpected extra argument(s) (here).", "gym-llm list"),
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
    assert "follow-ups" in lines[ENV]
    assert re.search(r"\b5\b", lines[ENV])
    assert "generated" in lines["gym_llm/Arithmetic-v0"]
    assert lines["gym_llm/Counter-v0"].split("\t")[2:] == ["5", "agent", "increment_counter, get_counter_value", ""]
    office = lines["gym_llm/WorkplaceAssistant-v0"].split("\t")
    assert len(office[4].split(", ")) == 27  # so that `grep` finds every tool beside its environment


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


def test_a_file_that_ends_too_early_is_not_taken_for_an_interrupt(monkeypatch, capsys):
    def end(env_id):
        raise EOFError("Ran out of input")

    monkeypatch.setattr("gym_llm.author.catalogue.describe", end)
    assert main(["list"]) == 1
    assert "EOFError: Ran out of input" in capsys.readouterr().err


def test_a_reader_that_leaves_early_is_no_error():
    listing = start("list", env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert listing.stdout is not None
    assert listing.stderr is not None
    listing.stdout.close()
    assert listing.stderr.read() == ""
    assert listing.wait() == 1
    listing.stderr.close()


# -- what a user can get wrong -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["arithmetik"], r"no environment 'arithmetik'\. Did you mean gym_llm/Arithmetic-v0\?"),
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
            [ENV, "--env-kwargs", '{"glyph": 1}'],
            r"no argument 'glyph'\. It has conform, max_turns, prompt_config, render_mode",
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
        ([ENV, "--output", "bad.jsonl", "--resume"], r"bad\.jsonl, line 1 is not a rollout"),
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

    monkeypatch.setattr(workload, "make_engine", refuse)
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

    monkeypatch.setattr(run_module, "iter_records", refuse)
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
