"""SciCode: steps, their tests in two sandboxes, and answers that try to pass without being right."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from testing import ROOT, message

from gym_llm.data import read_jsonl
from gym_llm.envs.scicode.inside import compare
from gym_llm.envs.scicode.inside.values import Opaque, decode, encode
from gym_llm.envs.scicode.splitting import split_test
from gym_llm.envs.scicode.targets import read_targets
from gym_llm.errors import DataError, SandboxUnavailable

# ruff: noqa: E501
ENV_ID = "gym_llm/SciCode-v0"
EXAMPLES = [row for _, row in read_jsonl(ROOT / "envs" / "scicode" / "data" / "example.jsonl")]


def problem(*tests: str, targets: list[Any], header: str = "def f(x):") -> dict[str, Any]:
    """A row of one step."""
    step = {"step_number": "1", "step_description_prompt": "?", "function_header": header, "test_cases": list(tests)}
    return {
        "responses_create_params": {"input": []},
        "problem_id": "p",
        "required_dependencies": "import numpy as np",
        "sub_steps": [{**step, "targets": targets}],
    }


def played(row: dict[str, Any], *codes: str, **kwargs: Any) -> tuple[float, dict[str, Any]]:
    """The reward and info of these answers; a response that was cut off ends the episode if they do not."""
    try:
        env = gym.make(ENV_ID, tasks=[row], **kwargs)
        env.reset()
        for code in codes:
            _, reward, terminated, _, info = env.step(message(f"```python\n{code}\n```"))
        if not terminated:
            _, reward, _, _, info = env.step({"output": message("…"), "status": "incomplete"})
        env.close()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    return reward, info


def truths(row: dict[str, Any]) -> list[str]:
    return [step["ground_truth_code"] for step in row["sub_steps"]]


@pytest.mark.slow
@pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: row["problem_id"])
def test_right_answers_pass_every_step(row: dict[str, Any]) -> None:
    reward, info = played(row, *truths(row))
    assert (reward, info["step_failures"], info["problem_accuracy"], info["subtask_accuracy"]) == (1.0, {}, True, 1.0)
    assert info["num_steps_passed"] == info["num_steps_total"] == len(row["sub_steps"])


def test_steps_are_asked_one_after_the_other() -> None:
    env = gym.make(ENV_ID, tasks=[EXAMPLES[0]])
    observation, _ = env.reset()
    for step in EXAMPLES[0]["sub_steps"]:
        asked = observation["input"][-1]["content"]
        assert step["step_description_prompt"] in asked and step["function_header"] in asked
        assert "target" not in asked and step["ground_truth_code"] not in asked
        observation, reward, terminated, _, info = env.step(message("I do not know."))
    assert (reward, terminated) == (0.0, True)
    assert set(info["step_failures"].values()) == {"no code"} and info["step_results"] == [False] * 3


@pytest.mark.slow
def test_a_wrong_step_fails_itself_and_those_that_need_it() -> None:
    row = EXAMPLES[0]
    wrong = truths(row)[0].replace("-2.0", "-3.0")
    reward, info = played(row, wrong, *truths(row)[1:])
    assert (reward, info["step_results"], info["num_steps_passed"]) == (0.0, [False] * 3, 0)
    reward, info = played(row, truths(row)[0], "def cool(u, dt, steps):\n    return u", truths(row)[2])
    assert (info["step_results"], info["step_failures"]["heat.2"]) == ([True, False, False], "AssertionError")


@pytest.mark.slow
def test_a_step_that_was_not_reached_has_failed_but_for_nemo_gym() -> None:
    row = EXAMPLES[0]
    reward, info = played(row, truths(row)[0])
    assert (reward, info["step_results"]) == (0.0, [True, False, False])
    reward, info = played(row, *truths(row)[:1], conform="nemo")
    assert (reward, info["step_results"]) == (0.0, [True, False])  # the turn that was cut off has no code


@pytest.mark.slow
def test_the_code_of_given_steps_is_there() -> None:
    row = problem("assert g(3) == target", targets=[7], header="def g(x):")
    given = {**row["sub_steps"][0], "step_number": "13.6", "ground_truth_code": "def f(x):\n    return 2 * x",
             "function_header": "def f(x):", "test_cases": [], "targets": None}  # fmt: skip
    row["sub_steps"].insert(0, given)
    env = gym.make(ENV_ID, tasks=[row])
    assert "return 2 * x" in env.reset()[0]["input"][0]["content"]
    reward, info = played(row, "def g(x):\n    return f(x) + 1")
    assert (reward, info["num_steps_total"]) == (1.0, 1)


FORGED = {
    "exit": "import os\nos._exit(0)",
    "SystemExit": "raise SystemExit(0)",
    "exit in a call": "import os\ndef f(x):\n    os._exit(0)",
    "allclose": "np.allclose = lambda *a, **k: True\ndef f(x):\n    return x",
    "builtins": "import builtins\nbuiltins.all = builtins.any = builtins.abs = lambda *a: True\nf = abs",
    "equal to all": "class E:\n    __eq__ = __le__ = __lt__ = lambda *a: True\n    __bool__ = lambda s: True\ndef f(x): return E()",
    "an array's class": "class A(np.ndarray):\n    def __array_function__(*a): return True\n    __eq__ = lambda *a: True\n"
    "def f(x): return np.zeros(3).view(A)",
    "target": "import gc, sys\ndef f(x):\n    frame = sys._getframe()\n    while frame:\n"
    "        for d in (frame.f_globals, frame.f_locals):\n            if 'target' in d or 'targets' in d: return d['target']\n"
    "        frame = frame.f_back\n    raise LookupError",
    "files": "import glob\ndef f(x):\n    text = ' '.join(open(n, errors='replace').read() for n in glob.glob('/tmp/**', recursive=True) if '.' in n)\n"
    "    return 4000 + 711.5 if str(4000 + 711) in text else 0",
    "own file": "import atexit, os, json\ndef f(x): return 0\ndef w():\n    json.dump({'0.0': [{'opaque': 'x'}]}, open('returned.json', 'w'))\natexit.register(w)",
    "names of the harness": "def __note__(s, v): return v\n__returned__ = lambda s: 4711.5\ntarget = 4711.5\ndef f(x): return target + 1",
    "values": "import values\nvalues.encode = lambda v, d=0: {'sparse': '__class__', 'data': [], 'row': [], 'col': [], 'shape': [1, 1]}\ndef f(x): return 0",
    "deep": "import values\ndef f(x):\n    v = []\n    for _ in range(100000): v = [v]\n    return v",
    "much": "def f(x): return np.zeros(10**9)",
    "forever": "def f(x):\n    while True: pass",
    "not a number": "def f(x): return float('nan')",
    "recursion": "def f(x): return f(x)",
}  # fmt: skip


EMPTY = ["{}", "''", "b''", "set()", "[]", "()", "frozenset()", "np.empty(0)", "np.empty((0, 1, 1))", "float('nan')"]
EMPTY += [
    "([], [])",
    "('', '')",
    "({}, {})",
    "[[], [1.0, 2.0]]",
    "{'a': [], 'b': [1.0]}",
    "np.full(2, np.nan)",
    "[1.0]",
]


@pytest.mark.slow
@pytest.mark.parametrize("value", EMPTY)
def test_a_value_without_items_passes_no_loop_over_it(value: str) -> None:
    loop = "y = f(1)\nassert all(np.allclose(a, b) for a, b in zip(y, target))"
    nested = "y = f(2)\nassert all(abs(a - b) < 1 for p, q in zip(y, target) for a, b in zip(p, q))"
    each = "y = f(3)\nfor item in y:\n    assert item in target"
    tests = [loop, nested, each, "assert not np.any(np.abs(f(4) - target) > 1)"]
    if value == "[1.0]":  # a part of what is right; only zip can say that there should be more
        tests = [loop, nested]
    for test in tests:
        row = problem(test, targets=[[[1.0, 2.0], [3.0, 4.0]]] if test == nested else [[1.0, 2.0]])
        reward, info = played(row, f"def f(x): return {value}")
        assert (reward, info["step_results"]) == (0.0, [False]), (test, info)


@pytest.mark.slow
def test_values_with_items_pass_loops_over_them() -> None:
    loop = "y = f(1)\nassert all(np.allclose(a, b) for a, b in zip(y, target))"
    other = "y = f(2)\nassert all(a == b for a, b in zip(y, target))\nassert list(zip([1], 'xy')) == [(1, 'x')]"
    row = problem(loop, other, "assert f(0) == target", targets=[[1.0, 2.0], [1.0, 2.0], []])
    assert played(row, "def f(x): return [1.0, 2.0] if x else []")[0] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("value", ["np.empty(0)", "np.empty((0, 1, 1))", "[]"])
def test_an_empty_value_is_close_to_nothing(value: str) -> None:
    row = problem("assert np.allclose(f(3), target)", "assert np.isclose(f(4), target).all()", targets=[[1.0], [2.0]])
    reward, info = played(row, f"def f(x): return {value}")
    assert (reward, info["step_results"]) == (0.0, [False]), info


@pytest.mark.slow
@pytest.mark.parametrize(
    "test",
    ["(f(1) == target).all()", "np.all(np.abs(f(1) - target) < 1e-9)", "np.sum(np.abs(np.array(f(1)) - target)) < 1",
     "np.linalg.norm(f(1) - target) < 1"],
)  # fmt: skip
def test_nothing_is_true_of_all_items_of_an_empty_array(test: str) -> None:
    row = problem(f"assert {test}", targets=[[[1.0, 2.0]]])
    for value in ("np.empty((0, 2))", "np.empty((0, 1, 1))"):
        assert played(row, f"def f(x): return {value}")[0] == 0.0, value
    assert played(row, "def f(x): return np.array([[1.0, 2.0]])")[0] == 1.0


@pytest.mark.slow
def test_an_empty_array_is_right_where_it_is_expected() -> None:
    row = problem("assert np.array_equal(f(1), target)", targets=[{"array": [], "dtype": "U"}])
    assert played(row, "def f(x): return np.empty(0)")[0] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", FORGED)
def test_no_answer_passes_without_being_right(name: str) -> None:
    row = problem(
        "y = f(3)\nassert np.allclose(y, target)", "assert abs(f(4) - target) < 1e-3", targets=[4711.5, 4711.5]
    )
    reward, info = played(row, FORGED[name], timeout_secs=2.0, memory_mib=512)
    assert (reward, info["step_results"]) == (0.0, [False]), info


@pytest.mark.slow
def test_what_was_forged_would_be_right_with_the_value() -> None:
    row = problem(
        "y = f(3)\nassert np.allclose(y, target)", "assert abs(f(4) - target) < 1e-3", targets=[4711.5, 4711.5]
    )
    assert played(row, "def f(x): return 4711.5")[0] == 1.0


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("assert np.allclose(f(x), target)", "__note__('0.0', f(x))"),
        ("a, b = target\nassert f(1) == a", "__note__('0.0', f(1))"),
        ("assert f(g(f(1))) == 3", "__note__('0.0', f(g(f(1))))"),
        ("assert np.sum(f(1)) == target[0]", "__note__('0.0', f(1))"),
        ("assert f(1).sum() == target", "__note__('0.0', f(1).sum())"),
        ("assert quad(f, 0, 1)[0] == target", "__note__('0.0', quad(f, 0, 1))"),
        ("h = f\nassert h(1) == target", "h = f\n__note__('0.0', h(1))"),
        (
            "m = K(1)\nassert m.x + m.y(2) == target",
            "m = __note__('0.0', K(1))\n__note__('0.1', m.x)\n__note__('0.2', m.y(2))",
        ),
        ("for i in range(3):\n    assert f(i) == target[i]", "for i in range(3):\n    __note__('0.0', f(i))"),
        ("for i in range(3):\n    assert i == target", "for i in range(3):\n    pass"),
        ("from scicode.compare.cmp import x\nassert x(f(1), target)", "__note__('0.0', f(1))"),
    ],
)
def test_only_calls_are_left_of_an_assertion(source: str, calls: str) -> None:
    split = split_test(source, ["f", "K"], classes=["K"])
    assert split.calls == calls
    assert "target" in split.judgement or "target" not in source


@pytest.mark.parametrize(
    "source",
    [
        "assert f(target) == 1",
        "assert all(f(x) == t for x, t in zip(range(3), target))",
        "for t in target:\n    x = f(t)",
        "x = lambda: target\ny = f(x)",
        "assert f(",
        "assert f(1) == '\0'",
    ],
)
def test_a_test_that_cannot_be_split_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="a test "):
        split_test(source, ["f"])
    env = gym.make(ENV_ID, tasks=[problem(source, targets=[1])])
    with pytest.raises(DataError, match="cannot be run safely"):
        env.reset()


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, 2.5, "x", [1, [2]], (1, "a"), {"a": (1,), 2: None}, {1, 2}, 1 + 2j, b"\xff",
        np.arange(6.0).reshape(2, 3), np.array([1 + 1j]), np.array([True]), np.zeros((0, 3)), np.float32(1.5),
        np.array(["a", "b"]), np.array([1, "a", None], dtype=object),
    ],
)  # fmt: skip
def test_values_come_back_as_they_were(value: Any) -> None:
    again = decode(json.loads(json.dumps(encode(value))))
    assert type(again) is type(value)
    if isinstance(value, np.ndarray):
        assert again.dtype == value.dtype and again.shape == value.shape
        assert (again == value).all()
    else:
        assert again == value


def test_what_cannot_be_handed_over_is_its_text() -> None:
    again = decode(encode([len]))[0]
    assert isinstance(again, Opaque) and str(again) == str(len) and again != len
    assert math.isnan(decode(json.loads(json.dumps(encode(math.nan)))))


@pytest.mark.parametrize(
    "value",
    [{"no": 1}, {"array": "AA==", "dtype": "O8", "shape": [1]}, {"array": "AA==", "dtype": "<f8", "shape": [1]},
     {"sparse": "array", "data": [1], "row": [0], "col": [0], "shape": [1, 1]}, {"complex": ["1", 2]}],
)  # fmt: skip
def test_what_is_no_value_is_refused(value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        decode(value)


def test_comparisons_of_the_benchmark() -> None:
    assert compare.cmp_tuple_or_list((1.0, np.ones(2), "a"), [1.0 + 1e-9, np.ones(2), "a"])
    assert not compare.cmp_tuple_or_list((1.0, np.ones(2)), (1.0, np.zeros(2)))
    assert not compare.cmp_tuple_or_list((1.0,), (1.0, 2.0))
    assert compare.are_dicts_close({"a": 1.0, "b": "x"}, {"a": 1.0, "b": "x"})
    assert not compare.are_dicts_close({"a": 1.0}, {"b": 1.0})
    assert not compare.are_dicts_close({"a": "1"}, {"a": 1})
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csc_matrix(np.eye(2))
    assert compare.are_dicts_close({"m": matrix}, {"m": decode(json.loads(json.dumps(encode(matrix))))})
    assert not compare.cmp_tuple_or_list([matrix], [2 * matrix])


@pytest.mark.slow
def test_targets_come_from_a_file(tmp_path: Path) -> None:
    row = problem("assert f(3) == target", targets=[1])
    row["sub_steps"][0]["targets"] = None
    with pytest.raises(DataError, match="no test_data_fpath"):
        gym.make(ENV_ID, tasks=[row]).reset()
    path = tmp_path / "targets.json"
    path.write_text('{"1": [9], "2": []}')
    assert played(row, "def f(x): return x * x", test_data_fpath=str(path))[0] == 1.0
    path.write_text('{"2": [9]}')
    with pytest.raises(DataError, match="no 1 targets of step 1"):
        gym.make(ENV_ID, tasks=[row], test_data_fpath=str(path)).reset()


def test_targets_are_read_from_hdf5(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    sparse = pytest.importorskip("scipy.sparse")
    path, matrix = tmp_path / "test_data.h5", sparse.csr_matrix(np.eye(3))
    with h5py.File(path, "w") as file:
        file["4.1/test1/var1"] = np.arange(4.0).reshape(2, 2)
        file["4.1/test2/var1"], file["4.1/test2/var2"] = 2.5, b"text"
        for name, part in (("var1", [1.0, 2.0]), ("var2", [3.0])):
            file[f"4.1/test3/list/list/{name}"] = part
        for name in ("data", "indices", "indptr", "shape"):
            file[f"4.1/test4/var1/sparse_matrix/{name}"] = getattr(matrix, name)
        file["4.1/test5/var1/1.5"], file["4.1/test5/var1/name"] = 1, np.ones(2)
    read = read_targets(str(path))
    one, two, three, four, five = map(decode, read("4.1", 5))
    assert one.tolist() == [[0.0, 1.0], [2.0, 3.0]] and two == (2.5, "text")
    assert [part.tolist() for part in three] == [[1.0, 2.0], [3.0]]
    assert (four.toarray() == np.eye(3)).all()
    assert five[1.5] == 1 and five["name"].tolist() == [1.0, 1.0]
    with pytest.raises(DataError, match=r"no 6 targets of step 4\.1"):
        read("4.1", 6)


def test_a_package_that_is_not_there_is_said_before_the_model_is_asked() -> None:
    row = {
        **problem("assert f(3) == target", targets=[1]),
        "required_dependencies": "import no_such_package.inner as x",
    }
    with pytest.raises(DataError, match="needs no_such_package"):
        gym.make(ENV_ID, tasks=[row]).reset()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"test_cases": []}, "no test cases"),
        ({"targets": []}, "fewer targets"),
        ({"step_number": "62.1"}, "every step is given"),
    ],
)
def test_a_problem_that_cannot_be_tested_is_refused(change: dict[str, Any], why: str) -> None:
    row = problem("assert f(3) == target", targets=[1])
    row["sub_steps"][0] |= change
    with pytest.raises(DataError, match=why):
        gym.make(ENV_ID, tasks=[row])
