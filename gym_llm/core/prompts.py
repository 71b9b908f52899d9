"""Prompts of rows without `input`, read from YAML files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from gym_llm.errors import DataError
from gym_llm.types import Item, Row


class PromptTexts(NamedTuple):
    """The texts of a prompt's messages."""

    user: str
    system: str | None = None

    @property
    def by_role(self) -> dict[str, str]:
        """The texts in the order of their messages."""
        return {"user": self.user} if self.system is None else {"system": self.system, "user": self.user}

    def messages(self, values: Mapping[str, Any]) -> list[Item]:
        """The messages with these values in their places (`str.format_map`); a value may hold braces."""
        return [{"role": role, "content": text.format_map(values)} for role, text in self.by_role.items()]


def read_content(path: str, *, plain: bool = False) -> Any:
    """Read a prompt file: YAML, or the plain text of `user`. Callers must not change the result.

    The process keeps the content until the file changes.

    Raises:
        DataError: If the file cannot be read.
    """
    try:
        status = Path(path).stat()
    except OSError as error:
        raise DataError(f"Cannot read the prompt {path}: {error.strerror or error}.") from None
    return _read(path, plain, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _read(path: str, plain: bool, _mtime_ns: int, _size: int) -> Any:
    import yaml  # takes 20 ms, and only those who have prompts need it

    try:
        text = Path(path).read_text("utf-8")
        return {"user": text} if plain else yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise DataError(f"Cannot read the prompt {path}: {' '.join(str(error).split())}.") from None


def texts_of(content: Any, name: str) -> PromptTexts:
    """The texts that a mapping has; `name` is for the DataError if it has none."""
    if not isinstance(content, dict) or not isinstance(content.get("user"), str):
        raise DataError(f"The prompt {name} has to have a text `user`, and may have a text `system`.")
    system = content.get("system")
    if not isinstance(system, str | None):
        raise DataError(f"The prompt {name}: `system` is a text, got {type(system).__name__}.")
    return PromptTexts(content["user"], system)


_PARAMS = "responses_create_params"


class RowPrompt(NamedTuple):
    """The messages that a row begins with, with places for its fields."""

    path: str
    texts: PromptTexts
    only_where_missing: bool = False
    """Whether rows that have their own `input` keep it; else that is an error."""

    def fill(self, row: Row) -> Row:
        """The row with its input.

        Raises:
            DataError: If it has another one already, or lacks a field that the prompt names.
        """
        params = row.get(_PARAMS)
        given = params.get("input") if isinstance(params, dict) else None
        if given and self.only_where_missing:
            return row
        messages = self._messages(row)
        if given == messages:
            return row
        if given:
            raise DataError(f"the row has `input`, and {self.path} is a prompt to make one: use one of them")
        return {**row, _PARAMS: {**(params if isinstance(params, dict) else {}), "input": messages}}

    def _messages(self, row: Row) -> list[Item]:
        try:
            return self.texts.messages(row)
        except KeyError as error:
            fields = ", ".join(str(name) for name in row if name != _PARAMS)
            raise DataError(f"the prompt {self.path} needs {error}, which the row has not; it has {fields}") from None
        except (ValueError, IndexError, AttributeError, TypeError) as error:
            raise DataError(f"the prompt {self.path} cannot be filled from the row: {error}") from None


def read_row_prompt(path: str) -> RowPrompt:
    """Read the prompt in a file; the process keeps it until the file changes.

    Raises:
        DataError: If the file cannot be read or has no prompt.
    """
    return RowPrompt(path, texts_of(read_content(path), path))
