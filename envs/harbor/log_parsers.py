"""Log parsers: the state of each test in the output of a test runner, by the names that SWE-bench's datasets use.

The results are those of the parsers of `swebench` 5.0.2 and `swesmith` 0.0.9; tests/downstream/test_swe_bench.py
compares them. A patch can print lines of any length, so the time that a line takes is linear in its length. Tests with
names of more than 10,000 characters are left out: the names of suites are parts of many names.
"""

from __future__ import annotations

import html
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

from gym_llm.envs.harbor.python_logs import EVENTS, Events
from gym_llm.utils.text import did_you_mean

PASSED, FAILED, SKIPPED = "PASSED", "FAILED", "SKIPPED"
States: TypeAlias = dict[str, str]
Parser: TypeAlias = Callable[[str], States]

_START, _END = ">>>>> Start Test Output", ">>>>> End Test Output"
_PREFIX = "parse_log_"
_LONGEST_NAME = 10_000


def known(name: str) -> str:
    """Return the short name of a parser; "" for the reader of all of Python's test programs.

    Args:
        name: The name with or without SWE-bench's `parse_log_`.

    Raises:
        ValueError: If there is no such parser.

    >>> known("parse_log_cargo"), known("parse_log_django")
    ('cargo', 'django')
    """
    name = name.removeprefix(_PREFIX)
    if name and name not in PARSERS:
        raise ValueError(f"There is no log parser {name!r}.{did_you_mean(name, PARSERS)}")
    return name


def test_output(log: str) -> str:
    """Return the part of a log between SWE-bench's two marks; all of it if the first mark is missing."""
    _, mark, rest = log.partition(_START)
    return rest.partition(_END)[0] if mark else log


def _lines(log: str) -> Iterator[str]:
    return (line.strip() for line in log.split("\n"))


def _untimed(name: str, ending: re.Pattern[str]) -> str:
    """Return a name without the duration at its end."""
    match = ending.search(name, 1)
    return name[: match.start()] if match else name


_DURATION = re.compile(r"\s\(\d+\s*m?s\)$")
_BARE_DURATION = re.compile(r"\s(?:\d+\s*m?s?|\[skipped\])$")


def _before_brackets(text: str) -> str | None:
    """Return what comes before the bracketed text at the end.

    >>> _before_brackets("TestA/b (x) (0.01s)"), _before_brackets("TestA ()")
    ('TestA/b (x)', None)
    """
    place = text.rfind(" (", 0, -2) if text.endswith(")") else -1
    return text[:place] if place > 0 else None


def _by_line(pattern: str, outcomes: dict[str, str], ending: re.Pattern[str] | None = None) -> Parser:
    """Return a parser of lines with a state, which has an outcome, and a name, which may end with a duration."""
    line_pattern = re.compile(pattern)

    def parse(log: str) -> States:
        states: States = {}
        for line in _lines(log):
            match = line_pattern.fullmatch(line)
            if match and (outcome := outcomes.get(match["state"])):
                states[_untimed(match["name"], ending) if ending else match["name"]] = outcome
        return states

    return parse


def _redis(log: str) -> States:
    """Parse `[ok]: name (5 ms)`; a failed test's name is followed by its file."""
    states: States = {}
    outcomes = {"ok": PASSED, "err": FAILED, "skip": SKIPPED, "ignore": SKIPPED}
    for line in _lines(log):
        if not (match := re.fullmatch(r"\[(ok|err|skip|ignore)\]:\s(.+)", line)):
            continue
        name = _untimed(match[2], _DURATION)
        words = name.rsplit(None, 2)
        if match[1] == "err" and len(words) == 3 and words[1] == "in" and not name[-1].isspace():
            name = words[0]
        states[name] = outcomes[match[1]]
    return states


_TAG = re.compile(r"<(/?)(TestCase|SubCase|Expression)\b([^<>]*)>|</doctest>")
_ATTRIBUTE = re.compile(r'\b(name|success)="([^"]*)"')


def _doctest(log: str) -> States:
    """Parse doctest's XML: a subcase passes if all expressions in it, and in the subcases within it, do."""
    results: list[list[str]] = []
    within: list[list[str]] = []
    case = "None"
    _, start, report = log.partition("<doctest")
    for tag in _TAG.finditer(report if start else ""):
        closing, kind = tag[1], tag[2]
        if kind is None:
            break
        attributes = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(tag[3])}
        if kind == "TestCase":
            case, within = attributes.get("name", "None"), []
        elif kind == "SubCase" and closing:
            del within[-1:]
        elif kind == "SubCase":
            result = [f"{case} > {attributes.get('name')}" if len(case) <= _LONGEST_NAME else "", PASSED]
            if result[0]:
                results.append(result)
            if not tag[3].endswith("/"):
                within.append(result)
        elif not closing and attributes.get("success") != "true":
            for result in reversed(within):
                if result[1] == FAILED:
                    break  # and all around it have failed, too
                result[1] = FAILED
    return {name: outcome for name, outcome in results}


def _googletest(log: str) -> States:
    """Parse `[       OK ] Suite.Name (5 ms)`, which `ctest -V` puts a number before."""
    states: States = {}
    for line in _lines(log):
        place = line.rfind(" (") if line.endswith(")") else 0
        marks = list(re.finditer(r"\[\s*(OK|FAILED)\s*\]\s", line[: max(place, 0)]))
        if marks:
            states[line[marks[-1].end() : place]] = PASSED if marks[-1][1] == "OK" else FAILED
    return states


def _gotest(log: str) -> States:
    """Parse `--- PASS: TestName (0.01s)`."""
    states: States = {}
    for line in _lines(log):
        match = re.match(r"--- (PASS|FAIL|SKIP): ", line)
        if match and (name := _before_brackets(line[match.end() :])):
            states[name] = {"PASS": PASSED, "FAIL": FAILED}.get(match[1], SKIPPED)
    return states


def _maven(log: str) -> States:
    """Parse one command for each test: `-Dtest=NAME`, and then `BUILD SUCCESS`, or both in the other order."""
    states: States = {}
    names: deque[str] = deque()
    results: deque[str] = deque()
    for line in _lines(log):
        starts = [rest.split()[0] for rest in line.split("-Dtest=")[1:] if rest[:1].strip()]
        names.extend(starts[-1:])
        if line.endswith(("BUILD SUCCESS", "BUILD FAILURE")):
            result = PASSED if line.endswith("SUCCESS") else FAILED
            if names:
                states[names.popleft()] = result
            else:
                results.append(result)
    return states | dict(zip(names, results, strict=False))


def _gradle(log: str) -> States:
    """Parse `Class > method PASSED`; other output may come between the name and the state."""
    states: States = {}
    waiting = ""
    for line in _lines(log):
        state = next((one for one in (PASSED, FAILED) if line.endswith(one)), None)
        if state and line[0] != ">" and len(line) > len(state) + 2 and line[-len(state) - 1].isspace():
            states[line[: -len(state) - 1]] = state
            waiting = ""
        elif re.fullmatch(r"[^>]\S*\s+>\s+\S+", line):
            waiting = line
        elif waiting and line == state:
            states[waiting] = line
            waiting = ""
    return states


def _phpunit(log: str) -> States:
    """Parse `--testdox`: suites with their class in brackets, and below each a line for every test."""
    states: States = {}
    suite: str | None = None
    for line in log.split("\n"):
        name = _before_brackets(line)
        if name and len(name) > 1 and re.match(r"\w", name):
            suite = name
        elif len(suite or "") <= _LONGEST_NAME and (match := re.fullmatch(r"\s*([✔✘↩])\s*(.*)", line)):
            states[f"{suite} > {match[2]}"] = {"✔": PASSED, "✘": FAILED}.get(match[1], SKIPPED)
    return states


def _minitest(log: str) -> States:
    """Parse `name. = 0.01 s = .`."""
    states: States = {}
    for line in _lines(log):
        last = max(line.rfind(state) for state in ".FE")
        place = line.rfind(". ", 0, max(line.rfind("=", 0, max(last, 0)), 0))
        if place > 0:
            states[line[:place]] = PASSED if line[last] == "." else FAILED
    return states


def _cucumber(log: str) -> States:
    """Parse `--format progress`: a name, and a dot or an F for every step."""
    states: States = {}
    for line in _lines(log):
        ends = [match for match in re.finditer(r" (\.+)(F?)", line) if match[2] or len(match[1]) > 1]
        if ends:
            states[line[: ends[-1].start()]] = FAILED if ends[-1][2] else PASSED
    return states


def _ruby_unit(log: str) -> States:
    """Parse test-unit's verbose `test: name:  .: (0.01)`."""
    states: States = {}
    for line in _lines(log):
        ends = [match for match in re.finditer(r":\s+(?:(\.)|([EFO])\b)", line) if match.start()]
        if ends:
            name = line[: ends[-1].start()]
            short = name.removeprefix("test: ") or name
            states[short] = {".": PASSED, "O": SKIPPED}.get(ends[-1][1] or ends[-1][2], FAILED)
    return states


def _rspec(log: str) -> States:
    """Parse `name - passed`, which `jq` has made of rspec's JSON."""
    states: States = {}
    for line in _lines(log):
        place, outcome = max((line.rfind(f" - {word}"), word) for word in ("passed", "failed"))
        if place > 0:
            states[line[:place]] = outcome.upper()
    return states


def _karma(log: str) -> States:
    """Parse karma's tree of suites. As in SWE-bench, a suite is entered where lines are indented more than before."""
    states: States = {}
    suites: list[str] = []
    indent, started, size = -1, False, 0
    for line in log.split("\n"):
        if line.startswith("SUMMARY:"):
            break
        if "Starting browser" in line:
            started = True
            continue
        bare = line.lstrip()
        before = line[: len(line) - len(bare)]
        marked = bare[:1] in ("✔", "✖") and bare[1:2].isspace()
        if not started or not (marked or before):
            continue
        if marked and size <= _LONGEST_NAME:
            states[" > ".join([*suites, bare[2:]])] = PASSED if bare[0] == "✔" else FAILED
        elif marked:
            continue
        elif len(before) > 1 and len(before) - 1 > indent:
            indent = len(before) - 1
            suites.append(bare)
            size += len(bare) + 1
        elif len(before) > 1 and len(before) - 1 < indent:
            indent = len(before) - 1
            size -= len(suites.pop()) + 1 if suites else 0
    return states


def _pytest_progress(log: str) -> States:
    """Parse pytest's `--verbose` lines, `t.py::name PASSED [ 5%]`. Names with spaces are left out, as in SWE-smith."""
    states: States = {}
    for line in log.split("\n"):
        name, _, rest = line.partition(" ")
        match = re.match(r"(?:FAILED|PASSED|SKIPPED|ERROR|XFAIL)", rest.lstrip())
        if name and match:
            states[name] = match[0]
    return states


def _pytest_summary(before: str = "") -> Parser:
    """Return a parser of pytest's lines with the state first, `PASSED t.py::name`."""
    pattern = re.compile(before + r"(FAILED|PASSED|SKIPPED|ERROR|XFAIL)\s(\S+)")
    return lambda log: {match[2]: match[1] for line in log.split("\n") if (match := pattern.match(line))}


def _pytest_anywhere(log: str) -> States:
    """Parse lines with a state anywhere and the name at their end, as SWE-smith has them for mypy."""
    states: States = {}
    for line in log.split("\n"):
        if state := next((one for one in (PASSED, FAILED) if one in line), None):
            states[line.rsplit(None, 1)[-1]] = state
    return states


def _tornado(log: str) -> States:
    """Parse unittest's lines as SWE-smith does for tornado: failures are read from their headings."""
    states: States = {}
    for line in log.split("\n"):
        if line.endswith("... ok"):
            states[line.partition(" ... ")[0]] = PASSED
        elif " ... skipped " in line:
            states[line.partition(" ... ")[0]] = SKIPPED
        elif line.startswith(("ERROR:", "FAIL:")):
            states[" ".join(line.split()[1:3])] = FAILED
    return states


def _slugify(log: str) -> States:
    """Parse unittest's lines, `test_a (test.T) ... ok`, with all descriptions as names."""
    states: States = {}
    outcomes = {"ok": PASSED, "FAIL": FAILED, "ERROR": "ERROR"}
    for line in log.split("\n"):
        name, mark, state = line.rpartition(" ... ")
        if mark and state in outcomes and name and re.fullmatch(r"[a-zA-Z0-9_\-,.\s()']+", name):
            states[name] = outcomes[state]
    return states


def _last_states(events: Callable[[str], Events]) -> Parser:
    return lambda log: dict(events(log))


_JEST = _by_line(r"(?P<state>[✓✕○])\s(?P<name>.+)", {"✓": PASSED, "✕": FAILED, "○": SKIPPED}, _DURATION)
_PASS_FAIL = {"PASS": PASSED, "FAIL": FAILED, "ERR": FAILED}
PARSERS: dict[str, Parser] = {
    "redis": _redis,
    "jq": _by_line(r"(?P<state>PASS|FAIL):\s(?P<name>.+)", _PASS_FAIL),
    "doctest": _doctest,
    "micropython_test": _by_line(
        r"(?P<state>pass|FAIL|skip)\s+(?P<name>.+)", {"pass": PASSED, "FAIL": FAILED, "skip": SKIPPED}
    ),
    "googletest": _googletest,
    "gotest": _gotest,
    "maven": _maven,
    "ant": _by_line(r"\[junit\]\s+\[(?P<state>PASS|FAIL|ERR)\]\s+(?P<name>.*)", _PASS_FAIL),
    "gradle_custom": _gradle,
    "phpunit": _phpunit,
    "minitest": _minitest,
    "cucumber": _cucumber,
    "ruby_unit": _ruby_unit,
    "rspec_transformed_json": _rspec,
    "cargo": _by_line(r"test\s+(?P<name>\S+)\s+\.\.\.\s+(?P<state>\w+)", {"ok": PASSED, "FAILED": FAILED}),
    "jest": lambda log: {name.strip(): state for name, state in _JEST(log).items()},
    "jest_json": _by_line(r"\[(?P<state>PASSED|FAILED)\]\s(?P<name>.+)", {PASSED: PASSED, FAILED: FAILED}),
    "vitest": _by_line(r"(?P<state>[✓×↓])\s(?P<name>.+)", {"✓": PASSED, "×": FAILED, "↓": SKIPPED}, _BARE_DURATION),
    "karma": _karma,
    "tap": _by_line(r"(?P<state>ok|not ok) \d+ (?P<name>.+)", {"ok": PASSED, "not ok": FAILED}),
    "pytest_progress": _pytest_progress,
    "pytest_summary": _pytest_summary(),
    "pytest_workers": _pytest_summary(r"\[gw\d\]\s"),
    "pytest_anywhere": _pytest_anywhere,
    "tornado": _tornado,
    "slugify": _slugify,
    **{name: _last_states(events) for name, events in EVENTS.items()},
}
"""Parsers by SWE-bench's names without `parse_log_`: of 20 runners, of six repositories of SWE-smith, and Python's."""
