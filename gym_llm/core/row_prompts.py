"""Prompts of rows that come without `input`: a YAML file with `user` and perhaps `system`, filled with a row's fields.

NeMo Gym's `prompt_config`: `{question}` stands for the row's top-level field (`str.format_map`), a brace of the text
itself is written twice. The other fields of `responses_create_params` stay. A row that has `input` and a prompt is an
error, unless it is just what the prompt makes of it: as in a row that was prepared, or is read from a record.
"""

from __future__ import annotations

from typing import NamedTuple

from gym_llm.core.prompt_files import PromptTexts, read_content, texts_of
from gym_llm.errors import DataError
from gym_llm.types import Item, Row

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
    """The prompt in a file, read once per process and version of it.

    Raises:
        DataError: If it cannot be read, or is none.
    """
    return RowPrompt(path, texts_of(read_content(path), path))
