"""Drawing small databases, and questions that need joins, aggregates and subqueries, each with its gold query."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

import numpy as np

_PEOPLE = (
    "Ada", "Bela", "Chidi", "Dora", "Emre", "Fadila", "Goran", "Hana", "Ines", "Jonas", "Kofi", "Lena", "Mina",
    "Noor", "Otto", "Petra", "Quentin", "Rosa", "Sven", "Tariq", "Uma", "Vera", "Wanda", "Yusuf",
)  # fmt: skip
_CITIES = ("Accra", "Bergen", "Cusco", "Dakar", "Essen", "Graz", "Hanoi", "Izmir")


class Made(NamedTuple):
    """A drawn task's fields."""

    schema: str
    question: str
    gold_sql: str
    ordered: bool


class _World(NamedTuple):
    """What the tables are about: people do something with things, on a day, some amount of it."""

    people: str
    person: str
    things: str
    thing: str
    kinds: tuple[str, ...]
    names: tuple[str, ...]
    price: str
    events: str
    event: str
    amount: str


_WORLDS = (
    _World(
        "customers", "customer", "products", "product", ("basic", "classic", "luxury"),
        ("apron", "basket", "chair", "desk", "hose", "kettle", "lamp", "rake", "shelf", "whisk"),
        "price", "orders", "order", "quantity",
    ),
    _World(
        "readers", "reader", "books", "book", ("history", "novel", "poetry"),
        ("Ashes", "Birches", "Canals", "Dunes", "Embers", "Ferries", "Glaciers", "Harbours", "Islands", "Junipers"),
        "fee", "loans", "loan", "weeks",
    ),
    _World(
        "pilots", "pilot", "aircraft", "aircraft", ("glider", "helicopter", "jet"),
        ("Albatross", "Bittern", "Condor", "Dove", "Egret", "Falcon", "Gannet", "Heron", "Ibis", "Jackdaw"),
        "hourly_cost", "flights", "flight", "hours",
    ),
    _World(
        "growers", "grower", "crops", "crop", ("early", "late", "summer"),
        ("barley", "beans", "cherries", "leeks", "maize", "oats", "pears", "plums", "rye", "turnips"),
        "price_per_crate", "harvests", "harvest", "crates",
    ),
)  # fmt: skip


def make_question(rng: np.random.Generator) -> Made:
    """Draw a database and a question whose answer has at least one row."""
    while True:
        world = _WORLDS[int(rng.integers(len(_WORLDS)))]
        schema = _draw_tables(world, rng)
        question, query, ordered = _QUESTIONS[int(rng.integers(len(_QUESTIONS)))](world, rng)
        with closing(sqlite3.connect(":memory:")) as database:
            database.executescript(schema)
            if database.execute(query).fetchone() is not None:
                return Made(schema, question, query, ordered)


def _draw_tables(world: _World, rng: np.random.Generator) -> str:
    names = rng.choice(_PEOPLE, int(rng.integers(5, 10)), replace=False)
    cities = rng.choice(_CITIES, 3, replace=False)
    people = [f"({number}, '{name}', '{rng.choice(cities)}')" for number, name in enumerate(names, 1)]
    labels = rng.choice(world.names, int(rng.integers(4, 9)), replace=False)
    things = [
        f"({number}, '{label}', '{rng.choice(world.kinds)}', {int(rng.integers(4, 200)) / 4:.2f})"
        for number, label in enumerate(labels, 1)
    ]
    events = [
        f"({number}, {rng.integers(1, len(names) + 1)}, {rng.integers(1, len(labels) + 1)}, {rng.integers(1, 13)}, "
        f"'2025-{rng.integers(1, 7):02d}-{rng.integers(1, 29):02d}')"
        for number in range(1, int(rng.integers(12, 31)))
    ]
    return "\n".join(
        (
            f"CREATE TABLE {world.people} (id INTEGER PRIMARY KEY, name TEXT, city TEXT);",
            f"CREATE TABLE {world.things} (id INTEGER PRIMARY KEY, name TEXT, kind TEXT, {world.price} REAL);",
            f"CREATE TABLE {world.events} (id INTEGER PRIMARY KEY, {world.person}_id INTEGER REFERENCES "
            f"{world.people}(id), {world.thing}_id INTEGER REFERENCES {world.things}(id), {world.amount} INTEGER, "
            "day TEXT);",
            f"INSERT INTO {world.people} VALUES {', '.join(people)};",
            f"INSERT INTO {world.things} VALUES {', '.join(things)};",
            f"INSERT INTO {world.events} VALUES {', '.join(events)};",
        )
    )


_Drawn = tuple[str, str, bool]


def _joined(world: _World) -> str:
    return (
        f"FROM {world.events} e JOIN {world.people} p ON p.id = e.{world.person}_id "
        f"JOIN {world.things} t ON t.id = e.{world.thing}_id"
    )


def _count_each(world: _World, rng: np.random.Generator) -> _Drawn:
    return (
        f"How many {world.events} does each {world.person} have, also those without any? Columns: name, number. "
        "Order by the number, the largest first, then by name.",
        f"SELECT p.name, COUNT(e.id) AS n FROM {world.people} p LEFT JOIN {world.events} e "
        f"ON e.{world.person}_id = p.id GROUP BY p.id ORDER BY n DESC, p.name",
        True,
    )


def _worth_by_kind(world: _World, rng: np.random.Generator) -> _Drawn:
    least = int(rng.integers(1, 6)) * 50
    return (
        f"What is the sum of {world.amount} times {world.price} of the {world.events} of each kind of {world.thing}? "
        f"Only kinds with a sum above {least}. Columns: kind, sum. Any order.",
        f"SELECT t.kind, SUM(e.{world.amount} * t.{world.price}) {_joined(world)} GROUP BY t.kind "
        f"HAVING SUM(e.{world.amount} * t.{world.price}) > {least}",
        False,
    )


def _without_kind(world: _World, rng: np.random.Generator) -> _Drawn:
    kind = rng.choice(world.kinds)
    return (
        f"Which {world.people} have no {world.event} of a {world.thing} of the kind {kind}? Column: name. "
        "Order by name.",
        f"SELECT p.name FROM {world.people} p WHERE NOT EXISTS (SELECT 1 FROM {world.events} e JOIN {world.things} t "
        f"ON t.id = e.{world.thing}_id WHERE e.{world.person}_id = p.id AND t.kind = '{kind}') ORDER BY p.name",
        True,
    )


def _top_things(world: _World, rng: np.random.Generator) -> _Drawn:
    most = int(rng.integers(2, 5))
    return (
        f"Of the {world.things} that have {world.events}, which {most} have the largest total of {world.amount}? "
        "Columns: name, total. Order by the total, the largest first, then by name; with equal totals the first names "
        "count.",
        f"SELECT t.name, SUM(e.{world.amount}) AS total {_joined(world)} GROUP BY t.id "
        f"ORDER BY total DESC, t.name LIMIT {most}",
        True,
    )


def _average_in_city(world: _World, rng: np.random.Generator) -> _Drawn:
    return (
        f"What is the average of {world.amount} over all {world.events} for each city of the {world.people}? Columns: "
        "city, average. Any order.",
        f"SELECT p.city, AVG(e.{world.amount}) {_joined(world)} GROUP BY p.city",
        False,
    )


def _busiest_month(world: _World, rng: np.random.Generator) -> _Drawn:
    return (
        f"In which months were the most {world.events}? All months that share the first place. Columns: month as "
        "YYYY-MM, number. Any order.",
        f"WITH months AS (SELECT strftime('%Y-%m', day) AS month, COUNT(*) AS n FROM {world.events} GROUP BY month) "
        "SELECT month, n FROM months WHERE n = (SELECT MAX(n) FROM months)",
        False,
    )


def _several_kinds(world: _World, rng: np.random.Generator) -> _Drawn:
    least = int(rng.integers(2, 4))
    return (
        f"Which {world.people} have {world.events} of at least {least} different kinds of {world.things}? Columns: "
        "name, number of kinds. Any order.",
        f"SELECT p.name, COUNT(DISTINCT t.kind) AS n {_joined(world)} GROUP BY p.id HAVING n >= {least}",
        False,
    )


def _best_of_each_city(world: _World, rng: np.random.Generator) -> _Drawn:
    return (
        f"In each city, who of its {world.people} has the largest total of {world.amount}? All who share the first "
        f"place; only cities with {world.events}. Columns: city, name, total. Any order.",
        f"WITH totals AS (SELECT p.city, p.name, SUM(e.{world.amount}) AS total {_joined(world)} GROUP BY p.id), "
        "ranked AS (SELECT *, RANK() OVER (PARTITION BY city ORDER BY total DESC) AS place FROM totals) "
        "SELECT city, name, total FROM ranked WHERE place = 1",
        False,
    )


def _above_average(world: _World, rng: np.random.Generator) -> _Drawn:
    return (
        f"Take each one's total of {world.amount}, of those {world.people} who have {world.events}. Whose total is "
        "above the average of these totals? Columns: name, total. Order by name.",
        f"WITH totals AS (SELECT p.name, SUM(e.{world.amount}) AS total {_joined(world)} GROUP BY p.id) "
        "SELECT name, total FROM totals WHERE total > (SELECT AVG(total) FROM totals) ORDER BY name",
        True,
    )


def _first_days(world: _World, rng: np.random.Generator) -> _Drawn:
    return (
        f"On which day was each one's first {world.event}, of those {world.people} who have any? Columns: name, day. "
        "Order by day, then by name.",
        f"SELECT p.name, MIN(e.day) AS first {_joined(world)} GROUP BY p.id ORDER BY first, p.name",
        True,
    )


def _pairs(world: _World, rng: np.random.Generator) -> _Drawn:
    city = rng.choice(_CITIES)
    return (
        f"Which two {world.people} from different cities have {world.events} of the same {world.thing}? Nobody from "
        f"{city}. Each pair once, the name that comes first in the alphabet first. Columns: name, name. Any order.",
        f"SELECT DISTINCT a.name, b.name FROM {world.events} d JOIN {world.events} e "
        f"ON d.{world.thing}_id = e.{world.thing}_id JOIN {world.people} a ON a.id = d.{world.person}_id "
        f"JOIN {world.people} b ON b.id = e.{world.person}_id "
        f"WHERE a.name < b.name AND a.city <> b.city AND '{city}' NOT IN (a.city, b.city)",
        False,
    )


def _share_of_dear(world: _World, rng: np.random.Generator) -> _Drawn:
    price = int(rng.integers(5, 40))
    return (
        f"For each kind of {world.thing}: what share, from 0 to 1, of its {world.events} is of {world.things} with a "
        f"{world.price} above {price}? Only kinds with {world.events}. Columns: kind, share. Any order.",
        f"SELECT t.kind, AVG(CASE WHEN t.{world.price} > {price} THEN 1.0 ELSE 0.0 END) {_joined(world)} "
        "GROUP BY t.kind",
        False,
    )


_QUESTIONS: tuple[Callable[[_World, np.random.Generator], _Drawn], ...] = (
    _count_each,
    _worth_by_kind,
    _without_kind,
    _top_things,
    _average_in_city,
    _busiest_month,
    _several_kinds,
    _best_of_each_city,
    _above_average,
    _first_days,
    _pairs,
    _share_of_dear,
)
