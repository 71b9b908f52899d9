"""Formatting results and pages for the model."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from gym_llm.envs.search.bm25 import Found

_LONGEST = 10_000  # words
_ENDS = 5_000  # characters of a longer page's beginning, and of its end
_SUMMARY = 2_000  # characters
_MOST_WORDS = 10_000
_LINE = "=" * 40


def excluded_domains(path: str | None) -> frozenset[str]:
    """The domains of a file of notices; none without one.

    Raises:
        ValueError: If it cannot be read so.
    """
    if path is None:
        return frozenset()
    try:
        with open(path, encoding="utf-8") as file:
            notices = json.load(file)["notices"]
        properties = [each for notice in notices for each in notice["properties"]]
        return frozenset(each["value"].lower() for each in properties if each.get("type") == "domain")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"exclude_domains_file_path: {path} must be JSON of notices[].properties[] with type and value "
            f"({type(error).__name__})."
        ) from None


def excluded(url: str, domains: frozenset[str]) -> bool:
    """Whether a page's host is one of these domains, or below one."""
    labels = host_of(url).rstrip(".").split(".")
    return any(".".join(labels[place:]) in domains for place in range(min(len(labels), 50)))


def host_of(url: str) -> str:
    """A URL's host, or the URL itself."""
    try:
        return (urlsplit(url).hostname or url).lower()
    except ValueError:
        return url


def shortened(text: str) -> str:
    """A page; of a very long one its beginning and its end."""
    if len(text) <= 2 * _ENDS or len(text.split(maxsplit=_LONGEST)) <= _LONGEST:
        return text
    return f"{text[:_ENDS]}...{text[-_ENDS:]}"


def as_results(found: list[Found]) -> str:
    """Results for reading."""
    entries = (
        f"[{number}] {each.title} ({host_of(each.url)})\n    URL: {each.url}\n    Summary: {_cut(each.summary)}\n\n"
        for number, each in enumerate(found, 1)
    )
    return "Search Results\n==============\n" + "".join(entries)


def around(url: str, query: str, text: str) -> str:
    """The part of a page that says most about a query, with line numbers."""
    words = {word for word in query.lower().split() if len(word) > 2}
    lines = text[:200_000].split("\n")
    hits = [sum(word in line.lower() for word in words) for line in lines]
    best = max(range(len(lines)), key=hits.__getitem__)
    part: list[str] = []
    start, size = max(0, best - 3), 0
    for line in lines[start:]:
        if part and size + len(line) > _SUMMARY:
            break
        part.append(line[:_SUMMARY])
        size += len(line) + 1
    whole = len(part) == len(lines) and len(text) <= 200_000
    head = f'Content from: {host_of(url)}\nURL: {url}\nQuery: "{query}"\n{_LINE}\n'
    return head + _numbered(part, start) + ("" if whole else "\n[...truncated, use scroll_page for full content]")


def scrolled(url: str, text: str, start: int, count: int) -> tuple[str, int]:
    """Return a number of words of a page, and the number of all words."""
    words = text.split()
    start = min(max(0, start), len(words))
    end = min(start + min(max(0, count), _MOST_WORDS), len(words))
    head = f"Page content from: {host_of(url)}\nURL: {url}\nShowing words [{start}-{end}] of {len(words)}\n{_LINE}\n"
    return head + _numbered([" ".join(words[start:end])], 0), len(words)


def _numbered(lines: list[str], first: int) -> str:
    return "\n".join(f"L{number}: {line}" for number, line in enumerate(lines, first))


def _cut(text: str) -> str:
    if len(text) <= _SUMMARY:
        return text
    end = text.rfind("\n", 0, _SUMMARY)
    return text[: end if end > 0 else _SUMMARY]
