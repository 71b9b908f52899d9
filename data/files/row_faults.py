"""Faults of a file's rows, by reason: what `data prepare` and `data upload` report."""

from __future__ import annotations

from dataclasses import dataclass, field

_SHOWN_FAULTS = 100
_SHOWN_RANGES = 20


@dataclass
class Fault:
    """A reason why rows of a file were refused."""

    detail: str  # what is special to the first of them; may be empty
    rows: int = 0
    ranges: list[tuple[int, int]] = field(default_factory=list)  # first and last lines, no more than are shown

    def add(self, number: int) -> None:
        """Count the row of this line."""
        self.rows += 1
        if self.ranges and self.ranges[-1][1] == number - 1:
            self.ranges[-1] = (self.ranges[-1][0], number)
        elif len(self.ranges) < _SHOWN_RANGES:
            self.ranges.append((number, number))


class Faults:
    """All that is wrong with a file, by reason; limited to what can be read, however many rows are bad.

    >>> faults = Faults("train.jsonl")
    >>> for number in (2, 3, 7):
    ...     faults.add(number, "the line is empty", "")
    >>> print(faults.report())
    train.jsonl: 3 bad rows
      lines 2-3, 7: the line is empty
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._faults: dict[str, Fault] = {}
        self.rows = 0

    def add(self, number: int, reason: str, detail: str) -> None:
        """Count the bad row of this line; for reason and detail see `BadRow`."""
        self.rows += 1
        if reason in self._faults or len(self._faults) < _SHOWN_FAULTS:
            self._faults.setdefault(reason, Fault(detail)).add(number)

    def report(self) -> str:
        """Return one line per reason: the line numbers (from 1; row n of a dataset is line n + 1) and the problem."""
        lines = [f"{self._path}: {_counted(self.rows, 'bad row')}"]
        for fault_reason, fault in self._faults.items():
            places = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in fault.ranges)
            listed_rows = sum(high - low + 1 for low, high in fault.ranges)
            more = f" and {_counted(fault.rows - listed_rows, 'more')}" if listed_rows < fault.rows else ""
            noun = "line" if fault.rows == 1 else "lines"
            detail = f" ({'first: ' if fault.rows > 1 else ''}{fault.detail})" if fault.detail else ""
            lines.append(f"  {noun} {places}{more}: {fault_reason}{detail}")
        if others := self.rows - sum(fault.rows for fault in self._faults.values()):
            lines.append(f"  and {_counted(others, 'more row')} with other faults")
        return "\n".join(lines)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 or noun == 'more' else 's'}"
