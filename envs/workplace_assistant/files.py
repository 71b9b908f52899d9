"""An office's tables in files, as NeMo Gym has them (its `csv_data`)."""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path

from gym_llm.envs.workplace_assistant.tables import OfficeData, Record
from gym_llm.errors import DataError

_COLUMNS = {
    "emails": ("emails", "email_id inbox/outbox sender/recipient subject sent_datetime body"),
    "events": ("calendar_events", "event_id event_name participant_email event_start duration"),
    "visits": (
        "analytics_data",
        "date_of_visit visitor_id page_views session_duration_seconds traffic_source user_engaged",
    ),
    "tasks": ("project_tasks", "task_id task_name assigned_to_email list_name due_date board"),
    "customers": (
        "customer_relationship_manager_data",
        "customer_id assigned_to_email customer_name customer_email customer_phone last_contact_date product_interest "
        "status follow_up_by notes",
    ),
}
_MAY_BE_EMPTY = {"subject", "body", *_COLUMNS["customers"][1].split()} - {"customer_id"}
_EMPTY = frozenset(
    ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
     "NULL", "NaN", "None", "n/a", "nan", "null")
)  # fmt: skip
"""What pandas, with which NeMo Gym reads its tables, takes for no value."""


@lru_cache(8)
def read_office(folder: str) -> OfficeData:
    """Read `processed/*.csv` and `raw/email_addresses.csv`.

    Args:
        folder: Where the two folders are.

    Raises:
        DataError: If a file is not there, or a column or a value is missing.
    """
    tables = {
        name: _table(Path(folder, "processed", f"{file}.csv"), columns) for name, (file, columns) in _COLUMNS.items()
    }
    for visit in tables["visits"]:
        visit["user_engaged"] = visit["user_engaged"] == "True"
    addresses = [line[0] for line in _lines(Path(folder, "raw", "email_addresses.csv")) if line]
    return OfficeData(read_office, folder, tables, addresses)


def _table(path: Path, columns: str) -> list[Record]:
    header, *lines = _lines(path) or [[]]
    if missing := set(columns.split()) - set(header):
        raise DataError(f"{path} has no column {sorted(missing)[0]!r}.")
    rows: list[Record] = []
    for number, line in enumerate(lines, 2):
        row = {name: None if value in _EMPTY else value for name, value in zip(header, line, strict=False)}
        for name in header:
            if row.get(name) is None and name not in _MAY_BE_EMPTY:
                raise DataError(f"{path}, row {number}: no {name}.")
        rows.append({name: row.get(name) for name in header})
    return rows


def _lines(path: Path) -> list[list[str]]:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return list(csv.reader(file))
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"Cannot read {path}: {getattr(error, 'strerror', None) or error}.") from None
