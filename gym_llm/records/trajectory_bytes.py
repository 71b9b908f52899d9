"""Finding the trajectory in a line of a rollout file without parsing it.

Most of a record's bytes are its trajectory: numbers that take longest to parse, and that lists and checks of texts do
not need.

1. In JSON the bytes `,"trajectory":[{` are always a key and the start of its value. In a text the quotes are escaped.
2. The value ends at the first `]}]` if it contains no text, that is, if its only quotes are those of the known
    keys.
3. Otherwise, or if the rest of the line is not a record, the whole line has to be parsed.
"""

from __future__ import annotations

from gym_llm.errors import DataError
from gym_llm.records.record import check_record
from gym_llm.types import Rollout
from gym_llm.utils.json_codec import loads

_KEY = b',"trajectory":[{'
_NAMES = (b"input_ids", b"loss_mask", b"logprobs", b"rewards", b"constrained", b"weight_versions")
_COLUMNS = tuple(b'"%b":[' % name for name in _NAMES)


def find_trajectory(line: bytes) -> tuple[int, int]:
    """Return the place of a line's trajectory, with the comma before it, and its length.

    (the line's length, 0) if it has none that can be cut out.

    >>> find_trajectory(b'{"a":1,"trajectory":[{"input_ids":[1],"loss_mask":[0],"logprobs":[0.0]}],"b":2}')
    (6, 66)
    """
    start = line.find(_KEY)
    if start >= 0:
        end = at = start + len(_KEY)
        while (end := line.find(b"]", end)) >= 0 and not line.startswith(b"]}]", end):  # looks for a byte are fastest
            end += 1
        while end >= 0 and (at := line.find(b'"', at, end)) >= 0:
            length = next((len(name) for name in _COLUMNS if line.startswith(name, at)), 0)
            if not length:
                return len(line), 0
            at += length
        if end >= 0:
            return start, end + 3 - start
    return len(line), 0


def read_without_trajectory(line: bytes) -> Rollout:
    """Read a line as `gym_llm.records.record.check_record` does, without its trajectory where that can be cut out.

    Raises:
        ValueError: If the line is not JSON.
        DataError: If it is not a record.
    """
    start, length = find_trajectory(line)
    if length:
        try:
            return check_record(loads(line[:start] + line[start + length :]))
        except (ValueError, DataError):
            pass  # it was something else
    return check_record(loads(line))
