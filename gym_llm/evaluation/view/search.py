"""Full-text search over a rollout file: on the lines as they are written, in a thread of its own."""

from __future__ import annotations

import json
from threading import Event, Lock, Thread

import orjson

from gym_llm.evaluation.view.index import RunIndex

_BATCH = 8 << 20
_MOST_LINES = 65_536
LONGEST_QUERY = 1000


def needles(query: str) -> list[bytes]:
    r"""Return the byte forms of a text in a line: with JSON escapes of either style, or as given; ASCII in lower case.

    >>> needles("Café")
    [b'caf\xc3\xa9', b'caf\\u00e9']
    """
    text = query.encode(errors="replace").decode()
    ways = (orjson.dumps(text)[1:-1], json.dumps(text)[1:-1].encode(), text.encode())
    return list(dict.fromkeys(way.lower() for way in ways))


class Search:
    """A search through a file. It runs until it is complete or cancelled, and again when rows are added.

    ASCII letters are found in either case. Trajectories are left out: they are numbers, and a number is in all of them.

    Args:
        index: The file.
        query: The text.

    Attributes:
        query: The text.
    """

    def __init__(self, index: RunIndex, query: str) -> None:
        self.query = query
        self._index = index
        self._generation = index.generation
        self._needles = needles(query)
        self._matches: list[int] = []
        self._searched = 0
        self._through = Event()
        self._cancelled = False
        self._thread: Thread | None = None
        self._lock = Lock()

    @property
    def is_of_this_file(self) -> bool:
        """Whether the file is still the one that was searched, not replaced by another."""
        return self._generation == self._index.generation and not self._cancelled

    def matches(self, deadline: float) -> tuple[list[int], float]:
        """Return the matching rows that are known before the deadline (seconds), and the share searched."""
        rows = len(self._index.table)
        with self._lock:
            is_running = self._thread is not None and self._thread.is_alive()
            if self._searched < rows and not is_running:
                self._through.clear()
                self._thread = Thread(target=self._run, name="search", daemon=True)
                self._thread.start()
        if self._searched < rows:
            self._through.wait(deadline)
        searched = min(self._searched, rows)
        return list(self._matches), searched / rows if rows else 1.0

    def cancel(self) -> None:
        """Stop it; what was found stays."""
        self._cancelled = True

    def _run(self) -> None:
        try:
            while self._search_batch():
                pass
        except OSError:  # the file was closed
            self._cancelled = True
        finally:
            self._through.set()

    def _search_batch(self) -> bool:
        """Search a few lines more; whether there were any."""
        table, first = self._index.table, self._searched
        if not self.is_of_this_file or first >= len(table):
            return False
        places = table.select(
            "n, offset, length, cut, cut_length",
            "WHERE n >= ? AND n <= ? AND offset + length <= (SELECT offset FROM episodes WHERE n = ?) + ? OR n = ?",
            (first, first + _MOST_LINES, first, _BATCH, first),
        )
        start = places[0][1]
        block = self._index.read(start, min(places[-1][1] + places[-1][2] - start, 8 * _BATCH))
        for n, offset, length, cut, cut_length in places:
            begin = offset - start
            text = block[begin : begin + cut].lower()
            rest = block[begin + cut + cut_length : begin + length].lower() if cut_length else b""
            if any(needle in text or needle in rest for needle in self._needles):
                self._matches.append(n)
            if self._cancelled:
                return False
        self._searched = first + len(places)
        return True
