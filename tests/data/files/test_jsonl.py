from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_llm.data.files.jsonl import append_line, read_jsonl, repair_tail
from gym_llm.errors import DataError
from gym_llm.utils.json_codec import dumps


def test_objects_come_with_their_line_numbers_and_empty_lines_are_passed_over(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n\n  \n{"b": "é"}', encoding="utf-8")
    assert list(read_jsonl(path)) == [(1, {"a": 1}), (4, {"b": "é"})]


@pytest.mark.parametrize(
    ("line", "problem"), [("{", "not JSON"), ("[1]", "got list"), ("3", "got int"), ("null", "got NoneType")]
)
def test_a_bad_line_is_named(tmp_path, line, problem):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n' + line + "\n")
    with pytest.raises(DataError, match=rf"a\.jsonl, line 2: .*{problem}"):
        list(read_jsonl(path))


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(DataError, match=r"Cannot read .*missing\.jsonl: No such file"):
        list(read_jsonl(tmp_path / "missing.jsonl"))
    with pytest.raises(DataError, match="Is a directory"):
        list(read_jsonl(tmp_path))


def test_reading_is_lazy(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\nbroken\n')
    assert next(read_jsonl(path)) == (1, {"a": 1})


@pytest.mark.parametrize(
    "value",
    [
        {"text": "\ud800 lone"},
        {"number": 2**100},
        {"ids": np.arange(3), "\ud800": 1},
        {"text": "\u2028 \x00 \n \r"},
        {1: "an integer key"},
    ],
    ids=["surrogate", "huge integer", "array beside a surrogate", "line breaks", "integer key"],
)
def test_what_models_write_is_one_line_that_json_reads(value):
    line = dumps(value)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    expected = {str(name): item.tolist() if isinstance(item, np.ndarray) else item for name, item in value.items()}
    assert json.loads(line) == expected


def test_what_dumps_writes_read_jsonl_reads(tmp_path):
    path = tmp_path / "a.jsonl"
    values = [{"text": "\ud800 lone"}, {"number": 2**100}, {"plain": [1, 2.5, None]}]
    path.write_bytes(b"".join(map(dumps, values)))
    assert [value for _, value in read_jsonl(path)] == values


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_is_no_number_becomes_null_also_beside_a_lone_surrogate(number):
    assert json.loads(dumps({"number": number})) == {"number": None}
    assert json.loads(dumps({"number": number, "text": "\ud800"})) == {"number": None, "text": "\ud800"}


def test_appending_adds_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    append_line(path, {"a": 1})
    append_line(path, {"b": 2})
    assert path.read_bytes() == b'{"a":1}\n{"b":2}\n'


def test_several_processes_that_append_do_not_mix_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    code = (
        "import sys; from gym_llm.data.files.jsonl import append_line\n"
        "for n in range(200): append_line(sys.argv[1], {'writer': sys.argv[2], 'n': n, 'text': 'x' * 5000})"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), str(writer)]) for writer in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    seen = [(value["writer"], value["n"]) for _, value in read_jsonl(path)]
    assert sorted(seen) == sorted((str(writer), n) for writer in range(3) for n in range(200))


LINES = [dumps({"n": n, "text": "é" * n}) for n in range(5)]


@given(st.integers(0, sum(map(len, LINES))))
def test_a_file_cut_anywhere_is_repaired_to_its_whole_lines(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "a.jsonl"
    path.write_bytes(b"".join(LINES)[:cut])
    removed = repair_tail(path)
    kept = path.read_bytes()
    assert len(kept) + removed == cut
    assert kept in {b"".join(LINES[:count]) for count in range(len(LINES) + 1)}
    assert removed < max(map(len, LINES))
    assert repair_tail(path) == 0


@settings(max_examples=10, deadline=None)
@given(st.integers((1 << 16) - 2, (1 << 16) + 2), st.sampled_from([b"", b"{}\n"]))
def test_an_unfinished_line_longer_than_what_is_read_at_once_is_cut_off(tmp_path_factory, length, before):
    path = tmp_path_factory.mktemp("long") / "a.jsonl"
    path.write_bytes(before + b"x" * length)
    assert repair_tail(path) == length
    assert path.read_bytes() == before


def test_repairing_nothing_changes_nothing(tmp_path):
    assert repair_tail(tmp_path / "missing.jsonl") == 0
    assert not (tmp_path / "missing.jsonl").exists()
    empty = Path(tmp_path / "empty.jsonl")
    empty.touch()
    assert repair_tail(empty) == 0


class Mute:
    def __repr__(self):
        raise RuntimeError("says nothing")


class Odd(dict):
    def items(self):
        raise RuntimeError("has nothing")


@dataclass
class Point:
    x: object


def cycle():
    value = {"a": [1]}
    value["a"] += [value, value]
    return value


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (10**5000, "(cannot be written: int)"),
        (Mute(), "(cannot be written: Mute)"),
        ({Mute(): 1, 10**5000: 2}, {"(cannot be written: Mute)": 1, "(cannot be written: int)": 2}),
        (Odd(a=1), "(cannot be written: Odd)"),
        (cycle(), {"a": [1, "(a part of itself)", "(a part of itself)"]}),
        (np.array([Mute()]), ["(cannot be written: Mute)"]),
        (Point(Mute()), "(cannot be written: Point)"),
        (Point(1), {"x": 1}),
        (datetime(2026, 11, 22), "2026-11-22T00:00:00"),
        (10**4000, 10**4000),
        (object, "<class 'object'>"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("indent", [False, True])
def test_what_cannot_be_written_is_a_text_in_its_place_and_the_rest_is_written(value, written, indent):
    line = dumps({"before": 1.5, "odd": value, "after": ["\ud800"]}, indent=indent)
    read = json.loads(line)
    assert read == {"before": 1.5, "odd": written, "after": ["\ud800"]}
    assert indent or line.count(b"\n") == 1


@pytest.mark.parametrize("line", [b"\xef\xbb\xbf{}", "{}".encode("utf-16"), b'{"a": 1e999}', b'{"a": NaN}', b"\xff"])
def test_what_is_not_quite_json_is_not_read(tmp_path, line):
    (tmp_path / "a.jsonl").write_bytes(line)
    with pytest.raises(DataError, match=r"a\.jsonl, line 1: not JSON"):
        list(read_jsonl(tmp_path / "a.jsonl"))
