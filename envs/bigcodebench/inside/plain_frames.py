"""Convert pandas' values to JSON and back: frames, series, indexes and single times, built by pandas' constructors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas
from pandas.core.frame import DataFrame
from pandas.core.series import Series

Inner = Callable[[Any], Any]


def pack(value: Any, inner: Inner) -> Any:
    """Return a value of pandas as JSON has it; None for any other value."""
    kind = type(value)
    if issubclass(kind, DataFrame):
        columns = [_column(value.iloc[:, place].array, inner) for place in range(value.shape[1])]
        return {"t": "pandas.frame", "v": columns, "names": inner(value.columns), "index": inner(value.index)}
    if issubclass(kind, Series):
        return {"t": "pandas.series", "v": _column(value.array, inner), "name": inner(value.name),
                "index": inner(value.index)}  # fmt: skip
    if issubclass(kind, pandas.Index):
        return _index(value, inner)
    if issubclass(kind, pandas.api.extensions.ExtensionArray):
        return {"t": "pandas.array", "v": _column(value, inner)}
    if value is pandas.NaT or value is pandas.NA:
        return {"t": "pandas.missing", "v": str(value)}
    if issubclass(kind, pandas.Timestamp):
        return {"t": "pandas.timestamp", "v": value.value, "zone": None if value.tz is None else str(value.tz)}
    if issubclass(kind, pandas.Timedelta):
        return {"t": "pandas.timedelta", "v": value.value}
    if issubclass(kind, pandas.Period):
        return {"t": "pandas.period", "v": str(value), "freq": value.freqstr}
    if issubclass(kind, pandas.Interval):
        return {"t": "pandas.interval", "v": [inner(value.left), inner(value.right)], "closed": value.closed}
    if issubclass(kind, pandas.CategoricalDtype):
        return {"t": "pandas.categories", "v": inner(value.categories), "ordered": value.ordered}
    if issubclass(kind, pandas.api.extensions.ExtensionDtype):
        return {"t": "pandas.dtype", "v": str(value)}
    return None


def _column(array: Any, inner: Inner) -> Any:
    dtype = array.dtype
    if isinstance(array, pandas.Categorical):
        return {"codes": inner(array.codes), "categories": inner(array.categories), "ordered": bool(array.ordered)}
    if isinstance(dtype, pandas.DatetimeTZDtype):
        return {"zone": str(dtype.tz), "items": inner(array.asi8), "unit": getattr(dtype, "unit", "ns")}
    of_numpy = type(array).__name__ in ("PandasArray", "NumpyExtensionArray")
    if isinstance(dtype, pandas.api.extensions.ExtensionDtype) and not of_numpy:
        return {"dtype": str(dtype), "items": inner(list(array))}
    return inner(array.to_numpy())


def _index(value: Any, inner: Inner) -> Any:
    names = inner(list(value.names))
    if isinstance(value, pandas.MultiIndex):
        return {"t": "pandas.levels", "v": [inner(level) for level in value.levels],
                "codes": [inner(code) for code in value.codes], "names": names}  # fmt: skip
    if isinstance(value, pandas.RangeIndex):
        return {"t": "pandas.range", "v": [value.start, value.stop, value.step], "names": names}
    freq = getattr(value, "freqstr", None) if isinstance(value, pandas.DatetimeIndex) else None
    return {"t": "pandas.index", "v": _column(value.array, inner), "names": names, "freq": freq}


def unpack(packed: dict[str, Any], inner: Inner) -> Any:
    """Return the value of pandas that JSON of `pack` stands for."""
    return _READERS[packed["t"].partition(".")[2]](packed, inner)


def _array(packed: Any, inner: Inner) -> Any:
    if "codes" in packed:
        categories = inner(packed["categories"])
        return pandas.Categorical.from_codes(inner(packed["codes"]), categories=categories, ordered=packed["ordered"])
    if "zone" in packed:
        times = inner(packed["items"]).view(
            f"M8[{'ns' if packed['unit'] not in ('s', 'ms', 'us') else packed['unit']}]"
        )
        return pandas.DatetimeIndex(times).tz_localize("UTC").tz_convert(str(packed["zone"])).array
    if "items" in packed:
        return pandas.array(inner(packed["items"]), dtype=str(packed["dtype"]))
    return inner(packed)


def _frame(packed: dict[str, Any], inner: Inner) -> Any:
    index = inner(packed["index"])
    columns = {place: _array(column, inner) for place, column in enumerate(packed["v"])}
    frame = DataFrame({place: Series(column, index=index) for place, column in columns.items()}, index=index)
    frame.columns = inner(packed["names"])
    return frame


def _series(packed: dict[str, Any], inner: Inner) -> Any:
    return Series(_array(packed["v"], inner), index=inner(packed["index"]), name=inner(packed["name"]))


def _levels(packed: dict[str, Any], inner: Inner) -> Any:
    levels, codes = ([inner(part) for part in packed[name]] for name in ("v", "codes"))
    return pandas.MultiIndex(levels=levels, codes=codes, names=inner(packed["names"]))


def _read_index(packed: dict[str, Any], inner: Inner) -> Any:
    array = _array(packed["v"], inner)
    dtype = object if str(getattr(array, "dtype", "")) == "object" else None
    index = pandas.Index(array, dtype=dtype, name=inner(packed["names"])[0])
    if packed["freq"] is not None:
        index.freq = str(packed["freq"])  # type: ignore[attr-defined]
    return index


def _timestamp(packed: dict[str, Any], inner: Inner) -> Any:
    time = pandas.Timestamp(int(packed["v"]))
    return time if packed["zone"] is None else time.tz_localize("UTC").tz_convert(str(packed["zone"]))


_READERS: dict[str, Callable[[dict[str, Any], Inner], Any]] = {
    "frame": _frame,
    "series": _series,
    "levels": _levels,
    "index": _read_index,
    "range": lambda packed, inner: pandas.RangeIndex(*map(int, packed["v"]), name=inner(packed["names"])[0]),
    "array": lambda packed, inner: _array(packed["v"], inner),
    "missing": lambda packed, inner: {"NaT": pandas.NaT, "<NA>": pandas.NA}[packed["v"]],
    "timestamp": _timestamp,
    "timedelta": lambda packed, inner: pandas.Timedelta(int(packed["v"])),
    "period": lambda packed, inner: pandas.Period(str(packed["v"]), freq=str(packed["freq"])),
    "interval": lambda packed, inner: pandas.Interval(*map(inner, packed["v"]), closed=packed["closed"]),
    "categories": lambda packed, inner: pandas.CategoricalDtype(inner(packed["v"]), packed["ordered"]),
    "dtype": lambda packed, inner: pandas.api.types.pandas_dtype(str(packed["v"])),
}
