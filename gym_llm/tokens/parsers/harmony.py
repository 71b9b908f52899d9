"""Harmony: the format that gpt-oss writes becomes reasoning, messages and function calls."""

from __future__ import annotations

import contextlib
import functools
import re
from bisect import bisect_left
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from gymnasium.error import DependencyNotInstalled

from gym_llm.tokens.parsers.parser import MAX_PIECES, MessageParser, Piece, Thought, Turn, WrittenCall
from gym_llm.types import Item
from gym_llm.utils.extras import install

if TYPE_CHECKING:
    from openai_harmony import HarmonyEncoding

INSTALL = install("harmony")
_CHANNEL = "<|channel|>"
_START = re.compile(r"<\|start\|>\w*")
_MARK = "<|message|>"
"""What every message in the format has between its header and its content."""
_END = re.compile(r"<\|(?:end|call|return)\|>")
_KNOWN = "analysis|commentary|final"
_CHANNELS = rf"<\|channel\|>\s?(?:{_KNOWN})[^<\n]{{0,200}}(?:<\|constrain\|>[^<\n]{{0,60}})?"
_BEGIN = re.compile(
    rf"(?:<\|start\|>[^<\n]{{0,200}})?(?:{_CHANNELS}){{1,3}}<\|message\|>|<\|start\|>assistant[^<\n]{{0,200}}<\|message\|>"
)
"""A whole header: where it begins, a message ends that has no end of its own."""
_REPEATED = re.compile(
    rf"<\|start\|>(?:assistant)?\s?(?=<\|start\|>)|<\|channel\|>\s?(?:{_KNOWN})\W?\s?(to=[\w.-]{{1,99}})?"
    r"(?:\s?(?:<\|constrain\|>)?\s?(?:json|code))?\s?(?=<\|channel\|>)"
)
"""The first of two marks of the same kind."""
_ENDS = re.compile(r"\s*(?:<\|(?:end|call|return)\|>\s*)+")
_LONGEST_BEGIN = 200
"""Token ids of such a header, at most."""
_NO_CHANNEL = re.compile(rf"(?:assistant)?\s?(?=(?:{_KNOWN})(?:[\s<]|\Z))")
_NO_START = re.compile(r"(?:assistant)?[\s:]{0,2}(?=<\|channel\|>|to=|\Z)")
_NO_MARK = re.compile(
    rf"\s{{0,9}}(?:<\|start\|>)?(?:assistant)?<\|channel\|>({_KNOWN})(?:\s{{1,2}}to=([\w.-]{{1,99}}))?"
    r"(?:\s?(?:<\|constrain\|>)?\s?(?:json|code)(?![a-z]))?\s?"
)
"""A header that no `<|message|>` ends."""
_BARE = re.compile(
    rf"(?:\A|assistant)({_KNOWN})(?: to=functions\.([\w.-]{{1,99}}?)(?= ?(?:json|code)?\s?[{{\[]))?"
    r"(?: ?(?:json|code)(?=[{\[]))?"
)
"""A header of which a server has left out all special tokens."""
_SPECIAL = re.compile(r"<\|\w+\|>(?:assistant\b)?")
_CUT = re.compile(r"(?:<\|start\|>\w*)?(?:<\|channel\|>\w*)?")
"""What a token limit has left of a header without a recipient, or nothing."""
_LONGEST_HEADER = 1_000
"""Characters, or token ids; a header is a few words."""


class Harmony(MessageParser):
    """A parser of the output of gpt-oss. `openai_harmony` reads the headers of its messages.

    - The channel `analysis` becomes a reasoning item.
    - A message to `functions.NAME`, in any channel, becomes a `function_call` of NAME. A message to another recipient
      (`python`, `browser.search`: gpt-oss's built-in tools) becomes a call of that name.
    - All other messages stay messages: `final`, and `commentary` without a recipient, which announces calls.

    Special tokens may be missing, even all of them (`analysisHm.assistantfinal4`), or be there twice. A header ends the
    message before it, and a message without a role is the assistant's. A broken header before a whole one is a thought.

    A turn is read from its `generation_token_ids` if it is one message that has them, else from the text with its
    special tokens. A turn that has reasoning or `function_call` items already is not changed, nor is other text.

    No text is lost. A message that was cut off is an item like any other. The arguments of such a call are invalid
    JSON, and the environment reports that to the model. From a place that violates the format to the end, or after
    `MAX_PIECES` items, the rest becomes one message, unchanged. Arguments are kept as written (`"{}"` if missing). The
    time is linear in the length of the text.

    Raises:
        DependencyNotInstalled: If `openai_harmony` is not installed, or cannot get its vocabulary.

    Source: https://cookbook.openai.com/articles/openai-harmony
    """

    def __init__(self) -> None:
        load_encoding()

    def read(self, message: Item, text: str, turn: Turn) -> list[Piece] | None:
        """Read a message in the format; see `MessageParser.read`."""
        from openai_harmony import HarmonyError

        if turn.has_calls or not turn.may_think:
            return None
        ids = message.get("generation_token_ids")
        if isinstance(ids, list) and turn.messages == 1:
            # Ids of another vocabulary, or what are no ids at all.
            with contextlib.suppress(HarmonyError, OverflowError, TypeError, ValueError):
                if _token(_MARK) in ids or _token(_CHANNEL) in ids:
                    return _with_known_names(_take_apart(_Ids(ids)), turn)
        if _MARK in text or _CHANNEL in text:
            return _with_known_names(_take_apart(_Text(text)), turn)
        return _without_marks(text) if text.startswith("analysis") and "assistant" in text else None


class _Text:
    """What a model wrote, as text; a position is a character's."""

    def __init__(self, text: str) -> None:
        self.text = text.encode(errors="replace").decode()  # lone surrogates are no text to the encoding
        self.length = len(self.text)

    def mark(self, start: int) -> tuple[int, int] | None:
        """Where the next `<|message|>` begins and ends."""
        position = self.text.find(_MARK, start)
        return (position, position + len(_MARK)) if position >= 0 else None

    def end(self, start: int) -> tuple[int, int] | None:
        """Where the next token that ends a message begins and ends; of a header that does so, where it begins."""
        match = _END.search(self.text, start)
        begin = _BEGIN.search(self.text, start, match.start() if match else self.length)
        if begin:
            return begin.start(), begin.start()
        return match.span() if match else None

    def text_between(self, start: int, end: int) -> str:
        return self.text[start:end]

    def size(self, text: str) -> int:
        return len(text)

    def ids_between(self, start: int, end: int) -> list[int]:
        return load_encoding().encode(self.text[start:end], allowed_special="all")


class _Ids:
    """The same as token ids; a position is an id's."""

    def __init__(self, ids: list[int]) -> None:
        self.ids = ids
        self.length = len(ids)
        mark, ends = _token(_MARK), set(load_encoding().stop_tokens())
        self._marks = [index for index, token in enumerate(ids) if token == mark]
        self._ends = [index for index, token in enumerate(ids) if token in ends]
        begins = (_token("<|start|>"), _token(_CHANNEL))
        self._begins = [index for index, token in enumerate(ids) if token in begins]

    def mark(self, start: int) -> tuple[int, int] | None:
        return _first(self._marks, start)

    def end(self, start: int) -> tuple[int, int] | None:
        end = _first(self._ends, start)
        for begin in self._begins[bisect_left(self._begins, start) :]:
            if end and begin > end[0]:
                break
            mark = _first(self._marks, begin)
            if mark and mark[1] - begin < _LONGEST_BEGIN and _BEGIN.fullmatch(self.text_between(begin, mark[1])):
                return begin, begin
        return end

    def text_between(self, start: int, end: int) -> str:
        return load_encoding().decode(self.ids[start:end])

    def size(self, text: str) -> int:
        return len(load_encoding().encode(text, allowed_special="all"))

    def ids_between(self, start: int, end: int) -> list[int]:
        return self.ids[start:end]


def _first(positions: list[int], start: int) -> tuple[int, int] | None:
    index = bisect_left(positions, start)
    return (positions[index], positions[index] + 1) if index < len(positions) else None


def _take_apart(written: _Text | _Ids) -> list[Piece]:
    """The messages of a turn. Contents are never tokenised: that takes quadratic time, and panics on a megabyte."""
    pieces: list[Piece] = []
    start = 0
    while start < written.length:
        if match := _ENDS.match(written.text_between(start, start + _LONGEST_BEGIN)):  # of no message
            start += written.size(match[0])
            continue
        header = None
        if (mark := written.mark(start)) and mark[0] - start <= _LONGEST_HEADER and len(pieces) < MAX_PIECES - 2:
            header = _read_header(tuple(written.ids_between(start, mark[0])), start == 0)
        end = None if mark is None or header is None else written.end(mark[1])
        if mark is None or header is None:
            text, end = _unmarked(written, start, mark)
            if (match := _NO_MARK.match(text)) is None or match.end() == len(text) or len(pieces) >= MAX_PIECES - 2:
                if (piece := _stray(written, text, start, end)) is None or len(pieces) >= MAX_PIECES - 2:
                    rest = written.text_between(start, written.length)
                    return pieces if pieces and _CUT.fullmatch(rest.strip()) else [*pieces, rest]
                pieces.append(piece)
                start = end[1] if end else written.length
                continue
            header = _Header((match[2] or "").removeprefix("functions."), match[1] == "analysis", "")
            text = text[match.end() :]
        else:
            text = written.text_between(mark[1], end[0] if end else written.length)
        start = end[1] if end else written.length
        if header.recipient:
            pieces.append(WrittenCall(header.recipient, text or "{}"))
        else:
            if header.stray:
                pieces.append(header.stray)
            pieces.append(Thought(text, closed=end is not None) if header.is_analysis else text)
    return pieces


def _with_known_names(pieces: list[Piece], turn: Turn) -> list[Piece]:
    """Return pieces with calls of a tool whose name has "json" at its end without it, as `fjson` for `f`."""
    known = {str(tool.get("name")) for tool in turn.tools}
    for number, piece in enumerate(pieces):
        if isinstance(piece, WrittenCall) and piece.name not in known and piece.name.removesuffix("json") in known:
            pieces[number] = WrittenCall(piece.name.removesuffix("json"), piece.arguments)
    return pieces


def _stray(written: _Text | _Ids, text: str, start: int, end: tuple[int, int] | None) -> Piece | None:
    """Return what stands before a whole header and is no message, a broken header as a thought; None without one."""
    if end is None or not _BEGIN.match(written.text_between(end[1], end[1] + _LONGEST_HEADER)):
        return None
    text = text or written.text_between(start, end[0])
    return Thought(_SPECIAL.sub("", text)) if _SPECIAL.search(text) else text


def _unmarked(written: _Text | _Ids, start: int, mark: tuple[int, int] | None) -> tuple[str, tuple[int, int] | None]:
    """Return the text of a message without `<|message|>`, header and all, and its end; "" if there is none."""
    end = written.end(start + 1)
    if (end is None and mark is not None) or (end is not None and mark is not None and end[0] > mark[0]):
        return "", end
    return written.text_between(start, end[0] if end else written.length), end


def _without_marks(text: str) -> list[Piece] | None:
    """Read a turn of which a server has left out all special tokens; None if it is not one."""
    headers = list(islice(_BARE.finditer(text), MAX_PIECES // 2))
    if len(headers) < 2 or headers[0].start() > 0:
        return None
    ends = [*(header.start() for header in headers[1:]), len(text)]
    pieces: list[Piece] = []
    for header, end in zip(headers, ends, strict=True):
        content = text[header.end() : end]
        if header[2]:
            pieces.append(WrittenCall(header[2], content.strip() or "{}"))
        else:
            pieces.append(Thought(content) if header[1] == "analysis" else content)
    return pieces


class _Header(NamedTuple):
    """What a message's header says: who is spoken to ("" is nobody), and text that does not belong there."""

    recipient: str
    is_analysis: bool
    stray: str


def _mended(header: str) -> str:
    """Return a header with the special tokens that it should have."""
    header = _REPEATED.sub(lambda match: f"{match[1]} " if match[1] else "", header.lstrip())
    start = "<|start|>" if header.startswith("<|start|>") else ""
    rest = header.removeprefix(start)
    if match := _NO_CHANNEL.match(rest):
        return f"<|start|>assistant{_CHANNEL}{rest[match.end() :]}"
    if match := _NO_START.match(rest):
        return f"<|start|>assistant {rest[match.end() :]}"
    return header


@functools.lru_cache
def _read_header(ids: tuple[int, ...], is_first: bool) -> _Header | None:
    """Read a header with `openai_harmony`; None if the format does not allow it."""
    from openai_harmony import HarmonyError, Role, StreamableParser

    encoding = load_encoding()
    header = _mended(encoding.decode(ids))
    if _END.search(header) or header.count(_CHANNEL) > 1:  # of several messages
        return None
    ids = tuple(encoding.encode(header, allowed_special="all"))
    # A prompt ends with `<|start|>assistant`.
    role = Role.ASSISTANT if is_first and ids[:1] != (_token("<|start|>"),) else None
    parser = StreamableParser(encoding, role, strict=True)
    try:
        for token in (*ids, _token(_MARK)):
            parser.process(token)
        parser.process_eos()
    except HarmonyError:
        return None
    (message,) = parser.messages
    # Without `to=` the parser takes other words for the recipient.
    recipient = (message.recipient or "").partition("<|")[0].strip() if "to=" in header else ""
    stray = _START.sub("", header).partition(_CHANNEL)[0].strip()
    return _Header(recipient.removeprefix("functions."), message.channel == "analysis", stray)


@functools.lru_cache
def load_encoding() -> HarmonyEncoding:
    """The format's encoding, once for a process; `Harmony` says what is raised."""
    try:
        from openai_harmony import HarmonyError, load_harmony_encoding
    except ModuleNotFoundError as error:
        raise DependencyNotInstalled(f"HarmonyParser needs {error.name}: {INSTALL}.") from error
    try:
        return load_harmony_encoding("HarmonyGptOss")
    except HarmonyError as error:
        raise DependencyNotInstalled(
            f"openai_harmony has no vocabulary ({error}): {INSTALL}, or set TIKTOKEN_ENCODINGS_BASE."
        ) from error


@functools.lru_cache
def _token(special: str) -> int:
    return load_encoding().encode(special, allowed_special="all")[0]
