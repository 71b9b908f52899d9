"""Names of published datasets, and checks before publishing."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Literal, TypeAlias

from gym_llm.data.files.reading import read_rows, too_long
from gym_llm.data.files.row_faults import Faults
from gym_llm.errors import DataError
from gym_llm.utils.json_codec import loads
from gym_llm.utils.limits import ROW_BYTES, limit

Split: TypeAlias = Literal["train", "validation", "test"]

DEFAULT_PREFIX = "Nemotron-RL"
"""NeMo Gym's `hf_dataset_prefix`."""

_KEYWORDS: dict[str, Split] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "valid", "dev", "val"), "validation"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
"""By which a file's name says its split, as the `datasets` library reads it."""

_WORDS = re.compile(r"[-._ 0-9]+")
_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
_NAME = re.compile(r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?\Z", re.ASCII)
_LONGEST_NAME = 96


def repo_name(variables: Mapping[str, Any], domain: str | None, name: str) -> str:
    """Return a dataset's repository on Hugging Face: `{hf_organization}/{hf_dataset_prefix}-{domain}-{name}`.

    Args:
        variables: The configuration's top-level values; an empty `hf_dataset_prefix` leaves the prefix out.
        domain: The domain in lower case; None leaves it out.
        name: The dataset's own name.

    Raises:
        DataError: If `hf_organization` is missing, or the hub refuses the name.

    >>> repo_name({"hf_organization": "nvidia"}, "math", "OpenMathReasoning")
    'nvidia/Nemotron-RL-math-OpenMathReasoning'
    """
    prefix = variables.get("hf_dataset_prefix", DEFAULT_PREFIX)
    parts = [str(part) for part in (prefix, domain and domain.lower(), name) if part]
    full = "-".join(parts)
    if len(full) > _LONGEST_NAME or not _NAME.match(full) or "--" in full or ".." in full:
        raise DataError(
            f"The repository name {full!r} is invalid: use up to {_LONGEST_NAME} letters, digits, single `-`, `_` and "
            "`.`."
        )
    return f"{organization(variables)}/{full}"


def organization(variables: Mapping[str, Any]) -> str:
    """The setting `hf_organization`; a DataError if it is missing."""
    if not variables.get("hf_organization"):
        raise DataError("Whose dataset is it? Give hf_organization=NAME, or put it into env.yaml.")
    return str(variables["hf_organization"])


def collection_id(variables: Mapping[str, Any]) -> str | None:
    """The collection that datasets are added to, `ORG/name-in-lower-case-SLUG`; None if none is configured.

    Raises:
        DataError: If only one of `hf_collection_name` and `hf_collection_slug` is given.

    >>> collection_id({"hf_organization": "acme", "hf_collection_name": "NeMo Gym", "hf_collection_slug": "68b5c0d8"})
    'acme/nemo-gym-68b5c0d8'
    """
    name, slug = variables.get("hf_collection_name"), variables.get("hf_collection_slug")
    if not name and not slug:
        return None
    if not name or not slug:
        raise DataError("A collection is named by hf_collection_name and hf_collection_slug: give both, or neither.")
    return f"{organization(variables)}/{str(name).lower().replace(' ', '-')}-{slug}"


def name_in_repo(path: str | os.PathLike[str], split: Split) -> str:
    """Return a file's name in the repository: its own name if that has the split, else `STEM-SPLIT.jsonl`.

    Readers recognise splits by file names. A file without a split in its name is ignored beside files that have one.

    Raises:
        DataError: If the name has another split, or is not the name of a data file.

    >>> name_in_repo("data/train.jsonl", "train"), name_in_repo("multineedle_benchmark.jsonl", "validation")
    ('train.jsonl', 'multineedle_benchmark-validation.jsonl')
    """
    name = PurePath(path).name
    suffix = next((suffix for suffix in reversed(_SUFFIXES) if name.endswith(suffix)), None)
    if suffix is None:
        raise DataError(f"{path} cannot be uploaded: data files end in {', '.join(_SUFFIXES)}.")
    stem = name.removesuffix(suffix)
    splits = {_KEYWORDS[word] for word in _WORDS.split(stem) if word in _KEYWORDS}
    if splits - {split}:
        other = ", ".join(sorted(splits - {split}))
        raise DataError(f"{name} would be uploaded as {split}, but its name says {other}: rename it, or give --split.")
    return name if splits else f"{stem}-{split}{suffix}"


def check_training_rows(path: str | os.PathLike[str]) -> int:
    """Check that every row of a file is an object with `responses_create_params`, and count them.

    Raises:
        DataError: If the file has no rows, or some are invalid: by reason, with the lines.
    """
    faults, rows = Faults(os.fspath(path)), 0
    for number, line in read_rows(path):
        rows += 1
        reason, detail = _fault(line)
        if reason:
            faults.add(number, reason, detail)
    if faults.rows:
        raise DataError(f"Nothing was uploaded, the training rows are not right.\n{faults.report()}")
    if not rows:
        raise DataError(f"{path} has no rows.")
    return rows


def _fault(line: bytes) -> tuple[str, str]:
    """What is wrong with a row and where, or two empty strings."""
    if len(line) > (most := limit(ROW_BYTES)):
        return too_long(most), ""
    if line.isspace():
        return "the line is empty", ""
    try:
        value = loads(line)
    except ValueError as error:
        return "not JSON", str(error)
    if not isinstance(value, dict):
        return "not a JSON object", type(value).__name__
    if not isinstance(value.get("responses_create_params"), dict):
        return "`responses_create_params` is missing", ""
    return "", ""
