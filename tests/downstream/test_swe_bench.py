"""SWE-bench's and SWE-smith's own packages: their log parsers, commands and images are ours."""

from __future__ import annotations

import pytest
from peers import in_peer


@pytest.mark.slow
def test_the_log_parsers_of_swe_bench_read_random_logs_as_ours_do() -> None:
    answer = in_peer("swebench", "swe_bench_parsers.py", "swebench")
    assert answer["unequal"] == 0, answer["first"]
    assert answer["parsers"] == 20 + 20 and answer["logs"] > 40 * 290 and answer["states"] > 40_000


@pytest.mark.slow
def test_the_parsers_commands_and_images_of_swe_smith_are_ours() -> None:
    answer = in_peer("swesmith", "swe_bench_parsers.py", "swesmith")
    assert answer["unequal"] == 0, answer["first"]
    assert answer["parsers"] == 6 and answer["logs"] == 6 * 300
    assert answer["profiles"] >= 130 and [one[0] for one in answer["odd profiles"]] == ["python__mypy.e93f06ce"]
    assert answer["versions"] == 300 and answer["unequal versions"] == [], "Multilingual's, in swebench 4"
