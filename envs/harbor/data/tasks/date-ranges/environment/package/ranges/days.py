"""What can be done with pairs of dates, the last day included."""

from datetime import timedelta


def days(ranges):
    """How many days they cover together."""
    return sum((last - first).days + 1 for first, last in merge(ranges))


def merge(ranges):
    """The ranges in order, joined where they touch."""
    merged = []
    ranges.sort()
    for first, last in ranges:
        if merged and first <= merged[-1][1] + timedelta(days=1):
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged
