"""Convert values of libraries to JSON and back: arrays, sparse matrices, graphs, images, bars of a chart."""

from __future__ import annotations

import binascii
import re
import sys
from collections.abc import Callable
from typing import Any

Inner = Callable[[Any], Any]
_DTYPE = re.compile(r"[<>|=]?[biufcmMSU]\d+(\[\d*\w+\])?")
_GRAPHS = ("Graph", "DiGraph", "MultiGraph", "MultiDiGraph")
_text, _bytes = binascii.b2a_base64, binascii.a2b_base64


def pack(value: Any, inner: Inner) -> Any:
    """Return a value of a library as JSON has it; None for any other value."""
    kind = type(value)
    numpy, frame = sys.modules.get("numpy"), sys.modules.get("pandas.core.frame")
    if numpy is not None and hasattr(numpy, "ndarray"):
        if issubclass(kind, (numpy.ndarray, numpy.generic)):
            return _packed_array(numpy, value, inner)
        if issubclass(kind, numpy.dtype):
            return {"t": "dtype", "v": value.str} if _DTYPE.fullmatch(value.str) else {"t": "dtype", "v": "O"}
    if frame is not None:
        import plain_frames  # type: ignore[import-not-found]

        packed = plain_frames.pack(value, inner)
        if packed is not None:
            return packed
    if kind.__module__.startswith("scipy.sparse") and hasattr(value, "tocoo"):
        coo = value.tocoo()
        parts = [inner(part) for part in (coo.data, coo.row, coo.col)]
        return {"t": "sparse", "v": parts, "shape": [int(side) for side in coo.shape], "format": str(value.format)}
    if kind.__module__.startswith("networkx.classes") and kind.__name__ in _GRAPHS:
        keys = {"keys": True} if value.is_multigraph() else {}
        edges = [list(edge) for edge in value.edges(data=True, **keys)]
        return {"t": "graph", "of": kind.__name__, "v": [inner(list(value.nodes(data=True))), inner(edges)],
                "graph": inner(dict(value.graph))}  # fmt: skip
    if kind.__module__ == "matplotlib.container" and kind.__name__ == "BarContainer":
        bars = {"values": inner(value.datavalues), "label": inner(value.get_label())}
        return {"t": "bars", "v": [inner(item) for item in value], "orientation": value.orientation, **bars}
    if kind.__module__ == "PIL.Image" and kind.__name__ == "Image":
        return {"t": "image", "mode": value.mode, "size": list(value.size), "v": inner(value.tobytes())}
    return None


def _packed_array(numpy: Any, value: Any, inner: Inner) -> Any:
    array = numpy.asarray(value)
    scalar = isinstance(value, numpy.generic)
    if isinstance(value, numpy.ma.MaskedArray):
        return {"t": "masked", "v": [inner(array), inner(numpy.ma.getmaskarray(value))]}
    shape = list(array.shape)
    if _DTYPE.fullmatch(array.dtype.str):
        data = _text(numpy.ascontiguousarray(array).tobytes(), newline=False).decode()
        return {"t": "array", "v": data, "dtype": array.dtype.str, "shape": shape, "scalar": scalar}
    items = [inner(item) for item in array.ravel().tolist()]
    return {"t": "array", "v": items, "dtype": "O", "shape": shape, "scalar": scalar}


def _array(packed: dict[str, Any], inner: Inner) -> Any:
    import numpy

    shape = tuple(int(side) for side in packed["shape"])
    if packed["dtype"] == "O":
        array: Any = numpy.empty(len(packed["v"]), dtype=object)
        for index, item in enumerate(packed["v"]):
            array[index] = inner(item)
        array = array.reshape(shape)
    elif _DTYPE.fullmatch(packed["dtype"]):
        array = numpy.frombuffer(_bytes(packed["v"]), dtype=packed["dtype"]).reshape(shape).copy()
    else:
        raise ValueError("an array of another type")
    return array[()] if packed["scalar"] else array


def _masked(packed: dict[str, Any], inner: Inner) -> Any:
    import numpy

    return numpy.ma.masked_array(*map(inner, packed["v"]))


def _dtype(packed: dict[str, Any], inner: Inner) -> Any:
    import numpy

    return numpy.dtype(packed["v"] if _DTYPE.fullmatch(packed["v"]) else "O")


def _sparse(packed: dict[str, Any], inner: Inner) -> Any:
    import scipy.sparse  # type: ignore[import-untyped, unused-ignore]

    data, row, column = map(inner, packed["v"])
    return scipy.sparse.coo_matrix((data, (row, column)), shape=packed["shape"]).asformat(packed["format"])


def _graph(packed: dict[str, Any], inner: Inner) -> Any:
    import networkx  # type: ignore[import-untyped, import-not-found, unused-ignore]

    if packed["of"] not in _GRAPHS:
        raise ValueError("a graph of another kind")
    graph = getattr(networkx, packed["of"])(**inner(packed["graph"]))
    nodes, edges = map(inner, packed["v"])
    graph.add_nodes_from(nodes)
    for *ends, data in edges:
        graph.add_edge(*ends, **data)
    return graph


def _image(packed: dict[str, Any], inner: Inner) -> Any:
    import PIL.Image

    width, height = map(int, packed["size"])
    return PIL.Image.frombytes(str(packed["mode"]), (width, height), inner(packed["v"]))


def _bars(packed: dict[str, Any], inner: Inner) -> Any:
    from matplotlib.container import BarContainer

    values, label = inner(packed["values"]), inner(packed["label"])
    items = [inner(item) for item in packed["v"]]
    return BarContainer(items, datavalues=values, orientation=packed["orientation"], label=label)


READERS: dict[str, Callable[[dict[str, Any], Inner], Any]] = {
    **{"array": _array, "masked": _masked, "dtype": _dtype, "sparse": _sparse, "graph": _graph},
    **{"image": _image, "bars": _bars},
}
