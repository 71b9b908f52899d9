"""Calendar: appointments of a conversation, put where they may be (NeMo Gym's `calendar`)."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

from pydantic import BaseModel, FiniteFloat, model_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.envs.calendar.schedule import Event, Window, minutes, read_events, window
from gym_llm.grading.extraction import json_values

_DAY, _STEP = 24 * 60, 5  # minutes
_MOST_CHARACTERS = 100_000  # at an answer's end; a calendar has some hundreds


class ExpectedEvent(BaseModel):
    """An event: how long it is, between which times, and what else the user said of it."""

    duration: FiniteFloat
    min_time: str
    max_time: str
    constraint: str | None = None

    @model_validator(mode="after")
    def _readable(self) -> ExpectedEvent:
        _ = self.windows
        return self

    @cached_property
    def windows(self) -> tuple[Window, Window]:
        """Both have to allow it."""
        return Window(minutes(self.min_time), minutes(self.max_time)), window(self.constraint)

    def is_met(self, event: Event | None) -> bool:
        """Whether the model's event is as long and where it may be."""
        if event is None or event.duration != self.duration:
            return False
        return all(window.allows(event) for window in self.windows)


class Calendar(NemoCompatible):
    """Give the calendar that a conversation has led to; the reward is 1.0 if all events are where they may be.

    Detail: `reason`, a word: `pass`, or the first thing that is wrong.

    Args:
        conform: `"nemo"` reads as NeMo Gym does, where it is wrong; the README says where.
        **kwargs: As for every `VerifierEnv`.
    """

    reverify_mode = "stateless"

    class Task(BaseTask):
        """The events by id; without any, every answer is right."""

        exp_cal_state: dict[str, ExpectedEvent]

    def oracle(self, task: Task) -> str | None:
        """Every event at the first time that is free for it, those with the least choice first.

        None where that fails, and where no event is expected, for which every answer is right.
        """
        events: dict[str, Event] = {}
        choices = {
            name: [event for start in range(0, _DAY, _STEP) if one.is_met(event := Event(start, one.duration))]
            for name, one in task.exp_cal_state.items()
        }
        for name in sorted(choices, key=lambda each: len(choices[each])):
            free = (event for event in choices[name] if all(_apart(event, other) for other in events.values()))
            if (first := next(free, None)) is None:
                return None
            events[name] = first
        entries = [
            {
                "event_id": name,
                "start_time": f"{event.start // 60:02}:{event.start % 60:02}",
                "duration": event.duration,
            }
            for name, event in events.items()
        ]
        return json.dumps(entries) if entries else None

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Read the calendar in the last message and check it."""
        reason = self._problem(task.exp_cal_state, episode.last_item_text)
        return Verdict(float(reason is None), {"reason": reason or "pass"})

    def _problem(self, expected: dict[str, ExpectedEvent], text: str) -> str | None:
        if not text:
            return "no_answer"
        if "<think>" in text:
            return "think_found"
        if not expected:
            return None
        entries = self._calendar(text)
        if entries is None:
            return "no_json_list"
        events = read_events(entries, len(expected), self.conform is not None)
        if isinstance(events, str):
            return events
        met = all(event.is_met(events.get(name)) for name, event in expected.items())
        return None if met else "constraint_violated"

    def _calendar(self, text: str) -> list[Any] | None:
        """The last list of objects in the text, for NeMo Gym the first; None if there is none."""
        calendar = None
        for entries in json_values(text[-_MOST_CHARACTERS:], list):
            if self.conform:
                entries = _innermost(entries)
            if any(isinstance(entry, dict) for entry in entries):
                calendar = entries
                if self.conform:
                    break
        return calendar


def _apart(one: Event, other: Event) -> bool:
    return one.end <= other.start or other.end <= one.start


def _innermost(entries: list[Any]) -> list[Any]:
    """Of lists in lists the first that has no list in it, nor an object with one alone: all that NeMo Gym finds."""
    while (inner := next((entry for entry in entries if isinstance(entry, list)), None)) is not None:
        entries = inner
    plain = (isinstance(entry, dict) and not any(isinstance(v, list) for v in entry.values()) for entry in entries)
    return entries if any(plain) else []
