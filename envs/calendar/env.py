"""Calendar: appointments from a conversation, each at an allowed time (NeMo Gym's `calendar`)."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable
from functools import cached_property
from typing import Any

from pydantic import BaseModel, FiniteFloat, model_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.envs.calendar.schedule import Event, Window, minutes, overlap, read_events, window
from gym_llm.grading.extraction import json_values
from gym_llm.grading.text_metrics import in_worker

_DAY, _STEP = 24 * 60, 5  # minutes
_DEADLINE = 2.0  # seconds of CPU time; NeMo Gym's pattern takes exponential time on lists that are cut off
_MOST_CHARACTERS = 100_000  # read from an answer's end; a calendar has some hundreds


class ExpectedEvent(BaseModel):
    """An event: its minutes, the day's limits and the user's constraint."""

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
        """The windows of the day and of the constraint; an event must lie in both."""
        return Window(minutes(self.min_time), minutes(self.max_time)), window(self.constraint)

    def is_met(self, event: Event | None) -> bool:
        """Return whether the model's event has this duration and an allowed time."""
        if event is None or event.duration != self.duration:
            return False
        return all(window.allows(event) for window in self.windows)


class Calendar(NemoCompatible):
    """Write the calendar that a conversation asks for; the reward is 1.0 if every event has an allowed time.

    Detail: `reason`: `pass`, or a name for the first problem.

    Args:
        conform: `"nemo"` reads calendars as NeMo Gym does; the README lists the differences.
        **kwargs: As for every `VerifierEnv`.
    """

    reverify_mode = "stateless"

    class Task(BaseTask):
        """The events by id; without events every answer is right."""

        exp_cal_state: dict[str, ExpectedEvent]

    def oracle(self, task: Task) -> str | None:
        """Return each event at its first free time, those with the fewest choices first.

        The result is None if that fails, or if no events are expected.
        """
        events: dict[str, Event] = {}
        choices = {
            name: [event for start in range(0, _DAY, _STEP) if one.is_met(event := Event(start, one.duration))]
            for name, one in task.exp_cal_state.items()
        }
        for name in sorted(choices, key=lambda each: len(choices[each])):
            free = (event for event in choices[name] if not overlap([event, *events.values()]))
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

    def verify(self, task: Task, episode: Episode) -> Verdict | Awaitable[Verdict]:
        """Check the calendar in the last message."""
        text, expected = episode.last_item_text, task.exp_cal_state
        if not text or "<think>" in text or not expected:
            return _verdict("think_found" if "<think>" in text else None if text else "no_answer")
        text = text[-_MOST_CHARACTERS:]
        if self.conform:
            return self._verify_as_nemo_gym(expected, text)
        return _verdict(self._problem(expected, _last_calendar(text)))

    async def _verify_as_nemo_gym(self, expected: dict[str, ExpectedEvent], text: str) -> Verdict:
        entries = await in_worker("gym_llm.envs.calendar.schedule:first_list_as_nemo_gym", text, _DEADLINE)
        return _verdict(self._problem(expected, entries or None))

    def _problem(self, expected: dict[str, ExpectedEvent], entries: list[Any] | None) -> str | None:
        if entries is None:
            return "no_json_list"
        events = read_events(entries, len(expected), self.conform is not None)
        if isinstance(events, str):
            return events
        met = all(event.is_met(events.get(name)) for name, event in expected.items())
        return None if met else "constraint_violated"


def _verdict(problem: str | None) -> Verdict:
    return Verdict(float(problem is None), {"reason": problem or "pass"})


def _has_objects(entries: list[Any]) -> bool:
    return any(isinstance(entry, dict) for entry in entries)


def _last_calendar(text: str) -> list[Any] | None:
    lists = deque(filter(_has_objects, json_values(text, list)), maxlen=1)
    return lists[0] if lists else None
