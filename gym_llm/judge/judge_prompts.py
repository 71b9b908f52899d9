"""Prompts of judges: YAML files with a `user` and perhaps a `system` message, filled with values."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

from gym_llm.core.prompts import PromptTexts, read_content, texts_of
from gym_llm.errors import DataError
from gym_llm.types import Item

_MARK = re.compile(r"<(/?[\w|][^<>{}\n]{0,60}>)")


class Prompt(NamedTuple):
    """Messages with places for values, `{question}`, and these places' names."""

    texts: PromptTexts
    fields: frozenset[str]

    def messages(self, values: Mapping[str, Any]) -> list[Item]:
        """Return the prompt with these values in their places; a value may hold braces.

        A mark of the prompt, such as `<|end of answer|>`, gets a space in a value: `< |end of answer|>`. An answer
        therefore cannot pretend to end and address the judge as the prompt does.
        """
        marks = _marks(self.texts)
        if marks is not None:
            values = {
                name: marks.sub(r"< \1", value) if isinstance(value, str) and "<" in value else value
                for name, value in values.items()
            }
        return [{**message, "type": "message"} for message in self.texts.messages(values)]


def read_prompt(path: str | Path) -> Prompt:
    """Read a prompt file: YAML, or a text file of the user's message; once per process and version.

    Raises:
        DataError: If the file is not a prompt.
    """
    name = str(path)
    return make_prompt(read_content(name, plain=not name.endswith((".yaml", ".yml"))), name)


def check_fields(prompt: Prompt, path: str, values: Collection[str]) -> None:
    """Raise a DataError if a prompt has a place for an unknown value."""
    if unknown := sorted(prompt.fields - set(values)):
        raise DataError(
            f"The prompt {path} has {{{unknown[0]}}}; its values are {', '.join(sorted(values))} "
            "(write a literal brace twice)."
        )


def make_prompt(content: Any, name: str = "") -> Prompt:
    """The prompt that a mapping with `user` and perhaps `system` says; `name` is for the DataError if it does not."""
    if isinstance(content, dict) and (others := sorted(map(str, content.keys() - {"system", "user"}))):
        raise DataError(f"The prompt {name} has a text `user`, perhaps a text `system`, and no {others[0]}.")
    return _prompt(texts_of(content, name), name)


@lru_cache(maxsize=256)
def _marks(texts: PromptTexts) -> re.Pattern[str] | None:
    marks = {mark for text in texts.by_role.values() for mark in _MARK.findall(text)}
    if not marks:
        return None
    return re.compile(f"<({'|'.join(re.escape(mark) for mark in sorted(marks))})", re.IGNORECASE)


@lru_cache(maxsize=256)
def _prompt(texts: PromptTexts, name: str) -> Prompt:
    fields: set[str] = set()
    for text in texts.by_role.values():
        try:
            for _, field, form, conversion in Formatter().parse(text):
                if field is not None:
                    if not field.isidentifier() or form or conversion:
                        raise ValueError(f"{{{field}}} is not a name")
                    fields.add(field)
        except ValueError as error:
            raise DataError(
                f"The prompt {name} is not a template: {error}; a brace of the text itself is written twice."
            ) from None
    return Prompt(texts, frozenset(fields))
