"""IFBench's constraints of one task each."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from datetime import date

from gym_llm.grading.constraints.constraint import Registry
from gym_llm.grading.constraints.sentences import sentences
from gym_llm.grading.constraints.words import EDGES, without_punctuation

constraint = Registry("IFBench")

_QUESTION = re.compile(r"Question \d+[.|):;]?")
_OPTION = re.compile(r"[A-Ea-e][.|)]\s*\w")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_COUNTRIES = 52
_NORTHERN_CAPITALS = (
    "Reykjavik", "Helsinki", "Oslo", "Tallinn", "Stockholm", "Riga", "Moscow", "Copenhagen", "Vilnius", "Minsk",
    "Dublin", "Berlin", "Amsterdam", "Warsaw", "London", "Brussels", "Prague", "Luxembourg", "Paris", "Vienna",
    "Bratislava", "Budapest", "Vaduz", "Chisinau", "Bern", "Ljubljana", "Zagreb",
)  # fmt: skip


@constraint("custom:multiples")
def multiples_of_seven(text: str) -> bool:
    """Whether the text's numbers are 14, 21, 28, 35, 42 and 49."""
    return re.findall(r"\d+", text) == ["14", "21", "28", "35", "42", "49"]


@constraint("custom:mcq_count_length")
def four_questions(text: str) -> bool:
    """Whether the text is four questions of five options each, each question longer than the one before."""
    if not text.startswith("Question"):
        return False
    questions = [part.strip() for part in _QUESTION.split(text) if part.strip()]
    lengths = []
    for question in questions[:5]:
        lines = [line.strip() for line in question.split("\n")]
        options = [index for index, line in enumerate(lines) if _OPTION.match(line)]
        if len(options) != 5:
            return False
        lengths.append(len(" ".join(lines[: options[0]]).strip()))
    return len(lengths) == 4 and lengths == sorted(set(lengths))


@constraint("custom:reverse_newline")
def countries_reversed(text: str) -> bool:
    """Whether from `Zimbabwe` on it has at least 52 lines, in reverse alphabetical order."""
    lines = [stripped for line in text.split("\n") if (stripped := line.strip(EDGES))]
    start = next((index for index, line in enumerate(lines) if "Zimbabwe" in line), len(lines))
    countries = [_ascii(line) for line in lines[start:]]
    return len(countries) >= _COUNTRIES and countries == sorted(countries, reverse=True)


@constraint("custom:word_reverse")
def bald_eagle_backwards(text: str) -> bool:
    """Whether read from its last word to its first it names the bald eagle."""
    return "bald eagle" in " ".join(without_punctuation(text.lower()).split()[::-1])


@constraint("custom:character_reverse")
def bald_eagle_letter_by_letter(text: str) -> bool:
    """Whether read from its last letter it names the bald eagle: `elgae dlab`."""
    return "elgae dlab" in text.lower()


@constraint("custom:sentence_alphabet")
def sentence_per_letter(text: str) -> bool:
    """Whether the text has 26 sentences that begin with `a` to `z` in turn."""
    return "".join(sentence[0].lower() for sentence in sentences(text)) == "abcdefghijklmnopqrstuvwxyz"


@constraint("custom:european_capitals_sort")
def northern_capitals(text: str) -> bool:
    """Whether the text is the 27 European capitals north of 45 degrees, from north to south, between commas."""
    return tuple(capital.strip() for capital in _ascii(text).split(",") if capital.strip()) == _NORTHERN_CAPITALS


@constraint("custom:csv_city")
def city_table(text: str) -> bool:
    """Whether the text is CSV: the header `ID,Country,City,Year,Count` and seven rows of five fields."""
    rows = _table(text)
    return len(rows) == 8 and rows[0] == ["ID", "Country", "City", "Year", "Count"] and _has_five(rows)


@constraint("custom:csv_special_character")
def product_table(text: str) -> bool:
    """Whether the text is CSV: a header of products and 14 rows, one with a quoted special character."""
    if not _has_header(text, ",", ["ProductID", "Category", "Brand", "Price", "Stock"]):
        return False
    rows = _table(text.replace('"', '"""'))
    special = next((number for number, row in enumerate(rows[1:], 1) if any(map(_is_special, row))), None)
    return len(rows) == 15 and special is not None and _has_five(rows[1 : special + 1])


@constraint("custom:csv_quotes")
def grade_table(text: str) -> bool:
    """Whether the text is a table divided by tabs: a header of grades, three rows of five quoted fields."""
    if not _has_header(text, "\t", ["StudentID", "Subject", "Grade", "Semester", "Score"]):
        return False
    rows = _table(text.replace('"', '"""'), "\t")
    fields = [field.strip() for row in rows for field in row]
    return len(rows) == 4 and _has_five(rows) and all(field and field[0] == field[-1] == '"' for field in fields)


@constraint("custom:date_format_list")
def dates_of_battles(text: str) -> bool:
    """Whether the text is days from 1769 to 1821, written as YYYY-MM-DD between commas."""
    return all(_is_day(day.strip()) for day in text.split(","))


def _ascii(text: str) -> str:
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def _table(text: str, divider: str = ",") -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(text), delimiter=divider))
    except csv.Error:
        return []


def _has_five(rows: list[list[str]]) -> bool:
    return all(len(row) == 5 for row in rows)


def _has_header(text: str, divider: str, names: list[str]) -> bool:
    columns = text.split("\n", 1)[0].strip().split(divider)
    return len(columns) == len(names) and all(
        column.lstrip(" \t") in (name, f'"{name}"') for column, name in zip(columns, names, strict=True)
    )


def _is_special(field: str) -> bool:
    inside = field[1 : field.rfind('"')]
    return field.startswith('"') and any(
        not (character.isalnum() or character == "_" or character.isspace()) for character in inside
    )


def _is_day(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        return 1769 <= date.fromisoformat(text).year <= 1821
    except ValueError:
        return False
