"""Limits of input from models, servers, hubs and files: name, environment variable and meaning.

A variable is read where its limit is used, in each process: set it before a run, and for Ray on all machines.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from gym_llm.errors import UsageError


class Limit(NamedTuple):
    """A limit: what it is unless its variable is set, and the least that this can say."""

    default: int
    least: int
    what: str


ITEMS, CALLS, VALUES = "GYM_LLM_MAX_ITEMS", "GYM_LLM_MAX_CALLS", "GYM_LLM_MAX_VALUES"
RESPONSE_BYTES, HUB_BYTES = "GYM_LLM_MAX_RESPONSE_BYTES", "GYM_LLM_MAX_HUB_BYTES"
ROW_BYTES, EXPANSION, WINDOW_BYTES = "GYM_LLM_MAX_ROW_BYTES", "GYM_LLM_MAX_EXPANSION", "GYM_LLM_MAX_WINDOW_BYTES"
REQUEST_BYTES, FILE_BYTES = "GYM_LLM_MAX_REQUEST_BYTES", "GYM_LLM_MAX_FILE_BYTES"
REQUEST_VALUES, SERVER_BYTES = "GYM_LLM_MAX_REQUEST_VALUES", "GYM_LLM_MAX_SERVER_BYTES"
_LONG = 10_000
FEW = 64
"""Of items and calls there may always be so many: short answers are not even compared with the limits."""

LIMITS: dict[str, Limit] = {
    ITEMS: Limit(4_096, FEW, "items of an answer, and parts of one item; an answer with more is none"),
    CALLS: Limit(512, FEW, "calls of a turn that are made; the model is told of the rest"),
    VALUES: Limit(16_384, 1_000, "JSON values in the arguments of a turn's calls; the model is told of the rest"),
    RESPONSE_BYTES: Limit(
        1 << 26, 1, "bytes of a server's answer, decompressed (128,000 tokens with log probabilities take 15 MiB)"
    ),
    REQUEST_BYTES: Limit(1 << 25, 1, "bytes of a request to a server"),
    REQUEST_VALUES: Limit(1 << 17, 1_000, "texts, lists and objects of a request to a server; 16 numbers are one"),
    SERVER_BYTES: Limit(
        1 << 32, 1 << 20, "bytes that a server's large requests and sessions hold together in one process"
    ),
    HUB_BYTES: Limit(1 << 26, 1, "bytes of a registry's answer about its data sets (files of theirs may be larger)"),
    FILE_BYTES: Limit(1 << 33, 1, "bytes of a file that is fetched from a hub or a URL"),
    ROW_BYTES: Limit(1 << 25, 1, "bytes of a row of a task file"),
    EXPANSION: Limit(1_000, 1, "times the compressed bytes that a row group of a parquet file becomes, above 64 MiB"),
    WINDOW_BYTES: Limit(1 << 27, 1 << 10, "bytes of the window of a `.zst` file"),
}


def limit(variable: str) -> int:
    """Return the current value of a limit.

    Args:
        variable: One of `LIMITS`.

    Raises:
        UsageError: If the environment has something else for it than a whole number that is large enough.

    >>> limit("GYM_LLM_MAX_ROW_BYTES")
    33554432
    """
    default, least, _ = LIMITS[variable]
    text = os.environ.get(variable)
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) >= least):
        raise UsageError(f"The variable {variable} is a whole number of {least} or more, got {text[:40]!r}.")
    return int(text)


def check_limits() -> None:
    """Raise the UsageError of a variable that is wrong before anything has begun."""
    for variable in LIMITS:
        limit(variable)


def count_values(text: str, most: int) -> int:
    r"""Return the number of JSON values in a text, or some larger number if it exceeds `most`. Linear in its length.

    The function counts separators outside of strings: a string of 1 MB full of commas is one value.

    >>> count_values("[1, 2, [3]]", 9), count_values('["a, b, \\", c", ""]', 9)
    (5, 3)
    """
    if len(text) < _LONG:
        text = text.replace("\\\\", "").replace('\\"', "") if "\\" in text else text
        if text.count('"') > 4 * most:  # each value is one string, or two with its name
            return most + 1
        text = "".join(text.split('"')[::2])
        return text.count(",") + text.count("[") + text.count("{") + 1
    # The same with arrays: a text of a hundred thousand quotes is read several times faster.
    import numpy as np  # not needed by who only asks for a limit, e.g. the command line's help

    data = np.frombuffer(text.replace("\\\\", "").encode("utf-8", "surrogatepass"), np.uint8)
    quotes = data == ord('"')
    quotes[1:] &= data[:-1] != ord("\\")
    if np.count_nonzero(quotes) > 4 * most:
        return most + 1
    outside = np.bitwise_xor.accumulate(quotes.view(np.uint8)) == 0
    separators = (data == ord(",")) | (data == ord("[")) | (data == ord("{"))
    return int(np.count_nonzero(outside & separators)) + 1


def check_seconds(name: str, seconds: Any) -> None:
    """Check an argument that is a number of seconds.

    Raises:
        ValueError: If the argument is not a number above 0, or more than a day.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= 86_400:
        raise ValueError(f"{name} is a number of seconds above 0, at most a day; got {seconds!r}.")
