"""Which block of Python is the answer, where there are several."""

from __future__ import annotations

import pytest
from testing import cpu_seconds

from gym_llm.grading.python_blocks import python_code, python_fragment

F = "def f(x):\n    return x + 1"
READS = "n = int(input())\nprint(n + 1)"


def answer(*blocks: str) -> str:
    return "\nThen:\n".join(block if block.startswith("```") else f"```python\n{block}\n```" for block in blocks)


@pytest.mark.parametrize(
    "after",
    [
        "print(f(1))", "assert f(1) == 2", ">>> f(1)\n2", "from solution import f\nprint(f(2))", "x = f(1)",
        "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(f(1), 2)",
        "def test_f():\n    assert f(1) == 2", "if __name__ == '__main__':\n    print(f(1))", "result == f(3)",
        "```bash\npython f.py\n```", "```\n2\n```", "```text\ndef f(x)\n```", "def f_test():\n    f(1)",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "defines", [F, f"class Solution:\n    {F.replace(chr(10), chr(10) + '    ')}", "f = lambda x: x + 1"]
)
def test_the_last_block_that_defines_the_entry_point_counts(defines: str, after: str) -> None:
    assert python_code(answer(defines, after), "f") == defines
    assert python_code(answer("def f(x): return 0", defines, after), "f") in (defines, "def f(x): return 0")


@pytest.mark.parametrize(
    ("blocks", "code"),
    [
        (["def g(): return 2", "def f(): return g()"], "def g(): return 2\ndef f(): return g()"),
        (["import math\nprint(math.pi)", "def f(): return math.e"], "import math\ndef f(): return math.e"),
        (["N = 3\nassert N", "def g(): return N", "def f(): return g()", "f()"],
         "N = 3\ndef g(): return N\ndef f(): return g()"),
        (["def g(): return 1", "def g(): return 2", "def f(): return g()"], "def g(): return 2\ndef f(): return g()"),
        (["def g(): return 1", "def f(g): return g()"], "def f(g): return g()"),
        (["@cache\ndef g(): return 1", "def f(): return g()"], "@cache\ndef g(): return 1\ndef f(): return g()"),
        (["```\ndef f(): return 1\n```", "```text\n1\n```"], "def f(): return 1"),
        (["```\ndef f(): return 1\n```", "print(f())"], "def f(): return 1"),
        (["def f(): return 1", "f = 2"], "def f(): return 1"),
        (["    def f():\n        return 1"], "def f():\n    return 1"),
        (["    return 1", "print(f(1))"], "    return 1"),
        (["def f(): return (", "def f(): return 1"], "def f(): return 1"),
    ],
)  # fmt: skip
def test_what_earlier_blocks_define_is_there_and_nothing_else_of_them_runs(blocks: list[str], code: str) -> None:
    assert python_code(answer(*blocks), "f") == code


@pytest.mark.parametrize(
    ("blocks", "code"),
    [
        ([READS, ">>> run()\n3"], READS),
        ([READS, "print(1)"], READS),
        ([READS, "assert solve(1) == 2"], READS),
        ([READS, "import io, sys\nsys.stdin = io.StringIO('3')\nprint(input())"], READS),
        ([READS, "import subprocess\nprint(subprocess.run(['python', 'a.py'], input=b'1'))"], READS),
        ([READS, "n = int(input())"], READS),
        ([READS, "```\n3\n```"], READS),
        (["print(0)", READS], READS),
        ([READS.replace("+ 1", "+ 2"), READS], READS),
        (["def solve():\n    print(input())", "solve()"], "def solve():\n    print(input())\nsolve()"),
        (["def g(n): return n", "print(g(input()))"], "def g(n): return n\nprint(g(input()))"),
        ([f"{F}\n{READS}", "print(f(3))"], f"{F}\n{READS}"),
        (["print(3)", "3"], "print(3)"),
        (["print(3)", "assert True"], "print(3)"),
        (["import sys\nsys.stdout.write(sys.stdin.read())", "# Complexity: O(n)"],
         "import sys\nsys.stdout.write(sys.stdin.read())"),
        (["print 1", "print 2"], "print 2"),
        (["   print(3)"], "print(3)"),
        (["if 1:\n\u00a0\u00a0print(3)\u200b"], "if 1:\n  print(3)"),
        (["print('\u00a0')"], "print('\u00a0')"),
    ],
)  # fmt: skip
def test_without_an_entry_point_the_last_program_counts(blocks: list[str], code: str) -> None:
    assert python_code(answer(*blocks)) == code


def test_a_fragment_is_unchanged_and_no_use_of_the_function() -> None:
    assert python_fragment(answer("    return x", "assert f(1) == 1"), "f") == "    return x"
    assert python_fragment(answer("    return f(x - 1)"), "f") == "    return f(x - 1)"
    for test in (
        "def test():\n    assert f(1) == 1\ntest()",
        "import a\nif a:\n    print(f(1))",
        "x = f(1)",
        ">>> f(1)",
    ):
        for code in ("    return x", "    return f(x - 1)", F, f"{F}\nprint(f(1))"):
            assert python_fragment(answer("    return 0", code, test), "f") == code
    assert python_fragment("none", "f") is None is python_code("none", "f")


@pytest.mark.parametrize(
    ("text", "function", "program"),
    [
        (F, F, None),
        (f"Sure, here it is:\n\n{F}\n\nIt adds one.", F, None),
        (f"<think>\ndef f(x): return 0\n</think>\n{F}", F, None),
        (f"<think>\n```python\n{F}", None, None),
        (f"<think>\n{READS}", None, None),
        (f"```python\n{F}", F, None),
        (f"```python\n{F}\nIt adds one.", F, None),
        (READS, None, READS),
        (f"Run this:\n{READS}", None, READS),
        (f"```\n{READS}", None, READS),
        (f"```cpp\n{F}\n{READS}", None, None),
        ("    return x + 1", "    return x + 1", None),
        ("I would print it.", None, None),
        ("It is f(1) = 2", None, None),
    ],
)
def test_code_that_no_block_holds_counts_without_the_prose_around_it(
    text: str, function: str | None, program: str | None
) -> None:
    assert (python_code(text, "f"), python_code(text)) == (function, program)


@pytest.mark.parametrize("line", ["x = (", "def f(): f()", "f" * 50, "((((", "    if x:", "g = f(g)", "'" * 3])
def test_hostile_blocks_take_little_time(line: str) -> None:
    text = "\n```python\n".join([f"{line}\n" * 20 + "```"] * 2_000) + "\n```python\n" + f"{line}\n" * 50_000 + "```"
    assert cpu_seconds(lambda: (python_code(text), python_code(text, "f"), python_fragment(text, "f"))) < 3
    assert cpu_seconds(lambda: python_code(f"{line}\n" * 50_000, "f")) < 2
