"""Tables as text: CSV and TSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from gym_llm.errors import DataError
from gym_llm.types import Row
from gym_llm.utils.limits import ROW_BYTES, limit


def read_table(path: str | Path, name: str, columns: Sequence[str] = (), *, ragged: bool = False) -> Iterator[Row]:
    """The rows of a CSV or TSV file; all values are texts.

    Args:
        path: The file.
        name: Its name, which says its format and is in messages.
        columns: The columns, if the file has no header. A first line with their names is left out.
        ragged: Whether a line may lack its last values.

    Raises:
        DataError: If the file cannot be read, or a line has more values than the header, or fewer and is not `ragged`.
    """
    most = limit(ROW_BYTES)
    csv.field_size_limit(most)
    delimiter = "\t" if name.endswith(".tsv") else ","
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter)
            header = list(columns) or next(reader, [])
            for values in reader:
                if not values or (columns and reader.line_num == 1 and values == header):
                    continue
                if len(values) > len(header) or (len(values) < len(header) and not ragged):
                    raise DataError(f"{name}, line {reader.line_num}: {len(values)} values for {len(header)} columns.")
                yield dict(zip(header, values, strict=False))
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{name} is not a readable table: {error}.") from None
    except OSError as error:
        raise DataError(f"Cannot read {name}: {error.strerror or error}.") from None
