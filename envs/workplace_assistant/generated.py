"""Offices made up from a seed: the company, its mail, meetings, visitors, tasks and customers."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from functools import lru_cache

from gym_llm.envs.workplace_assistant.customers import PRODUCTS, STATUSES
from gym_llm.envs.workplace_assistant.projects import BOARDS, LISTS
from gym_llm.envs.workplace_assistant.tables import OfficeData, Record

TODAY = datetime(2023, 11, 30)
"""The tools' clock stands at the last minute of this day."""

_FIRST = (
    "Alba", "Bram", "Chidi", "Dagny", "Edda", "Farid", "Greta", "Hugo", "Imani", "Jonas", "Katya", "Lucia", "Mirko",
    "Noor", "Odile", "Pavel", "Quentin", "Rosa", "Soren", "Tariq", "Ulla", "Vikram", "Wanda", "Xiomara", "Yusuf",
    "Zita",
)  # fmt: skip
_LAST = (
    "Abbott", "Bergstrom", "Calderon", "Dube", "Eklund", "Fontaine", "Grigoriev", "Haddad", "Ito", "Jansen", "Kowalski",
    "Lindqvist", "Mbeki", "Novak", "Okafor", "Petrov", "Quispe", "Rossi", "Schuster", "Tamm", "Ueda", "Varga", "Weiss",
)  # fmt: skip
_MEETINGS = ("Planning", "Retrospective", "Review", "Workshop", "Check-in", "Interview", "Training", "Demo")
_TOPICS = (
    "the invoice export", "the mobile app", "the onboarding guide", "the search page", "the price list",
    "the data model", "the support desk", "the spring campaign", "the office move", "the security audit",
    "the payment service",
)  # fmt: skip
_WORK = ("Fix", "Write", "Test", "Redesign", "Document", "Measure", "Migrate", "Simplify", "Translate", "Clean up")
_NEWS = (
    "I have started on {}. The first results should be there by the end of the week.",
    "there is a problem with {}: two of the numbers do not agree. Could you have a look?",
    "{} is done. Please tell me if anything is missing.",
    "could we talk about {} some time next week? I have two questions.",
    "I have put my notes on {} into the shared folder.",
)
_SOURCES = ("direct", "referral", "search engine", "social media")
_CONTACTS = ("Phoned.", "Sent an offer.", "Met at the fair.", "Showed the demo.", "Left a message.")


@lru_cache(32)
def generated_office(seed: int) -> OfficeData:
    """Make an office up: 15 people, 300 e-mails, 150 events, 400 visits, 150 tasks and 120 customers.

    Args:
        seed: The same seed gives the same office.
    """
    rng = random.Random(f"office {seed}")
    people = [
        (first, f"{first}.{last}@halden.example".lower())
        for first, last in zip(rng.sample(_FIRST, 15), rng.sample(_LAST, 15), strict=True)
    ]
    addresses = [address for _, address in people]
    tables = {
        "emails": _emails(rng, people),
        "events": _events(rng, addresses),
        "visits": _visits(rng),
        "tasks": _tasks(rng, addresses),
        "customers": _customers(rng, addresses[:6]),
    }
    return OfficeData(generated_office, seed, tables, addresses)


def _ids(rng: random.Random, count: int) -> list[str]:
    return [f"{number:08}" for number in rng.sample(range(count), count)]


def _emails(rng: random.Random, people: list[tuple[str, str]]) -> list[Record]:
    seconds = sorted(rng.sample(range(60 * 86_400), 300))
    emails = []
    for email_id, second in zip(_ids(rng, 300), seconds, strict=True):
        name, address = rng.choice(people)
        topic, sent = rng.choice(_TOPICS), rng.random() < 0.3
        greeting, ending = ("Dear " + name, "Sam") if sent else ("Dear Sam", name)
        news = rng.choice(_NEWS).format(topic)
        emails.append(
            {
                "email_id": email_id,
                "inbox/outbox": "outbox" if sent else "inbox",
                "sender/recipient": address,
                "subject": f"{rng.choice(('News of', 'Question about', 'Next steps for', 'Notes on'))} {topic}",
                "sent_datetime": str(TODAY - timedelta(days=59) + timedelta(seconds=second)),
                "body": f"{greeting},\n\n{news}\n\nBest wishes\n{ending}",
            }
        )
    return emails


def _events(rng: random.Random, addresses: list[str]) -> list[Record]:
    slots = sorted(rng.sample(range(120 * 8), 150))
    return [
        {
            "event_id": event_id,
            "event_name": f"{rng.choice(_MEETINGS)} on {rng.choice(_TOPICS)}",
            "participant_email": rng.choice(addresses),
            "event_start": str(TODAY + timedelta(days=slot // 8 - 90, hours=9 + slot % 8)),
            "duration": str(rng.choice((30, 45, 60))),
        }
        for event_id, slot in zip(_ids(rng, 150), slots, strict=True)
    ]


def _visits(rng: random.Random) -> list[Record]:
    return [
        {
            "date_of_visit": str((TODAY - timedelta(days=rng.randrange(60))).date()),
            "visitor_id": visitor_id[4:],
            "page_views": str(rng.randint(1, 20)),
            "session_duration_seconds": str(rng.randint(3, 900)),
            "traffic_source": rng.choice(_SOURCES),
            "user_engaged": rng.random() < 0.4,
        }
        for visitor_id in _ids(rng, 400)
    ]


def _tasks(rng: random.Random, addresses: list[str]) -> list[Record]:
    names = rng.sample([f"{work} {topic}" for work in _WORK for topic in _TOPICS], 100)
    names += [f"{name} again" for name in names[:50]]
    return [
        {
            "task_id": task_id,
            "task_name": name,
            "assigned_to_email": rng.choice(addresses),
            "list_name": rng.choice(LISTS),
            "due_date": str((TODAY + timedelta(days=rng.randint(-14, 21))).date()),
            "board": rng.choice(BOARDS),
        }
        for task_id, name in zip(_ids(rng, 150), names, strict=True)
    ]


def _customers(rng: random.Random, sellers: list[str]) -> list[Record]:
    customers = []
    names = rng.sample([f"{first} {last}" for first in _FIRST for last in _LAST], 120)
    for customer_id, name in zip(_ids(rng, 120), names, strict=True):
        firm = rng.choice(("nordlys", "quarry", "tidal"))
        contact = TODAY - timedelta(days=rng.randrange(60))
        customers.append(
            {
                "customer_id": customer_id,
                "assigned_to_email": rng.choice(sellers),
                "customer_name": name,
                "customer_email": f"{name.replace(' ', '.')}@{firm}.example".lower(),
                "customer_phone": rng.choice((None, f"555-01{rng.randrange(100):02}")),
                "last_contact_date": str(contact.date()),
                "product_interest": rng.choice(PRODUCTS),
                "status": rng.choice(STATUSES),
                "follow_up_by": str((contact + timedelta(days=rng.randint(5, 40))).date()),
                "notes": f"{contact.date()}: {rng.choice(_CONTACTS)}",
            }
        )
    return customers
