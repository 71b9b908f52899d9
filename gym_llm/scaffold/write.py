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

from gym_llm.errors import DataError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z0-9])(?=[A-Z][a-z])")
_PLACES = {"example.jsonl": "data/example.jsonl"}


def write_verifier(name: str, directory: str | os.PathLike[str] = ".") -> Path:
    """Write a verifier that works, to be changed into the one that is wanted.

    It asks for a line `Answer: ...` and compares it with the row's `expected_answer`. The folder is a package that can
    be installed; it appears whole or not at all.

    Args:
        name: `CapitalCities` or `capital_cities`.
        directory: Where its folder goes.

    Returns:
        The folder.

    Raises:
        DataError: If the name cannot be one, is taken, or the folder cannot be written.
    """
    folder_name, class_name = names(name)
    folder = Path(directory, folder_name)
    if folder.exists():
        raise DataError(f"{folder} is there already: take another name, or another --dir.")
    if importlib.util.find_spec(folder_name) is not None:
        raise DataError(f"Python already has a module {folder_name}, which would be shadowed: take another name.")
    values = {"folder": folder_name, "name": class_name, "distribution": folder_name.replace("_", "-")}
    unfinished = None
    try:
        unfinished = Path(tempfile.mkdtemp(dir=directory, prefix=f".{folder_name}."))
        for template in files("gym_llm.scaffold").joinpath("verifier").iterdir():
            if template.name.endswith(".tmpl"):
                file_name = template.name.removesuffix(".tmpl")
                path = unfinished / _PLACES.get(file_name, file_name)
                path.parent.mkdir(exist_ok=True)
                path.write_text(Template(template.read_text("utf-8")).substitute(values), "utf-8")
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    except OSError as error:
        raise DataError(f"Cannot write {folder}: {error.strerror or error}.") from None
    finally:
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def names(name: str) -> tuple[str, str]:
    """The folder's and the class's name.

    Raises:
        DataError: If it can be neither.

    >>> names("CapitalCities"), names("capital_cities"), names("GSM8K")
    (('capital_cities', 'CapitalCities'), ('capital_cities', 'CapitalCities'), ('gsm8k', 'GSM8K'))
    """
    folder = _BOUNDARY.sub("_", name).lower()
    if not _NAME.match(name) or keyword.iskeyword(folder) or folder.strip("_") != folder or "__" in folder:
        raise DataError(f"{name!r} is no name for a verifier: letters, digits and `_`, such as CapitalCities.")
    if name != folder:
        return folder, name[0].upper() + name[1:].replace("_", "")
    return folder, "".join(part.capitalize() for part in name.split("_"))
