#!/bin/bash
cat > /app/ranges/__init__.py <<'END'
"""Ranges of days."""

from ranges.days import days, gaps, merge

__all__ = ["days", "gaps", "merge"]
END
cat > /app/ranges/days.py <<'END'
"""What can be done with pairs of dates, the last day included."""

from datetime import timedelta

_DAY = timedelta(days=1)


def days(ranges):
    """How many days they cover together."""
    return sum((last - first).days + 1 for first, last in merge(ranges))


def merge(ranges):
    """The ranges in order, joined where they touch."""
    merged = []
    for first, last in sorted(ranges):
        if last < first:
            raise ValueError(f"a range ends on {last}, before it begins on {first}")
        if merged and first <= merged[-1][1] + _DAY:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def gaps(ranges):
    """The ranges between them that none covers."""
    merged = merge(ranges)
    return [(before[1] + _DAY, after[0] - _DAY) for before, after in zip(merged, merged[1:])]
END
