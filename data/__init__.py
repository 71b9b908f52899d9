"""Task files and rollout files: reading, checking, appending."""

from gym_llm.data.files.datasets import DatasetConfig
from gym_llm.data.files.jsonl import append_line, dumps, read_jsonl, repair_tail
from gym_llm.errors import DataError
from gym_llm.records.record_files import read_records

__all__ = ["DataError", "DatasetConfig", "append_line", "dumps", "read_jsonl", "read_records", "repair_tail"]
