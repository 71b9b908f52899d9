"""Tasks over a generated office: what is asked, and the calls that do it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from gym_llm.envs.workplace_assistant.customers import PRODUCTS, STATUSES
from gym_llm.envs.workplace_assistant.generated import TODAY
from gym_llm.envs.workplace_assistant.projects import BOARDS
from gym_llm.envs.workplace_assistant.tables import OfficeData
from gym_llm.types import Row

_SYSTEM = (
    "You are Sam's assistant and do what Sam asks with the office's tools. It is Thursday, 2023-11-30, 23:59:00. "
    "Meetings are between 9:00 and 18:00."
)
Call = tuple[str, dict[str, Any]]
Asked = tuple[str, list[Call]]


def make_row(office: OfficeData, rng: random.Random) -> Row:
    """Make a task: a request in words, and the calls that fulfil it.

    Args:
        office: The tables.
        rng: The random generator.
    """
    category, makers = rng.choice(_MAKERS)
    text, calls = rng.choice(makers)(office, rng)
    return {
        "responses_create_params": {
            "input": [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": text}]
        },
        "id": rng.randrange(2**31),
        "category": f"workplace_assistant_{category}",
        "environment_name": "workplace_assistant",
        "ground_truth": [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in calls],
    }


def _name(address: str) -> str:
    return address.partition(".")[0].capitalize()


def _day(rng: random.Random, first: int, last: int) -> str:
    return str((TODAY + timedelta(days=rng.randint(first, last))).date())


def _last_email(office: OfficeData, rng: random.Random) -> tuple[str, str]:
    """(the name of who wrote it, its id)."""
    received = [email for email in office.tables["emails"] if email["inbox/outbox"] == "inbox"]
    address = rng.choice(received)["sender/recipient"]
    last = max(
        (email for email in received if email["sender/recipient"] == address),
        key=lambda email: email["sent_datetime"],
    )
    return _name(address), last["email_id"]


def _reply(office: OfficeData, rng: random.Random) -> Asked:
    name, email_id = _last_email(office, rng)
    body = rng.choice(("Thank you, I will read it on Monday.", "Agreed.", "Please call me tomorrow at 10."))
    return f"Reply to the last e-mail {name} sent me with '{body}'", [
        ("email_reply_email", {"email_id": email_id, "body": body})
    ]


def _forward(office: OfficeData, rng: random.Random) -> Asked:
    name, email_id = _last_email(office, rng)
    to = rng.choice(office.directory)
    return f"Forward the last e-mail I got from {name} to {_name(to)}.", [
        ("email_forward_email", {"email_id": email_id, "recipient": to})
    ]


def _delete_email(office: OfficeData, rng: random.Random) -> Asked:
    name, email_id = _last_email(office, rng)
    return f"Delete the newest e-mail from {name}.", [("email_delete_email", {"email_id": email_id})]


def _send(office: OfficeData, rng: random.Random) -> Asked:
    to, subject = rng.choice(office.directory), rng.choice(("Lunch", "Budget 2024", "Keys of the archive"))
    body = rng.choice(("Can we talk about it tomorrow?", "I have sent you the list.", "It can wait until Friday."))
    return f"Write to {_name(to)} with the subject '{subject}' and the text '{body}'", [
        ("email_send_email", {"recipient": to, "subject": subject, "body": body})
    ]


def _create_event(office: OfficeData, rng: random.Random) -> Asked:
    who, days, hour = rng.choice(office.directory), rng.randint(1, 14), rng.randint(9, 16)
    name, minutes = rng.choice(("Coffee", "Budget talk", "Handover", "Quarterly review")), rng.choice((30, 45, 60))
    start = TODAY + timedelta(days=days, hours=hour)
    text = f"Put '{name}' with {_name(who)} into the calendar: {start:%B %d} at {hour}:00, {minutes} minutes."
    arguments = {"event_name": name, "participant_email": who, "event_start": str(start), "duration": str(minutes)}
    return text, [("calendar_create_event", arguments)]


def _next_event(office: OfficeData, rng: random.Random) -> tuple[str, dict[str, Any]]:
    later = [event for event in office.tables["events"] if event["event_start"] > str(TODAY + timedelta(days=1))]
    address = rng.choice(later)["participant_email"]
    mine = [event for event in later if event["participant_email"] == address]
    return _name(address), min(mine, key=lambda event: event["event_start"])


def _delete_event(office: OfficeData, rng: random.Random) -> Asked:
    name, event = _next_event(office, rng)
    return f"Cancel my next meeting with {name}.", [("calendar_delete_event", {"event_id": event["event_id"]})]


def _lengthen_event(office: OfficeData, rng: random.Random) -> Asked:
    name, event = _next_event(office, rng)
    minutes = str(int(event["duration"]) + 15)
    arguments = {"event_id": event["event_id"], "field": "duration", "new_value": minutes}
    return f"Make my next meeting with {name} a quarter of an hour longer.", [("calendar_update_event", arguments)]


def _plot(office: OfficeData, rng: random.Random) -> Asked:
    values = {
        "total_visits": "all visits", "user_engaged": "engaged users", "visits_direct": "direct visits",
        "session_duration_seconds": "session durations", "visits_social_media": "visits from social media",
    }  # fmt: skip
    value, kind = rng.choice(list(values)), rng.choice(("bar", "line", "scatter"))
    first, last = _day(rng, -50, -20), _day(rng, -19, 0)
    arguments = {"time_min": first, "time_max": last, "value_to_plot": value, "plot_type": kind}
    return f"Make a {kind} plot of {values[value]} from {first} to {last}.", [("analytics_create_plot", arguments)]


def _create_task(office: OfficeData, rng: random.Random) -> Asked:
    who = rng.choice(office.tables["tasks"])["assigned_to_email"]
    name, due, board = (
        f"Check {rng.choice(('the backup', 'the licence', 'the logo'))}",
        _day(rng, 2, 20),
        rng.choice(BOARDS),
    )
    arguments = {"task_name": name, "assigned_to_email": who, "list_name": "Backlog", "due_date": due, "board": board}
    text = f"Add a task '{name}' for {_name(who)} to the backlog of the {board} board, due on {due}."
    return text, [("project_management_create_task", arguments)]


def _hand_over_tasks(office: OfficeData, rng: random.Random) -> Asked:
    chosen = rng.choice(office.tables["tasks"])
    to = rng.choice(
        sorted({task["assigned_to_email"] for task in office.tables["tasks"]} - {chosen["assigned_to_email"]})
    )
    same = [
        task
        for task in office.tables["tasks"]
        if all(task[name] == chosen[name] for name in ("assigned_to_email", "list_name", "board"))
    ]
    text = (
        f"Give all of {_name(chosen['assigned_to_email'])}'s tasks that are in the list '{chosen['list_name']}' of the "
        f"{chosen['board']} board to {_name(to)}."
    )
    return text, [
        (
            "project_management_update_task",
            {"task_id": task["task_id"], "field": "assigned_to_email", "new_value": to},
        )
        for task in same
    ]


def _update_customer(office: OfficeData, rng: random.Random) -> Asked:
    customer = rng.choice(office.tables["customers"])
    field, values = rng.choice((("status", STATUSES), ("product_interest", PRODUCTS)))
    value = rng.choice([value for value in values if value != customer[field]])
    words = {"status": "status", "product_interest": "product interest"}
    arguments = {"customer_id": customer["customer_id"], "field": field, "new_value": value}
    return f"Set the {words[field]} of our customer {customer['customer_name']} to {value}.", [
        ("customer_relationship_manager_update_customer", arguments)
    ]


def _delete_customer(office: OfficeData, rng: random.Random) -> Asked:
    customer = rng.choice(office.tables["customers"])
    return f"{customer['customer_name']} is no customer of ours any more: delete the record.", [
        ("customer_relationship_manager_delete_customer", {"customer_id": customer["customer_id"]})
    ]


def _give_up_leads(office: OfficeData, rng: random.Random) -> Asked:
    lead = rng.choice([customer for customer in office.tables["customers"] if customer["status"] == "Lead"])
    product, before = lead["product_interest"], lead["last_contact_date"][:10]
    old = [
        customer
        for customer in office.tables["customers"]
        if customer["product_interest"] == product
        and customer["status"] == "Lead"
        and customer["last_contact_date"][:10] <= before
    ]
    text = f"Mark every lead for {product} whom we last contacted on {before} or before as lost."
    return text, [
        (
            "customer_relationship_manager_update_customer",
            {"customer_id": customer["customer_id"], "field": "status", "new_value": "Lost"},
        )
        for customer in old
    ]


def _tell_about_event(office: OfficeData, rng: random.Random) -> Asked:
    name, event = _next_event(office, rng)
    subject, body = event["event_name"], "I am ill and cannot come."
    text = f"Cancel my next meeting with {name}, and write to {name}, with its name as the subject: '{body}'"
    mail = {"recipient": event["participant_email"], "subject": subject, "body": body}
    return text, [("calendar_delete_event", {"event_id": event["event_id"]}), ("email_send_email", mail)]


_Maker = Callable[[OfficeData, random.Random], Asked]
_MAKERS: tuple[tuple[str, tuple[_Maker, ...]], ...] = (
    ("email", (_reply, _forward, _delete_email, _send)),
    ("calendar", (_create_event, _delete_event, _lengthen_event)),
    ("analytics", (_plot,)),
    ("project_management", (_create_task, _hand_over_tasks)),
    ("customer_relationship_manager", (_update_customer, _delete_customer, _give_up_leads)),
    ("multitool", (_tell_about_event,)),
)
