"""BigCodeBench: what passes its tests, and what must not."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from testing import ROOT, row, scored

from gym_llm.data import read_jsonl
from gym_llm.envs.bigcodebench.env import BigCodeBench
from gym_llm.errors import DataError, SandboxUnavailable

SMALL = {"memory_mib": 512, "subprocess_timeout": 2.0}
METADATA = {
    "task_id": "Own/9",
    "entry_point": "task_func",
    "code_prompt": "import math\ndef task_func(x):\n",
    "test": "import unittest\nclass TestCases(unittest.TestCase):\n    def test_one(self):\n"
    "        self.assertEqual(task_func(4), 2)\n    def test_two(self):\n        self.assertEqual(task_func(9), 3)\n",
}


def play(code: str, metadata: dict[str, Any] | None = None, **options: Any) -> tuple[float, dict[str, Any]]:
    """(reward, info) of code, or of an answer if it has a fence."""
    text = code if "```" in code else f"```python\n{code}\n```"
    try:
        return scored("gym_llm/BigCodeBench-v0", text, {**SMALL, **options}, verifier_metadata=metadata or METADATA)
    except SandboxUnavailable as error:
        pytest.skip(str(error))


SOLUTIONS = [
    "import csv, io\ndef task_func(text):\n    rows = csv.DictReader(io.StringIO(text))\n"
    "    return sum((float(r['amount']) for r in rows), 0.0)",
    "import os\ndef task_func(folder):\n    names = sorted(os.listdir(folder))\n"
    "    return [n.rpartition('.')[0] for n in names if os.path.isfile(os.path.join(folder, n))]",
    "import subprocess\ndef task_func(command):\n    return subprocess.run(command).returncode",
    "import json\ndef task_func(text):\n    value = json.loads(text)\n    if not isinstance(value, dict):\n"
    "        raise ValueError\n    return sorted(value)",
    "from collections import Counter\ndef task_func(words, n):\n"
    "    return sorted(Counter(words).items(), key=lambda p: (-p[1], p[0]))[:n]",
]  # fmt: skip


@pytest.mark.parametrize("number", range(5))
def test_the_examples_can_be_solved(number: int) -> None:
    _, task = list(read_jsonl(ROOT / "envs" / "bigcodebench" / "data" / "example.jsonl"))[number]
    reward, info = play(SOLUTIONS[number], task["verifier_metadata"])
    assert (reward, info["status"], info["details"]) == (1.0, "pass", {})
    assert play("pass", task["verifier_metadata"])[1]["status"] == "fail"


def test_what_did_not_succeed_is_told() -> None:
    _, info = play("def task_func(x): return 2")
    assert list(info["details"]) == ["test_two"] and "AssertionError: 2 != 3" in info["details"]["test_two"]
    assert info["task_id"] == "Own/9" and info["extracted_model_code"] == "def task_func(x): return 2"


@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(0)",
        "import sys; sys.exit(0)",
        "raise SystemExit",
        "def task_func(x):\n    import os\n    os._exit(0)",
        "def task_func(x): raise SystemExit(0)",
        "import atexit, os; atexit.register(os._exit, 0)",
        "import unittest\ndef task_func(x): raise unittest.SkipTest('no')",
        "import unittest\nunittest.TestCase.assertEqual = lambda *a: None",
        "import unittest\nunittest.TestResult.addFailure = unittest.TestResult.addError = lambda *a: None",
        "import unittest.case\nunittest.case.TestCase.run = lambda *a: None",
        "import builtins\nbuiltins.AssertionError = type('E', (Exception,), {})\nbuiltins.__build_class__ = None",
        'import json\njson.dumps = lambda *a, **k: \'{"value": {"succeeded": ["test_one"], "failed": {}}}\'',
        "def task_func(x):\n    while True: pass",
        "x = [0]\nwhile True: x += x",
        "def task_func(x):\n    print('x' * 10**8)",
        "def task_func(x: return 1",
        "(" * 10**5,
        "def task_func(x):\n    del TestCases.test_two\n    return 2",
    ],
)
def test_a_hostile_program_does_not_pass(code: str) -> None:
    reward, info = play(code)
    assert reward == 0.0 and info["status"] in ("fail", "timeout") and json.dumps(info)


def test_which_code_is_read() -> None:
    right = "def task_func(x): return math.isqrt(x)"
    assert play(f"<think>```python\n1\n```</think>```python\n{right}\n```")[0] == 1.0
    assert play(f"```\n{right}\n```")[0] == 1.0 and play(f"```\n{right}\n```", conform="nemo")[0] == 0.0
    for answer, status in (("", "empty_output"), ("``` x", "no_code_block"), ("I cannot.", "fail")):
        assert scored("gym_llm/BigCodeBench-v0", answer, SMALL, verifier_metadata=METADATA)[1]["status"] == status
    assert scored("gym_llm/BigCodeBench-v0", right, SMALL, verifier_metadata=METADATA)[0] == 1.0


def test_another_interpreter_can_run_it() -> None:
    assert play("import numpy\ndef task_func(x): return numpy.sqrt(x)", python=sys.executable)[0] == 1.0
    with pytest.raises(ValueError, match="python is the path of a Python interpreter"):
        BigCodeBench(python="/bin/false")
    with pytest.raises(ValueError, match="subprocess_timeout is a number above 0"):
        BigCodeBench(subprocess_timeout=-1)


@pytest.mark.parametrize("test", ["import unittest", "class TestCases:\n    pass", "def f(:"])
def test_a_row_without_tests_is_refused(test: str) -> None:
    with pytest.raises(DataError, match="the test"):
        BigCodeBench(tasks=[row(verifier_metadata=METADATA | {"test": test})])
