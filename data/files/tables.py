"""Tables as text: CSV and TSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from gym_llm.errors import DataError
from gym_llm.types import Row
from gym_llm.utils.limits import ROW_BYTES, limit


def read_table(path: str | Path, name: str, columns: Sequence[str] = ()) -> Iterator[Row]:
    """The rows of a CSV or TSV file; all values are texts.

    Args:
        path: The file.
        name: Its name, which says its format and is in messages.
        columns: The columns, if the file has no header.

    Raises:
        DataError: If the file cannot be read, or a line has another number of values than the header.
    """
    most = limit(ROW_BYTES)
    csv.field_size_limit(most)
    delimiter = "\t" if name.endswith(".tsv") else ","
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter)
            header = list(columns) or next(reader, [])
            for values in reader:
                if not values:
                    continue
                if len(values) != len(header):
                    raise DataError(f"{name}, line {reader.line_num}: {len(values)} values for {len(header)} columns.")
                yield dict(zip(header, values, strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{name} is not a readable table: {error}.") from None
    except OSError as error:
        raise DataError(f"Cannot read {name}: {error.strerror or error}.") from None
