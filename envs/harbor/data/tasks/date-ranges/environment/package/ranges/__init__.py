"""Ranges of days."""

from ranges.days import days, merge

__all__ = ["days", "merge"]
