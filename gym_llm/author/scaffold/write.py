"""Writing the folder of a new verifier."""

from __future__ import annotations

import importlib.util
import keyword
import os
import re
import shutil
import tempfile
from importlib.resources import files
from pathlib import Path
from string import Template

from gym_llm.author.scaffold.verifier_checks import run_python
from gym_llm.errors import DataError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_LONGEST = 100  # it becomes the names of files, and files have at most 255
_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z0-9])(?=[A-Z][a-z])")
_OUR_PROJECT = re.compile(r'^name = "gym-llm"$', re.MULTILINE)
_PLACES = {"example.jsonl": "data/example.jsonl"}


def write_verifier(name: str, directory: str | os.PathLike[str] | None = None) -> Path:
    """Write a working verifier as a starting point.

    It asks for a line `Answer: ...` and compares it with the row's `expected_answer`. An error leaves no partial
    folder. In gym_llm's own repository the verifier goes to `envs/` and its test to `tests/envs/`. Its line goes to
    docs/environments.md. Anywhere else it is an installable package.

    Args:
        name: `CapitalCities` or `capital_cities`.
        directory: The folder that gets it; None for `envs/` of the current repository, or the current folder.

    Returns:
        The folder.

    Raises:
        DataError: If the name is invalid or taken, or the folder cannot be written.
    """
    folder_name, class_name = names(name)
    root = _repository(directory)
    folder = Path(root / "envs" if root else directory or ".", folder_name)
    test = root / "tests" / "envs" / f"test_{folder_name}.py" if root else folder / "test_env.py"
    if existing := [path for path in (folder, test) if path.exists()]:
        raise DataError(f"{existing[0]} is there already: take another name, or another --dir.")
    if not root and importlib.util.find_spec(folder_name) is not None:
        raise DataError(f"Python already has a module {folder_name}, which would be shadowed: take another name.")
    module = f"gym_llm.envs.{folder_name}" if root else folder_name
    values = {
        "folder": folder_name,
        "name": class_name,
        "distribution": folder_name.replace("_", "-"),
        "module": module,
        "id": f"{'gym_llm' if root else folder_name}/{class_name}-v0",
        "path": f"envs/{folder_name}" if root else folder_name,
        "install": "" if root else f"pip install -e {folder_name}                       # registers the id\n",
        "imports": "\n".join(sorted(["from gym_llm.data import read_jsonl", f"from {module}.env import {class_name}"])),
    }
    unfinished = None
    try:
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder_name}."))
        for template in files("gym_llm.author.scaffold").joinpath("verifier").iterdir():
            file_name = template.name.removesuffix(".tmpl")
            if file_name != template.name and not (root and file_name == "pyproject.toml"):
                path = unfinished / _PLACES.get(file_name, file_name)
                path.parent.mkdir(exist_ok=True)
                path.write_text(Template(template.read_text("utf-8")).substitute(values), "utf-8")
        if root:
            (unfinished / "test_env.py").rename(test)
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    except OSError as error:
        raise DataError(f"Cannot write {folder}: {error.strerror or error}.") from None
    finally:
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)
    if root:
        listing = ("gym_llm.cli", "list", "--into", "docs/environments.md")
        for command in (("gym_llm.author.catalogue",), listing):
            process = run_python(root, "-m", *command)
            if process.returncode:
                raise DataError(f"{folder} is written, but not listed ({command[-1]}): {process.stderr.strip()}")
    return folder


def _repository(directory: str | os.PathLike[str] | None) -> Path | None:
    """The root of gym_llm's own repository, if a new verifier is to become one of its."""
    here = Path(directory or ".").resolve()
    for root in (here, *here.parents):
        project = root / "pyproject.toml"
        if (root / "envs").is_dir() and project.is_file() and _OUR_PROJECT.search(project.read_text("utf-8")):
            return Path(os.path.relpath(root)) if directory is None or here == root / "envs" else None
    return None


def names(name: str) -> tuple[str, str]:
    """The folder's and the class's name.

    Raises:
        DataError: If it can be neither.

    >>> names("CapitalCities"), names("capital_cities"), names("GSM8K")
    (('capital_cities', 'CapitalCities'), ('capital_cities', 'CapitalCities'), ('gsm8k', 'GSM8K'))
    """
    folder = _BOUNDARY.sub("_", name).lower()
    if len(folder) > _LONGEST:
        raise DataError(f"A verifier's name has at most {_LONGEST} characters, that one has {len(folder)}.")
    if not _NAME.match(name) or keyword.iskeyword(folder) or folder.strip("_") != folder or "__" in folder:
        raise DataError(f"{name!r} is not a name for a verifier: letters, digits and `_`, such as CapitalCities.")
    if name != folder:
        return folder, name[0].upper() + name[1:].replace("_", "")
    return folder, "".join(part.capitalize() for part in name.split("_"))
