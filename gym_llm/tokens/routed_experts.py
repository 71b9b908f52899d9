"""The experts that a mixture's routers chose for each token, as vLLM's servers return them; see `ROUTED_EXPERTS`."""

from __future__ import annotations

import base64
import binascii
import io
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def pack_experts(experts: ArrayLike) -> str:
    """Return the indices of experts, shape (tokens, layers, experts of a token), as a text: base64 of NumPy's file.

    >>> unpack_experts(pack_experts([[[3, 60]], [[0, 2]]])).tolist()
    [[[3, 60]], [[0, 2]]]
    """
    array = np.asarray(experts)
    kept = array.astype(np.min_scalar_type(int(array.max(initial=0))))
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(kept), allow_pickle=False)
    return base64.b64encode(file.getvalue()).decode("ascii")


def unpack_experts(packed: str) -> NDArray[Any]:
    """Return the indices of experts, integers of shape (tokens, layers, experts of a token).

    Raises:
        ValueError: If the text is something else.
    """
    try:
        array = np.load(io.BytesIO(base64.b64decode(packed, validate=True)), allow_pickle=False)
    except (binascii.Error, EOFError, OSError, TypeError, ValueError) as error:
        raise ValueError(f"Invalid routed experts, which are a NumPy file in base64: {str(error)[:100]}.") from None
    if not isinstance(array, np.ndarray) or array.ndim != 3 or array.dtype.kind not in "iu":
        raise ValueError("Invalid routed experts, which are integers of shape (tokens, layers, experts of a token).")
    return array


def experts_of_all(packed: str, ids: int) -> NDArray[Any]:
    """Return the indices of experts for a number of ids; zeros for those that the engine has not read.

    >>> experts_of_all(pack_experts([[[3, 60]]]), 2).tolist()
    [[[3, 60]], [[0, 0]]]
    """
    indices = unpack_experts(packed)[:ids]
    return np.pad(indices, ((0, ids - len(indices)), (0, 0), (0, 0)))
