"""Which constraints a text follows, strictly and loosely: at once, or in a worker process where that takes long."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from math import inf
from time import thread_time
from typing import NamedTuple

from gym_llm.grading.constraints.constraint import Check
from gym_llm.grading.text_metrics import in_worker
from gym_llm.types import Verdict


def loose_variants(text: str) -> Iterator[str]:
    r"""Yield the eight variants of a text, one of which must follow a loose constraint; blank ones are left out.

    The variants are the text, and the text without its first line, its last line or both, each with and without stars.

    >>> list(loose_variants("Sure:\n*Hello*"))
    ['Sure:\n*Hello*', 'Sure:\nHello', '*Hello*', 'Sure:', 'Hello', 'Sure:']
    """
    lines = text.split("\n")
    cut = ["\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1])]
    for variant in (text, text.replace("*", ""), *cut, *(part.replace("*", "") for part in cut)):
        if variant and not variant.isspace():
            yield variant


LONGEST_QUICK = 10_000
"""Characters of a text that one check is done with in 30 ms at most, and as a rule in a hundredth of that."""
QUICK_SECONDS = 0.015
"""After which no further check is begun on the event loop."""
DEADLINE = 5.0
"""Seconds of CPU time after which a text follows nothing."""


class Job(NamedTuple):
    """A text, and the constraints that it should follow."""

    text: str
    checks: tuple[Check, ...]
    loose: bool = False
    """Whether it is read loosely too."""
    blank_fails: bool = True
    """Whether white space alone follows nothing, even a constraint that it would pass."""
    conform: bool = False
    """Whether the official graders' rules count where ours differ."""


class Followed(NamedTuple):
    """For each constraint whether the text follows it."""

    strict: list[bool]
    loose: list[bool]
    """Likewise for the text's loose variants; equal to `strict` where it was not read loosely."""


def follow(job: Job) -> Followed:
    """Check a text. Loosely, one of its `loose_variants` is enough for each constraint."""
    return _follow(job, inf)  # type: ignore[return-value]  # there is no end of that time


def follow_quickly(job: Job) -> Followed | None:
    """Check a text as `follow` does, or return None if that takes some milliseconds: then use `follow_later`."""
    if len(job.text) > LONGEST_QUICK or any(check.slow for check in job.checks):
        return None
    return _follow(job, thread_time() + QUICK_SECONDS)


async def follow_later(job: Job) -> Followed:
    """Check a text as `follow` does, in a worker process; one that takes longer than `DEADLINE` follows nothing."""
    return await in_worker("gym_llm.grading.constraints.following:follow", job, DEADLINE) or _nothing(job)


def follow_then(job: Job, finish: Callable[[Followed], Verdict]) -> Verdict | Awaitable[Verdict]:
    """Check a text, at once or in a worker process, and return what `finish` makes of the result."""
    followed = follow_quickly(job)
    return _finish_later(job, finish) if followed is None else finish(followed)


async def _finish_later(job: Job, finish: Callable[[Followed], Verdict]) -> Verdict:
    return finish(await follow_later(job))


def _follow(job: Job, until: float) -> Followed | None:
    """Check a text, if no check has to be begun after that time; else None."""
    text, checks, loose, blank_fails, conform = job
    if blank_fails and not text.strip():
        return _nothing(job)
    strict = []
    for check in checks:
        if thread_time() > until:
            return None
        strict.append(check(text, conform=conform))
    if not loose or all(strict):
        return Followed(strict, strict)
    found = list(strict)
    for variant in {**dict.fromkeys(loose_variants(text)), text: None}:
        for index, check in enumerate(checks):
            if not found[index]:
                if thread_time() > until:
                    return None
                found[index] = check(variant, conform=conform)
    return Followed(strict, found)


def _nothing(job: Job) -> Followed:
    return Followed([False] * len(job.checks), [False] * len(job.checks))
