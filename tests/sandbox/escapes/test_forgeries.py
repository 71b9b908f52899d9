"""Wrong programs that try to be paid: through the real verifiers, which may pay none of them."""

from __future__ import annotations

import json
import runpy
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from testing import function_call, message, often, outputs, row

import gym_llm  # noqa: F401 - registers the environments
from gym_llm.errors import SandboxUnavailable

forgeries = runpy.run_path(str(Path(__file__).with_name("forgeries.py")))
KEY, SEARCH, SLOW = (forgeries[name] for name in ("KEY", "SEARCH", "SLOW"))
FUNCTIONS, PROGRAMS, OBJECTS = forgeries["functions"](), forgeries["programs"](), forgeries["objects"]()
Fields = Callable[[str], dict[str, Any]]
SMALL = {"memory_mib": 512}


def code_gen(function: bool) -> Fields:
    def fields(key: str) -> dict[str, Any]:
        tests = {"inputs": ['"q"' if function else "q\n"] * 2, "outputs": [json.dumps(key) if function else key] * 2}
        return {"verifier_metadata": {"unit_tests": tests | ({"fn_name": "solve"} if function else {})}}

    return fields


def evalplus(key: str) -> dict[str, Any]:
    expected = {"base": [key], "plus": [key]}
    inputs = {"base_input": [["q"]], "plus_input": [["q"]]}
    return {"verifier_metadata": {"problem": {"prompt": "", "entry_point": "solve", **inputs, "expected": expected}}}


def code_fim(key: str) -> dict[str, Any]:
    test = f"def check(solve):\n    assert solve('q') == {key!r}\n"
    problem = {"prompt": "", "suffix": "\n", "test": test, "entry_point": "solve"}
    return {"verifier_metadata": {"problem": problem}}


def bigcodebench(key: str) -> dict[str, Any]:
    tests = [f"    def test_{name}(self):\n        self.assertEqual(solve('q'), {key!r})\n" for name in ("one", "two")]
    test = "import unittest\nclass TestCases(unittest.TestCase):\n" + "".join(tests)
    return {"verifier_metadata": {"entry_point": "solve", "code_prompt": "def solve(x):\n", "test": test}}


def scicode(key: str) -> dict[str, Any]:
    step = {"step_number": "1", "step_description_prompt": "?", "function_header": "def solve(x):"}
    step |= {"test_cases": ["assert solve('q') == target"] * 2, "targets": [key] * 2}
    return {"problem_id": "p", "required_dependencies": "import numpy as np", "sub_steps": [step]}


def competitive_coding(key: str) -> dict[str, Any]:
    problem = {"all_tests": {name: {"input": "q\n", "output": f"{key}\n"} for name in "ab"}, "time_limit": 0.5}
    return {"problem_id": "p", "problem": problem}


def with_checker(key: str) -> dict[str, Any]:
    fields = competitive_coding(key)
    source = "import sys\nread = lambda n: open(sys.argv[n]).read()\nprint(float(read(2) == read(3)))"
    fields["problem"]["checker"] = {"source": source, "language": "python", "protocol": "score"}
    return fields


CODE_GEN, CONTESTS = "gym_llm/CodeGen-v0", "gym_llm/CompetitiveCoding-v0"
OF_FUNCTIONS: dict[str, tuple[str, Fields, dict[str, Any]]] = {
    "CodeGen, functions": (CODE_GEN, code_gen(True), {"unit_test_timeout_secs": 0.5}),
    "CodeGen, wrapped functions": (CODE_GEN, code_gen(True), {"unit_test_timeout_secs": 0.5, "runner": "wrapped"}),
    "EvalPlus": ("gym_llm/EvalPlus-v0", evalplus, {"min_time_limit": 0.5}),
    "CodeFIM": ("gym_llm/CodeFIM-v0", code_fim, {"timeout": 0.5}),
    "SciCode": ("gym_llm/SciCode-v0", scicode, {"timeout_secs": 0.8}),
    "BigCodeBench": ("gym_llm/BigCodeBench-v0", bigcodebench, {"subprocess_timeout": 0.8}),
}
OF_PROGRAMS: dict[str, tuple[str, Fields, dict[str, Any]]] = {
    "CodeGen, programs": (CODE_GEN, code_gen(False), {"unit_test_timeout_secs": 0.5}),
    "CodeGen, wrapped programs": (CODE_GEN, code_gen(False), {"unit_test_timeout_secs": 0.5, "runner": "wrapped"}),
    "CompetitiveCoding": (CONTESTS, competitive_coding, {"time_scale": 1.0}),
    "CompetitiveCoding with a checker": (CONTESTS, with_checker, {"time_scale": 1.0}),
}
PATIENT: dict[str, dict[str, float]] = {
    "BigCodeBench": {"subprocess_timeout": 4.0},
    "SciCode": {"timeout_secs": 2.0},
}


def rewards(env_id: str, kwargs: dict[str, Any], fields: dict[str, Any], programs: dict[str, str]) -> dict[str, float]:
    """What each program is paid; `make test` plays the first and every third after it."""
    programs = dict(list(programs.items())[:: often(3, 1)])
    paid: dict[str, float] = {}
    try:
        with closing(gym.make(env_id, disable_env_checker=True, **SMALL, **kwargs)) as env:
            for name, code in programs.items():
                env.reset(options={"task": row(**fields)})
                _, reward, *_ = env.step(message(f"```python\n{code}\n```"))
                paid[name] = float(reward)
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    return paid


def test_every_forgery_is_python() -> None:
    for name, code in {**FUNCTIONS, **PROGRAMS, **OBJECTS, **SLOW}.items():
        compile(code, name, "exec")
    assert len(FUNCTIONS) + len(PROGRAMS) + len(OBJECTS) > 300


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OF_FUNCTIONS, *OF_PROGRAMS])
def test_no_forgery_is_paid(name: str) -> None:
    env_id, fields, kwargs = {**OF_FUNCTIONS, **OF_PROGRAMS}[name]
    paid = rewards(env_id, kwargs, fields(KEY), FUNCTIONS if name in OF_FUNCTIONS else PROGRAMS)
    assert {forgery for forgery, reward in paid.items() if reward} == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["BigCodeBench", "SciCode"])
def test_no_object_of_a_program_takes_part_in_its_comparison(name: str) -> None:
    env_id, fields, kwargs = OF_FUNCTIONS[name]
    paid = rewards(env_id, {**kwargs, **PATIENT[name]}, fields(KEY), OBJECTS)
    assert {forgery for forgery, reward in paid.items() if reward} == set()


ASSERTIONS = {
    "equal": "self.assertTrue(solve('q') == {key!r})",
    "not different": "self.assertFalse(solve('q') != {key!r})",
    "a prefix": "self.assertTrue(solve('q').startswith({key!r}))",
    "contained": "self.assertIn({key!r}, solve('q'))",
    "found": "self.assertGreaterEqual(solve('q').find({key!r}), 0)",
    "counted": "self.assertTrue(solve('q').count({key!r}))",
    "a frame": "self.assertTrue(solve('q').equals({key!r}))",
    "a superset": "self.assertTrue(solve('q').issuperset([{key!r}]))",
    "a pattern": "self.assertTrue(solve('q').match({key!r}))",
    "an attribute's judgement": "self.assertTrue(solve('q').name.endswith({key!r}))",
    "an array": "import numpy; numpy.testing.assert_array_equal(solve('q'), numpy.array([{key!r}], dtype=object))",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ASSERTIONS])
def test_no_object_of_a_program_judges_what_it_is_given(name: str) -> None:
    body = ASSERTIONS[name].format(key=KEY)
    test = f"import unittest\nclass TestCases(unittest.TestCase):\n    def test_one(self):\n        {body}\n"
    fields = {"verifier_metadata": {"entry_point": "solve", "code_prompt": "def solve(x):\n", "test": test}}
    wanted = [f"returns {lie}" for lie in forgeries["LIARS"]] + [f"message {number}" for number in range(9)]
    wanted += [name for name in OBJECTS if name.endswith("of an object that is equal to all")]
    programs = {name: OBJECTS[name] for name in wanted}
    env_id, _, kwargs = OF_FUNCTIONS["BigCodeBench"]
    paid = rewards(env_id, {**kwargs, **PATIENT["BigCodeBench"]}, fields, programs)
    assert {forgery for forgery, reward in paid.items() if reward} == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        name if number % 3 == 0 else pytest.param(name, marks=pytest.mark.nightly)
        for number, name in enumerate([*OF_FUNCTIONS, *OF_PROGRAMS])
    ],
)
def test_what_is_right_in_time_is_paid_and_too_late_it_is_not(name: str) -> None:
    env_id, fields, kwargs = {**OF_FUNCTIONS, **OF_PROGRAMS}[name]
    right = f"def solve(x): return {KEY!r}" if name in OF_FUNCTIONS else f"print({KEY!r})"
    programs = {"right": right, **{name: f"{code}\n{right}" for name, code in SLOW.items()}}
    paid = rewards(env_id, kwargs, fields(KEY), programs)
    assert {program for program, reward in paid.items() if reward} == {"right"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OF_FUNCTIONS, *OF_PROGRAMS])
def test_the_search_finds_what_is_there(name: str) -> None:
    """A control: with the key in the program's own memory, files and frames, each way finds it."""
    env_id, fields, kwargs = {**OF_FUNCTIONS, **OF_PROGRAMS}[name]
    plant = f"kept = [{KEY!r}]\nopen('/tmp/key', 'w').write({KEY!r})\n"
    wanted = {way: code for way, code in (FUNCTIONS if name in OF_FUNCTIONS else PROGRAMS).items() if "searches" in way}
    wanted = {way: plant + code for way, code in wanted.items() if "descriptors" not in way}
    patient = {name: 6 * value if isinstance(value, float) else value for name, value in kwargs.items()}
    paid = rewards(env_id, patient, fields(KEY), wanted)
    assert {way for way, reward in paid.items() if not reward} == set()


@pytest.mark.slow
def test_the_tool_of_math_with_code_sees_nothing_of_what_is_expected() -> None:
    with closing(gym.make("gym_llm/MathWithCode-v0", disable_env_checker=True)) as env:
        env.reset(options={"task": row(expected_result=KEY)})
        code = f"{SEARCH}\nprint(search(), search(from_descriptors))"
        try:
            planted = outputs(env.step([function_call("execute_python", {"code": f"kept = [{KEY!r}]\n{code}"})])[0])[-1]
            env.step([function_call("end_session", {})])
            said = outputs(env.step([function_call("execute_python", {"code": code})])[0])[-1]
        except SandboxUnavailable as error:
            pytest.skip(str(error))
        _, reward, *_ = env.step(message(r"\boxed{nothing}"))
    assert KEY in planted and KEY not in said and "nothing nothing" in said and reward == 0.0


QUERIES = {
    "the schema": "SELECT sql FROM sqlite_master",
    "all schemas": "SELECT sql FROM sqlite_schema UNION ALL SELECT sql FROM sqlite_temp_master",
    "databases": "SELECT * FROM pragma_database_list",
    "another's statement": "SELECT * FROM sqlite_stmt",
    "a file": "SELECT readfile('/proc/self/environ')",
    "an attached file": "ATTACH '/tmp/forged' AS f",
    "two statements": "UPDATE t SET k = 'x'; SELECT 'x'",
    "writing": "UPDATE t SET k = 'x' RETURNING k",
    "a table in its place": "CREATE TEMP TABLE t AS SELECT 'x' AS k",
    "a view in its place": "CREATE TEMP VIEW t AS SELECT 'x' AS k",
    "no rows": "SELECT k FROM t WHERE 0",
    "NULL": "SELECT NULL",
    "a number that is none": "SELECT 9e999 - 9e999",
    "a pattern": "SELECT '%'",
    "all values": "SELECT k FROM t",
}


@pytest.mark.parametrize("env", ["SQLQuery", "BirdSQL"])
def test_no_statement_forges_its_rows_or_those_of_the_next(env: str, tmp_path: Path) -> None:
    schema = f"CREATE TABLE t (k TEXT); INSERT INTO t VALUES ('{KEY}'), ('other');"
    gold = "SELECT k FROM t WHERE k LIKE 'KEY%'"
    fields: dict[str, Any] = {"schema": schema, "gold_sql": gold}
    kwargs = {}
    if env == "BirdSQL":
        (tmp_path / "d").mkdir()
        with closing(sqlite3.connect(tmp_path / "d" / "d.sqlite")) as connection:
            connection.executescript(schema)
        fields = {"gt_sql": gold, "db_id": "d", "difficulty": "simple", "id": 1}
        kwargs = {"bird_sql_dir": str(tmp_path)}
    paid = {}
    with closing(gym.make(f"gym_llm/{env}-v0", disable_env_checker=True, **kwargs)) as played:
        for name, query in {**QUERIES, "right": gold}.items():
            played.reset(options={"task": row(question="?", **fields)})
            paid[name] = played.step(message(f"```sql\n{query}\n```"))[1]
    assert {name for name, reward in paid.items() if reward} == {"right"}
