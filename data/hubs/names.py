"""Names that a hub gives: they become parts of paths here, so a hub must not choose where a file is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import huggingface_hub

from gym_llm.errors import DataError
from gym_llm.utils.text import excerpt

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SPLIT = re.compile(r"\w[\w.-]{0,99}")
_FILE = re.compile(r"[^\\\x00-\x1f\x7f]{1,500}")
_ETAG = re.compile(r"[\w+=:,@~-][\w.+=:,@~-]{0,199}")
_WEAK = "W/"


def commit(name: Any) -> str:
    """A commit's name, if it is one; a DataError if it is not, as from all of these."""
    return _checked(_COMMIT, name, "a commit")


def is_commit(name: str | None) -> bool:
    """Whether a revision is a commit, not a branch or a tag."""
    return bool(name and _COMMIT.fullmatch(name))


def split(name: str) -> str:
    """Return a split's name, after checking that it is not a path.

    >>> split("validation")
    'validation'
    >>> split("../../.bashrc")
    Traceback (most recent call last):
    gym_llm.errors.DataError: Hugging Face names a split '../../.bashrc', which is not a valid name.
    """
    return _checked(_SPLIT, name, "a split")


def file(name: str) -> str:
    """A file's name in a repository, folders included, if it leads nowhere else."""
    if {"", ".", ".."} & set(str(name).split("/")):
        raise _no_name(name, "a file")
    return _checked(_FILE, name, "a file")


@contextmanager
def safe_headers() -> Iterator[None]:
    """Have the client refuse answers whose headers hold a path: its cache makes file names of ETags and commits.

    So it does in huggingface_hub 2.4.0, for whatever the hub says there, `/etc/passwd` and `../../.bashrc` included; in
    `datasets`, too, which downloads through the same client.
    """
    hooks = huggingface_hub.get_session().event_hooks["response"]
    hooks.append(_check_headers)
    try:
        yield
    finally:
        hooks.remove(_check_headers)


def _check_headers(response: Any) -> None:
    headers = response.headers
    if "X-Repo-Commit" in headers:
        commit(headers["X-Repo-Commit"])
    if "X-Xet-Hash" in headers:
        _checked(_ETAG, headers["X-Xet-Hash"], "a file's hash")
    if response.request.method == "HEAD":
        etag = headers.get("X-Linked-Etag") or headers.get("ETag") or "-"
        _checked(_ETAG, etag.removeprefix(_WEAK).strip('"'), "an ETag")


def _checked(pattern: re.Pattern[str], name: Any, what: str) -> str:
    if not isinstance(name, str) or not pattern.fullmatch(name):
        raise _no_name(name, what)
    return name


def _no_name(name: Any, what: str) -> DataError:
    return DataError(f"Hugging Face names {what} {excerpt(name, 100)}, which is not a valid name.")
