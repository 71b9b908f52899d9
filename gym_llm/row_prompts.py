"""Prompts of rows that come without `input`: a YAML file with `user` and perhaps `system`, filled with a row's fields.

NeMo Gym's `prompt_config`: `{question}` stands for the row's top-level field (`str.format_map`), a brace of the text
itself is written twice. The other fields of `responses_create_params` stay. A row that has `input` and a prompt is an
error, unless it is just what the prompt makes of it: as in a row that was prepared, or is read from a record.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from gym_llm.errors import DataError
from gym_llm.types import Row

_PARAMS = "responses_create_params"


class RowPrompt(NamedTuple):
    """The messages that a row begins with, with places for its fields."""

    path: str
    user: str
    system: str | None = None
    only_where_missing: bool = False
    """Whether rows that have their own `input` keep it; else that is an error."""

    @property
    def texts(self) -> dict[str, str]:
        """Its messages, by role."""
        return {"user": self.user} if self.system is None else {"system": self.system, "user": self.user}

    def fill(self, row: Row) -> Row:
        """The row with its input.

        Raises:
            DataError: If it has another one already, or lacks a field that the prompt names.
        """
        params = row.get(_PARAMS)
        given = params.get("input") if isinstance(params, dict) else None
        if given and self.only_where_missing:
            return row
        messages = [{"role": role, "content": self._filled(text, row)} for role, text in self.texts.items()]
        if given == messages:
            return row
        if given:
            raise DataError(f"the row has `input`, and {self.path} is a prompt to make one: use one of them")
        return {**row, _PARAMS: {**(params if isinstance(params, dict) else {}), "input": messages}}

    def _filled(self, text: str, row: Row) -> str:
        try:
            return text.format_map(row)
        except KeyError as error:
            fields = ", ".join(str(name) for name in row if name != _PARAMS)
            raise DataError(f"the prompt {self.path} needs {error}, which the row has not; it has {fields}") from None
        except (ValueError, IndexError, AttributeError, TypeError) as error:
            raise DataError(f"the prompt {self.path} cannot be filled from the row: {error}") from None


def read_row_prompt(path: str) -> RowPrompt:
    """The prompt in a file, read once per process and version of it.

    Raises:
        DataError: If it cannot be read, or is none.
    """
    try:
        status = Path(path).stat()
    except OSError as error:
        raise DataError(f"Cannot read the prompt {path}: {error.strerror or error}.") from None
    return _read(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _read(path: str, _mtime_ns: int, _size: int) -> RowPrompt:
    import yaml  # takes 20 ms, and only those who have prompts need it

    try:
        content: Any = yaml.safe_load(Path(path).read_text("utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise DataError(f"Cannot read the prompt {path}: {' '.join(str(error).split())}.") from None
    if not isinstance(content, dict) or not isinstance(content.get("user"), str):
        raise DataError(f"The prompt {path} has to have a text `user`, and may have a text `system`.")
    system = content.get("system")
    if not isinstance(system, str | None):
        raise DataError(f"The prompt {path}: `system` is a text, got {type(system).__name__}.")
    return RowPrompt(path, content["user"], system)
