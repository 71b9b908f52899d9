r"""Fenced blocks of Markdown in what a model wrote: the one reader of code, queries and JSON between marks.

Everything here takes linear time, whatever the text says. `extraction` names these functions, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile

_MARK = re.compile(r"```+|~~~+")
_TICKS = re.compile(r"```+")  # found ten times as fast, thanks to its fixed first characters
_MOST_MARKS = 4_000
_INVISIBLE = "\ufeff\u200b\u2060"
_MARGIN = re.compile(rf"(?:[ \t{_INVISIBLE}>]|(?:[-*+]|\d{{1,9}}[.)])(?=[ \t]))*+")
_CLOSING_MARGIN = re.compile(rf"[ \t{_INVISIBLE}>]*+")
_LONGEST_MARGIN = 200
_WORD = re.compile(r"\w[\w+#.-]*")
_NAME = r"(?:\{[ \t]?)?\.?(\w[\w+#.-]*)"
_ATTACHED = re.compile(_NAME)
_INFO = re.compile(rf"[ \t]*{_NAME}")
_QUOTE = re.compile(r"[ \t]*>[ \t]?")
_TIGHT_QUOTE = re.compile(r"[ \t]*>")
_TAB = 4
_NESTED = 4  # columns to the right of the opening mark, where a mark belongs to what is in the block


@dataclass(slots=True, frozen=True)
class Fence:
    """A fenced block of Markdown."""

    language: str
    """The first word behind its opening mark, whole and in lower case; "" without."""
    body: str
    """The lines between the marks, without the last line break and the indentation or quotation that the mark has."""
    closed: bool = True
    info: str = ""
    """What is behind the language on its line: attributes, or the first line of a careless block."""


@dataclass(slots=True)
class _Block:
    """The open block."""

    language: str
    mark: str
    start: int
    margin: str
    info: str
    spare: int = -1  # the first mark that closes it if no better one comes

    def closes(self, mark: str, margin: str | None) -> bool:
        """Whether a mark is as long as the opening one, and not further to the right."""
        width = _NESTED + _width(self.margin) if margin is not None else 0
        return len(mark) >= len(self.mark) and (margin is None or _width(margin) < width)

    def fence(self, text: str, end: int, *, closed: bool = True) -> Fence:
        """Return the block that ends here."""
        body = text[self.start : end].removesuffix("\n").removesuffix("\r")
        return Fence(self.language, _without_margin(body, self.margin).strip(_INVISIBLE), closed, self.info)


def fences(text: str) -> Iterator[Fence]:
    r"""The blocks between marks of three or more back-ticks or tildes, in order; one at the end may be left open.

    A block opens where a mark begins its line, in a list or a quotation too, or ends it but for the language. It
    closes at the next such mark that begins or ends a line and is as long. One that begins its line and names a
    language opens another block. All on one line also counts: "```json {} ```". What comes after thousands of marks is
    not read.

    >>> [(fence.language, fence.body) for fence in fences("So:\n```python\nprint(1)\n```\nor ```json {}```")]
    [('python', 'print(1)'), ('json', ' {}')]
    >>> list(fences('1. See:\n   ~~~SQL title="q"\n   SELECT 1\n   ~~~'))
    [Fence(language='sql', body='SELECT 1', closed=True, info='title="q"')]
    """
    block: _Block | None = None
    line_end, previous = -1, 0
    passed = 0  # where marks count again: behind a block on one line
    last_tildes = text.rfind("~~~")
    marks = _MARK if last_tildes >= 0 else _TICKS
    for match in islice(marks.finditer(text), _MOST_MARKS):
        begin, end = match.span()
        mark = match[0]
        if line_end < begin:
            line_end = text.find("\n", end)
            line_end = len(text) if line_end < 0 else line_end
        line_begin = max(text.rfind("\n", previous, begin) + 1, previous)
        starts_line = line_begin == 0 or text[line_begin - 1] == "\n"
        before = text[line_begin:begin] if starts_line and begin - line_begin <= _LONGEST_MARGIN else None
        previous = end
        if begin < passed:
            continue
        if block is not None and block.mark[0] != mark[0]:
            if block.language or mark[0] == "~" or before is None or not _MARGIN.fullmatch(before):
                continue
            block = None  # a line of tildes above a block is a rule
        named = _ATTACHED.match(text, end, line_end)
        last = last_tildes if mark[0] == "~" else len(text)
        is_bare = not text[named.end() if named else end : line_end][:200].strip(" \t\r}")
        if block is not None:
            is_margin = before is not None and _CLOSING_MARGIN.fullmatch(before) is not None
            if not is_margin and (named or not is_bare):
                continue
            if not block.closes(mark, before if is_margin else None):
                block.spare = begin if block.spare < 0 and not named and is_bare else block.spare
                continue
            yield block.fence(text, block.spare if named and block.spare >= 0 else line_begin if is_margin else begin)
            block = None
            if not named:
                continue
        margin = None if before is None else _MARGIN.match(before)
        closing = text.find("```", end, line_end) if mark[0] == "`" else -1
        if closing >= 0:
            word = _WORD.match(text, end, closing)
            body = end if word is None or not text[word.end() : closing].strip() else word.end()
            yield Fence(text[end:body].lower(), text[body:closing])
            passed = closing + 3
        elif (margin and margin.end() == len(before or "") and begin < last) or (is_bare and mark[0] == "`"):
            info = _INFO.match(text, end, line_end)
            start = min(line_end + 1, len(text))
            behind = text[info.end() if info else end : line_end].strip()
            block = _Block(info[1].lower() if info else "", mark, start, margin[0] if margin else "", behind)
    if block is not None:
        end, closed = (block.spare, True) if block.spare >= 0 else (len(text), False)
        yield block.fence(text, end, closed=closed)


def _width(margin: str) -> int:
    return len(margin.replace("\t", " " * _TAB))


def _without_margin(body: str, margin: str) -> str:
    """Return a block's lines without the quotation marks and the indentation of its opening line."""
    if not margin:
        return body
    lines = body.split("\n")
    inner = margin[margin.rfind(">") + 1 :]
    is_loose = ">" in margin and inner != ""
    for _ in range(margin.count(">")):
        quote = _QUOTE if is_loose else _TIGHT_QUOTE
        lines = [line[match.end() :] if (match := quote.match(line)) else line for line in lines]
    widest = _width(inner) - is_loose
    if inner.strip():  # a list, whose lines may be as far to the right as a tab stop
        widest = -(-widest // _TAB) * _TAB
    starts = [line[: max(widest, 0)] for line in lines if line.strip()] or [""]
    pairs = zip(min(starts), max(starts), strict=False)
    common = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1] and pair[0] in " \t", pairs))
    while _width(common) > widest > 0:
        common = common[:-1]
    return "\n".join(line.removeprefix(common) if line.strip() else line.strip(" \t") for line in lines)


def last_fence(text: str, languages: Collection[str] | None = None, *, closed: bool = True) -> str | None:
    r"""The body of the last fenced block in one of these languages, or None.

    Args:
        text: What the model wrote.
        languages: Names in lower case, with "" for a block without a name; None for any language.
        closed: Whether a block counts only if it is closed; a generation that was cut short may leave one open.

    >>> last_fence("```\none\n```\n```py\ntwo\n```", {"py", "python"}), last_fence("```\none", closed=False)
    ('two', 'one')
    """
    body = None
    for fence in fences(text):
        if (fence.closed or not closed) and (languages is None or fence.language in languages):
            body = fence.body
    return body


def lines_between_last_marks(text: str) -> str:
    r"""The lines between the last two that have a mark of three back-ticks, whatever the marks open; "" without two.

    LiveCodeBench's rule, for conformance; `python_code` is what is right.

    >>> lines_between_last_marks("```python\nprint(1)\n```\nprints 1\n```text")
    'prints 1'
    """
    close = text.rfind("```")
    end = text.rfind("\n", 0, close) if close >= 0 else -1
    start = text.rfind("```", 0, end) if end >= 0 else -1
    if start < 0:
        return ""
    begin = text.find("\n", start) + 1
    return text[begin:end] if begin <= end else ""


def last_block_after(text: str, marks: tuple[str, ...] = ("```python", "```")) -> str | None:
    r"""Return the text after the last mark of the first kind found, up to the next three back-ticks, or None.

    evalplus's rule, for conformance; `python_code` is what is right.

    >>> last_block_after("```python\n1\n``` or ```\n2\n```"), last_block_after("```python\n1")
    ('\n1\n', None)
    """
    mark = next((mark for mark in marks if mark in text), None)
    if mark is None:
        return None
    start = text.rfind(mark) + len(mark)
    end = text.find("```", start)
    return text[start:end] if end >= 0 else None
