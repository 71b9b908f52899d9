"""Rows of SWE-bench Multilingual: the commands and the log parser of a repository's version."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from gym_llm.types import Row

_FILE = Path(__file__).with_name("data") / "multilingual.json"


@functools.cache
def commands() -> dict[str, dict[str, dict[str, Any]]]:
    """Return what `data/multilingual.json` has: log parser, build and test commands by repository and version."""
    table: dict[str, dict[str, dict[str, Any]]] = json.loads(_FILE.read_text("utf-8"))["commands"]
    return table


def with_commands(row: Row) -> Row:
    """Return a row with its test command and log parser, if Multilingual has its repository.

    The command builds the repository and runs the tests, and prints each command before it. The files of the test
    patch are already in place then.

    Raises:
        ValueError: If the version is unknown.

    >>> row = with_commands({"repo": "tokio-rs/axum", "version": "2096"})
    >>> row["log_parser"], row["test_command"].splitlines()[3]
    ('cargo', 'RUSTFLAGS=-Awarnings cargo test --package axum --lib -- routing::tests::fallback')
    """
    versions = commands().get(str(row.get("repo")))
    if versions is None:
        return row
    version = versions.get(str(row.get("version")))
    if version is None:
        raise ValueError(f"{row['repo']} has no version {row.get('version')!r}: give its `test_command`.")
    marks = [f": '>>>>> {mark} Test Output'" for mark in ("Start", "End")]
    lines = [": {files}", "set -uxo pipefail", *version.get("build", []), marks[0], *version["test"], marks[1]]
    return {**row, "log_parser": version["parser"], "test_command": "\n".join(lines)}


def parser_of(row: Row) -> str:
    """Return the name of a row's log parser: for the two repositories with several test runners, that of its version.

    >>> parser_of({"log_parser": "parse_log_jekyll", "repo": "jekyll/jekyll", "instance_id": "jekyll__jekyll-8761"})
    'cucumber'
    """
    name = str(row.get("log_parser") or "")
    if name in ("parse_log_jekyll", "parse_log_immutable_js"):
        number = str(row["instance_id"]).rpartition("-")[2]
        return str(commands()[str(row["repo"])].get(number, {}).get("parser", name))
    return name
