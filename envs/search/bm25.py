"""Searching files on this machine: BM25 over the words of documents (Robertson and Zaragoza 2009)."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gym_llm.data.files.reading import read_objects
from gym_llm.errors import DataError

_WORD = re.compile(r"\w+")
_K1, _B = 1.2, 0.75
_MOST_TERMS = 64
_SNIPPET = 300  # characters
_TEXTS = ("*.md", "*.txt")


class Document(NamedTuple):
    """A page that can be found."""

    url: str
    title: str
    text: str


class Found(NamedTuple):
    """A search's result."""

    title: str
    url: str
    summary: str


def read_documents(source: str) -> list[Document]:
    """Yield the documents of a source, in order.

    Args:
        source: A JSON Lines file of objects with `url`, `title` and `text`. Or a folder whose .md and .txt files are
            the documents: a path is the URL, `file:a/b.md`, and the first line the title.

    Raises:
        DataError: If there are no documents, or a line is invalid.
    """
    path = Path(source)
    documents = []
    if path.is_dir():
        for file in sorted(file for pattern in _TEXTS for file in path.rglob(pattern)):
            text = file.read_text("utf-8", errors="replace")
            title = text.strip().partition("\n")[0].lstrip("# ")[:200] or file.stem
            documents.append(Document(f"file:{file.relative_to(path).as_posix()}", title, text))
    else:
        for number, row in read_objects(source):
            if not all(isinstance(row.get(name), str) for name in Document._fields):
                raise DataError(f"{source}, line {number}: a document has the texts url, title and text.")
            documents.append(Document(*(row[name] for name in Document._fields)))
    if not documents:
        raise DataError(
            f"{source} has no documents: give a JSON Lines file of them, or a folder of .md and .txt files."
        )
    return documents


class Index:
    """An inverted index of documents.

    Args:
        documents: What can be found.
    """

    def __init__(self, documents: list[Document]) -> None:
        self.documents = documents
        self._places = {document.url: place for place, document in enumerate(documents)}
        counted = [Counter(_words(f"{document.title} {document.text}")) for document in documents]
        lengths = [max(1, counts.total()) for counts in counted]
        mean = sum(lengths) / len(lengths)
        entries: dict[str, tuple[list[int], list[float]]] = {}
        for place, counts in enumerate(counted):
            base = _K1 * (1 - _B + _B * lengths[place] / mean)
            for word, count in counts.items():
                places, weights = entries.setdefault(word, ([], []))
                places.append(place)
                weights.append(count * (_K1 + 1) / (count + base))
        self._entries = {
            word: (np.array(places), np.array(weights) * _rarity(len(places), len(documents)))
            for word, (places, weights) in entries.items()
        }

    def search(self, query: str, count: int = 10) -> list[Found]:
        """The best documents, of equal ones the first."""
        terms = list(dict.fromkeys(_words(query)))[:_MOST_TERMS]
        scores = np.zeros(len(self.documents))
        for term in terms:
            if term in self._entries:
                places, weights = self._entries[term]
                scores[places] += weights
        best = np.argsort(-scores, kind="stable")[:count]
        found = [self.documents[place] for place in best if scores[place] > 0]
        return [Found(each.title, each.url, _snippet(each.text, terms)) for each in found]

    def page(self, url: str) -> str | None:
        """A document's text; None if there is no such document."""
        place = self._places.get(url)
        return None if place is None else self.documents[place].text


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _rarity(occurrences: int, documents: int) -> float:
    return math.log(1 + (documents - occurrences + 0.5) / (occurrences + 0.5))


def _snippet(text: str, terms: list[str]) -> str:
    lower = text[:100_000].lower()
    place = min((at for term in terms if (at := lower.find(term)) >= 0), default=0)
    start = max(0, place - _SNIPPET // 3)
    return " ".join(text[start : start + _SNIPPET].split())


def as_google(found: list[Found]) -> str:
    """Results as Google's Custom Search says them."""
    items = [{"title": each.title, "link": each.url, "snippet": each.summary} for each in found]
    return json.dumps({"kind": "customsearch#search", "items": items}, ensure_ascii=False)
