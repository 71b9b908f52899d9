"""Statistics: the same figures as computing them from all values at once, however the rows come."""

from __future__ import annotations

import json
import math
import statistics
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_llm.data.prepare.dataset_metrics import WORDS, DatasetStatistics, Numbers, RowStatistics
from gym_llm.data.prepare.uniques import UniqueCounter, hash_values

TEXT = st.text(st.sampled_from(["a", " ", "\n", "\u00a0", "\x1f", '"', ":", ",", "é", "😀"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_words_are_those_of_json_dumps(params: dict[str, Any]) -> None:
    params = {"input": [], **params}
    rows = RowStatistics()
    rows.add({"responses_create_params": params})
    assert rows.summary().numbers[WORDS].mean == len(json.dumps(params).split())


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1), min_size=1, max_size=6), st.integers(1, 4))
def test_merged_figures_are_those_of_all_values(groups: list[list[float]], times: int) -> None:
    total = Numbers()
    for group in groups:
        total.add(Numbers.of(group))
    values = [value for group in groups for value in group for _ in range(times)]
    repeated = total.repeated(times)
    assert repeated.count == len(values)
    assert repeated.mean == pytest.approx(statistics.fmean(values), abs=1e-6)
    assert (repeated.low, repeated.high) == (min(values), max(values))
    if len(values) > 1:
        deviation = math.sqrt(repeated.squares / (repeated.count - 1))
        assert deviation == pytest.approx(statistics.stdev(values), rel=1e-6, abs=1e-6)


def test_figures_are_named_and_rounded_as_nemo_gym_does() -> None:
    assert Numbers.of([0.5, 0.75, 1]).as_dict() == {
        "Total # non-null values": 3,
        "Average": 0.75,
        "Min": 0.5,
        "Max": 1.0,
        "Standard deviation": 0.25,
    }
    assert Numbers.of([1.0, 2.0, 4.0]).as_dict()["Average"] == 2.33
    assert set(Numbers().as_dict().values()) == {0}


def test_a_spread_that_no_float_holds_is_null() -> None:
    assert Numbers.of([1e300, -1e300]).as_dict()["Standard deviation"] is None


def summed(*chunks: list[dict[str, Any]]) -> dict[str, Any]:
    total = DatasetStatistics("none")
    for rows in chunks:
        chunk = RowStatistics()
        for row in rows:
            chunk.add(row)
        total.add(chunk.summary())
    return total.as_dict()


ROWS = [
    {
        "responses_create_params": {"input": "Hi there", "temperature": 1, "top_p": 0.5, "seed": 7},
        "answer": "A",
        "level": 1,
        "tags": ["x", "y"],
        "ok": True,
    },
    {
        "responses_create_params": {
            "input": [{"role": "user", "content": "Hi there"}, {"role": "user", "content": [{"text": "?"}]}],
            "tools": [{"type": "function", "name": "f"}],
        },
        "answer": "A",
        "level": 2.5,
        "tags": ["x"],
        "nested": {"ignored": 1},
        "nothing": None,
    },
    {"responses_create_params": {"seed": 7, "top_p": 0.5, "temperature": 1, "input": "Hi there"}, "level": "hard"},
]


def test_every_kind_of_field_is_counted() -> None:
    metrics = summed(ROWS)
    assert metrics["Number of examples"] == 3
    assert metrics["Number of tools"]["Total # non-null values"] == 1
    assert metrics["Number of turns"]["Max"] == 2
    assert metrics["Temperature"]["Total # non-null values"] == 2
    assert metrics["Top p"]["Average"] == 0.5
    assert metrics["Seed"]["Max"] == 7
    assert metrics["Number of unique create params"] == 2  # the order of keys makes no difference
    assert metrics["Number of unique user messages"] == 2
    assert metrics["answer"] == {"unique_count": 1, "total_count": 2}
    assert metrics["tags"] == {"unique_count": 2, "total_count": 3}
    assert metrics["ok"]["Average"] == 1
    assert metrics["level"] == {**Numbers.of([1, 2.5]).as_dict(), "unique_count": 1, "total_count": 1}
    assert not {"nested", "nothing", "responses_create_params"} & metrics.keys()


def test_chunks_make_no_difference() -> None:
    assert summed(ROWS) == summed(ROWS[:1], ROWS[1:]) == summed(*([row] for row in ROWS))


def test_unique_values_are_counted_exactly_beyond_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gym_llm.data.prepare.uniques._IN_MEMORY_BYTES", 1024)
    monkeypatch.setattr("gym_llm.data.prepare.uniques._PART_BYTES", 4096)
    values = [b"%d" % (number % 3000) for number in range(7000)]
    counter = UniqueCounter()
    for start in range(0, 7000, 500):
        counter.add(hash_values(values[start : start + 500]))
    assert counter.count() == 3000
    assert counter.count() == 3000  # counting takes nothing away
