"""Events of a calendar: clock times, the constraints of a row and the list that a model writes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

_CLOCK = re.compile(r"(\d{1,2})(?::(\d{1,2}))?\s*(am|pm)?")
_LONGEST_CLOCK = 20
_CONSTRAINT = re.compile(r"(before|after|between|at) (.*)")
_NEMO_PART = r"(?:[^\[\]]|\{[^}]*\})*"
_NEMO_LIST = re.compile(rf"\[{_NEMO_PART}\{{{_NEMO_PART}\}}{_NEMO_PART}\]")
"""A list with braces in it, and no list in it but between braces."""


class Event(NamedTuple):
    """An entry of a model's calendar, in minutes of the day."""

    start: float
    duration: float

    @property
    def end(self) -> float:
        """The minute at which it ends."""
        return self.start + self.duration


class Window(NamedTuple):
    """The times allowed to an event; `start` is the only allowed beginning, unless it is None."""

    earliest: float = -math.inf
    latest: float = math.inf
    start: int | None = None

    def allows(self, event: Event) -> bool:
        """Return whether an event lies inside."""
        inside = self.earliest <= event.start and event.end <= self.latest
        return inside and (self.start is None or event.start == self.start)


@lru_cache(maxsize=1024)
def minutes(clock: str, *, any_case: bool = True) -> int:
    """Return the minute of the day of a time such as `10:30`, `10am` or `10:30 pm`.

    Raises:
        ValueError: If the text is not a time of day.

    >>> minutes("12:05am"), minutes("12 PM"), minutes("13:20")
    (5, 720, 800)
    """
    text = clock.strip()
    match = _CLOCK.fullmatch(text.lower() if any_case else text)
    hour, minute, half = match.groups() if match else ("", None, None)
    most = 12 if half else 24
    if match is None or (half is None and minute is None) or int(hour) > most or int(minute or 0) > 59:
        raise ValueError(f"{clock[:20]!r} is not a time of day such as 14:30 or 2:30pm")
    hours = int(hour) % 12 + 12 * (half == "pm") if half else int(hour)
    return hours * 60 + int(minute or 0)


def window(constraint: str | None) -> Window:
    """Return the window of a constraint: `before T`, `after T`, `between T and T`, `at T`; others allow all times.

    Raises:
        ValueError: If a time is invalid.
    """
    match = _CONSTRAINT.match(constraint or "")
    if match is None:
        return Window()
    kind, times = match.groups()
    if kind == "between":
        first, _, last = times.partition(" and ")
        return Window(minutes(first), minutes(last))
    time = minutes(times)
    if kind == "at":
        return Window(start=time)
    return Window(latest=time) if kind == "before" else Window(earliest=time)


def first_list_as_nemo_gym(text: str) -> list[Any] | None:
    """Return the first list with an object that NeMo Gym's pattern finds; call this in a worker process."""
    match = _NEMO_LIST.search(text)
    try:
        return json.loads(match[0]) if match else None
    except (ValueError, RecursionError):
        return None


def read_events(entries: list[Any], count: int, as_nemo_gym: bool) -> dict[str, Event] | str:
    """Return the events of a model's list by id, or the name of the list's problem.

    Args:
        entries: The list.
        count: The number of expected events.
        as_nemo_gym: Whether an id may be listed twice. Then its last event counts, and none may overlap another.
    """
    if not all(isinstance(entry, dict) and "event_id" in entry for entry in entries):
        return "invalid_event"
    names = [str(entry["event_id"]) for entry in entries]
    if len(set(names)) != count:
        return "different_number_of_events"
    if len(names) > count and not as_nemo_gym:
        return "conflicting_events"
    events: dict[str, Event] = {}
    taken: set[tuple[str, Event]] = set()
    for name, entry in zip(names, entries, strict=True):
        event = _read(entry, as_nemo_gym)
        if event is None:
            return "invalid_event"
        events[name] = event
        taken.add((name, event))
    return "conflicting_events" if overlap(event for _, event in taken) else events


def _read(entry: dict[str, Any], as_nemo_gym: bool) -> Event | None:
    start, duration = entry.get("start_time"), entry.get("duration")
    if (
        not isinstance(start, str)
        or len(start) > _LONGEST_CLOCK
        or not isinstance(duration, int | float)
        or not 0 <= duration < 1e6
    ):
        return None
    try:
        return Event(minutes(start, any_case=not as_nemo_gym), float(duration))
    except ValueError:
        return None


def overlap(events: Iterable[Event]) -> bool:
    """Return whether two events overlap."""
    end = -math.inf
    for event in sorted(events):
        if event.start < end:
            return True
        end = max(end, event.end)
    return False
