"""The expected results of the tests' calls: from the row, a JSON file, or SciCode's `test_data.h5`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gym_llm.envs.scicode.inside.values import encode
from gym_llm.errors import DataError

Targets = Callable[[str, int], list[Any]]
"""By the step's number and its number of tests: a target for each, as `inside.values` has it."""


def read_targets(path: str) -> Targets:
    """The targets of a file: `.h5` or `.hdf5` as SciCode's (this needs h5py), else JSON, `{"4.1": [TARGET, …]}`.

    Raises:
        DataError: If it cannot be read.
    """
    if Path(path).suffix in (".h5", ".hdf5"):
        return _of_hdf5(path)
    try:
        known = json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise DataError(f"Cannot read the targets {path}: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"The targets {path} are not JSON: {error}.") from None

    def targets(step: str, count: int) -> list[Any]:
        found = known.get(step) if isinstance(known, dict) else None
        if not isinstance(found, list) or len(found) < count:
            raise DataError(f"{path} has no {count} targets of step {step}.")
        return found[:count]

    return targets


def _of_hdf5(path: str) -> Targets:
    try:
        import h5py  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise DataError(f"The targets {path} cannot be read: h5py is not installed (pip install h5py).") from None
    if not Path(path).exists():
        raise DataError(f"There is no file of targets {path}.")

    def targets(step: str, count: int) -> list[Any]:
        try:
            with h5py.File(path, "r") as file:
                return [_test(file[f"{step}/test{number}"]) for number in range(1, count + 1)]
        except (OSError, KeyError, ValueError) as error:
            raise DataError(f"{path} has no {count} targets of step {step}: {error}.") from None

    return targets


def _test(group: Any) -> Any:
    values = [_value(group[name]) for name in group]
    return values[0] if len(values) == 1 else {"tuple": values}


def _value(node: Any) -> Any:
    """A data set; or a group: `list`, `sparse_matrix`, or else a dict, whose names are numbers where they can be."""
    if not hasattr(node, "keys"):
        value = node[()]
        return value.decode() if isinstance(value, bytes) else encode(value)
    if "list" in node:
        return [_value(node["list"][name]) for name in node["list"]]
    if "sparse_matrix" in node:
        return _sparse(node["sparse_matrix"])
    return {"dict": [[_name(name), _value(node[name])] for name in node]}


def _name(name: str) -> str | float:
    try:
        return float(name)
    except ValueError:
        return name


def _sparse(node: Any) -> Any:
    import scipy.sparse

    data, shape = node["data"][()], tuple(node["shape"][()])
    if "row" in node:
        return encode(scipy.sparse.coo_matrix((data, (node["row"][()], node["col"][()])), shape=shape))
    inner = data, node["indices"][()], node["indptr"][()]
    if "blocksize" in node:
        return encode(scipy.sparse.bsr_matrix(inner, shape=shape, blocksize=tuple(node["blocksize"][()])))
    return encode(scipy.sparse.csr_matrix(inner, shape=shape))
