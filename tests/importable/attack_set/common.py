"""What the verifiers of this set share: rows of their own, ids, and how an answer's last line is read."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import gymnasium as gym

from gym_llm import VerifierEnv
from gym_llm.types import Item, Row


class OwnRows(VerifierEnv):
    """A verifier that plays the rows of its class, unless it is given others."""

    rows: ClassVar[list[Row]] = []

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(self.rows if tasks is None else tasks, **kwargs)

    def oracle(self, task: Any) -> str | list[Item] | None:
        """The turn that gets the highest reward there is.

        It is said again where the user asks on; after calls that are run `Done.` is said.
        """
        raise NotImplementedError(f"{type(self).__name__} has to define oracle(self, task).")


def register(namespace: dict[str, Any]) -> None:
    """Register the verifiers of a module (its `globals()`) under their classes' names."""
    module = namespace["__name__"]
    for name, value in namespace.items():
        if isinstance(value, type) and issubclass(value, VerifierEnv) and value.__module__ == module and value.rows:
            gym.register(name, entry_point=f"{module}:{name}")


def row(prompt: str, tools: list[dict[str, Any]] | None = None, **fields: Any) -> Row:
    """A row that asks this and has these verifier fields."""
    params: dict[str, Any] = {"input": prompt} if tools is None else {"input": prompt, "tools": tools}
    return {"responses_create_params": params, **fields}


def call(name: str, arguments: dict[str, Any] | str, number: int = 1) -> Item:
    """A model's call; arguments that are a str are sent as they are."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"type": "function_call", "name": name, "arguments": text, "call_id": f"call_{number}"}


def answer_line(text: str) -> str:
    """What follows `Answer:` in the last line of a text; "" where that line does not begin with it.

    >>> answer_line("Perhaps Rome.\\nAnswer: Lima "), answer_line("Answer: Lima, I think.\\nWell.")
    ('Lima', '')
    """
    line = text.rstrip().rpartition("\n")[2].strip()
    return line.removeprefix("Answer:").strip() if line.startswith("Answer:") else ""


def listed(text: str) -> list[str]:
    """The items of a list with commas, in lower case, without the empty ones."""
    return [item for part in text.split(",") if (item := part.strip().casefold())]
