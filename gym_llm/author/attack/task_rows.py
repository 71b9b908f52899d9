"""Checks with other rows: observations must not depend on expectations, and an empty one must not be paid."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gym_llm.author.attack.attack_play import as_text, says
from gym_llm.author.attack.context import Context, NotApplicable
from gym_llm.author.attack.gold import with_value
from gym_llm.author.attack.right_answers import expectations
from gym_llm.core.tasks import PreparedTask
from gym_llm.errors import DataError


def other_value(path: tuple[str, ...], value: Any, others: list[PreparedTask]) -> Any:
    """Another value for a field: another task's, or this one changed a little."""
    for task in others:
        found: Any = task.row
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        if found is not None and found != value and type(found) is type(value):
            return found
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return str(int(value) + 1) if value.isdecimal() and len(value) < 15 else f"{value} zebra"
    return value[::-1] if isinstance(value, list) else value


def prepared(context: Context, row: dict[str, Any]) -> PreparedTask | None:
    """A row made ready, or None where the verifier refuses it."""
    try:
        return context.player.env.task_kind().prepare(row)
    except (DataError, TypeError, KeyError, ValueError):
        return None


def check_observations(context: Context) -> None:
    """Change what a row expects, and nothing else: the first observation and info must be the same."""
    tried = False
    for index, task in context.tasks.items():
        others = [each for at, each in context.tasks.items() if at != index]
        base = context.play(index, says("I do not know.")).opening
        for path, value in expectations(task, context.golds.get(index))[:4]:
            other = other_value(path, value, others)
            changed = prepared(context, with_value(task, path, other))
            if changed is None or other == value:
                continue
            tried = True
            again = context.play(index, says("I do not know."), changed).opening
            if again and base and again != base and as_text(other) != as_text(value):
                name = ".".join(path)
                shows = _shows(again, base, other) and _shows(base, again, value)
                if shows:
                    expected = f"an observation that does not depend on `{name}`"
                    context.find("leak", f"{name} is seen", "high", index, "reset", expected, _difference(base, again))  # type: ignore[arg-type]
    if not tried:
        raise NotApplicable("no field of a row says what is expected")


def _shows(text: str, other: str, value: Any) -> bool:
    said = json.dumps(value, ensure_ascii=False)
    inner = said[1:-1] if isinstance(value, str) else said
    return bool(inner) and text.count(inner) > other.count(inner)


def _difference(one: str, other: str) -> str:
    place = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
    return f"{one[max(0, place - 30) : place + 40]!r}, then {other[max(0, place - 30) : place + 40]!r}"


def check_empty_rows(context: Context) -> None:
    """Empty what a row expects: it is refused, or whatever is answered is not paid for it."""
    tried = False
    context.quiet = True  # a row that nobody would write may be refused in any way
    try:
        tried = _empty_rows(context)
    finally:
        context.quiet = False
    if not tried:
        raise NotApplicable("the verifier refuses rows that expect nothing, or rows say nothing of it")


def _empty_rows(context: Context) -> bool:
    tried = False
    empty: dict[type, Callable[[], Any]] = {str: str, list: list, dict: dict}
    for index, task in list(context.tasks.items())[:3]:
        gold = context.golds.get(index)
        fields = expectations(task, gold)[:4] + [
            ((name,), value) for name, value in task.row.items() if "regex" in name or "pattern" in name
        ]
        for path, value in fields:
            for blank in [empty[type(value)]()] if type(value) in empty else []:
                changed = prepared(context, with_value(task, path, blank)) if blank != value else None
                if changed is None:
                    continue
                tried = True
                turns = (
                    gold.say("zebra lantern") if gold is not None and gold.text is not None else says("zebra lantern")
                )
                played, real = context.play(index, turns, changed), context.play(index, turns)
                paid = played.reward is not None and (
                    gold.pays(played.reward) if gold is not None else played.reward >= 1.0 > (real.reward or 0.0)
                )
                if paid and context.pays(index, real) != "high" and isinstance(value, str):
                    name = ".".join(path)
                    expected = f"a row with an empty `{name}` refused, or not paid"
                    context.find("empty expectation", name, "medium", index, turns, expected, played)
    return tried
