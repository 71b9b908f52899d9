"""SWEBench: rows of SWE-bench as they are published (NeMo Gym's `swebench`), played by Harbor."""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from gym_llm.data.benchmarks.agents import PYTEST, TESTBED
from gym_llm.envs.harbor.env import Harbor
from gym_llm.envs.harbor.swe_bench import changed_files
from gym_llm.envs.swebench.multilingual import parser_of, with_commands
from gym_llm.envs.swebench.smith import is_smith, with_bug
from gym_llm.types import Row

_DJANGO = "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1"
_SYMPY = "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose"


class SWEBench(Harbor):
    """Resolve an issue of a repository with a shell; hidden tests decide, in a fresh container with the changes.

    A row without `image` is played in the image that its dataset has for it. `Harbor` has the arguments.
    """

    class Task(Harbor.Task):
        """A row of SWE-bench, Verified, Lite, Multilingual or SWE-smith; the page of `Harbor` has our additions."""

        instance_id: str

        @model_validator(mode="before")
        @classmethod
        def _name_image(cls, row: Any) -> Any:
            return with_image(row) if isinstance(row, dict) and isinstance(row.get("instance_id"), str) else row


def with_image(row: Row) -> Row:
    """Return a row with the image and the test command that its dataset has for it; what the row has itself stays.

    >>> with_image({"instance_id": "a__b-1", "repo": "a/b"})["docker_image"]
    'swebench/sweb.eval.x86_64.a_1776_b-1:latest'
    """
    if is_smith(row):
        return with_bug(row)
    has_image = bool(row.get("image") or row.get("docker_image"))
    if not has_image:
        name = str(row["instance_id"]).lower().replace("__", "_1776_")
        row = {**row, "docker_image": f"swebench/sweb.eval.x86_64.{name}:latest"}
    if row.get("eval_script"):
        return {**row, "log_parser": parser_of(row)}
    if "test_command" in row:
        return row
    row = with_commands(row)
    if has_image or "test_command" in row:
        return row
    repo = str(row.get("repo", ""))
    command = _SYMPY if repo == "sympy/sympy" else PYTEST
    if repo == "django/django":
        command = f": {{files}}; {_DJANGO} {' '.join(django_labels(str(row.get('test_patch', ''))))}"
    return {**row, "test_command": TESTBED + command}


def django_labels(test_patch: str) -> list[str]:
    r"""Return the labels by which Django's test program knows the files of a patch.

    >>> django_labels("diff --git a/tests/admin_x/test_a.py b/tests/admin_x/test_a.py\n")
    ['admin_x.test_a']
    """
    files = [file for file in changed_files(test_patch) if file.endswith(".py")]
    labels = [file.removesuffix(".py").removeprefix("tests/").replace("/", ".") for file in files]
    return [label for label in labels if all(part.isidentifier() for part in label.split("."))]
