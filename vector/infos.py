"""Batching infos: a dict of arrays with masks, as Gymnasium's vector environments return them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_PLAIN = {int: np.int64, float: np.float64, bool: np.bool_}


def batch_infos(infos: list[tuple[int, dict[str, Any]]], num_envs: int) -> dict[str, Any]:
    """Batch the infos of single environments.

    The result equals that of `gymnasium.vector.VectorEnv._add_info`, with one difference. Values that do not fit one
    array (lists of different lengths, numbers beside None) get an object array instead of an error.

    Args:
        infos: Pairs of environment number and info.
        num_envs: Length of the arrays.

    Returns:
        For each key an array of `num_envs` values, or a dict of such arrays if the values are dicts. Under `_key` a
        bool array that marks the environments with this key.

    >>> batch_infos([(1, {"turn": 2})], 3)
    {'turn': array([0, 2, 0]), '_turn': array([False,  True, False])}
    """
    columns: dict[str, tuple[list[int], list[Any]]] = {}
    for number, info in infos:
        for key, value in info.items():
            column = columns.get(key)
            if column is None:
                columns[key] = column = ([], [])
            column[0].append(number)
            column[1].append(value)
    batched: dict[str, Any] = {}
    for key, (numbers, values) in columns.items():
        mask = np.zeros(num_envs, dtype=np.bool_)
        mask[numbers] = True
        batched[key] = _batch(key, numbers, values, num_envs)
        batched[f"_{key}"] = mask
    return batched


def _batch(key: str, numbers: list[int], values: list[Any], num_envs: int) -> Any:
    kinds = {value.__class__ for value in values}
    if key != "final_obs":
        if kinds == {dict}:
            return batch_infos(list(zip(numbers, values, strict=True)), num_envs)
        dtypes = set(map(_dtype, kinds))  # an int and a numpy.int64 go together
        if len(dtypes) == 1 and (dtype := dtypes.pop()) is not None:
            try:
                return _filled(np.zeros(num_envs, dtype=dtype), numbers, values)
            except OverflowError:  # an int beyond 64 bits
                pass
        elif kinds == {np.ndarray} and len({(value.shape, value.dtype) for value in values}) == 1:
            first = values[0]
            return _filled(np.zeros((num_envs, *first.shape), dtype=first.dtype), numbers, values)
    array = np.full(num_envs, None, dtype=object)
    for number, value in zip(numbers, values, strict=True):
        array[number] = value
    return array


def _dtype(kind: type) -> Any:
    return kind if issubclass(kind, np.number) else _PLAIN.get(kind)


def _filled(array: npt.NDArray[Any], numbers: list[int], values: list[Any]) -> npt.NDArray[Any]:
    array[numbers] = values
    return array
