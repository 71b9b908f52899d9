"""The source code that an object is made of, and hashes of files: what has to be equal for results to be comparable."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parents[1]
_OURS = ("envs", "grading", "judge")
"""Rooms of this package with code that decides rewards; all else counts by the package's version."""

_NEITHER = ("gymnasium", "pydantic")
"""Packages of base classes, which are neither the user's nor ours."""

_IMPORT = re.compile(
    r"(?:^|[;:])[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#;]+)|import[ \t]+([^\n#;]+))", re.MULTILINE
)
_WHOLE = 256 << 20  # bytes that are read of a file, or of a folder's files together; of others, samples
_SAMPLE, _SAMPLES = 1 << 16, 32
_MOST_FILES = 4_096  # of a folder, and of an import's closure
_LENGTH = 16  # characters of a hash


def digest(data: bytes) -> str:
    """Return a short hash of bytes, to compare values of one name.

    >>> digest(b"")
    'e3b0c44298fc1c14'
    """
    return hashlib.sha256(data).hexdigest()[:_LENGTH]


def path_digest(path: str | os.PathLike[str]) -> str:
    """Return a hash of a file's content; of a folder, of the names and contents of the files in it.

    Beyond 256 MiB only lengths and evenly spaced samples are read: enough to distinguish the weights of two models.

    Raises:
        OSError: If it cannot be read.
    """
    place = Path(path)
    if not place.is_dir():
        return _file_digest(place, _WHOLE)
    lines, left = [], _WHOLE
    for file in _files(place):
        lines.append(f"{file.relative_to(place)} {_file_digest(file, left)}")
        left -= file.stat().st_size
    return digest("\n".join(lines).encode(errors="replace"))


def code_files(*starts: Any) -> list[Path]:
    """Return the files of classes, functions or paths, and of the local modules that they import, in functions too.

    Local modules are those beside a file or in its own package; of `gym_llm` the rooms that decide rewards. Prompts in
    a folder `prompts` beside a module belong to it. What is typed into a terminal has no file.
    """
    found: dict[Path, None] = {}
    queue = [path for start in starts for path in _starts(start)]
    while queue and len(found) < _MOST_FILES:
        path = queue.pop()
        if path in found:
            continue
        found[path] = None
        queue += _imports(path)
        found.update(dict.fromkeys(sorted(path.parent.glob("prompts/*.yaml"))))
    return sorted(found)


def code_digests(*starts: Any) -> dict[str, str]:
    """Return a hash of each of an object's files by its name, see `code_files`; those of a package have one together.

    >>> from gym_llm.errors import UsageError
    >>> list(code_digests(UsageError))
    ['gym_llm']
    """
    groups: dict[str, list[str]] = {}
    for path in code_files(*starts):
        with suppress(OSError):
            name = _shown(path)
            if is_ours(path):
                name = "gym_llm"
            elif _is_installed(root := _root(path)):
                name = path.relative_to(root).parts[0].removesuffix(".py")
            groups.setdefault(name, []).append(f"{path.name} {path_digest(path)}")
    return {name: digest("\n".join(sorted(lines)).encode()) for name, lines in sorted(groups.items())}


def _shown(path: Path) -> str:
    """A path as a user would write it: relative to the current folder where it is in there."""
    with suppress(ValueError, OSError):
        return str(path.relative_to(Path.cwd().resolve()))
    return str(path)


def _starts(start: Any) -> Iterator[Path]:
    if isinstance(start, (str, os.PathLike)):
        yield Path(start).resolve()
        return
    while isinstance(start, functools.partial):
        start = start.func
    kind = start if isinstance(start, type) or hasattr(start, "__code__") else type(start)
    for each in kind.__mro__ if isinstance(kind, type) else [kind]:
        module = each.__module__
        top = module.partition(".")[0]
        file: str | None = None
        if top == "__main__":
            file = getattr(sys.modules[module], "__file__", None)  # a notebook's has none
        elif top not in sys.stdlib_module_names and top not in _NEITHER:
            with suppress(TypeError, OSError):
                file = inspect.getsourcefile(each)
        if file:
            yield Path(file).resolve()


def _imports(path: Path) -> list[Path]:
    """The local modules that a file imports."""
    return list(_imports_of(path, path.stat().st_mtime_ns)) if path.suffix == ".py" and path.is_file() else []


@lru_cache(maxsize=1024)
def _imports_of(path: Path, _mtime_ns: int) -> tuple[Path, ...]:
    try:
        text = path.read_text("utf-8", errors="replace").replace("\\\n", " ")
    except OSError:
        return ()
    files: dict[Path, None] = {}
    for match in _IMPORT.finditer(text):
        module, names, plain = match.groups()
        if plain is not None:
            modules = [name.split()[0] for name in plain.split(",") if name.strip()]
        else:
            imported = [name.split()[0] for name in names.strip("()").split(",") if name.strip()]
            modules = [module, *(f"{module}.{name}" if module.strip(".") else module + name for name in imported)]
        for name in modules:
            files.update(dict.fromkeys(_resolve(name, path)))
    return tuple(file for file in files if file != path)


def _resolve(name: str, importer: Path) -> Iterator[Path]:
    """The files of a module, and of the packages that it is in, as far as they are local to its importer."""
    level = len(name) - len(name.lstrip("."))
    parts = [part for part in name.split(".") if part]
    if level:
        root = importer.parents[level - 1] if level <= len(importer.parents) else importer.parent
    elif parts[:1] == ["gym_llm"]:
        root = _PACKAGE
        parts = parts[1:]
        if not parts or parts[0] not in _OURS:
            return
    else:
        root = _root(importer)
        own = importer.relative_to(root).parts[0].removesuffix(".py")
        if _is_installed(root) and parts[:1] != [own]:
            return
        if not (root / parts[0]).exists() and not (root / f"{parts[0]}.py").exists():
            root = importer.parent  # a script's own folder
    for count in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:count])
        for file in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
            if file.is_file():
                yield file.resolve()


def is_ours(path: Path) -> bool:
    """Whether a file is this package's."""
    rooms = (_PACKAGE, *((_PACKAGE / name).resolve() for name in ("envs", "wrappers", "vector", "data")))
    return any(path.is_relative_to(room) for room in rooms)


def _root(path: Path) -> Path:
    """The folder that a module's package is imported from."""
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    return folder


def _is_installed(folder: Path) -> bool:
    return folder.name in ("site-packages", "dist-packages")


def _files(folder: Path) -> list[Path]:
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in ("__pycache__", ".git"))
        found += [path for name in sorted(names) if (path := Path(place, name)).is_file()]
        if len(found) > _MOST_FILES:
            break
    return found[:_MOST_FILES]


def _file_digest(path: Path, whole: int) -> str:
    status = path.stat()
    return _content_digest(str(path), status.st_mtime_ns, status.st_size, status.st_ino, status.st_size <= whole)


@lru_cache(maxsize=4096)
def _content_digest(path: str, _mtime_ns: int, size: int, _inode: int, is_whole: bool) -> str:
    with open(path, "rb") as file:
        if is_whole or size <= _SAMPLE * _SAMPLES:
            return hashlib.file_digest(file, "sha256").hexdigest()[:_LENGTH]
        total = hashlib.sha256(str(size).encode())
        for number in range(_SAMPLES):
            file.seek(number * (size - _SAMPLE) // (_SAMPLES - 1))
            total.update(file.read(_SAMPLE))
    return total.hexdigest()[:_LENGTH]
