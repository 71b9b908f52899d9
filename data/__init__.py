"""Task files and rollout files: reading, checking, appending."""

from typing import Any

from gym_llm.data.files.datasets import DatasetConfig
from gym_llm.data.files.jsonl import append_line, read_jsonl, repair_tail
from gym_llm.errors import DataError
from gym_llm.utils.json_codec import dumps

__all__ = ["DataError", "DatasetConfig", "append_line", "dumps", "read_jsonl", "read_records", "repair_tail"]


def __getattr__(name: str) -> Any:
    if name == "read_records":  # on first use: records, a layer of their own, read JSON Lines with this package
        from gym_llm.records.record_files import read_records

        return read_records
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
