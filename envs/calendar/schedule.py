"""Whether events are where they have to be: clock times, the constraints of a row, what a model lists."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

_CLOCK = re.compile(r"(\d{1,2})(?::(\d{1,2}))?\s*(am|pm)?")
_LONGEST_CLOCK = 20
_CONSTRAINT = re.compile(r"(before|after|between|at) (.*)")


class Event(NamedTuple):
    """One entry of a model's calendar; times are minutes of the day."""

    start: float
    duration: float

    @property
    def end(self) -> float:
        """When it ends."""
        return self.start + self.duration


class Window(NamedTuple):
    """When an event may be: `start` is the only time at which it may begin, if there is one."""

    earliest: float = -math.inf
    latest: float = math.inf
    start: int | None = None

    def allows(self, event: Event) -> bool:
        """Whether an event is inside."""
        inside = self.earliest <= event.start and event.end <= self.latest
        return inside and (self.start is None or event.start == self.start)


@lru_cache(maxsize=1024)
def minutes(clock: str, *, any_case: bool = True) -> int:
    """Minutes of the day: `10:30` by 24 hours, `10am` or `10:30 pm` by twelve.

    Raises:
        ValueError: If it is no such time.

    >>> minutes("12:05am"), minutes("12 PM"), minutes("13:20")
    (5, 720, 800)
    """
    text = clock.strip()
    match = _CLOCK.fullmatch(text.lower() if any_case else text)
    hour, minute, half = match.groups() if match else ("", None, None)
    most = 12 if half else 24
    if match is None or (half is None and minute is None) or int(hour) > most or int(minute or 0) > 59:
        raise ValueError(f"{clock[:20]!r} is no time of day such as 14:30 or 2:30pm")
    hours = int(hour) % 12 + 12 * (half == "pm") if half else int(hour)
    return hours * 60 + int(minute or 0)


def window(constraint: str | None) -> Window:
    """What a constraint allows: `before T`, `after T`, `between T and T`, `at T`; anything else allows all.

    Raises:
        ValueError: If its times are none.
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


def read_events(entries: list[Any], count: int, as_nemo_gym: bool) -> dict[str, Event] | str:
    """A model's list as events by id, or what is wrong with it, in a word.

    NeMo Gym lets an event be listed twice, and takes the last of those that have the same id and do not overlap.

    Args:
        entries: The list.
        count: How many events there have to be.
        as_nemo_gym: Whether to read as NeMo Gym does.
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
    return "conflicting_events" if _overlap(event for _, event in taken) else events


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


def _overlap(events: Iterable[Event]) -> bool:
    end = -math.inf
    for event in sorted(events):
        if event.start < end:
            return True
        end = max(end, event.end)
    return False
