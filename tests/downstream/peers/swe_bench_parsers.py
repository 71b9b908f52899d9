"""In an environment with swebench 5 or swesmith: their log parsers and ours read random logs alike."""

import json
import random
import re
import sys
import types
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from unittest.mock import MagicMock

from gym_llm.envs.harbor.log_parsers import PARSERS, States
from gym_llm.envs.harbor.python_logs import EVENTS
from gym_llm.envs.swebench.env import with_image
from gym_llm.envs.swebench.multilingual import commands
from gym_llm.envs.swebench.smith import test_files, with_bug

LOGS = 300
WORDS = [
    "a",
    "TestOne",
    "sub > case",
    "x::y",
    "it's",
    "5",
    "5 ms",
    "in file.tcl",
    "(x)",
    "- b",
    "é",
    "::",
    "=",
    ".",
    "E",
]


def bare(package: str) -> None:
    """Name a package without running its `__init__`, which imports Docker's and Modal's clients."""
    spec = find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    module = types.ModuleType(package)
    module.__path__ = list(spec.submodule_search_locations)
    sys.modules[package] = module


def name(pick: random.Random) -> str:
    return " ".join(pick.choices(WORDS, k=pick.randint(1, 4)))


FIELDS: dict[str, Callable[[random.Random], str]] = {
    "name": name,
    "word": lambda pick: name(pick).split()[0],
    "indent": lambda pick: " " * pick.randint(0, 6),
    "number": lambda pick: str(pick.randint(1, 99)),
    "test": lambda pick: pick.choice(TEST),
    "dots": lambda pick: "." * pick.randint(0, 3),
}


def line(templates: list[str], pick: random.Random) -> str:
    """Fill one of the templates: `{FIELD}`, or one of `{several|texts}`."""

    def fill(match: re.Match[str]) -> str:
        field = FIELDS.get(match[1])
        return field(pick) if field else pick.choice(match[1].split("|"))

    return re.sub(r"\{(.*?)\}", fill, pick.choice(templates))


def doctest(pick: random.Random) -> str:
    def subcase(depth: int) -> str:
        success = pick.choice(["true", "true", "false"])
        inner = f'<Expression success="{success}" type="CHECK" line="1"><Original>a &lt; b</Original></Expression>'
        inner += "".join(subcase(depth + 1) for _ in range(pick.randint(0, 2 - depth)))
        return f'<SubCase name="{pick.choice("abcdef")} &amp; {depth}" line="1">{inner}</SubCase>'

    cases = "".join(
        f'<TestCase name="{pick.choice("xyz")} &lt;int&gt;">{subcase(0)}{subcase(0)}</TestCase>' for _ in range(4)
    )
    return f'before\n<?xml version="1.0"?>\n<doctest binary="t"><TestSuite>{cases}</TestSuite></doctest>\nafter'


def maven(pick: random.Random) -> str:
    lines = []
    for _ in range(pick.randint(1, 8)):
        pair = [f"+ mvnd test -B -pl gson -Dtest={name(pick).split()[0]}#t", f"[INFO] BUILD {pick.choice(RESULTS)}"]
        pick.shuffle(pair)
        lines += [*pair[: pick.choice([2, 2, 2, 1])], name(pick)]
    return "\n".join(lines)


TEST = [
    *(
        "t.py::a",
        "t.py::a[x y]",
        "a.py::T::c[/p/q]",
        "t.py::a[//x]",
        "t.py::a[/x/*]",
        "test_a (app.T)",
        "test_b",
        "Adds two.",
    ),
    *(
        "t.py::a[MouseButton.LEFT]",
        "x.py:test_c",
        "t.py::a[\x0e\x1fx]",
        "t.py::d - e",
        "[1]",
        "[100%]",
        "a ... b",
        "/url/",
    ),
    *('File "x.py:12" in y', "--version is equivalent to version", "MouseButton.RIGHT", "\x1b[32mt.py::a"),
]
STATUS = "{PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS|ok|OK|FAIL|E|F|skipped 'no'|expected failure}"
PYTHON = [
    *(f"{STATUS} {{test}}", f"{STATUS} {{test}} - {{test}}", f"{{test}} {STATUS}", f"{{test}} {STATUS} [ 50%]", STATUS),
    *(
        f"{{test}} ... {STATUS}",
        f"{{test}} ...  {STATUS}",
        f"{{test}} ... Creating table\n{STATUS}",
        "{test}",
        "  ok {test}",
    ),
    f"{{test}} ... {{System check identified no issues (0 silenced)|Internal Server Error: /a/}}\n{STATUS}",
    f"{{test}} ... Testing against Django installed in x\n{{test}} silenced).\n{STATUS}",
    *(
        "{FAIL|ERROR}: {test} x",
        "__ sympy/{test} __",
        "_ {test}.py:{test} _",
        f"  {STATUS} {{test}}",
        f"{{test}}  {STATUS}  ",
    ),
    *("Applying sites.0002_alter_domain_unique...test_no_migrations {test} ... ok", f"\x1b[1m{STATUS}\x1b[0m {{test}}"),
    *(f"{STATUS}x {{test}}", f"[gw1] {STATUS} {{test}}"),
]
RESULTS = ["SUCCESS", "FAILURE"]
TIME = "{| (5 ms)| (12ms)| (3 s)|  (1 ms)}"
LINES: dict[str, list[str]] = {
    "redis": ["[{ok|err|skip|ignore|exception}]: {name}" + TIME],
    "jq": ["{PASS|FAIL|XFAIL}: {name}"],
    "micropython_test": ["{pass|FAIL|skip|lost}  {name}"],
    "googletest": ["{|1: }[{       OK|  FAILED | RUN} ] {name}{ (0 ms)| ()|}"],
    "gotest": ["{indent}--- {PASS|FAIL|SKIP}: {name}{ (0.00s)| (1.23s)| (cached)|}"],
    "ant": ["    [junit] [{PASS|FAIL|ERR|WARN}] {name}"],
    "gradle_custom": ["{|> }{name} {PASSED|FAILED}", "C > {m|n}", "{PASSED|FAILED}"],
    "phpunit": ["{name} (Tests\\{name})", "{indent}{✔|✘|↩} {name}{| [5 ms]}"],
    "minitest": ["{name}#test_{name}. = 0.0{number} s = {.|F|E|S}"],
    "cucumber": ["{name} {dots}{|F|.|-}{| x}"],
    "ruby_unit": ["{|  test: }{name}:{ |   }{.|E|F|O|Fail}{|: (0.01)}"],
    "rspec_transformed_json": ["{name} - {passed|failed|pending}"],
    "cargo": ["test {word} {|- should panic }... {ok|FAILED|ignored|bench: 5}"],
    "jest": ["{indent}{✓|✕|○|●} {name}" + TIME],
    "jest_json": ["[{PASSED|FAILED|PENDING}] {name}"],
    "vitest": ["{indent}{✓|×|↓|❯} {name}{| 5ms| 12 ms| 3s| [skipped]|  2ms}"],
    "karma": ["{indent}{name}", "{indent}{✔|✖} {name}", "{|  |Starting browser Chrome|  ✔}"],
    "tap": ["{ok|not ok|#} {number} {- |}{name}"],
}


def random_log(parser: str, pick: random.Random) -> str:
    if parser in ("doctest", "maven"):
        return doctest(pick) if parser == "doctest" else maven(pick)
    lines = [
        line(LINES.get(parser, PYTHON), pick) if pick.random() < 0.8 else name(pick) for _ in range(pick.randint(1, 30))
    ]
    if parser == "karma" and pick.random() < 0.9:
        lines = ["START:", "Starting browser ChromeHeadless", *lines, "SUMMARY:", "  ✔ after"]
    return "\n".join(lines)


def compare(ours: dict[str, Callable[[str], States]], theirs: dict[str, Any], log_of: Any) -> dict[str, Any]:
    """Read random logs by each parser; return how many were equal, and the first that was not."""
    read, states, unequal = 0, 0, []
    for parser, parse in ours.items():
        pick = random.Random(parser)
        for _ in range(LOGS):
            log = log_of(parser, pick)
            try:
                expected = theirs[parser](log)
            except IndexError:  # karma's tree ends more suites than it began: theirs fails, ours goes on
                assert parser == "karma"
                continue
            read, states = read + 1, states + len(expected)
            if parse(log) != expected:
                unequal.append([parser, log, expected, parse(log)])
    return {"parsers": len(ours), "logs": read, "states": states, "unequal": len(unequal), "first": unequal[:1]}


def compare_swebench() -> dict[str, Any]:
    for package in ("swebench", "swebench.harness"):
        bare(package)
    from swebench.harness.log_parsers import PARSER_REGISTRY

    ours = {parser: PARSERS[parser] for parser in [*LINES, "doctest", "maven", *EVENTS]}
    theirs = {parser: lambda log, one=PARSER_REGISTRY[f"parse_log_{parser}"]: one(log, None) for parser in ours}
    return compare(ours, theirs, random_log)


STATE = "{PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS}"
ENDING = "... {ok|FAIL|ERROR|skipped 'no'|expected failure}"
SMITH = {
    "pytest_progress": ("mewwts__addict", [f"t.py::{{name}} {STATE} [ 5%]"]),
    "pytest_workers": ("HIPS__autograd", [f"[gw{{number}}] {STATE} t.py::{{name}}"]),
    "pytest_summary": ("paramiko__paramiko", [f"{STATE} t.py::{{name}} - why"]),
    "pytest_anywhere": ("python__mypy", [f"{STATE} mypy/t.test::{{name}}"]),
    "tornado": ("tornadoweb__tornado", [f"test_{{name}} (T) {ENDING}", "{FAIL|ERROR}: {name} (T)"]),
    "slugify": ("un33k__python-slugify", [f"test_{{name}} (T) {ENDING}"]),
}
"""By parser: a repository that has it, and the lines of its tests."""


def compare_smith() -> dict[str, Any]:
    for package in ("docker", "docker.models", "docker.models.containers", "dotenv", "ghapi", "ghapi.all", "unidiff"):
        sys.modules[package] = MagicMock()  # clients of Docker and GitHub, which neither parsers nor commands use
    for package in ("swebench", "swebench.harness", "swesmith", "swesmith.profiles"):
        bare(package)
    dockerfiles = types.ModuleType("swebench.harness.dockerfiles")
    dockerfiles.get_dockerfile_env = None  # type: ignore[attr-defined]
    sys.modules["swebench.harness.dockerfiles"] = dockerfiles
    import_module("swesmith.profiles.python")  # registers its profiles
    from swebench.harness.constants import MAP_REPO_VERSION_TO_SPECS
    from swesmith.profiles.base import registry

    profiles = {key.rpartition(".")[0]: registry.get(key) for key in registry if "/" not in key}
    ours = {parser: PARSERS[parser] for parser in SMITH}
    theirs = {parser: profiles[repository].log_parser for parser, (repository, _) in SMITH.items()}

    def log_of(parser: str, pick: random.Random) -> str:
        return "\n".join(line(SMITH[parser][1], pick) if pick.random() < 0.8 else name(pick) for _ in range(20))

    answer = compare(ours, theirs, log_of)
    answer["profiles"], answer["odd profiles"] = len(profiles), [*_odd(profiles.values())]
    theirs_of = {
        (repository, version): (specs.get("build", []), test if isinstance(test, list) else [test])
        for repository, versions in MAP_REPO_VERSION_TO_SPECS.items()
        for version, specs in versions.items()
        if (test := specs.get("test_cmd"))
    }
    table = {
        (repository, version): (mine.get("build", []), mine["test"])
        for repository, versions in commands().items()
        for version, mine in versions.items()
    }
    answer["versions"] = len(table)
    answer["unequal versions"] = [key for key, command in table.items() if theirs_of[key] != command]
    assert with_image({"repo": "redis/redis", "version": "13115", "instance_id": "redis__redis-13115"})["log_parser"]
    return answer


def _odd(profiles: Any) -> Any:
    """Yield the profiles whose image, command or test files are not ours."""
    for profile in profiles:
        tests = ["t/b.py::x[1]", "t/a.py::y", "../dev/t/c.py::z" if profile.repo == "mido" else "t/c.py::z"]
        if profile.repo == "tornado":
            tests = ["test_a (tornado.test.web_test.T)", "test_b (tornado.test.http_test.T)"]
        row = {"instance_id": f"{profile.repo_name}.func_1", "FAIL_TO_PASS": tests[:1], "PASS_TO_PASS": tests[1:]}
        mine = with_bug({**row, "image_name": profile.image_name.removeprefix("swebench/"), "patch": ""})
        hidden, kept = profile.get_test_files(row)
        repository = f"{profile.owner}__{profile.repo}"
        command = mine["test_command"].replace("; : {files}", "").replace("{files}", " ".join([*hidden, *kept]))
        command = command.replace("activate testbed", "activate; conda activate testbed")
        wanted, _ = profile.get_test_cmd(row)
        same = (command == wanted, mine["hidden_files"] == sorted(hidden), mine["docker_image"] == profile.image_name)
        if not all(same) or set(test_files(repository, tests[1:])) != set(kept):
            yield [profile.repo_name, same, command, wanted]


print(json.dumps({"swebench": compare_swebench, "swesmith": compare_smith}[sys.argv[1]]()))
