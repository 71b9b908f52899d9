"""The lines of an author's code at which an error arose, without those of this package and of libraries."""

from __future__ import annotations

import os
import sysconfig
import traceback
from pathlib import Path

from gym_llm.utils.source_code import is_ours

_STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib")).resolve()
_MOST_FRAMES = 3


def author_frames(error: BaseException) -> list[str]:
    """Return the innermost lines of code outside this package, the standard library and other installed packages.

    Returns:
        At most three lines such as `quiz.py:12, in verify: return grade(answer)`, the last one innermost; empty if the
        error did not pass through an author's code.
    """
    try:
        frames = traceback.extract_tb(error.__traceback__)
    except Exception:  # a source file that cannot be decoded
        return []
    lines = []
    for frame in frames:
        if not frame.filename.startswith("<") and not _of_library(Path(frame.filename).resolve()):
            path = os.path.relpath(frame.filename)
            shown = frame.filename if path.startswith("..") else path
            lines.append(f"{shown}:{frame.lineno}, in {frame.name}: {frame.line}")
    return lines[-_MOST_FRAMES:]


def _of_library(path: Path) -> bool:
    is_installed = not {"site-packages", "dist-packages"}.isdisjoint(path.parts)
    return is_installed or path.is_relative_to(_STANDARD_LIBRARY) or is_ours(path)
