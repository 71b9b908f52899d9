"""EvalPlus: which code is run, what is the same as the reference, where the problem comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from testing import ROOT, message, row, scored

from gym_llm.data import read_jsonl
from gym_llm.envs.evalplus.env import EvalPlus
from gym_llm.errors import DataError, SandboxUnavailable

SMALL = {"memory_mib": 256, "min_time_limit": 0.5}
PROBLEM = {
    "prompt": 'def half(x):\n    """Half of x."""\n',
    "entry_point": "half",
    "base_input": [[1], [4]],
    "plus_input": [[-3], [0]],
    "canonical_solution": "    return x / 2\n",
    "atol": 0,
}


def play(code: str, problem: dict[str, Any] | None = None, **options: Any) -> tuple[float, dict[str, Any]]:
    """(reward, info) of a function, or of an answer if it has a fence."""
    metadata = {"task_id": "Own/0", "problem": PROBLEM | (problem or {})}
    text = code if "```" in code else f"```python\n{code}\n```"
    try:
        return scored("gym_llm/EvalPlus-v0", text, {**SMALL, **options}, verifier_metadata=metadata)
    except SandboxUnavailable as error:
        pytest.skip(str(error))


SOLUTIONS = [
    "def middle(v):\n    v = sorted(v)\n    return (v[(len(v) - 1) // 2] + v[len(v) // 2]) / 2",
    "def stairs(n):\n    return [i * (i + 1) // 2 for i in range(1, n + 1)]",
    "def initials(name):\n    return ''.join(f'{word[0].upper()}.' for word in name.split())",
    "def swap_ends(pair):\n    if pair: pair[0], pair[-1] = pair[-1], pair[0]\n    return pair",
    "def shared(a, b):\n    return {x for x in b if x in a}",
]


@pytest.mark.parametrize("number", range(5))
def test_the_examples_can_be_solved(number: int) -> None:
    _, task = list(read_jsonl(ROOT / "envs" / "evalplus" / "data" / "example.jsonl"))[number]
    problem = task["verifier_metadata"]["problem"]
    reward, info = play(SOLUTIONS[number], problem)
    assert (reward, info["base_status"], info["plus_status"]) == (1.0, "pass", "pass")
    assert info["metadata"]["plus_details"] == [1] * len(problem["plus_input"])
    assert play("", problem)[0] == 0.0
    assert play(problem["prompt"] + "    return None", problem)[1]["base_status"] == "fail"


@pytest.mark.parametrize(
    ("code", "base", "plus"),
    [
        ("def half(x): return x / 2", [1, 1], [1, 1]),
        ("def half(x): return x / 2 + 1e-9", [1, 1], [1, 1]),
        ("def half(x): return x // 2", [0, 1], [0, 1]),
        ("def half(x): return abs(x) / 2", [1, 1], [0, 1]),
        ("def half(x): return str(x / 2)", [0, 0], [0, 0]),
        ("def half(x): raise SystemExit", [0], [0]),
        ("import os\ndef half(x): os._exit(0)", [0], [0]),
        ("def half(x):\n    if x == 4: return 1 / 0\n    return x / 2", [1, 0], [1, 1]),
        ("def half(x):\n    if x == -3:\n        while True: pass\n    return x / 2", [1, 1], [0]),
        ("def half(x):\n    if x == -3: x = [0] * 10**10\n    return x / 2", [1, 1], [0, 1]),
        ("class Yes:\n    def __eq__(self, other): return True\ndef half(x): return Yes()", [0, 0], [0, 0]),
        ("import json\njson.dumps = lambda *a, **k: '{\"value\": 0.5}'\ndef half(x): return x", [0], [0]),
        ("import sys\nsys.exit()", [0, 0], [0, 0]),  # the prompt's own function returns None
        ("def half(:", [0], [0]),
    ],
)  # fmt: skip
def test_each_call_is_compared_with_the_reference(code: str, base: list[int], plus: list[int]) -> None:
    reward, info = play(code)
    assert info["metadata"] == {"base_details": base, "plus_details": plus}
    assert (info["is_correct"], info["is_correct_plus"]) == (all(base), all(base + plus))
    assert reward == float(all(base + plus))
    assert info["plus_status"] == ("timeout" if "while" in code else "pass" if all(plus) else "fail")


def test_code_that_begins_with_the_prompt_is_the_whole_program() -> None:
    for answer in (PROBLEM["prompt"] + "    return x / 2", "    return x / 2"):
        assert play(answer)[0] == 1.0


def test_which_block_is_read() -> None:
    right = "def half(x): return x / 2"
    for answer, ours, upstream in (
        (f"```python\n{right}\n```", 1.0, 1.0),
        (f"```python3\n{right}\n```", 1.0, 1.0),
        (f"```python\n{right}\n```\n```python\nhalf(", 1.0, 0.0),
        (f"```python\ndef half(x): pass\n```\nno:\n```py\n{right}\n```", 1.0, 0.0),
        (f"```\r\n{right}\r\n```", 1.0, 0.0),
        (right, 0.0, 0.0),
    ):
        text = answer if "```" in answer else f"` ``` {answer}"
        assert (play(text)[0], play(text, conform="nemo")[0]) == (ours, upstream), answer


def test_problems_are_read_from_a_file_of_evalplus(tmp_path: Path) -> None:
    path = tmp_path / "HumanEvalPlus.jsonl"
    extra = {"test": "", "contract": "", "base_input": [[2]], "canonical_solution": "    return x / 2"}
    path.write_text(json.dumps({**PROBLEM, **extra, "task_id": "HumanEval/900"}) + "\n")
    metadata = {"task_id": "HumanEval/900"}
    answer = "```python\ndef half(x): return x / 2\n```"
    try:
        options = {**SMALL, "evalplus_data": str(path)}
        reward, info = scored("gym_llm/EvalPlus-v0", answer, options, verifier_metadata=metadata)
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    assert reward == 1.0 and info["metadata"]["base_details"] == [1]
    path.write_text('{"task_id": 1}\n')
    with pytest.raises(DataError, match=r"bad\.jsonl"):
        EvalPlus(evalplus_data=str(path.rename(tmp_path / "bad.jsonl")))


def test_a_problem_that_nobody_knows_is_a_fault_but_for_nemo_gym() -> None:
    metadata = {"task_id": "HumanEval/0"}
    reward, info = scored("gym_llm/EvalPlus-v0", "```\n1\n```", {"conform": "nemo"}, verifier_metadata=metadata)
    assert reward == 0.0 and "HumanEval/0" in info["metadata"]["error"]
    env = EvalPlus(tasks=[row(verifier_metadata=metadata)])
    env.reset()
    with pytest.raises(DataError, match="HumanEval/0"):
        env.step(message("```\n1\n```"))


def test_a_reference_that_fails_is_a_fault() -> None:
    with pytest.raises(DataError, match="the reference of Own/0 fails: ZeroDivisionError"):
        play("def half(x): return 1", {"canonical_solution": "    return 1 / 0"})


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ({"canonical_solution": None}, "canonical_solution"),
        ({"expected": {"base": [1], "plus": [0, 0]}}, "2 base inputs and 1 outputs"),
        ({"base_input": [1]}, "base_input"),
        ({"base_input": [], "plus_input": []}, "base_input"),
    ],
)
def test_a_row_that_makes_no_sense_is_refused(problem: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        EvalPlus(tasks=[row(verifier_metadata={"problem": PROBLEM | problem})])
    with pytest.raises(ValueError, match="min_time_limit"):
        EvalPlus(min_time_limit=0)
