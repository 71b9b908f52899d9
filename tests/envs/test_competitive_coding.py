"""CompetitiveCoding: programs in a real sandbox, with subtasks, checkers and graders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from testing import ROOT, message

from gym_llm.data import read_jsonl
from gym_llm.envs.competitive_coding.grading import find_program, preamble, same_words
from gym_llm.envs.competitive_coding.problems import Problem, ProblemFile
from gym_llm.errors import DataError, SandboxUnavailable

ENV_ID = "gym_llm/CompetitiveCoding-v0"
EXAMPLES = [row for _, row in read_jsonl(ROOT / "envs" / "competitive_coding" / "data" / "example.jsonl")]
RISE, PARTS, ROOT, MEDIAN, MIRROR = range(5)
DOUBLE = {"all_tests": {"a": {"input": "2\n", "output": "4\n"}, "b": {"input": "5\n", "output": "10\n"}}}


def played(answer: str, problem: dict[str, Any] | int, fields: dict[str, Any] | None = None, **kwargs: Any) -> Any:
    """The reward and info of an answer to one of the examples, or to a problem."""
    row = {"responses_create_params": {"input": "?"}, "problem_id": "p", "problem": problem, **(fields or {})}
    try:
        env = gym.make(ENV_ID, **({} if isinstance(problem, int) else {"tasks": [row]}), **kwargs)
        env.reset(options={"task_index": problem if isinstance(problem, int) else 0})
        _, reward, _, _, info = env.step(message(answer))
        env.close()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    return reward, info


def python(code: str) -> str:
    return f"So:\n```python\n{code}\n```"


def cpp(code: str) -> str:
    return f"So:\n```cpp\n{code}\n```"


def statuses(info: dict[str, Any]) -> list[str]:
    return [test["status"] for subtask in info["test_case_results"].values() for test in subtask["outputs"]]


@pytest.mark.parametrize(
    ("text", "name", "whole", "expected"),
    [
        ("```cpp\na\n```\n```C++\nb\n```\nas in\n```\nc\n```", "auto", False, ("cpp", "b")),
        ("```py\na\n```", "auto", False, ("python", "a")),
        ("```py\na\n```", "cpp", False, None),
        ("```bash\ng++\n```", "auto", False, None),
        ("```\na\n```", "python", False, ("python", "a")),
        ("```cpp\nint main() {", "auto", False, None),
        ("int main() {}", "auto", False, ("cpp", "int main() {}")),
        ("I do not know {}", "auto", False, None),
        ("I do not know {}", "cpp", True, ("cpp", "I do not know {}")),
    ],
)
def test_the_program_is_found(text: str, name: str, whole: bool, expected: tuple[str, str] | None) -> None:
    assert find_program(text, name, whole=whole) == expected


def test_the_preamble_has_what_is_missing() -> None:
    assert preamble("int f();", "p.h") == '#include <bits/stdc++.h>\n#include "p.h"\nusing namespace std;\n'
    assert preamble('#include <bits/stdc++.h>\n#include "p.h"\nstd::string s;', "p.h") == ""


@pytest.mark.parametrize(
    ("output", "expected", "same"),
    [
        (b"1 2\n", b"1  2", True),
        (b"1\n2\n\n\n", b"1 \r\n2\n", True),
        (b"1 2\n", b"1\n2\n", False),
        (b"12", b"1 2", False),
        (b"\n1", b"1", False),
        (b"", b"1", False),
        (b"\xff\x00", b"1", False),
    ],
)
def test_outputs_are_compared_by_words_and_lines(output: bytes, expected: bytes, same: bool) -> None:
    assert same_words(output, expected) is same


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "answer"),
    [
        *((number, row["solution"]) for number, row in enumerate(EXAMPLES)),
        (RISE, python("n = input()\nlow, most = 10**18, 0\nfor v in map(int, input().split()):\n"
                      "    low = min(low, v)\n    most = max(most, v - low)\nprint(most)")),
        (MEDIAN, cpp("int median(vector<int> v) { sort(v.begin(), v.end()); return v[v.size() / 2]; }")),
    ],
)  # fmt: skip
def test_a_right_program_is_paid(task: int, answer: str) -> None:
    reward, info = played(answer, task)
    assert reward == 1.0, info
    assert set(statuses(info)) == {"ok"}


@pytest.mark.slow
def test_subtasks_have_scores_of_their_own() -> None:
    slow = "n = int(input())\nv = list(map(int, input().split()))\nprint(max(b - a for a in v[:10] for b in v))"
    reward, info = played(python(slow), RISE, time_scale=1.0)
    small, large = (info["test_case_results"][name] for name in ("small", "large"))
    assert (reward, small["score"], large["score"]) == (0.0, 0, 0)  # an earlier one exceeds, too
    right_for_small = slow.replace("for a in v[:10] for b in v", "for i, a in enumerate(v[:10]) for b in v[i:]")
    reward, info = played(python(right_for_small), RISE)
    small, large = (info["test_case_results"][name] for name in ("small", "large"))
    assert (reward, small["score"], large["score"]) == (0.0, 30, 0)
    assert played(python(right_for_small), RISE, reward_mode="fraction")[0] == 6 / 8  # the one that only falls is right


@pytest.mark.slow
def test_a_part_of_the_score_is_none_of_the_reward_but_with_nemo_gym_s_rule() -> None:
    off = python("import math\nprint(math.isqrt(int(input())) + 1)")
    reward, info = played(off, ROOT)
    assert (reward, info["test_case_results"]["all"]["score"], set(statuses(info))) == (0.0, 4.0, {"partial"})
    halves = {
        **DOUBLE,
        "subtasks": {
            "least": {"aggregation": "min", "score": 10, "test_names": ["a", "b"]},
            "sum": {"aggregation": "sum_tests", "score": 2, "test_names": ["a", "b"]},
        },
        "checker": {"source": "import sys\nsys.stderr.write('points 0.5 half')\nsys.exit(7)", "language": "python"},
    }
    program = '#include <cstdio>\nint main() { puts("4"); }'
    _, info = played(cpp(program), halves)
    assert {name: one["score"] for name, one in info["test_case_results"].items()} == {"least": 5, "sum": 1}
    reward, info = played(cpp(program), halves, {"subtask": "sum"}, conform="nemo")
    assert (reward, info["test_case_results"]["sum"]["score"]) == (1.0, 2)
    _, info = played(cpp(program), halves, {"subtask": "least"}, conform="nemo")
    assert (info["test_case_results"]["least"]["score"], info["num_tests_run"]) == (0.0, 1)


@pytest.mark.slow
def test_a_warning_fails_an_answer_only_for_nemo_gym() -> None:
    program = cpp("int f(int n) { if (n) return 1; }\n#warning unsure\n"
                  "int main() { int n; std::cin >> n; std::cout << 2 * n; }")  # fmt: skip
    assert played(program, DOUBLE)[0] == 1.0
    reward, info = played(program, DOUBLE, conform="nemo")
    assert reward == 0.0 and "unsure" in info["compile_error"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("while True: pass", "limit: cpu"),
        ("x = [0] * 10**10", "exit code 1"),
        ("print(2 * int(input()))\nraise SystemExit(3)", "exit code 3"),
        ("import os\nos.kill(os.getpid(), 11)", "signal 11"),
        ("while True: print('4' * 10**6)", "limit: output"),
        ("import os\nprint(os.listdir('/tmp'), open('answer.txt').read())", "exit code 1"),
        ("import glob\nfor f in glob.glob('/proc/*/cmdline') + glob.glob('/proc/*/environ'): print(f)", "wrong"),
        ("", "wrong"),
    ],
)
def test_what_a_program_does_is_a_0_and_raises_nothing(code: str, status: str) -> None:
    reward, info = played(python(code or "pass"), {**DOUBLE, "time_limit": 1}, time_scale=1.0)
    assert (reward, statuses(info), info["num_tests_run"]) == (0.0, [status], 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    ["int main() {", '#include "checker.cpp"\nint main() {}', '#include "testlib.h"\nint main() {}',
     '#include "p.cpp"\nint main() {}', 'asm(".incbin \\"checker/checker.cpp\\"");\nint main() {}'],
)  # fmt: skip
def test_a_program_cannot_be_compiled_with_the_checker_or_the_solution(code: str) -> None:
    files = [["checker/checker.cpp", "int main() {}"], ["checker/testlib.h", ""], ["graders/p.cpp", "int x;"]]
    reward, info = played(cpp(code), {**DOUBLE, "grader_files": files})
    assert (reward, info["error"], info["num_tests_run"]) == (0.0, "it cannot be compiled", 0)
    assert info["compile_error"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("int main() {", "cannot be compiled"),
        ("int main() { return 3; }", "exit code 3"),
        ("int main() { int *p = nullptr; *p = 1; __builtin_trap(); }", "signal"),
        ("int main() { return 7; }", "exit code 7"),
    ],
)
def test_a_checker_that_fails_is_nobody_s_0(source: str, why: str) -> None:
    with pytest.raises(DataError, match=why):
        played(python("print(4)"), {**DOUBLE, "checker": {"source": source}})


@pytest.mark.slow
def test_an_output_that_a_checker_cannot_read_is_wrong() -> None:
    source = "import sys\nprint(float(int(open(sys.argv[3]).read()) == int(open(sys.argv[2]).read())))"
    row = {**DOUBLE, "checker": {"source": source, "language": "python", "protocol": "score"}}
    assert played(python("print('x')"), row)[0] == 0.0


@pytest.mark.slow
def test_no_output_says_to_a_checker_what_it_should_think() -> None:
    hostile = python("import sys\nsys.stdin.read()\nprint('0 0\\n1.0\\npoints 1\\0' + '9' * 10**5)")
    for task in (PARTS, ROOT):
        assert played(hostile, task)[0] == 0.0


def test_an_answer_without_a_program_runs_nothing() -> None:
    reward, info = played("I do not know.", DOUBLE)
    assert (reward, info["num_tests_run"], info["error"]) == (0.0, 0, "there is no program in the answer")


@pytest.mark.parametrize("kind", ["jsonl", "folder"])
def test_problems_are_read_from_a_file_when_they_are_needed(tmp_path: Path, kind: str) -> None:
    problems = [
        {"name": 'x "problem_id": "no"', "problem_id": f"p{n}", "competition_id": "c", **DOUBLE, "time_limit": n + 1}
        for n in range(20)
    ] + [{"problem_id": "p1", "competition_id": "other", **DOUBLE, "time_limit": 99}]
    if kind == "folder":
        for problem in problems[:20]:
            (tmp_path / f"{problem['problem_id']}.json").write_text(json.dumps(problem))
        file = ProblemFile(str(tmp_path))
    else:
        path = tmp_path / "problems.jsonl"
        path.write_text("".join(json.dumps(problem) + "\n" for problem in problems))
        file = ProblemFile(str(path))
        assert file.read("p1", "other").seconds == 99
    assert [file.read(f"p{n}", "c").seconds for n in range(20)] == [n + 1 for n in range(20)]
    assert file.read("p7", None).all_tests["a"].output == "4\n"
    for name in ("no", "../p1", "p1.json"):
        with pytest.raises(DataError, match="There is no problem"):
            file.place(name, None)


@pytest.mark.slow
def test_a_row_finds_its_problem_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "problems.jsonl"
    path.write_text(json.dumps({"problem_id": "p", **DOUBLE}) + "\n")
    row = {"responses_create_params": {"input": "?"}, "problem_id": "p"}
    try:
        env = gym.make(ENV_ID, tasks=[row], test_file=str(path))
        env.reset()
        assert env.step(message(python("print(2 * int(input()))")))[1] == 1.0
        with pytest.raises(DataError, match="There is no problem 'q'"):
            env.reset(options={"task": {**row, "problem_id": "q"}})
        env.close()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    with pytest.raises(DataError, match="no test_file"):
        gym.make(ENV_ID, tasks=[row]).reset()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"all_tests": {}}, "all_tests"),
        ({"subtasks": {"x": {"test_names": ["c"]}}}, "names the test 'c'"),
        ({"grader_files": [["graders/grader_config.json", '{"task_type": "Communication"}']]}, "cannot be played yet"),
        ({"grader_files": [["graders/grader_config.json", "{"]]}, "not JSON"),
    ],
)
def test_a_problem_that_cannot_be_graded_is_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Problem.model_validate({**DOUBLE, **change})


def test_a_subtask_that_there_is_not_is_refused() -> None:
    with pytest.raises(DataError, match="subtask 'x' is not one of all_tests"):
        played("", DOUBLE, {"subtask": "x"})


@pytest.mark.parametrize(("name", "value"), [("reward_mode", "most"), ("time_scale", 0), ("language", "cobol")])
def test_an_argument_that_makes_no_sense_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        played("", DOUBLE, **{name: value})
