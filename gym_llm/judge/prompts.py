"""Prompts of judges: YAML files with a `user` and perhaps a `system` message, filled with values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

import yaml

from gym_llm.types import Item


class Prompt(NamedTuple):
    """Messages with places for values, `{question}`."""

    system: str | None
    user: str
    fields: frozenset[str]

    def messages(self, values: Mapping[str, Any]) -> list[Item]:
        """The prompt with these values in their places. What is in a value is not looked at: it may hold braces."""
        messages: list[Item] = []
        if self.system is not None:
            messages.append({"role": "system", "content": self.system.format_map(values), "type": "message"})
        messages.append({"role": "user", "content": self.user.format_map(values), "type": "message"})
        return messages


def read_prompt(path: str | Path) -> Prompt:
    """The prompt in a file: YAML, or a text file of the user's message; read once per process and version.

    Raises:
        ValueError: If it is none; one sentence that names the file.
    """
    try:
        return _read(str(path), Path(path).stat().st_mtime_ns)
    except OSError as error:
        raise ValueError(f"The judge's prompt {path} cannot be read: {error.strerror}.") from None


def check_fields(prompt: Prompt, path: str, values: Collection[str]) -> None:
    """Check that a prompt has no place for a value that nobody gives; a ValueError says which."""
    if unknown := sorted(prompt.fields - set(values)):
        raise ValueError(
            f"The judge's prompt {path} has a place for {{{unknown[0]}}}, but the values are "
            f"{', '.join(sorted(values))} (a brace of the text itself is written twice)."
        )


@cache
def _read(path: str, version: int) -> Prompt:
    try:
        text = Path(path).read_text("utf-8")
        content = yaml.safe_load(text) if path.endswith((".yaml", ".yml")) else {"user": text}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"The judge's prompt {path} cannot be read: {' '.join(str(error).split())}.") from None
    return make_prompt(content, path)


def make_prompt(content: Any, name: str = "") -> Prompt:
    """The prompt that a mapping with `user` and perhaps `system` says; `name` is for the ValueError if it does not."""
    if not isinstance(content, dict) or not set(content) <= {"system", "user"} or "user" not in content:
        raise ValueError(f"The judge's prompt {name} has a text `user`, and perhaps one `system`, and nothing else.")
    fields: set[str] = set()
    for role, text in content.items():
        if not isinstance(text, str):
            raise ValueError(f"The judge's prompt {name}: `{role}` is a text, got {type(text).__name__}.")
        try:
            for _, field, form, conversion in Formatter().parse(text):
                if field is not None:
                    if not field.isidentifier() or form or conversion:
                        raise ValueError(f"{{{field}}} is no name of a value")
                    fields.add(field)
        except ValueError as error:
            raise ValueError(
                f"The judge's prompt {name} is no template: {error}; a brace of the text itself is written twice."
            ) from None
    return Prompt(content.get("system"), content["user"], frozenset(fields))
