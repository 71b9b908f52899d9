"""When statistics on disk and in memory agree."""

from __future__ import annotations

from typing import Any

import pytest

from gym_llm.data.prepare.dataset_metrics_files import differences


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"a": 1000.0}, {"a": 1004.9}),
        ({"a": 0.001}, {"a": 0.0014}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": {"b": "x"}}, {"a": {"b": "x", "c": 1}, "d": 2}),
        ({}, {"a": 1}),
        ({"a": None}, {}),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
    ],
)
def test_metrics_agree(old: Any, new: Any) -> None:
    assert differences(old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ({"a": 1000.0}, {"a": 1006.0}, "a: 1000.0 on disk, 1006.0 now"),
        ({"a": 1000}, {"a": 1001}, "a: 1000 on disk, 1001 now"),
        ({"a": {"b": "x"}}, {"a": {"b": "y"}}, "a.b: 'x' on disk, 'y' now"),
        ({"a": {"b": 1}}, {"a": {}}, "a.b: 1 on disk, not there now"),
        ({"a": None}, {"a": 0}, "a: None on disk, 0 now"),
        ({"a": True}, {"a": 1}, "a: True on disk, 1 now"),
        ({"a": {"b": 1}}, {"a": 2}, "a: {'b': 1} on disk, 2 now"),
    ],
)
def test_a_difference_names_the_key_and_both_values(old: Any, new: Any, sentence: str) -> None:
    assert differences(old, new) == [sentence]
