"""CodeGen: which code is run, what passes a test, and what a hostile program comes to."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import gymnasium as gym
import pytest
from testing import ROOT, message, message_item, row, scored
from verifier_vectors import agree, vector_id, vectors_of

from gym_llm.data import read_jsonl
from gym_llm.envs.code_gen.env import CodeGen
from gym_llm.envs.code_gen.runners import UnitTests
from gym_llm.errors import DataError, SandboxUnavailable

SMALL = {"memory_mib": 256, "unit_test_timeout_secs": 0.5}
ECHO = [("1\n", "1\n"), ("2 3\n", "2 3\n")]


def play(code: str, tests: list[tuple[str, str]], name: str | None = None, **options: Any) -> tuple[float, dict]:
    """(reward, info) of a program, or of an answer if it has a fence."""
    unit_tests = {"inputs": [test[0] for test in tests], "outputs": [test[1] for test in tests], "fn_name": name}
    text = code if "```" in code else f"```python\n{code}\n```"
    try:
        return scored("gym_llm/CodeGen-v0", text, {**SMALL, **options}, verifier_metadata={"unit_tests": unit_tests})
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("vector", vectors_of("code_gen"), ids=vector_id)
def test_recorded_episodes_score_as_recorded(vector: dict[str, Any]) -> None:
    agree(vector)


SOLUTIONS = [
    "n = int(input())\nv = list(map(int, input().split()))\nprint(sum(v))\nprint(max(v))",
    "import sys\nprint(*dict.fromkeys(sys.stdin.read().split()))",
    "for _ in range(int(input())):\n    a, b = map(int, input().split())\n    print(f'{a / b:.2f}')",
    "def longest_run(values):\n    best = run = 0\n    for i, v in enumerate(values):\n"
    "        run = run + 1 if i and v == values[i - 1] else 1\n        best = max(best, run)\n    return best",
    "class Solution:\n    def shift(self, rows, by):\n        return [r[by % len(r):] + r[:by % len(r)] for r in rows]",
]


@pytest.mark.parametrize("options", [{}, {"runner": "wrapped"}, {"conform": "nemo"}])
def test_the_examples_can_be_solved_by_every_runner(options: dict[str, Any]) -> None:
    rows = read_jsonl(ROOT / "envs" / "code_gen" / "data" / "example.jsonl")
    for (_, task), solution in zip(rows, SOLUTIONS, strict=True):
        tests = task["verifier_metadata"]["unit_tests"]
        pairs = list(zip(tests["inputs"], tests["outputs"], strict=True))
        reward, info = play(solution, pairs, tests["fn_name"], **options)
        assert (reward, info["result"], info["metadata"]) == (1.0, [True] * len(pairs), {})
        assert play("pass", pairs, tests["fn_name"], **options)[0] == 0.0


@pytest.mark.parametrize("runner", ["script", "wrapped"])
@pytest.mark.parametrize(
    ("code", "result", "error"),
    [
        ("print(input())", [True, True], None),
        ("print(1)", [True, -2], "Wrong answer at output_line_idx=0: 1 != 2 3"),
        ("print(input()); print()\nprint(5)", [-2], "Wrong answer: mismatched output length"),
        ("while True: pass", [-3], "Time Limit Exceeded"),
        ("print(input())\nif '3' in open(0).read(): 1 / 0", None, None),
        ("1 / 0", [-4], "Runtime Error"),
    ],
)
def test_what_each_test_came_to(runner: str, code: str, result: list[Any] | None, error: str | None) -> None:
    reward, info = play(code, ECHO, runner=runner)
    if result is not None:
        assert info["result"] == result and info["metadata"].get("error_message") == error
    assert reward == float(info["result"] == [True, True])


def test_of_a_failure_the_input_and_both_outputs_are_told_but_not_all_of_them() -> None:
    _, info = play("print('x' * 5000)", [("i" * 5000, "o" * 5000)])
    metadata = info["metadata"]
    assert metadata["error_code"] == -2
    for name, character in (("inputs", "i"), ("output", "x"), ("expected", "o")):
        assert metadata[name].startswith(character * 150) and len(metadata[name]) < 330


@pytest.mark.parametrize(
    ("code", "wrapped"),
    [
        ("count = 0\ndef add():\n    global count\n    count += 1\nadd()\nprint(count)", 0.0),
        ("from sys import stdin\nprint(stdin.readline().strip())", 0.0),
        ("import sys\na = sys.stdin.buffer.readline()\nprint(int(a))\nassert not sys.stdin.buffer.readline()", 1.0),
        ("import sys\nsys.stdout.buffer.write(input().encode())", 1.0),
        ("import sys\nprint(int(sys.stdin.buffer.read()))", 1.0),
        ("from __future__ import annotations\nprint(input())", 0.0),
        ("print(input())\nexit()", 1.0),
        ("print(input())\nquit()", 0.0),
        ("import sys\nprint(input())\nexit(0)\nprint(2)", 1.0),
        ("import numpy as np\nprint(np.array([int(input())]).sum())", 1.0),
        ("import sys\nprint(input())\nsys.exit()", 1.0),
        ("import sys\nfor line in sys.stdin: print(line.strip())", 1.0),
        ("def main():\n    print(input())\nif __name__ == '__main__':\n    main()", 1.0),
        ("print(gcd(int(input()), 0))", 1.0),
        ("import threading, sys\nsys.setrecursionlimit(10**6)\nt = threading.Thread(target=lambda: print(input()))\n"
         "t.start()\nt.join()", 1.0),
        ("import sys\ndef down(n): return n and down(n - 1)\nsys.setrecursionlimit(10**6)\ndown(10**5)\nprint(input())",
         1.0),
    ],
)  # fmt: skip
def test_valid_programs_that_wrapping_breaks_and_others(code: str, wrapped: float) -> None:
    assert play(code, [("1\n", "1")])[0] == 1.0
    assert play(code, [("1\n", "1")], runner="wrapped")[0] == wrapped


@pytest.mark.parametrize("options", [{}, {"conform": "nemo"}])
@pytest.mark.parametrize(
    "code",
    [
        "def f(a: List[int], b: Optional[int] = None) -> int: return a + b",
        "class Solution:\n    def f(self, a: List[int], b: Dict[str, int]): return accumulate([a, b]) and a + b",
        "def f(a, b):\n    q = deque([a, b])\n    heapify(l := list(q))\n    return sum(l) + gcd(2, 4) - 2",
        "def pow(*_): return 0\ndef f(a, b): return max(a, 0) + b + pow(1)",
    ],
)
def test_names_that_starter_code_uses_need_no_import(code: str, options: dict[str, Any]) -> None:
    assert play(code, [("1\n2", "3"), ("2\n2", "4")], "f", **options)[0] == 1.0


@pytest.mark.parametrize("runner", ["script", "wrapped"])
@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(0)",
        "raise SystemExit(0)",
        "import sys; sys.exit('1')",
        "raise KeyboardInterrupt",
        "import builtins; builtins.print = lambda *a: None; print(1)",
        "import json, sys; json.dumps = json.loads = None; sys.stdout = None; print(1)",
        "import builtins; builtins.open = builtins.input = builtins.repr = builtins.str = None; print(1)",
        "import sys; sys.stdout.close()",
        "import os; os.close(0); os.close(1); os.close(2); os.closerange(3, 100)",
        "import os\nwhile True: os.fork()",
        "import threading\nwhile True: threading.Thread(target=threading.Event().wait).start()",
        "x = [0]\nwhile True: x += x",
        "print('1\\n' * 10**8)",
        "import os\nwhile True: os.write(1, b'x' * 65536)",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        "import time; time.sleep(1000)",
        "print(open('/proc/1/environ').read(), *open('/proc/self/maps'))",
        "import gc, sys\nprint([o for o in gc.get_objects() if 'expected-7' in repr(o)][:1])",
        "def f(): f()\nimport sys; sys.setrecursionlimit(10**9); f()",
        "print('\\ud800')",
        "(" * 100_000,
        "x = " + "-" * 100_000 + "1",
        "\x00",
        "def f(:",
        "",
    ],
)  # fmt: skip
def test_a_hostile_program_is_a_wrong_answer(code: str, runner: str) -> None:
    reward, info = play(code, [("1\n", "expected-7")], runner=runner)
    assert reward == 0.0
    assert json.dumps(info) and not any(code is True for code in info.get("result", []))


@pytest.mark.parametrize(
    ("code", "reward"),
    [
        ("def f(a, b): return a + b", 1.0),
        ("class Solution:\n    def f(self, a, b): return a + b", 1.0),
        ("def f(a, b): return a + b\nimport sys; sys.exit(1)", 1.0),
        ("def g(a, b): return a + b", 0.0),
        ("def f(a, b): return str(a + b)", 0.0),
        ("class Any:\n    def __eq__(self, other): return True\ndef f(a, b): return Any()", 0.0),
        ("def f(a, b): raise SystemExit(0)", 0.0),
        ("import os\ndef f(a, b): os._exit(0)", 0.0),
        ("import json\njson.dumps = lambda *a, **k: '{\"value\": 1}'\ndef f(a, b): return 0", 0.0),
        ("def f(a, b):\n    x = []\n    for _ in range(10**5): x = [x]\n    return x", 0.0),
        ("def f(a, b): return 10**20000", 0.0),
        ("def f(a, b): return '[' * 10**6", 0.0),
        ("def f(a, b): return float('nan')", 0.0),
        ("def f(a, b):\n    while True: pass", 0.0),
        ("import sys\nsys.stdout = None\ndef f(a, b): return a + b", 1.0),
    ],
)
@pytest.mark.parametrize("runner", ["script", "wrapped"])
def test_functions_are_called_with_json_and_compared_outside(code: str, reward: float, runner: str) -> None:
    if runner == "wrapped" and "sys.exit" in code:  # SystemExit ends all
        reward = 0.0
    assert play(code, [("1\n2", "3"), ("-1\n4.5", "3.5")], "f", runner=runner)[0] == reward


@pytest.mark.parametrize(
    ("value", "expected", "script", "wrapped"),
    [
        ("(1, (2, 3))", "[1, [2, 3]]", True, True),
        ("{1: 'a'}", '{"1": "a"}', True, True),
        ("0.1 + 0.2", "0.3", True, True),
        ("[0.1 + 0.2]", "[0.3]", True, True),
        ("[[0.1 + 0.2]]", "[[0.3]]", True, False),
        ("50000000000000001", "50000000000000000", -2, False),
        ("'3'", "3", -2, False),
        ("'3'", "3.0", -2, True),
        ("float('inf')", "Infinity", True, True),
        ("{1, 2}", "[1, 2]", -2, False),
        ("10**5000", str(10**400), -2, False),
        ("None", "null", True, True),
        ("1", "true", True, True),
    ],
)
def test_which_values_are_the_same(value: str, expected: str, script: Any, wrapped: Any) -> None:
    for runner, result in (("script", script), ("wrapped", wrapped)):
        _, info = play(f"def f(x): return {value}", [("0", expected)], "f", runner=runner)
        assert info["result"] == [result] and type(info["result"][0]) is type(result)


@pytest.mark.parametrize(
    ("printed", "expected", "here", "nemo"),
    [
        ("0.3333333", "0.33333333333", 1.0, 1.0),
        ("1.000001", "1", 1.0, 1.0),
        ("1.0000011", "1.0", 0.0, 0.0),
        ("0.333333 x", "0.3333333333 x", 1.0, 0.0),
        ("YES", "yes", 0.0, 1.0),
        ("YES 1", "yes 1", 0.0, 0.0),
        ("1000000000000000000000000000001", "1000000000000000000000000000000", 0.0, 0.0),
        ("nan 1", "nan  1", 1.0, 0.0),
        ("-0", "0.0", 1.0, 1.0),
    ],
)
def test_which_lines_are_the_same(printed: str, expected: str, here: float, nemo: float) -> None:
    code = f"print({printed!r})"
    assert [play(code, [("1", expected)], conform=conform)[0] for conform in (None, "nemo")] == [here, nemo]


def test_the_last_block_of_python_counts_and_for_nemo_gym_the_last_two_marks() -> None:
    answer = "```python\nprint(input())\n```\nprints\n```text\n1\n```\n"
    assert play(answer, ECHO)[0] == 1.0
    assert play(answer, ECHO, conform="nemo")[1]["extracted_model_code"] == "1"
    assert play("```\nprint(input())\n``` or ```python", ECHO, conform="nemo")[0] == 1.0
    for answer in ("I do not know.", "```", ""):
        assert scored("gym_llm/CodeGen-v0", answer, verifier_metadata={"unit_tests": {"inputs": [], "outputs": []}})[
            0
        ] == (0.0)


def test_tags_of_thinking_in_the_answer_are_paid_the_penalty_whatever_the_tests_say() -> None:
    answer = "</think>```python\nprint(input())\n```"
    reward, info = play(answer, ECHO, reasoning_format_penalty=-0.5)
    assert (reward, info["result"], info["reasoning_format_violation_rate"]) == (-0.5, [True, True], 1.0)
    reasoning = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "<think> a <think>"}]}
    tests = {"unit_tests": {"inputs": ["1"], "outputs": ["1"]}}
    action = [reasoning, message_item("```python\nprint(1)\n```")]
    assert scored("gym_llm/CodeGen-v0", action, SMALL, verifier_metadata=tests)[0] == 0.0


def test_a_row_without_tests_is_a_fault_but_for_nemo_gym() -> None:
    assert play("print(1)", [], conform="nemo")[0] == 1.0
    env = CodeGen(tasks=[row(verifier_metadata={"unit_tests": {"inputs": [], "outputs": []}})])
    env.reset()
    with pytest.raises(DataError, match="the row has no unit tests"):
        env.step(message("```python\nprint(1)\n```"))


@pytest.mark.parametrize(
    ("unit_tests", "problem"),
    [
        ({"inputs": ["1"], "outputs": []}, "there are 1 inputs and 0 outputs"),
        ({"inputs": ["1\n"], "outputs": ["1"], "fn_name": "f"}, "is JSON, not ''"),
        ({"inputs": ["1"]}, "outputs"),
    ],
)
def test_a_row_that_makes_no_sense_is_refused(unit_tests: dict[str, Any], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        CodeGen(tasks=[row(verifier_metadata={"unit_tests": unit_tests})])


def test_arguments_that_make_no_sense_are_refused() -> None:
    for kwargs in ({"runner": "docker"}, {"unit_test_timeout_secs": 0}, {"num_processes": 0}, {"memory_mib": "1"}):
        with pytest.raises(ValueError, match=next(iter(kwargs))):
            CodeGen(**kwargs)
    with pytest.raises(ValueError, match="sandbox is one of"):
        gym.make("gym_llm/CodeGen-v0", sandbox="chroot")


@pytest.mark.parametrize(
    ("code", "tests", "name"),
    [
        ("print(10**5000)", [("", "1" + "0" * 5000)], None),
        ("print(int(input()) + 1)", [("9" * 5000, "1" + "0" * 5000)], None),
        ("from __future__ import annotations\nprint(10**5000)", [("", "1" + "0" * 5000)], None),
        ("def f(n): return n + 1", [("9" * 5000, "1" + "0" * 5000), ("1", "2")], "f"),
        ("def f(n): return [n, str(n)]", [("9" * 5000, f'[{"9" * 5000}, "{"9" * 5000}"]')], "f"),
        ("print(1/3)", [("", "0.333333")], None),
        ("print('x', 0.1+0.2)", [("", "x 0.3")], None),
        ("```python\nprint(3)\n```\nUsage:\n```python\n>>> run()\n3\n```", [("", "3")], None),
        ("```python\ndef f(n): return n\n```\n```python\nprint(f(2))\n```", [("1", "1")], "f"),
        ("1. So:\n\n   ```python\n   print(3)\n   ```", [("", "3")], None),
    ],
)
def test_long_integers_close_floats_and_earlier_blocks_pass(
    code: str, tests: list[tuple[str, str]], name: str | None
) -> None:
    reward, info = play(code, tests, name)
    assert (reward, info["result"]) == (1.0, [True] * len(tests)), info["metadata"]


def test_packed_tests_are_unpacked_and_damaged_ones_refused() -> None:
    tests = {"inputs": ["1"], "outputs": ["2"]}
    packed = base64.b64encode(zlib.compress(json.dumps(tests).encode())).decode()
    for name in (None, "f"):
        unpacked = UnitTests.model_validate({"packed": packed, "fn_name": name})
        assert unpacked == UnitTests.model_validate({**tests, "fn_name": name})
    for damaged in ("", "x", packed[:-8], base64.b64encode(zlib.compress(b"[1]")).decode()):
        with pytest.raises(ValueError, match="packed"):
            UnitTests.model_validate({"packed": damaged})
