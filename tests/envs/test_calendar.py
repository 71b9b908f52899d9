"""Calendar: which calendars are right, and that no text takes long."""

import json

import gymnasium as gym
import pytest
from testing import cpu_seconds, message, row
from verifier_vectors import agree, vector_id, vectors_of

from gym_llm.envs.calendar.env import Calendar
from gym_llm.envs.calendar.schedule import minutes
from gym_llm.errors import DataError


def expect(constraint=None, duration=60, **fields):
    return {"duration": duration, "constraint": constraint, "min_time": "10:00", "max_time": "16:00", **fields}


def event(number=0, start="10:00", duration=60, **fields):
    return {"event_id": number, "event_name": "x", "start_time": start, "duration": duration, **fields}


def play(expected, answer, **kwargs):
    """(reward, reason) of an answer: a text, or events."""
    env = gym.make("gym_llm/Calendar-v0", **kwargs)
    env.reset(options={"task": row("Plan.", exp_cal_state=expected)})
    _, reward, _, _, info = env.step(message(answer if isinstance(answer, str) else json.dumps(answer)))
    assert reward == float(info["reason"] == "pass")
    return info["reason"]


@pytest.mark.parametrize("vector", vectors_of("calendar"), ids=vector_id)
def test_recorded_episodes_score_as_recorded(vector):
    agree(vector)


@pytest.mark.parametrize(
    ("clock", "expected"),
    [
        ("0:00", 0),
        ("9:05", 545),
        (" 24:00 ", 1440),
        ("12am", 0),
        ("12pm", 720),
        ("12:30 am", 30),
        ("1:45\u202fPM", 825),
    ],
)
def test_times_are_minutes_of_the_day(clock, expected):
    assert minutes(clock) == expected


@pytest.mark.parametrize(
    "clock", ["", "10", "13pm", "25:00", "10:60", "10:3x", "-1:00", "10:30:00", "noon", "am", "١٠"]
)
def test_other_times_are_none(clock):
    with pytest.raises(ValueError, match="is not a time of day"):
        minutes(clock)


@pytest.mark.parametrize(
    ("constraint", "start", "met"),
    [
        (None, "10:00", True),
        (None, "15:00", True),
        (None, "09:59", False),
        (None, "15:01", False),
        ("in the morning", "15:00", True),
        ("before 1:30pm", "12:30", True),
        ("before 1:30pm", "12:31", False),
        ("after 13:00", "13:00", True),
        ("after 13:00", "12:59", False),
        ("between 10am and 11:15am", "10:15", True),
        ("between 10am and 11:15am", "10:16", False),
        ("between 11am and 2pm", "10:59", False),
        ("at 11:30am", "11:30", True),
        ("at 11:30am", "11:31", False),
    ],
)
def test_an_event_is_where_it_may_be(constraint, start, met):
    assert play({"0": expect(constraint)}, [event(start=start)]) == ("pass" if met else "constraint_violated")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "no_answer"),
        ("<think> [] " + json.dumps([event()]), "think_found"),
        ("It is at ten.", "no_json_list"),
        ("[]", "no_json_list"),
        ("[1, 2]", "no_json_list"),
        (json.dumps([event()])[:-1], "no_json_list"),
        ("Here [1] it is:\n" + json.dumps([event()], indent=2) + "\nGood luck [today]!", "pass"),
        ([event("0")], "pass"),
        ([event(duration=60.0)], "pass"),
        ([event(duration=45)], "constraint_violated"),
        ([event(duration="60")], "invalid_event"),
        ([event(start="10")], "invalid_event"),
        ([event(start=10)], "invalid_event"),
        ([{"event_id": 0, "duration": 60}], "invalid_event"),
        ([{"start_time": "10:00", "duration": 60}], "invalid_event"),
        ([event(), 3], "invalid_event"),
        ([event(1)], "constraint_violated"),
        ([event(), event(1, "12:00")], "different_number_of_events"),
        ([event(), event()], "conflicting_events"),
        ([event(start="10:00" + " " * 1_000)], "invalid_event"),
        ([event(start="2:30pm")], "pass"),
        ([event(start="2:30 PM")], "pass"),
        ([event(participants=["Ann", "Bo"], where=[{"floor": 1}])], "pass"),
    ],
)
def test_an_answer_is_a_calendar_or_says_what_is_wrong(answer, reason):
    assert play({"0": expect()}, answer) == reason


def test_several_events_in_any_order():
    expected = {"0": expect("after 2pm"), "1": expect("before 12pm"), "7": expect(duration=30)}
    events = [event(7, "11:00", 30), event(0, "14:00"), event(1, "10:00")]
    assert play(expected, events) == "pass"
    assert play(expected, events[:2]) == "different_number_of_events"
    assert play(expected, [event(7, "10:30", 30), *events[1:]]) == "conflicting_events"


@pytest.mark.parametrize("answer", ["I hope that you sleep well.", "[]"])
def test_without_events_every_answer_but_none_is_right(answer):
    assert play({}, answer) == "pass"
    assert play({}, "") == "no_answer"
    assert play({}, "<think>") == "think_found"


@pytest.mark.parametrize(
    ("answer", "here", "upstream"),
    [
        (json.dumps([event(start="09:00")]) + " becomes " + json.dumps([event()]), "pass", "constraint_violated"),
        ([event(), event()], "conflicting_events", "pass"),
        ([event(start="10:30 AM")], "pass", "invalid_event"),
        ([[event()]], "no_json_list", "pass"),
        ([event(guests=["Ann"])], "pass", "no_json_list"),
        ([event(start="9:00"), event(start="10:00")], "conflicting_events", "pass"),
        ([event(start="9:30"), event(start="10:00")], "conflicting_events", "conflicting_events"),
        (f"\\[\\boxed{{{json.dumps([event(), event()])}}}\\]", "conflicting_events", "no_json_list"),
        (f"\\[ {json.dumps([event()])} \\]", "pass", "pass"),
        (json.dumps([event()] * 40)[:-1], "no_json_list", "no_json_list"),
    ],
)
def test_where_nemo_gym_is_wrong(answer, here, upstream):
    assert play({"0": expect()}, answer) == here
    assert play({"0": expect()}, answer, conform="nemo") == upstream


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (None, "exp_cal_state"),
        ({"0": {"duration": 60, "min_time": "10:00"}}, "max_time"),
        ({"0": expect("at noon")}, "'noon' is not a time of day"),
        ({"0": expect("between 10am")}, "'' is not a time of day"),
        ({"0": expect(min_time="ten")}, "'ten' is not a time of day"),
    ],
)
def test_a_row_that_nobody_can_meet_is_refused(state, problem):
    with pytest.raises(DataError, match=problem):
        Calendar(tasks=[row(exp_cal_state=state)])


@pytest.mark.parametrize(
    "text",
    [
        "[" + '{"a":1},' * 20,
        "[" + '{"a":1},' * 100_000,
        '[{"a":1},' * 100_000,
        '[{"a":' * 100_000,
        "[" * 1_000_000,
        '[{"a": "' * 100_000,
        json.dumps([event(number) for number in range(9_000)]),
        json.dumps([event(start=f"{number % 60}:00") for number in range(5_000)]),
        "[" + json.dumps(event()) + ', {"duration": ' + "9" * 1_000_000,
    ],
    ids=lambda text: text[:12],
)
def test_no_text_takes_long(text):
    env = Calendar(tasks=[row(exp_cal_state={"0": expect()})])
    env.reset()
    env.episode.items.extend(message(text))
    assert cpu_seconds(env.verify, env._task, env.episode) < 1.0  # upstream's way takes minutes
