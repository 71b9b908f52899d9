"""Rows of a parquet file, with limits: 500 bytes of one may stand for gigabytes (a text repeated, lists of zeros)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from gym_llm.errors import DataError
from gym_llm.utils.extras import install
from gym_llm.utils.limits import EXPANSION, limit

_FREE_BYTES = 1 << 26  # what every row group may hold, however small its file is
_FREE_VALUES = 1 << 24
_BATCH_ROWS = 64
_POINTER_BYTES = 8


def read_parquet(path: str, start: int, max_row_bytes: int) -> Iterator[dict[str, Any]]:
    """The rows from row `start` on.

    Memory holds 64 rows, or `max_row_bytes` if they are larger. Repeated texts are kept once until it is known how
    large the rows are that they are in.

    Raises:
        DataError: If the file cannot be read, a row is larger than `max_row_bytes`, or a row group's content is more
            than `gym_llm.utils.limits` says.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise DataError(f"A parquet file needs pyarrow: {install('data')}.") from None
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            skipped, groups = start, list(range(file.num_row_groups))
            while groups and skipped >= (size := file.metadata.row_group(groups[0]).num_rows):
                skipped -= size
                del groups[0]
            rows = (row for group in groups for row in _group_rows(path, file, group, max_row_bytes))
            yield from islice(rows, skipped, None)
    except pyarrow.ArrowException as error:
        raise DataError(f"{path} is not a readable parquet file: {error}") from None
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from None


def _group_rows(path: str, file: Any, group: int, max_row_bytes: int) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet

    metadata = file.metadata.row_group(group)
    columns = [metadata.column(index) for index in range(metadata.num_columns)]
    _check_expansion(path, group, columns)
    repeated = [
        column.path_in_schema
        for column in columns
        if column.physical_type == "BYTE_ARRAY" and any("DICTIONARY" in encoding for encoding in column.encodings)
    ]
    plain = file.iter_batches(_BATCH_ROWS, row_groups=[group])
    with pyarrow.parquet.ParquetFile(path, read_dictionary=repeated) as compact:
        # Two readers side by side: this one knows how large the rows are and is slow to make objects of them.
        for batch in compact.iter_batches(_BATCH_ROWS, row_groups=[group]):
            if plain is not None and sum(map(_size, batch.columns)) <= max_row_bytes:
                yield from next(plain).to_pylist()
                continue
            plain = None  # its next batch would be the large one
            for index in range(batch.num_rows):
                row = batch.slice(index, 1)
                if sum(map(_size, row.columns)) > max_row_bytes:
                    raise DataError(f"{path} has a row of more than {max_row_bytes >> 20} MiB in row group {group}.")
                yield from row.to_pylist()


def _check_expansion(path: str, group: int, columns: list[Any]) -> None:
    times = limit(EXPANSION)  # text is 3 to 20 times larger, the same row again and again some hundred times
    compressed = sum(column.total_compressed_size for column in columns)
    content = sum(column.total_uncompressed_size for column in columns)
    values = sum(column.num_values for column in columns)
    if content > _FREE_BYTES + times * compressed or values > _FREE_VALUES + times * compressed:
        raise DataError(
            f"{path}: row group {group} expands from {compressed:,} bytes to {content >> 20:,} MiB, over "
            f"{times:,} times: see {EXPANSION}."
        )


def _size(array: Any) -> int:
    """About how many bytes an array's values take as Python objects; a repeated text counts each time."""
    import pyarrow
    import pyarrow.compute as compute

    kinds, overhead = pyarrow.types, _POINTER_BYTES * len(array)
    if kinds.is_dictionary(array.type):
        lengths = compute.binary_length(array.dictionary).cast("int64")
        return overhead + (compute.sum(lengths.take(array.indices)).as_py() or 0)
    if kinds.is_struct(array.type):
        return overhead + sum(map(_size, array.flatten()))
    if kinds.is_list(array.type) or kinds.is_large_list(array.type):
        return overhead + _size(array.flatten())
    return overhead + int(array.nbytes)
