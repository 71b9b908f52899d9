"""Long JSON texts are parsed in pieces: the values stay the same, and other threads run meanwhile."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from gym_llm.protocols.http.long_bodies import PIECE, loads_in_pieces
from gym_llm.utils.json_codec import loads

MANY = ",".join(str(number) for number in range(PIECE // 2))
FLOATS = ", ".join(str(-number / 7) for number in range(PIECE // 4))


@pytest.mark.parametrize(
    "text",
    [
        f"[{MANY}]",
        f'{{"a": [[{MANY}], "b", {{"c": [{FLOATS}]}}], "d": [1, [], {{}}]}}',
        f'{{"a": [{MANY}], "a": 2}}',
        f'{{"text": "[{MANY}]", "list": [{MANY}]}}',
        f'{{"text": "\\\\\\"[{MANY}]", "\\\\": [{MANY}, 1e400]}}',
        f'["[{MANY},,]"]',
        f'["[{MANY} and words]"]',
        f'["\\ud800", [{MANY}]]',
        f"[{' ' * 3 * PIECE}]",
        f"[{'9' * 30}, {MANY}]",
        f'["a", {MANY}, "b", {FLOATS}, {{}}]',
        f"[{MANY}, {'1' * 3 * PIECE}]",
        json.dumps({"a": "x" * 3 * PIECE}),
    ],
)
def test_values_are_the_same_as_those_of_the_whole_text(text: str) -> None:
    body = text.encode()
    try:
        expected = loads(body)
    except ValueError:
        with pytest.raises(ValueError):
            loads_in_pieces(body)
    else:
        value = loads_in_pieces(body)
        assert value == expected and repr(value) == repr(expected)


@pytest.mark.parametrize(
    "text",
    [
        f"[{MANY},]",
        f"[{MANY},,1]",
        f"[,{MANY}]",
        f"[{MANY}",
        f"{MANY}]",
        f"[{MANY}] 1",
        f"[{MANY} 1]",
        f"1[{MANY}]",
        f"{{[{MANY}]: 1}}",
        f'{{"a": {MANY}}}',
        f'{{"a": {MANY}: 1}}',
        f"[[{MANY}] [{MANY}]]",
        f"[{MANY}, NaN]",
        f"[{MANY}, --1]",
        f'"[{MANY}]',
    ],
)
def test_what_is_not_json_is_refused(text: str) -> None:
    for parse in (loads, loads_in_pieces):
        with pytest.raises(ValueError):
            parse(text.encode())


def turns_meanwhile(parse: Callable[[bytes], Any], body: bytes) -> int:
    """How often another thread runs while this one parses."""
    turns, is_over = [0], threading.Event()

    def turn() -> None:
        while not is_over.is_set():
            turns[0] += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        before = turns[0]
        parse(body)
        return turns[0] - before
    finally:
        is_over.set()
        thread.join()


@pytest.mark.parametrize("end", ["1]}", '1,"x"]}', "x]}", ",1]}", "1"])
def test_other_threads_run_while_two_million_numbers_are_parsed(end: str) -> None:
    body = b'{"x":[' + b"70000," * 2_000_000 + end.encode()

    def parse(body: bytes) -> None:
        try:
            loads_in_pieces(body)
        except ValueError:
            assert end not in ("1]}", '1,"x"]}')

    assert turns_meanwhile(parse, body) > 20
