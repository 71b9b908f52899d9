"""The calendar."""

from __future__ import annotations

from typing import Any

from gym_llm.envs.workplace_assistant.office_tool import Count, Query, Text, is_moment, moment, office_tool
from gym_llm.envs.workplace_assistant.tables import Office, contains

_FIELDS = ("event_id", "event_name", "participant_email", "event_start", "duration")
_BAD_ID = "Invalid event ID format. Expected 8-digit ID."


class CalendarTools:
    """`calendar_…`."""

    @office_tool("event_id", "field")
    def calendar_get_event_information_by_id(
        self, state: Office, event_id: Text = None, field: Text = None
    ) -> dict[str, Any] | str:
        """Read one field of an event.

        Args:
            event_id: The event's id, 8 digits.
            field: One of event_id, event_name, participant_email, event_start, duration.
        """
        if not event_id:
            return "Event ID not provided."
        if not field:
            return "Field not provided."
        if not _is_id(event_id):
            return _BAD_ID
        if field not in _FIELDS:
            return f"Invalid field. Available fields are: {', '.join(_FIELDS)}"
        event = state.events.find("event_id", event_id)
        return "Event not found." if event is None else {field: event[field]}

    @office_tool()
    def calendar_search_events(
        self,
        state: Office,
        query: Query = "",
        time_min: Query = None,
        time_max: Query = None,
        page: Count = 1,
        page_size: Count = 5,
    ) -> dict[str, Any] | str:
        """Find events, newest first, that have a text in their name or their participant's address.

        Args:
            query: The text, upper or lower case.
            time_min: When they start at the earliest, YYYY-MM-DD HH:MM:SS.
            time_max: When they start at the latest, YYYY-MM-DD HH:MM:SS.
            page: Which page of the result, from 1.
            page_size: Events on a page.
        """
        for name, value in (("time_min", time_min), ("time_max", time_max)):
            if value and not is_moment(value):
                return f"Invalid {name} format. Expected YYYY-MM-DD HH:MM:SS."
        state.begin_search()
        text = (query or "").lower()
        timed = [
            (moment(event["event_start"]), event)
            for event in state.events.rows
            if contains(event["event_name"], text) or contains(event["participant_email"], text)
        ]
        if time_min:
            earliest = moment(time_min)
            timed = [(start, event) for start, event in timed if start >= earliest]
        if time_max:
            latest = moment(time_max)
            timed = [(start, event) for start, event in timed if start <= latest]
        timed.sort(key=lambda pair: pair[0], reverse=True)
        return state.page("events", [event for _, event in timed], page or 1, page_size or 5)

    @office_tool("event_name", "participant_email", "event_start", "duration")
    def calendar_create_event(
        self,
        state: Office,
        event_name: Text = None,
        participant_email: Text = None,
        event_start: Text = None,
        duration: Text = None,
    ) -> str:
        """Add an event; its id comes back.

        Args:
            event_name: Its name.
            participant_email: The address of who takes part.
            event_start: When it starts, YYYY-MM-DD HH:MM:SS.
            duration: How many minutes it takes.
        """
        if not event_name:
            return "Event name not provided."
        if not participant_email:
            return "Participant email not provided."
        if not event_start:
            return "Event start not provided."
        if not duration:
            return "Event duration not provided."
        if problem := _problem("event_start", event_start) or _problem("duration", duration):
            return problem
        event_id = state.events.next_id("event_id", 8)
        state.events.add(
            {
                "event_id": event_id,
                "event_name": event_name,
                "participant_email": participant_email.lower(),
                "event_start": event_start,
                "duration": duration,
            }
        )
        return event_id

    @office_tool("event_id")
    def calendar_delete_event(self, state: Office, event_id: Text = None) -> str:
        """Delete an event.

        Args:
            event_id: The event's id, 8 digits.
        """
        if not event_id:
            return "Event ID not provided."
        if not _is_id(event_id):
            return _BAD_ID
        return "Event deleted successfully." if state.events.delete("event_id", event_id) else "Event not found."

    @office_tool("event_id", "field", "new_value")
    def calendar_update_event(
        self, state: Office, event_id: Text = None, field: Text = None, new_value: Text = None
    ) -> str:
        """Change one field of an event.

        Args:
            event_id: The event's id, 8 digits.
            field: One of event_name, participant_email, event_start, duration.
            new_value: What it is to be.
        """
        if not event_id or not field or not new_value:
            return "Event ID, field, or new value not provided."
        if not _is_id(event_id):
            return _BAD_ID
        if field not in _FIELDS[1:]:
            return f"Invalid field. Available fields are: {', '.join(_FIELDS[1:])}"
        if problem := _problem(field, new_value):
            return problem
        if field == "participant_email":
            new_value = new_value.lower()
        changed = state.events.update("event_id", event_id, field, new_value)
        return "Event updated successfully." if changed else "Event not found."


def _is_id(text: str) -> bool:
    return len(text) == 8 and text.isdigit()


def _problem(field: str, value: str) -> str:
    """Why the field cannot have this value, or ""."""
    if field == "event_start" and not is_moment(value):
        return "Invalid event_start format. Expected YYYY-MM-DD HH:MM:SS."
    if field == "duration":
        try:
            return "" if int(value) > 0 else "Duration must be a positive number of minutes."
        except ValueError:
            return "Invalid duration format. Expected a number of minutes."
    return ""
