"""BigCodeBench: what passes its tests, and what must not."""

# ruff: noqa: E501
from __future__ import annotations

import json
import sys
from pathlib import Path
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
    reward, info = play(SOLUTIONS[number], task["verifier_metadata"], subprocess_timeout=20.0)
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
        "import sys\nsys.meta_path.insert(0, None)\nsys.modules['unittest'] = None",
        "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
        "import os\nos.kill(os.getppid(), 19)\ndef task_func(x): return 2",
        "import os\nopen(f'/proc/{os.getppid()}/fd/3', 'wb').write(b'x')",
        "import os\nopen(f'/proc/{os.getppid()}/mem', 'rb')",
        "import os, threading\nthreading.Thread(target=input).start()\ndef task_func(x): return 2",
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\n    __eq__ = lambda *a: True\ndef task_func(x): return P(1)",
        "import collections\nclass OrderedDict:\n    __module__ = 'collections'\n    __eq__ = lambda *a: True\ndef task_func(x): return OrderedDict()",
        "import numpy\nclass E:\n    __eq__ = lambda *a: True\ndef task_func(x): return numpy.array([E()], dtype=object)[0]",
        "from unittest import mock\nm = mock.MagicMock()\nm.__eq__.return_value = True\ndef task_func(x): return m",
    ],
)
def test_a_hostile_program_does_not_pass(code: str) -> None:
    reward, info = play(code)
    assert reward == 0.0 and info["status"] in ("fail", "timeout") and json.dumps(info)


VALUES = {
    "an object of its own": ("class P: pass\ndef task_func(x): return P()", "assertEqual(type(task_func(1)).__name__, 'P')"),
    "keys": ("def task_func(x): return {x: 1}.keys()", "assertEqual(task_func(1), {1})"),
    "a mock": ("def task_func(x): return x", "assertIsNotNone(task_func(unittest.mock.MagicMock()))"),
    "what a mock returns": (
        "import os\ndef task_func(x): return os.listdir(x)",
        "assertIs(unittest.mock.patch('os.listdir').start(), __import__('os').listdir); self.assertIsNotNone(task_func(1))",
    ),
    "a named tuple": (
        "from collections import namedtuple\ndef task_func(x): return namedtuple('P', 'a')(x)",
        "assertEqual(task_func(1), (1,))",
    ),
    "a counter": ("from collections import *\ndef task_func(x): return Counter([x])", "assertEqual(task_func(1), {1: 1})"),
    "an array": ("import numpy\ndef task_func(x): return numpy.arange(x)", "assertEqual(task_func(3).tolist(), [0, 1, 2])"),
    "a path": ("import pathlib\ndef task_func(x): return pathlib.Path('a')", "assertEqual(str(task_func(3)), 'a')"),
    "a fraction": ("import fractions\ndef task_func(x): return fractions.Fraction(x, 2)", "assertEqual(task_func(3), 1.5)"),
    "a generator": ("def task_func(x): yield x", "assertEqual(list(task_func(3)), [3])"),
    "a deep recursion": ("def task_func(x): return x and 1 + task_func(x - 1)", "assertEqual(task_func(900), 900)"),
    "an exception": ("def task_func(x): raise KeyError(x)", "assertRaises(KeyError, task_func, 1)"),
    "a patched builtin": (
        "def task_func(x): return open(x).read()",
        "assertIs(unittest.mock.patch('builtins.open', unittest.mock.mock_open(read_data='1')).start() is None, False); "
        "self.assertEqual(task_func('a'), '1')",
    ),
    "a frame": (
        "import pandas\ndef task_func(x): return pandas.DataFrame({'a': [1, 2], 'b': ['x', None]}, index=[3, 4])",
        "assertEqual(task_func(1).loc[4, 'a'], 2); import pandas; self.assertIsInstance(task_func(1), pandas.DataFrame); "
        "self.assertTrue(task_func(1)['b'].equals(pandas.Series(['x', None], index=[3, 4], name='b')))",
    ),
    "axes": (
        "import matplotlib.pyplot as plt\ndef task_func(x):\n    _, ax = plt.subplots()\n    ax.plot([1, 2], [x, 4], label='l')\n"
        "    ax.set_title('T')\n    ax.legend()\n    return ax",
        "assertEqual(task_func(3).get_title(), 'T'); import matplotlib.pyplot as plt; ax = task_func(3); "
        "self.assertIsInstance(ax, plt.Axes); self.assertEqual(list(ax.lines[0].get_ydata()), [3, 4]); "
        "self.assertIs(plt.gcf(), ax.figure); plt.close('all'); self.assertEqual(plt.get_fignums(), []); "
        "self.assertEqual([t.get_text() for t in ax.get_legend().get_texts()], ['l'])",
    ),
    "bars": (
        "import matplotlib.pyplot as plt\ndef task_func(x): return plt.bar(['a', 'b'], [x, 2])",
        "assertEqual([bar.get_height() for bar in task_func(1).patches], [1, 2]); import matplotlib.pyplot as plt; "
        "self.assertEqual(len(plt.gca().patches), 2)",
    ),
    "what it prints": (
        "def task_func(x): print('it is', x)",
        "assertEqual(1, 1); import io, contextlib\n"
        "        with contextlib.redirect_stdout(io.StringIO()) as said: task_func(3)\n"
        "        self.assertEqual(said.getvalue(), 'it is 3\\n')",
    ),
    "what it logs": (
        "import logging\nlog = logging.getLogger('task')\ndef task_func(x): log.info('it is %s', x)",
        "assertEqual(1, 1)\n        with self.assertLogs('task', 'INFO') as logs: task_func(3)\n"
        "        self.assertEqual(logs.output, ['INFO:task:it is 3'])",
    ),
    "what it warns of": (
        "import warnings\ndef task_func(x): warnings.warn('old', DeprecationWarning)",
        "assertEqual(1, 1)\n        with self.assertWarns(DeprecationWarning): task_func(3)",
    ),
    "random numbers of a seed": (
        "import random, numpy\ndef task_func(x): return [random.random(), float(numpy.random.rand())]",
        "assertEqual(1, 1); import random, numpy; random.seed(x := 7); numpy.random.seed(x); a = task_func(1); "
        "random.seed(x); numpy.random.seed(x); self.assertEqual(a, [random.random(), numpy.random.rand()]); "
        "random.seed(x); b = task_func(1); self.assertEqual((b[0], random.random()), (a[0], 0.15084917392450192))",
    ),
    "an argument that it changes": (
        "def task_func(x):\n    x.append(3)\n    x[0] = {'a': x[0]}\n    return x",
        "assertEqual(1, 1); x = [1]; self.assertIs(task_func(x), x); self.assertEqual(x, [{'a': 1}, 3])",
    ),
    "a folder, a file and a variable": (
        "import os\ndef task_func(x):\n    open('f', 'w').write(os.environ['V'])\n    os.environ['W'] = os.getcwd()\n    return 'f'",
        "assertEqual(1, 1); import os, tempfile; os.chdir(tempfile.mkdtemp()); os.environ['V'] = 'v'; name = task_func(1); "
        "self.assertEqual((open(name).read(), os.environ['W']), ('v', os.getcwd()))",
    ),
    "calls of a mock": (
        "import subprocess\ndef task_func(x):\n    done = subprocess.run(['a', x], check=True)\n    with open('f') as f:\n"
        "        return done.stdout.strip() + f.read()",
        "assertEqual(1, 1)\n        with unittest.mock.patch('subprocess.run') as run, "
        "unittest.mock.patch('builtins.open', unittest.mock.mock_open(read_data='2')):\n"
        "            run.return_value.stdout = ' 1 '\n            self.assertEqual(task_func('b'), '12')\n"
        "        run.assert_called_once_with(['a', 'b'], check=True)",
    ),
    "an error of a mock": (
        "import time\ndef task_func(x):\n    try: time.sleep(x)\n    except ZeroDivisionError as error: return str(error)",
        "assertEqual(1, 1)\n        with unittest.mock.patch('time.sleep', side_effect=ZeroDivisionError('no')):\n"
        "            self.assertEqual(task_func(1), 'no')",
    ),
    "a function of the tests": (
        "def task_func(x): return [x(i) for i in range(3)]", "assertEqual(task_func(lambda i: i * i), [0, 1, 4])"
    ),
    "an exception's text and fields": (
        "import json\ndef task_func(x): return json.loads(x)",
        "assertEqual(1, 1); import json\n        with self.assertRaises(json.JSONDecodeError) as caught: task_func('{')\n"
        "        self.assertEqual((caught.exception.pos, caught.exception.doc), (1, '{'))",
    ),
    "a model of a library's class": (
        "import string\ndef task_func(x): return string.Template(x)",
        "assertEqual(1, 1); import string; t = task_func('$a'); self.assertIsInstance(t, string.Template); "
        "self.assertEqual((t.template, t.substitute(a=3)), ('$a', '3'))",
    ),
    "a coroutine": (
        "async def task_func(x): return x + 1", "assertEqual(__import__('asyncio').run(task_func(1)), 2)"
    ),
    "a name that only the tests import": ("def task_func(x): return textwrap.dedent(x)", "assertEqual(task_func(' a'), 'a')"),
    "a thread that goes on": (
        "import threading, time\ndef task_func(x):\n    threading.Thread(target=time.sleep, args=(60,)).start()\n    return 1",
        "assertEqual(task_func(1), 1)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_a_right_program_passes_whatever_it_returns(name: str) -> None:
    code, test = VALUES[name]
    tests = f"import textwrap, unittest, unittest.mock\nclass TestCases(unittest.TestCase):\n    def test_it(self):\n        self.{test}\n"
    reward, info = play(code, METADATA | {"test": tests}, subprocess_timeout=20.0)
    assert (reward, info["details"]) == (1.0, {})


def test_the_memory_is_the_programs() -> None:
    code, test = VALUES["a frame"]
    tests = f"import unittest\nclass TestCases(unittest.TestCase):\n    def test_it(self):\n        self.{test}\n"
    reward, info = play(code, METADATA | {"test": tests}, subprocess_timeout=60.0, memory_mib=256)
    assert (reward, info["details"]) == (1.0, {})
    greedy = "def task_func(x):\n    global kept\n    kept = bytearray(700 << 20)\n    return 2"
    assert play(greedy, subprocess_timeout=20.0, memory_mib=256)[0] == 0.0


def test_which_code_is_read() -> None:
    right = "def task_func(x): return math.isqrt(x)"
    assert play(f"<think>```python\n1\n```</think>```python\n{right}\n```")[0] == 1.0
    assert play(f"```\n{right}\n```")[0] == 1.0 and play(f"```\n{right}\n```", conform="nemo")[0] == 0.0
    for answer, status in (("", "empty_output"), ("``` x", "no_code_block"), ("I cannot.", "fail")):
        assert scored("gym_llm/BigCodeBench-v0", answer, SMALL, verifier_metadata=METADATA)[1]["status"] == status
    assert scored("gym_llm/BigCodeBench-v0", right, SMALL, verifier_metadata=METADATA)[0] == 1.0


def test_an_interpreter_behind_a_link_has_its_packages(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(sys.prefix)
    python = str(tmp_path / "link" / "bin" / "python")
    code = "import numpy\ndef task_func(x): return numpy.sqrt(x)"
    assert play(code, python=python, subprocess_timeout=20.0)[0] == 1.0


def test_another_interpreter_can_run_it() -> None:
    assert (
        play("import numpy\ndef task_func(x): return numpy.sqrt(x)", python=sys.executable, subprocess_timeout=20.0)[0]
        == 1.0
    )
    with pytest.raises(ValueError, match="python is the path of a Python interpreter"):
        BigCodeBench(python="/bin/false")
    with pytest.raises(ValueError, match="subprocess_timeout"):
        BigCodeBench(subprocess_timeout=-1)


@pytest.mark.parametrize("test", ["import unittest", "class TestCases:\n    pass", "def f(:"])
def test_a_row_without_tests_is_refused(test: str) -> None:
    with pytest.raises(DataError, match="the test"):
        BigCodeBench(tasks=[row(verifier_metadata=METADATA | {"test": test})])
