"""Parsing what a model wrote in a format: what comes out, and what hostile texts cost."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gym_llm.grading.document_formats import csv_header, is_quick, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<a/>", {"a": None}),
        ("<a> x </a>", {"a": "x"}),
        ("<a>\n</a>", {"a": None}),
        ("<a b='1' c='2'/>", {"a": {"@b": "1", "@c": "2"}}),
        ("<a b='1'>x</a>", {"a": {"@b": "1", "#text": "x"}}),
        ("<a><b>1</b><b>2</b><b>3</b><c/></a>", {"a": {"b": ["1", "2", "3"], "c": None}}),
        ("<a>x<b/>y<![CDATA[<z>]]></a>", {"a": {"b": None, "#text": "xy<z>"}}),
        ("<?xml version='1.0'?><!-- c --><n:a xmlns:n='u'>&lt;&#65;</n:a>", {"n:a": {"@xmlns:n": "u", "#text": "<A"}}),
        ("<!DOCTYPE a><a>é</a>", {"a": "é"}),
    ],
)
def test_xml_becomes_dicts(text: str, value: Any) -> None:
    assert parse(text, "xml") == value


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ('{"a": [1, 1.5, null]}', "json", {"a": [1, 1.5, None]}),
        ("a: {b: [yes, ~, 1.5]}\nc: |\n  x\n", "yaml", {"a": {"b": [True, None, 1.5]}, "c": "x\n"}),
        ("a: 2020-01-02\nb: 2020-01-02 03:04:05\n1: x\nfalse: y\n2020-01-02: z", "yaml", None),
        ("a = 2020-01-02\nb = 03:04:05\n[c]\nd = [1, {e = 2}]", "toml", None),
        ("a,b\n1,\n2,3,4\n5\n", "csv", [{"a": "1", "b": ""}, {"a": "2", "b": "3", None: ["4"]}, {"a": "5", "b": None}]),
        ("", "csv", []),
    ],
)
def test_the_others_become_what_python_reads(text: str, kind: Any, value: Any) -> None:
    if value is None and kind == "yaml":
        value = {"a": "2020-01-02", "b": "2020-01-02T03:04:05", "1": "x", "false": "y", "2020-01-02": "z"}
    elif value is None:
        value = {"a": "2020-01-02", "b": "03:04:05", "c": {"d": [1, {"e": 2}]}}
    assert parse(text, kind) == value


def test_dates_may_stay_dates() -> None:
    assert parse("a: 2020-01-02", "yaml", iso_dates=False)["a"].year == 2020
    assert list(parse("1: x", "yaml", iso_dates=False)) == [1]


def test_the_header_of_csv() -> None:
    assert csv_header("a,b\n1,2") == ["a", "b"]
    assert csv_header("") == []


LAUGHS = "\n".join(["a0: &a0 [1]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))])
ENTITIES = (
    '<!DOCTYPE a [<!ENTITY e0 "ha">'
    + "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    + "]><a>&e11;</a>"
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("{", "json"),
        ("[" * 100_000, "json"),
        ("9" * 5_000, "json"),
        ("a: [", "yaml"),
        ("a: 1\n---\nb: 2", "yaml"),
        ("!!python/object/apply:os.system [ls]", "yaml"),
        ("!!timestamp x", "yaml"),
        ("!!int x", "yaml"),
        ("!!binary é", "yaml"),
        ("a: &a [*a]", "yaml"),
        ("? {a: 1}\n: 2", "yaml"),
        ("[" * 200 + "]" * 200, "yaml"),
        ("- " * 5_000, "yaml"),
        ("\x00", "yaml"),
        (LAUGHS, "yaml"),
        (ENTITIES, "xml"),
        ('<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>', "xml"),
        ("<a>" * 200 + "</a>" * 200, "xml"),
        ("<a>", "xml"),
        ("<a/><b/>", "xml"),
        ("&nbsp;", "xml"),
        ("", "xml"),
        ("a = ", "toml"),
        ("a = " + "[" * 100_000, "toml"),
        ("a = " + "9" * 5_000, "toml"),
        ("a" * 200_000, "csv"),
    ],
)
def test_what_cannot_be_read_is_a_value_error(text: str, kind: Any) -> None:
    if kind == "csv":
        text = '"' + text
    with pytest.raises(ValueError, match=r"."):
        parse(text, kind)


def test_a_small_text_cannot_stand_for_a_large_value() -> None:
    start = time.thread_time()
    with pytest.raises(ValueError, match="too many values"):
        parse(LAUGHS, "yaml")
    assert time.thread_time() - start < 0.2


def test_a_surrogate_is_read_or_refused() -> None:
    for kind in ("json", "yaml", "xml", "toml", "csv"):
        try:
            parse("\ud800", kind)  # type: ignore[arg-type]
        except ValueError:
            continue


UNITS = {
    "json": ["1,", "[", "[[],", '{"a":', '"\\u'],
    "yaml": ["- ", "a:\n ", "[", "{a: ", "&a ", "? ", "'", "!!set ", "- a\n", "*a ", "1:1"],
    "xml": ["<a>", "<a/>", "<", "&lt;", "x", "<a b='1'"],
    "toml": ["a.", "[a]\n", "a=1\n", "[[a]]\n", "'", "a.b=1\n", "[a.b.c]\n"],
    "csv": [",", "\n", '"', "a\n", '""'],
}


@pytest.mark.parametrize(("kind", "unit"), [(kind, unit) for kind, units in UNITS.items() for unit in units])
def test_a_quick_text_is_quick_whatever_it_says(kind: Any, unit: str) -> None:
    opening = {"json": "[", "xml": "<r>", "toml": ""}.get(kind, "")
    text = opening + unit * 10_000
    while not is_quick(text, kind):
        text = text[: len(text) * 9 // 10]
    assert len(text) > 200 or kind == "toml"
    start = time.thread_time()
    try:
        parse(text, kind)
    except ValueError:
        pass
    assert time.thread_time() - start < 0.3
