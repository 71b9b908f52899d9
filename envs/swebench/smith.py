"""Rows of SWE-smith: a patch that makes a bug, and the tests that fail with it.

The image has the repository without the bug. As in SWE-smith, the model gets it with the bug and without the files of
FAIL_TO_PASS, and changes of test files do not count. Unlike there, the repository's history does not have the patch.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from gym_llm.data.benchmarks.agents import TESTBED
from gym_llm.types import Row

BASE = "gym_llm_base"
"""The tag of the commit with the bug."""
_PYTEST = "pytest --disable-warnings --color=no --tb=no --verbose"
_END = "END_OF_GYM_LLM_PATCH"
_SETUP = f"""set -e
cat > /tmp/gym_llm.bug <<'{_END}'
{{patch}}
{_END}
git apply --verbose /tmp/gym_llm.bug || patch --batch --fuzz=5 -p1 -i /tmp/gym_llm.bug
git add -u
git ls-files -z > /tmp/gym_llm.files
rm -rf .git
git init -q .
git add -A
git --literal-pathspecs add -f --pathspec-from-file=/tmp/gym_llm.files --pathspec-file-nul
git -c user.name=gym_llm -c user.email=gym_llm@localhost commit -q --no-verify --allow-empty -m base
git tag {BASE}
rm /tmp/gym_llm.bug /tmp/gym_llm.files
"""
_UNITTEST = re.compile(r"\s\((.*)\)")


class _Repository(NamedTuple):
    """What a repository's tests need beside the usual command.

    Attributes:
        command: The test command.
        parser: The log parser.
        takes_files: Whether the tests' files follow the command; else all tests run.
        activates: Whether the command needs the conda environment.
    """

    command: str = _PYTEST
    parser: str = "pytest_progress"
    takes_files: bool = False
    activates: bool = True


_OF_FILES = _Repository(takes_files=True)
_REPOSITORIES = {
    **dict.fromkeys(("sunpy__sunpy", "sqlfluff__sqlfluff", "conan-io__conan", "pandas-dev__pandas"), _OF_FILES),
    **dict.fromkeys(("iterative__dvc", "Project-MONAI__MONAI", "tobymao__sqlglot", "sympy__sympy"), _OF_FILES),
    **dict.fromkeys(("getmoto__moto", "dask__dask", "modin-project__modin", "scrapy__scrapy"), _OF_FILES),
    "HIPS__autograd": _Repository(parser="pytest_workers"),
    "mido__mido": _Repository(f"{_PYTEST} -rs -c /dev/null"),
    "paramiko__paramiko": _Repository("pytest -rA --color=no --disable-warnings", "pytest_summary"),
    "pydantic__pydantic": _Repository(f"/root/.local/bin/uv run {_PYTEST}", activates=False),
    "python__mypy": _Repository("pytest --color=no -rA", "pytest_anywhere", takes_files=True),
    "tkrajina__gpxpy": _Repository("pytest test.py --verbose --color=no --tb=no --disable-warnings"),
    "tornadoweb__tornado": _Repository("python -m tornado.test --verbose", "tornado"),
    "un33k__python-slugify": _Repository("python test.py --verbose", "slugify"),
}
"""Repositories whose command or parser is not the usual one (`swesmith` 0.0.9, profiles/python.py)."""


def is_smith(row: Row) -> bool:
    """Return whether a row has SWE-smith's columns."""
    return bool(row.get("image_name")) and "base_commit" not in row


def with_bug(row: Row) -> Row:
    """Return a row of SWE-smith with the fields of a row of SWE-bench; what the row has itself stays.

    >>> tests = {"FAIL_TO_PASS": ["t/a.py::x"], "PASS_TO_PASS": ["t/b.py::y[1]"], "patch": "…"}
    >>> row = with_bug({"instance_id": "a__b.c0ffee00.func_1", "image_name": "swesmith.x86_64.a__b.c0ffee00", **tests})
    >>> row["docker_image"], row["hidden_files"], row["kept_files"]
    ('swebench/swesmith.x86_64.a_1776_b.c0ffee00', ['t/a.py'], ['t/a.py', 't/b.py'])
    """
    image = str(row["image_name"])
    if "/" not in image:
        image = "swebench/" + image.replace("__", "_1776_").lower()
    name = str(row["instance_id"]).split(".")[0]
    repository = _REPOSITORIES.get(name, _Repository())
    hidden = test_files(name, row.get("FAIL_TO_PASS"))
    kept = sorted({*hidden, *test_files(name, row.get("PASS_TO_PASS"))})
    ending = " {files}" if repository.takes_files else "; : {files}"
    made = {
        "docker_image": image,
        "base_commit": BASE,
        "setup_command": _SETUP.format(patch=str(row["patch"]).rstrip("\n")),
        "test_command": TESTBED * repository.activates + repository.command + ending,
        "log_parser": repository.parser,
        "hidden_files": hidden,
        "kept_files": kept,
        "patch_makes_bug": True,
    }
    return {**made, **row}


def test_files(repository: str, tests: Any) -> list[str]:
    """Return the files of tests, sorted.

    Args:
        repository: `OWNER__NAME`.
        tests: Names of tests, a list or a list as JSON text.

    >>> test_files("tornadoweb__tornado", ["test_a (tornado.test.web_test.T)"])
    ['tornado/test/web_test.py']
    """
    names = json.loads(tests) if isinstance(tests, str) else tests or []
    if repository == "un33k__python-slugify":
        return ["test.py"]
    if repository == "tornadoweb__tornado":
        modules = {match[1].rpartition(".")[0] for name in names if (match := _UNITTEST.search(name))}
        return sorted(f"{module.replace('.', '/')}.py" for module in modules)
    return sorted({str(name).partition("::")[0].removeprefix("../dev/") for name in names})
