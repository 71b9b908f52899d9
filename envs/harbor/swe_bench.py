"""Rows of SWE-bench: a repository, tests that a patch has to fix, and tests that have to keep passing."""

from __future__ import annotations

import re
import shlex
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING

from gym_llm import Verdict
from gym_llm.envs.harbor import log_parsers, python_logs
from gym_llm.errors import InfrastructureError
from gym_llm.grading.text_metrics import in_worker
from gym_llm.sandbox.inside import tree
from gym_llm.sandbox.machines.machine import ExecResult, Machine, MachineProblem

if TYPE_CHECKING:
    from gym_llm.envs.harbor.env import Harbor

_FOLDER, _PATCH, _LOG, _SCRIPT = "/tmp", "gym_llm.patch", "gym_llm.log", "gym_llm.sh"
_CHANGED = re.compile(r"^diff --git a/(.+?) b/(.+)$", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_PYTEST = re.compile(r"^(?:\[gw\d+\](?: \[ *\d+%\])? )?(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (?!\[\d+\] )(\S.*)$")
_PROGRESS = re.compile(r"^(\S+::.*\S)\s+(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)(?: \(.*\))?(?:\s*\[ *\d+%\])?\s*$")
_UNITTEST = re.compile(r"^(\w+ \([\w.]+\))(?:\n.*)? \.\.\. (ok|FAIL|ERROR|skipped.*|expected failure)$", re.MULTILINE)
_UNITTEST_LINE = re.compile(r"^(\S.*?) \.\.\. (ok|FAIL|ERROR|skipped.*|expected failure)$", re.MULTILINE)
_SYMPY = re.compile(r"^(test_\w+)(?: .*)? (ok|F|E)(?: +\[(?:OK|FAIL)\])?$", re.MULTILINE)
_BUTTONS = {
    **{"MouseButton.LEFT": "1", "MouseButton.MIDDLE": "2", "MouseButton.RIGHT": "3"},
    **{"MouseButton.BACK": "8", "MouseButton.FORWARD": "9"},
}
_BUTTON = re.compile("|".join(_BUTTONS))
_PASSED = {"PASSED", "XFAIL", "ok", "expected failure"}
_ALL = [events for events in dict.fromkeys(python_logs.EVENTS.values()) if events is not python_logs.sympy]
_SHOWN = 20
_GIT_SECONDS = 300.0
_QUICK_CHARACTERS, _PARSING_SECONDS = 100_000, 120.0
_PATCH_BYTES, _LOG_BYTES = 64 << 20, 32 << 20


def changed_files(patch: str) -> list[str]:
    r"""Return the files that a git patch changes, by their names after it.

    >>> changed_files("diff --git a/x.py b/y.py\n--- a/x.py")
    ['y.py']
    """
    return list(dict.fromkeys(new for _, new in _CHANGED.findall(patch)))


def passed_tests(output: str) -> set[str]:
    r"""Return the tests that passed, by their names in the output of pytest, unittest, Django, sympy or seaborn.

    A test that is named twice has to pass both times. SWE-bench's own lists cut names at the first space, and name a
    unittest by its description if it has one. Both forms are names here, and so are those of all of `python_logs`.

    >>> sorted(passed_tests("PASSED t.py::test_a\nFAILED t.py::test_b - assert 1 == 2\nPASSED t.py::c[d e]"))
    ['t.py::c[d', 't.py::c[d e]', 't.py::test_a']
    >>> sorted(passed_tests("test_a (t.T)\nAdds. ... ok\ntest_b (t.T) ... FAIL"))
    ['Adds.', 'test_a (t.T)']
    >>> sorted(passed_tests("test_a ok\ntest_b F\ntest_c [slow] ok\ntest_d E"))
    ['test_a', 'test_c']
    """
    return {name for name, state in general_states(output).items() if state in _PASSED}


def general_states(output: str) -> dict[str, str]:
    """Return the worst state of each test in the output of any of Python's test programs."""
    states: dict[str, str] = {}
    output = _COLOUR.sub("", output)
    numbered = _BUTTON.sub(lambda button: _BUTTONS[button[0]], output) if "MouseButton" in output else ""
    for name, state in chain(_events(output), _events(numbered), *(events(output) for events in _ALL)):
        before = states.get(name, state)
        states[name] = before if before not in _PASSED and state in (*_PASSED, log_parsers.SKIPPED) else state
    return states


def _events(output: str) -> Iterator[tuple[str, str]]:
    begun = ""  # a test whose state is on a line of its own
    for line in output.splitlines():
        line = line.rstrip()
        if begun and line in ("ok", "OK"):
            yield begun, "ok"
        if " ..." in line:
            begun = line.removesuffix(" ...") if line.endswith(" ...") else ""
        if match := _PYTEST.match(line):
            name = match[2].strip() if match[1] == "PASSED" else match[2].partition(" - ")[0].strip()
            yield from ((one, match[1]) for one in {name, name.split()[0]} if name)
        elif match := _PROGRESS.match(line):
            yield from ((one, match[2]) for one in {match[1], match[1].partition(" <- ")[0]})
    for pattern in (_UNITTEST, _UNITTEST_LINE, _SYMPY):
        for name, state in pattern.findall(output):
            yield name, log_parsers.SKIPPED if state.startswith("skipped") else state


async def apply_patch(machine: Machine, patch: bytes, folder: str, *, reverse: bool = False) -> ExecResult:
    """Apply a patch, or its reverse, in a repository with git or, if git fails, with `patch`."""
    data = patch if patch.endswith(b"\n") else patch + b"\n"
    await machine.upload(_FOLDER, tree.pack_files([(_PATCH, 0o644, data)]))
    path = f"{_FOLDER}/{_PATCH}"
    git, direction = ("git apply -R", "--reverse") if reverse else ("git apply", "--forward")
    command = f"{git} --verbose {path} || patch --batch {direction} --fuzz=5 -p1 -i {path}"
    return await machine.exec(f"({command}); code=$?; rm -f {path}; exit $code", cwd=folder)


async def written_patch(machine: Machine, base_commit: str, folder: str, without: Sequence[str] = ()) -> bytes | None:
    """Return the changes since a commit, with new files; None if the repository is broken or the patch too large.

    Args:
        machine: The container.
        base_commit: The commit.
        folder: The repository.
        without: Files whose changes are left out.
    """
    path = f"{_FOLDER}/{_PATCH}"
    kept = shlex.join(f":(top,exclude,literal){file}" for file in without)
    diff = "git diff --cached --binary --no-color --no-ext-diff --no-textconv --src-prefix=a/ --dst-prefix=b/"
    command = f"rm -rf {path} .git/index.lock; git add -A && {diff} {shlex.quote(base_commit)} -- :/ {kept} > {path}"
    result = await machine.exec(command, cwd=folder, timeout_sec=_GIT_SECONDS)
    try:
        return None if result.return_code else await machine.download(path, _PATCH_BYTES)
    except MachineProblem:
        return None


async def go_back(machine: Machine, base_commit: str, folder: str) -> None:
    """Reset a repository to a commit.

    Raises:
        InfrastructureError: If the commit is missing.
    """
    command = f"git reset --quiet --hard {shlex.quote(base_commit)} && git clean -fdq"
    result = await machine.exec(command, cwd=folder, timeout_sec=_GIT_SECONDS)
    if result.return_code:
        raise InfrastructureError(
            f"The image's {folder} cannot go back to base_commit: {result.stderr.strip()[-500:]}",
            failure_kind="verifier_error",
        )


async def run_tests(machine: Machine, task: Harbor.Task) -> str:
    """Restore the files of the test patch, run them, and return the output; "" if the patch does not apply.

    A row's `eval_script` applies the test patch itself.
    """
    folder, timeout_sec = task.repo_dir, task.timeout_sec
    files = [shlex.quote(one) for one in changed_files(task.test_patch)]
    if files:
        commit = shlex.quote(task.base_commit)
        back = "".join(f"git checkout -f {commit} -- {one} 2>/dev/null || rm -rf {one}; " for one in files)
        await machine.exec(back, cwd=folder)
    if files and not task.eval_script:
        applied = await apply_patch(machine, task.test_patch.encode(), folder)
        if applied.return_code:
            return ""
    if task.eval_script:
        await machine.upload(_FOLDER, tree.pack_files([(_SCRIPT, 0o644, task.eval_script.encode())]))
        whole = f"bash {_FOLDER}/{_SCRIPT}"
    else:
        command, names = task.test_command, " ".join(files or map(shlex.quote, task.kept_files))
        whole = command.replace("{files}", names) if "{files}" in command else f"{command} {names}"
    log = f"{_FOLDER}/{_LOG}"
    await machine.exec(f"rm -rf {log}; ({whole}) > {log} 2>&1", cwd=folder, timeout_sec=timeout_sec)
    await machine.exec(f"tail -c {_LOG_BYTES} {log} > {log}.end")
    return (await machine.download(f"{log}.end", _LOG_BYTES) or b"").decode("utf-8", "replace")


async def verdict_of(output: str, fail_to_pass: list[str], pass_to_pass: list[str], log_parser: str = "") -> Verdict:
    """Return `verdict`, which reads a long output in a worker process: it would hold up all other episodes."""
    asked = output, fail_to_pass, pass_to_pass, log_parser
    if len(output) <= _QUICK_CHARACTERS:
        return verdict(*asked)
    found: Verdict | None = await in_worker("gym_llm.envs.harbor.swe_bench:_verdict", asked, _PARSING_SECONDS)
    return verdict("", *asked[1:]) if found is None else found


def _verdict(asked: tuple[str, list[str], list[str], str]) -> Verdict:
    return verdict(*asked)


def verdict(output: str, fail_to_pass: list[str], pass_to_pass: list[str], log_parser: str = "") -> Verdict:
    """Return 1.0 if every required test passed, else 0.0.

    Args:
        output: The output of the tests.
        fail_to_pass: Tests that have to pass.
        pass_to_pass: Tests that have to pass or be skipped, as in SWE-bench.
        log_parser: One of `gym_llm.envs.harbor.log_parsers.PARSERS`; empty for Python's test programs.
    """
    output = log_parsers.test_output(output)
    if log_parser:
        states = log_parsers.PARSERS[log_parser](_COLOUR.sub("", output))
    else:
        states = general_states(output)
    passed = _unmet(fail_to_pass, states, _PASSED)
    kept = _unmet(pass_to_pass, states, {*_PASSED, log_parsers.SKIPPED})
    failed = passed + kept
    details = {
        "resolved": not failed,
        "fail_to_pass": len(fail_to_pass) - len(passed),
        "pass_to_pass": len(pass_to_pass) - len(kept),
        "not_passed": ", ".join(failed[:_SHOWN]),
    }
    return Verdict(float(not failed), details)


def _unmet(wanted: list[str], states: dict[str, str], good: Collection[str]) -> list[str]:
    """Return the tests without a good state.

    SWE-bench's lists have names that end within their parameters. Such a name stands for all tests that begin with it.
    """
    names = sorted(states)
    counts = [0, *accumulate(states[name] in good for name in names)]

    def is_good(name: str) -> bool:
        if name in states or name.count("[") <= name.count("]"):
            return states.get(name) in good
        start, end = bisect_left(names, name), bisect_left(names, name + chr(0x10FFFF))
        return end > start and counts[end] - counts[start] == end - start

    return [name for name in wanted if not is_good(name)]
