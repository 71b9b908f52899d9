"""Find citations of a grammar in a text, by the rules of NeMo Gym's `citation_if`, reimplemented."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

GRAMMARS = {
    "cite_xml": "<cite>(IDS)</cite>",
    "ascii_brackets": r"\[(ID)\](?!\()",
    "claim_wrap_xml": '<cite index="(IDS)">',
    "fullwidth_brackets": "\u3010(ID)\u3011",
    "ref_colon": r"\[ref:(ID)\]",
    "double_angle": "<<(ID)>>",
    "web_brackets": r"\[web:(ID)\]",
    "paren_part": r"\((ID)\)",
    "markdown_footnote": r"\[\^(ID)\]",
    "curly_double": r"\{\{(ID)\}\}",
    "angle_pipe": r"<ref\|(ID)>",
}
TAGS = ("cite_xml", "claim_wrap_xml")
"""Grammars of tags, which can cite several ids and must be closed."""
DEFAULT_ID = {"full_source": "citation_[0-9]+", "snippet": "citation_[0-9]+:snippet_[0-9]+"}
# Sets of both cases: a search that ignores case is several times slower.
_ATTEMPT = re.compile(f"{''.join(f'[{letter}{letter.upper()}]' for letter in 'citation')}_[A-Za-z0-9_:]+")

_WORD = re.compile(r"\w")
_ASCII_WORD = re.compile(r"[A-Za-z0-9_]")  # many times faster
_CLOSING = "</cite>"
_OPENED = re.compile(r"<[cC][iI][tT][eE]\b")
_CLOSED = re.compile(r"</[cC][iI][tT][eE]\s*+>")
_MOST_SPANS = 2_000
# Letters, then character sets, of which at most one repeats without a limit: such a pattern cannot backtrack.
_SIMPLE_SET = r"\[[\w-]+\]"
_SIMPLE_ID = re.compile(rf"[A-Za-z]\w{{2,40}}(?:[\w:-]|{_SIMPLE_SET}(?:\{{\d{{1,2}}\}})?){{0,40}}(?:{_SIMPLE_SET}\+)?")


@dataclass(slots=True, frozen=True)
class Citations:
    """The citations of a text.

    Attributes:
        ids: The cited ids in order, each once.
        attempt_left: Whether text outside the citations looks like an id, or a tag lacks its partner.
        has_answer: Whether there is a word outside the citations; a wrapped claim counts.
    """

    ids: list[str]
    attempt_left: bool
    has_answer: bool


@lru_cache(maxsize=256)
def is_simple(id_regex: str) -> bool:
    """Return whether a search for this pattern takes linear time and can do without a worker process.

    >>> is_simple("citation_[a-z0-9]{4}:snippet_[0-9]+"), is_simple("(a+)+")
    (True, False)
    """
    return _SIMPLE_ID.fullmatch(id_regex) is not None


def read_citations(grammar_id_and_text: tuple[str, str, str]) -> Citations:
    """Return the citations of a grammar in a text.

    Args:
        grammar_id_and_text: The grammar's name, the pattern of its ids, and the text. Call this function in a worker
            process unless the pattern `is_simple`.

    >>> read_citations(("ref_colon", "citation_[0-9]+", "Yes [ref:citation_7], citation_8."))
    Citations(ids=['citation_7'], attempt_left=True, has_answer=True)
    """
    grammar, id_regex, text = grammar_id_and_text
    ids: list[str] = []
    outside: list[str] = []
    claims: list[str] = []
    end = spans = 0
    for start, stop, cited, claim in _spans(grammar, id_regex, text):
        outside.append(text[end:start])
        claims.append(claim)
        ids += cited.split(",") if grammar in TAGS else [cited]
        end = stop
        spans += 1
    left = " ".join([*outside, text[end:]])
    attempt_left = has_attempt(left)
    if grammar in TAGS:
        opened, closed = (sum(1 for _ in tag.finditer(text)) for tag in (_OPENED, _CLOSED))
        attempt_left |= not opened == spans == closed
    return Citations(list(dict.fromkeys(ids)), attempt_left, any(map(_has_word, [left, *claims])))


def write_citations(grammar: str, ids: list[str]) -> str:
    """Return citations of ids in a grammar.

    >>> write_citations("ref_colon", ["citation_7", "citation_8"]), write_citations("paren_part", ["citation_7"])
    ('[ref:citation_7] [ref:citation_8]', '(citation_7)')
    """
    form = re.sub(r"\\(.)", r"\1", GRAMMARS[grammar].removesuffix(r"(?!\()"))
    if grammar in TAGS:
        return form.replace("(IDS)", ",".join(ids)) + ("so" + _CLOSING if grammar == "claim_wrap_xml" else "")
    return " ".join(form.replace("(ID)", each) for each in ids)


def has_tag(text: str) -> bool:
    """Return whether a citing tag is opened."""
    return _OPENED.search(text) is not None


def has_attempt(text: str) -> bool:
    """Return whether some text looks like the id of a citation."""
    return "citation_" in text.lower() and _ATTEMPT.search(text) is not None  # the first test is faster


def _has_word(text: str) -> bool:
    return _ASCII_WORD.search(text) is not None or (not text.isascii() and _WORD.search(text) is not None)


@lru_cache(maxsize=256)
def _pattern(grammar: str, id_regex: str) -> re.Pattern[str]:
    one = f"(?:{id_regex})"
    return re.compile(GRAMMARS[grammar].replace("IDS", f"{one}(?:,{one})*").replace("ID", one))


def _spans(grammar: str, id_regex: str, text: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield the start and the end of each citation, its ids and the claim that it wraps; at most thousands."""
    pattern, position = _pattern(grammar, id_regex), 0
    for _ in range(_MOST_SPANS):
        match = pattern.search(text, position)
        if match is None:
            return
        position, claim = match.end(), ""
        if grammar == "claim_wrap_xml":
            closing = text.find(_CLOSING, position)
            if closing < 0:
                return
            claim, position = text[position:closing], closing + len(_CLOSING)
            if not claim.strip():
                continue
        if position == match.start():
            position += 1
        yield match.start(), position, match[1], claim
