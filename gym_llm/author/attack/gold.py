"""A task's right answer, and the fields of a row that may name it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from gym_llm.author.attack.attack_play import Turn, says
from gym_llm.core.tasks import PreparedTask
from gym_llm.types import Row

EXPECTED = re.compile(
    r"^(expected|exp_|gold|ground_?truth|answer|solution|correct|reference|target|label|truth|outputs?$|secret|key$)|"
    r"(_answer|_answers|_label|_gold|_target|_solution)$",
    re.IGNORECASE,
)
"""Matches the names of fields that may hold the right answer."""

_FIRST = ("expected_answer", "expected", "answer", "gold", "ground_truth", "solution", "correct", "target", "label")
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")
_EPSILON = 1e-6


class Form(NamedTuple):
    """The text before and after an answer."""

    before: str
    after: str

    def __call__(self, text: str) -> str:
        """Return the answer in this form."""
        return f"{self.before}{text}{self.after}"


PLAIN = Form("", "")
FORMS = (
    PLAIN,
    Form("\\boxed{", "}"),
    Form("Answer: ", ""),
    Form("<answer>", "</answer>"),
    Form("The answer is ", "."),
)
"""The forms that are tried where a verifier has no `oracle`."""


@dataclass(slots=True)
class Gold:
    """A task's right answer.

    Attributes:
        turns: The model's turns that give it.
        reward: Their reward.
        floor: The reward of a wrong answer, or of "I do not know.".
        text: The answer alone, where it is a text.
        form: The text around it.
        kind: The kind of the text, as `kind_of` names it.
        value: The value in the row.
        source: `oracle`, or the name of the row's field.
        wrong: A wrong answer of the same kind.
    """

    turns: list[Turn]
    reward: float
    floor: float
    text: str | None = None
    form: Form = PLAIN
    kind: str = "other"
    value: Any = None
    source: str = "oracle"
    wrong: str = ""

    def pays(self, reward: float | None) -> bool:
        """Whether a reward is that of the right answer, or more."""
        return reward is not None and self.reward > self.floor and reward >= self.reward - _EPSILON

    def say(self, text: str, form: Form | None = None) -> list[Turn]:
        """Return turns that give this answer in the form of the right one."""
        return says((form or self.form)(text))


def kind_of(text: str) -> str:
    """Return the kind of an answer: `number`, `letter`, `boolean`, `list`, `json`, `math` or `text`.

    >>> [kind_of(text) for text in ("-4.5", "B", "yes", "Oslo", "24 m/s", "[1, 2]")]
    ['number', 'letter', 'boolean', 'text', 'math', 'list']
    """
    if _NUMBER.fullmatch(text.strip()):
        return "number"
    if text.startswith(("[", "{")) and text.endswith(("]", "}")):
        return "list" if text.startswith("[") else "json"
    if re.search(r"[\d\\^_=]", text) and not re.search(r"(?<![\\A-Za-z])[A-Za-z]{4,}", text):
        return "math"
    if len(text.strip()) == 1 and text.strip().isalpha():
        return "letter"
    return "boolean" if text.strip().lower() in ("yes", "no", "true", "false") else "text"


def wrong_for(text: str, kind: str) -> str:
    """Return a wrong answer of the same kind."""
    if kind == "number":
        value = float(text)
        other = 2 * value + 17
        return str(int(other)) if re.fullmatch(r"[-+]?\d+", text.strip()) else f"{other:.4f}"
    if kind == "letter":
        return "B" if text.strip().upper() == "A" else "A"
    if kind == "boolean":
        opposite = {"yes": "no", "no": "yes", "true": "false", "false": "true"}[text.strip().lower()]
        return opposite.capitalize() if text.strip()[0].isupper() else opposite
    if kind == "list":
        return '["zebra"]' if text.startswith("[") else "zebra"
    return "-999" if kind == "math" else "zebra"


def expected_fields(row: Row) -> list[tuple[tuple[str, ...], Any]]:
    """Return the fields of a row that may name the right answer, likeliest first: their paths and values."""
    fields: list[tuple[tuple[str, ...], Any]] = []
    for name, value in row.items():
        if name == "responses_create_params":
            continue
        if EXPECTED.search(name):
            fields.append(((name,), value))
        if isinstance(value, dict):
            fields += [((name, inner), each) for inner, each in value.items() if EXPECTED.search(inner)]
    return sorted(fields, key=lambda each: (len(each[0]), _FIRST.index(each[0][-1]) if each[0][-1] in _FIRST else 99))


def contrast(golds: dict[int, Gold | None]) -> None:
    """Use another task's right answer as the wrong one, where it is a text: it looks like an answer."""
    known = [gold for gold in golds.values() if gold is not None and gold.text is not None]
    for gold in known:
        others = [each for each in known if each.source == gold.source and each.kind == gold.kind in ("text", "math")]
        for other in others:
            one, two = (gold.text or "").casefold(), (other.text or "").casefold()
            if one not in two and two not in one:
                gold.wrong = other.text or ""
                break


def renderings(value: Any) -> Iterator[tuple[str, str]]:
    """Yield texts that say a value: (how, text).

    >>> [text for _, text in renderings([1, 2])][:2]
    ['[1, 2]', '1, 2']
    """
    if isinstance(value, bool):
        yield from (
            ("boolean", text)
            for text in (("yes", "Yes", "true", "True", "1") if value else ("no", "No", "false", "False", "0"))
        )
    elif isinstance(value, int | float):
        yield "number", repr(value)
    elif isinstance(value, str):
        if value.strip():
            yield "text", value.strip()
        try:
            inner = json.loads(value)
        except ValueError:
            return
        if isinstance(inner, list | dict):
            yield from renderings(inner)
    elif isinstance(value, list) and value:
        texts = [each if isinstance(each, str) else json.dumps(each) for each in value]
        yield from (("list", text) for text in (json.dumps(value), ", ".join(texts), "\n".join(texts), " ".join(texts)))
        yield "list", "; ".join(texts)
        if len(texts) == 1 or all(isinstance(each, str) for each in value):
            yield "text", texts[0]
    elif isinstance(value, dict) and value:
        yield "json", json.dumps(value)
        for inner in list(value.values())[:3]:
            if isinstance(inner, str | int | float):
                yield "text", str(inner)


def prompt_text(task: PreparedTask) -> str:
    """Return the text of a task's first request."""
    texts = [str(task.request.get("instructions") or "")]
    for item in task.request["input"]:
        content = item.get("content")
        parts = content if isinstance(content, list) else [{"text": content}]
        texts += [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return "\n".join(filter(None, texts))


_TOLERANCE = re.compile(
    r"(?:within|tolerance(?: of)?|accurate to|estimate to|error of|±|\+/-)\s*(\d{1,3}(?:\.\d{1,6})?)\s*(?:%|percent)",
    re.IGNORECASE,
)


def stated_tolerance(prompt: str) -> float:
    """Return the tolerance that a prompt states, as a share of the right number; 0.0 without one.

    >>> stated_tolerance("Estimate to 5 %: ..."), stated_tolerance("What is 5 % of 80?")
    (0.05, 0.0)
    """
    return max((float(share) / 100 for share in _TOLERANCE.findall(prompt)), default=0.0)


def with_value(task: PreparedTask, path: tuple[str, ...], value: Any) -> Row:
    """Return the task's row with another value in one field."""
    if len(path) == 1:
        return {**task.row, path[0]: value}
    return {**task.row, path[0]: {**task.row[path[0]], path[1]: value}}
