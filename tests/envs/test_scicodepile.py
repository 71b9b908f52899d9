"""SciCodePile: code that passes its own check, and code that only seems to."""

from __future__ import annotations

from typing import Any

import pytest
from testing import ROOT, scored

from gym_llm.data import read_jsonl
from gym_llm.errors import DataError, SandboxUnavailable

TEST = """import math
def check(candidate):
    candidate.__globals__["scale"] = lambda x: 2 * x
    assert candidate(3).same_as(Box(6))
    assert math.isclose(candidate(-1).value, -2)
    try:
        candidate(None)
    except ValueError:
        return
    raise AssertionError("no error")
"""
SETUP = """class Box:
    def __init__(self, value): self.value = value
    def same_as(self, other): return self == other
    def __eq__(self, other): return self.value == other.value
"""
METADATA = {"task_id": "own/6", "entry_point": "boxed", "test": TEST, "setup_code": SETUP}
RIGHT = "def boxed(x):\n    if x is None:\n        raise ValueError\n    return Box(scale(x))"


def play(code: str, metadata: dict[str, Any] | None = None, **options: Any) -> tuple[float, dict[str, Any]]:
    text = code if "`" in code else f"```python\n{code}\n```"
    options = {"memory_mib": 512, "subprocess_timeout": 2.0, **options}
    try:
        return scored("gym_llm/SciCodePile-v0", text, options, verifier_metadata=metadata or METADATA)
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("number", range(5))
def test_the_examples_can_be_solved(number: int) -> None:
    _, task = list(read_jsonl(ROOT / "envs" / "scicodepile" / "data" / "example.jsonl"))[number]
    metadata = task["verifier_metadata"]
    assert play(metadata["canonical_solution"], metadata)[1]["status"] == "pass"
    stub = f"def {metadata['entry_point']}(*_):\n    return None"
    assert play(stub, metadata)[0] == 0.0


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (RIGHT, "pass"),
        (f"from __future__ import annotations\n{RIGHT}", "pass"),
        (f"```py\n{RIGHT}\n```\nIt prints:\n```\n6\n```", "pass"),
        (RIGHT.replace("scale(x)", "x"), "fail"),
        (f"{RIGHT}\n@lambda f: lambda c: None", "error"),
        ("import os\nos._exit(0)", "error"),
        (f"{RIGHT}\nraise SystemExit(0)", "error"),
        ("def boxed(x):\n    raise SystemExit(0)", "fail"),
        ("def boxed(x):\n    raise ValueError('\\udcff')", "fail"),
        ("def box(x): return x", "entry_point_missing"),
        ("def boxed(x): (", "error"),
        ("while True: pass", "timeout"),
        ("```\n```", "no_code_block"),
    ],
)
def test_the_check_decides(code: str, status: str) -> None:
    reward, info = play(code)
    assert (reward, info["status"]) == (float(status == "pass"), status)


@pytest.mark.parametrize(
    "code",
    [
        "class Any(Box):\n    def __eq__(self, other): return True\n"
        "def boxed(x):\n    if x is None: raise ValueError\n    return Any(2 * x if x < 0 else 0)",
        "import math\nmath.isclose = lambda *_: True\n" + RIGHT.replace("scale(x)", "6"),
        "import math\n"
        + RIGHT.replace("    return", "    math.isclose = lambda *_: True\n    return").replace("scale(x)", "6"),
        "def check(candidate): pass\n" + RIGHT.replace("scale(x)", "6"),
    ],
    ids=["equal to all", "math replaced", "math replaced later", "own check"],
)
def test_what_judges_is_not_the_programs(code: str) -> None:
    assert play(code)[0] == 0.0


def test_a_row_that_cannot_run_is_not_the_models_fault() -> None:
    with pytest.raises(DataError, match="setup_code"):
        play(RIGHT, {**METADATA, "setup_code": "import nothing_of_this_name"})
    assert play("raise RuntimeError('SETUP')")[0] == 0.0
    for wrong in ({"test": "check = 1"}, {"test": "def check(:"}, {"entry_point": ""}):
        with pytest.raises(DataError):
            play(RIGHT, {**METADATA, **wrong})


def test_upstream_reads_no_block_without_a_tag() -> None:
    text = f"```\n{RIGHT}\n```\nDone."
    assert (play(text)[0], play(text, conform="nemo")[0]) == (1.0, 0.0)
