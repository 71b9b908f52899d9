"""Rows of SWE-bench: a repository, tests that a patch has to make pass, and tests that have to go on passing."""

from __future__ import annotations

import re
import shlex

from gym_llm import Verdict
from gym_llm.sandbox.inside import tree
from gym_llm.sandbox.machine import ExecResult, Machine

DEFAULT_COMMAND = "python -m pytest -rA"
_PATCH = "/tmp/gym_llm.patch"
_CHANGED = re.compile(r"^diff --git a/(\S+) b/(\S+)$", re.MULTILINE)
_PYTEST = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (\S.*)$")
_UNITTEST = re.compile(r"^(\w+ \([\w.]+\))(?:\n.*)? \.\.\. (ok|FAIL|ERROR|skipped.*|expected failure)$", re.MULTILINE)
_PASSED = {"PASSED", "XFAIL", "ok", "expected failure"}
_SHOWN = 20


def changed_files(patch: str) -> list[str]:
    r"""The files that a patch in git's form is about, as they are called after it.

    >>> changed_files("diff --git a/x.py b/y.py\n--- a/x.py")
    ['y.py']
    """
    return list(dict.fromkeys(new for _, new in _CHANGED.findall(patch)))


def passed_tests(output: str) -> set[str]:
    r"""The tests that passed, by the names that `pytest -rA` or `unittest -v` gives them.

    A test that is named twice has to have passed both times.

    >>> sorted(passed_tests("PASSED t.py::test_a\nFAILED t.py::test_b - assert 1 == 2"))
    ['t.py::test_a']
    >>> passed_tests("test_a (t.T.test_a) ... ok\ntest_b (t.T.test_b) ... FAIL")
    {'test_a (t.T.test_a)'}
    """
    states: dict[str, bool] = {}
    for line in output.splitlines():
        if match := _PYTEST.match(line):
            name = match[2].partition(" - ")[0].strip()
            states[name] = states.get(name, True) and match[1] in _PASSED
    for name, state in _UNITTEST.findall(output):
        states[name] = states.get(name, True) and state in _PASSED
    return {name for name, passed in states.items() if passed}


async def apply_patch(machine: Machine, patch: str, folder: str) -> ExecResult:
    """Apply a patch in a repository with git, or, where that does not, with `patch`."""
    data = patch if patch.endswith("\n") else patch + "\n"
    folder_of, _, name = _PATCH.rpartition("/")
    await machine.upload(folder_of, tree.pack_files([(name, 0o644, data.encode())]))
    command = f"git apply --verbose {_PATCH} || patch --batch --fuzz=5 -p1 -i {_PATCH}"
    result = await machine.exec(f"({command}); code=$?; rm -f {_PATCH}; exit $code", cwd=folder)
    return result


async def run_tests(
    machine: Machine, test_patch: str, base_commit: str, command: str, folder: str, timeout_sec: float
) -> ExecResult:
    """Put the tests in place, as they are after the test patch, and run those files.

    Files that the test patch is about are taken back to the base commit first, whatever was done to them.
    """
    files = " ".join(map(shlex.quote, changed_files(test_patch)))
    if base_commit and files:
        back = " ".join(
            f"git checkout -f {shlex.quote(base_commit)} -- {one} 2>/dev/null || rm -f {one};"
            for one in files.split(" ")
        )
        await machine.exec(back, cwd=folder)
    if test_patch:
        applied = await apply_patch(machine, test_patch, folder)
        if applied.return_code:
            return applied
    whole = command.replace("{files}", files) if "{files}" in command else f"{command} {files}"
    return await machine.exec(f"{whole} 2>&1", cwd=folder, timeout_sec=timeout_sec)


def verdict(result: ExecResult, fail_to_pass: list[str], pass_to_pass: list[str]) -> Verdict:
    """1.0 if every test passed that has to."""
    passed = passed_tests(result.stdout)
    failed = [name for name in (*fail_to_pass, *pass_to_pass) if name not in passed]
    details = {
        "resolved": not failed,
        "fail_to_pass": sum(name in passed for name in fail_to_pass),
        "pass_to_pass": sum(name in passed for name in pass_to_pass),
        "not_passed": ", ".join(failed[:_SHOWN]),
    }
    return Verdict(float(not failed), details)
