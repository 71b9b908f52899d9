"""CodeFIM: what is put into the hole, and a test that the program cannot reach."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from testing import ROOT, message, row, scored
from verifier_vectors import all_vectors_of, vector_id

from gym_llm.data import read_jsonl
from gym_llm.envs.code_fim.env import CodeFIM, completions
from gym_llm.errors import DataError, SandboxUnavailable

SMALL = {"memory_mib": 256, "timeout": 0.5}


def play(code: str, problem: dict[str, Any], **options: Any) -> tuple[float, str]:
    """(reward, status) of a completion."""
    try:
        reward, info = scored(
            "gym_llm/CodeFIM-v0",
            f"```python\n{code}\n```",
            {**SMALL, **options},
            verifier_metadata={"problem": problem},
        )
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    assert info["passed"] == (reward == 1.0) == (info["status"] == "passed") and json.dumps(info)
    return reward, info["status"]


SOLUTIONS = [
    "    result = w * h / 2",
    "v % 2",
    "        return None",
    "len(text)",
    "    if b == 0:\n        raise ValueError('b')\n    return a / b",
]


@pytest.mark.parametrize("number", range(5))
def test_the_examples_can_be_solved(number: int) -> None:
    _, task = list(read_jsonl(ROOT / "envs" / "code_fim" / "data" / "example.jsonl"))[number]
    problem = task["verifier_metadata"]["problem"]
    assert play(SOLUTIONS[number], problem)[1] == "passed"
    assert play("pass", problem)[0] == 0.0


@pytest.mark.parametrize("vector", all_vectors_of("code_fim"), ids=vector_id)
def test_what_was_put_into_the_hole_is_as_recorded(vector: dict[str, Any]) -> None:
    """The problems are not recorded, but the prompts have what is before and behind the hole."""
    prompt = vector["task"]["responses_create_params"]["input"][0]["content"]
    before, behind = (part.split("```python\n")[1].split("\n```")[0] for part in prompt.split("### ")[-3:-1])
    text = vector["output"][-1]["content"][0]["text"]
    assert completions(text, before, behind, conform=True) == [vector["info"]["completion"]]


PROBLEM = {
    "prompt": "def double(x):\n    return ",
    "suffix": "\n",
    "test": "def check(candidate):\n    for x in [1, 2.5, 'ab', (1,), [[2]], 10**30]:\n        "
    "assert candidate(x) == x + x",
    "entry_point": "double",
}


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("x + x", "passed"),
        ("2 * x", "passed"),
        ("(yield)", "failed: a generator cannot be passed as a value"),
        ("x", "failed: "),
        ("nobody", "failed: name 'nobody' is not defined"),
        ("(", "failed: '(' was never closed (<string>, line 2)"),
        ("__import__('os')._exit(0)", None),
        ("exit()", None),
        ("0\nimport os; os._exit(0)", None),
        ("0\nraise SystemExit(0)", "failed: 0"),
        ("0\nclass Any:\n    def __eq__(self, other): return True\ndef double(x): return Any()", None),
        ("0\ndef check(candidate): pass", "failed: "),
        ("0\nimport builtins; builtins.AssertionError = KeyError; builtins.print = builtins.repr = None", None),
        ('0\nimport json; json.dumps = lambda *a, **k: \'{"value": ["passed"]}\'', None),
        ("0\nimport json, queue; queue.SimpleQueue.get = lambda self: ['passed']", None),
        ("0\nimport atexit, os; atexit.register(os._exit, 0)", "failed: "),
        ("0\nwhile True: pass", "timed out"),
        ("[x for x in iter(int, 1)]", "timed out"),
        ("'x' * 10**8", None),
        ("0\ndef double(x):\n    for _ in range(10**5): x = [x]\n    return x", None),
        ("10**10**5", None),
        ("0\ndel double", "failed: name 'double' is not defined"),
        ("open('/proc/1/cmdline').read()", None),
    ],
)
def test_the_test_runs_where_the_program_cannot_reach_it(code: str, status: str | None) -> None:
    reward, said = play(code, PROBLEM)
    assert reward == float(status == "passed")
    assert said == status if status is not None else said != "passed"


def test_the_line_break_before_the_closing_mark_is_the_codes_or_not_whichever_passes() -> None:
    whole = {**PROBLEM, "suffix": ".copy()[0:2]\n", "test": "def check(f): assert f([1, 2, 3]) == [1, 2]"}
    assert play("x", whole)[0] == 1.0 and play("x", whole, conform="nemo")[0] == 0.0
    lines = {**PROBLEM, "prompt": "def double(x):\n", "suffix": "    return x\n"}
    assert play("    x = x + x", lines)[0] == 1.0 == play("    x = x + x", lines, conform="nemo")[0]


def test_what_is_repeated_of_prefix_or_suffix_is_cut() -> None:
    assert completions("```\na = 1 + 2\n```", "a = 1", " + 2\n", conform=False) == [""]
    assert completions("```python\n    b\n```", "    ", "\n", conform=False) == ["    b"]
    assert completions("```python\nb\n```", "a\n", "c", conform=True) == ["b\n"]
    assert completions("<think>```python\n1\n```</think>no", "", "", conform=False) == []
    assert completions("```python\nnever closed", "", "", conform=True) == []


def test_problems_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "problems.jsonl"
    path.write_text(json.dumps({**PROBLEM, "task_id": "R/1", "canonical_solution": "x + x"}) + "\n")
    try:
        options = {**SMALL, "fim_data": str(path)}
        assert scored("gym_llm/CodeFIM-v0", "```\nx+x\n```", options, verifier_metadata={"task_id": "R/1"})[0] == 1.0
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    env = CodeFIM(tasks=[row(verifier_metadata={"task_id": "R/2"})], fim_data=str(path))
    env.reset()
    with pytest.raises(DataError, match="'R/2' is not in `fim_data`"):
        env.step(message("```\n1\n```"))
    path.with_name("other.jsonl").write_text('{"task_id": "R/3", "prompt": 1}\n')
    with pytest.raises(DataError, match=r"other\.jsonl, line 1: prompt"):
        CodeFIM(fim_data=str(path.with_name("other.jsonl")))
    with pytest.raises(ValueError, match="timeout"):
        CodeFIM(timeout=0)
