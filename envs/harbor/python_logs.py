"""Log parsers of Python's test programs: pytest, Django's runner, sympy's and seaborn's.

Each yields a name and a state whenever a log has one. The last state of a name is that of the parser of `swebench`
5.0.2 of the same name; tests/downstream/test_swe_bench.py compares them. All take linear time. `passed_tests` in
`swe_bench` reads a log of an unknown program with all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TypeAlias

PASSED, FAILED, SKIPPED, ERROR = "PASSED", "FAILED", "SKIPPED", "ERROR"
STATES = (FAILED, PASSED, SKIPPED, ERROR, "XFAIL")
Events: TypeAlias = Iterator[tuple[str, str]]

_COUNT = re.compile(r"\[\d+\]")
_COLOUR = re.compile(r"\[\d+m")
_CONTROL = dict.fromkeys(range(1, 32))
_VERSION = "--version is equivalent to version"
_MIGRATION = "Applying sites.0002_alter_domain_unique...test_no_migrations"
_TESTING, _SILENCED = " ... Testing against Django installed in ", " silenced).\nok"
_SERVER_ERROR = re.compile(r"\s\.\.\.\sInternal Server Error: /")
_SYSTEM_CHECK = re.compile(r"\s\.\.\.\sSystem check identified no issues \(0 silenced\)$")


def pytest(log: str) -> Events:
    """Yield the states of `PASSED t.py::name`, by the name's first word."""
    for line in log.split("\n"):
        if line.startswith(STATES):
            words = (line.replace(" - ", " ") if line.startswith(FAILED) else line).split()
            if len(words) > 1 and not _is_count(words):
                yield words[1], words[0]


def pytest_options(log: str) -> Events:
    """Yield as `pytest` does; of a path in brackets only the last part is kept."""
    for name, state in pytest(log):
        main, bracket, rest = name.partition("[")
        option, end, _ = rest.rpartition("]")
        if not bracket or not end:
            yield name, state
            continue
        if option.startswith("/") and not option.startswith("//") and "*" not in option:
            option = f"/{option.rpartition('/')[2]}"
        yield f"{main}[{option}]", state


def pytest_v2(log: str) -> Events:
    """Yield the states of `PASSED t.py::name` and `t.py::name PASSED`, by whole names without control characters."""
    for raw in log.split("\n"):
        line = _COLOUR.sub("", raw).translate(_CONTROL)
        if line.startswith(STATES):
            words = (line.partition(" - ")[0] if line.startswith(FAILED) else line).split()
            if len(words) > 1 and not _is_count(words):
                yield " ".join(words[1:]), words[0]
        elif line.endswith(STATES):
            words = line.split()
            if len(words) > 1:
                yield " ".join(words[:-1]), words[-1]


def matplotlib(log: str) -> Events:
    """Yield as `pytest` does, with the numbers of mouse buttons that old versions of Python print."""
    return pytest(log.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3"))


def seaborn(log: str) -> Events:
    """Yield the states of `PASSED t.py::name`, and of `t.py::name PASSED [ 5%]`."""
    for line in log.split("\n"):
        words = line.split()
        if len(words) < 2:
            continue
        if line.startswith(FAILED):
            yield words[1], FAILED
        elif f" {PASSED} " in line:
            if words[1] == PASSED:
                yield words[0], PASSED
        elif line.startswith(PASSED):
            yield words[1], PASSED


def sympy(log: str) -> Events:
    """Yield the states of `test_name ok`, and failures by their headings, `___ file.py:test_name ___`."""
    lines = log.split("\n")
    for line in lines:
        _, _, rest = line.partition(" ")
        end = rest.rfind(" ")
        place = rest.rfind(".py:", 0, max(end, 0))
        if place >= 0:
            yield rest[:end], FAILED
    for line in map(str.strip, lines):
        if line.startswith("test_"):
            for ending, state in ((" E", ERROR), (" F", FAILED), (" ok", PASSED)):
                if line.endswith(ending):
                    yield line.split()[0], state


def django(log: str) -> Events:
    """Yield the states of `test_name (app.Test) ... ok`, whose `ok` may come after other output."""
    previous = None
    for line in map(str.strip, log.split("\n")):
        if _VERSION in line:
            yield _VERSION, PASSED
        if " ... " in line:
            previous = line.partition(" ... ")[0]
        yield from _django_line(line)
        if line.startswith("ok") and previous is not None:
            yield previous, PASSED
    yield from _interrupted(log)


def _django_line(line: str) -> Events:
    for ending in (" ... ok", " ... OK", " ...  OK"):
        if line.endswith(ending):
            shown = line.partition("...")[2].strip() if line.startswith(_MIGRATION) else line
            yield shown.rpartition(ending)[0] if ending in shown else shown, PASSED
            break
    if " ... skipped" in line:
        yield line.partition(" ... skipped")[0], SKIPPED
    for ending, heading, state in ((" ... FAIL", "FAIL:", FAILED), (" ... ERROR", "ERROR:", ERROR)):
        if line.endswith(ending):
            yield line.partition(ending)[0], state
        if line.startswith(heading) and len(words := line.split()) > 1:
            yield words[1], state


def _interrupted(log: str) -> Events:
    """Yield the tests whose `ok` is on a line of its own, below what Django itself has logged."""
    position = 0
    while (place := log.find(_TESTING, position)) >= 0:
        end = log.find(_SILENCED, place + len(_TESTING))
        while end >= 0 and not log.startswith("\n", end + len(_SILENCED)) and end + len(_SILENCED) < len(log):
            end = log.find(_SILENCED, end + 1)
        if end < 0:
            break
        yield log[max(log.rfind("\n", 0, place) + 1, position) : place], PASSED
        position = end + len(_SILENCED)
    lines = log.split("\n")
    for line, below in pairwise(lines):
        pattern = _SERVER_ERROR if line.endswith("/") else _SYSTEM_CHECK
        if below == "ok" and (match := pattern.search(line)) and (pattern is _SYSTEM_CHECK or match.end() < len(line)):
            yield line[: match.start()], PASSED


def _is_count(words: list[str]) -> bool:
    """Whether it is a line of the summary, `SKIPPED [1] t.py:5: why`."""
    return words[0] == SKIPPED and _COUNT.fullmatch(words[1]) is not None


EVENTS: dict[str, Callable[[str], Events]] = {
    "django": django,
    "matplotlib": matplotlib,
    "seaborn": seaborn,
    "sympy": sympy,
    "pytest": pytest,
    "pytest_options": pytest_options,
    "pytest_v2": pytest_v2,
    **dict.fromkeys(("astroid", "flask", "marshmallow", "pvlib", "pyvista", "sqlfluff", "xarray"), pytest),
    **dict.fromkeys(("pydicom", "requests", "pylint"), pytest_options),
    **dict.fromkeys(("astropy", "scikit", "sphinx"), pytest_v2),
}
"""Parsers by SWE-bench's names without `parse_log_`."""
