"""Answers that repeat the prompt: what a model copies whole from its prompt is a quotation, and no answer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gym_llm.types import Episode, content_texts

_WORD = re.compile(r"\w+")
_LETTERS = re.compile(r"(?<![\\A-Za-z])[^\W\d_]{2,}")  # no LaTeX command
_LEAST_LETTERS = 6  # bytes of letters in a sentence; a formula has fewer
_LEAST_LINE = 7  # words of a message's first or last line that are a quotation
_OPTION = re.compile(r"\W{0,8}[A-Za-z0-9]{1,2}[).:\]]")
_MOST_PARTS = 8  # into which a long message is cut
_LEAST_PART = 60  # words of such a part


def own_words(text: str, episode: Episode) -> str:
    r"""Return a text of the model without the messages of the prompt, and of the user, that it repeats word for word.

    A message counts as a whole, whatever stands between its words. So does its first and last line, from seven words
    on, unless they are options, and each eighth of a long message. A formula alone stays, since it may be the answer.
    So do other parts of a message: an option, or a sentence that has the answer.

    Args:
        text: A text of the model.
        episode: Its episode.

    >>> asked = Episode(0, {}, {"input": [{"role": "user", "content": "What is $3 + 4$?"}]})
    >>> own_words("What is $3+4$? It is 7.", asked), own_words("3 + 4", asked)
    (' $? It is 7.', '3 + 4')
    """
    for item in (*episode.request["input"], *episode.items):
        if item.get("role") in ("user", "system", "developer"):
            for message in content_texts(item.get("content")):
                if 2 * _MOST_PARTS * len(text) > len(message):
                    text = _without(text, message)
    return text


def _without(text: str, message: str) -> str:
    """Return a text without a message. The time is linear, and short if the text lacks a long word of the message."""
    said = text.lower() if text.isascii() or len(text.lower()) == len(text) else text  # "İ" becomes two characters
    said = said.replace("\\n", "  ")  # a line break in JSON
    parts = [words for part in _parts(message) if (words := _sentence(part)) and _may_have(said, words)]
    if not parts:
        return text
    joined = f" {' '.join(_WORD.findall(said))} "
    places = [(place, len(part)) for part in parts for place in _places(joined, f" {' '.join(part)} ")]
    return _cut(text, places, said) if places else text


def _sentence(part: str) -> list[str]:
    """Return the words of a part in lower case; none if it is but a formula."""
    words = _WORD.findall(part.lower().replace("\\n", "  "))
    is_sentence = sum(len(word.encode()) for word in _LETTERS.findall(part)) >= _LEAST_LETTERS
    return words if is_sentence or len(words) >= _LEAST_PART else []


def _may_have(said: str, words: list[str]) -> bool:
    return all(word in said for word in sorted(words, key=len)[-4:])


def _parts(message: str) -> Iterator[str]:
    """Yield a message, or the parts of a long one, and its first and last line."""
    words = message.count(" ") + 1
    if words < 2 * _LEAST_PART:
        yield message
    else:
        size = len(message) // min(_MOST_PARTS, words // _LEAST_PART) + 1
        start = 0
        while start < len(message):
            end = message.find(" ", start + size)
            end = len(message) if end < 0 or len(message) - end < size // 2 else end
            yield message[start:end]
            start = end
    stripped = message.strip()
    if "\n" in stripped:
        for line in (stripped.partition("\n")[0], stripped.rpartition("\n")[2]):
            if len(_WORD.findall(line)) >= _LEAST_LINE and not _OPTION.match(line):
                yield line


def _places(joined: str, part: str) -> Iterator[int]:
    """Yield the numbers of the words at which a part begins."""
    number, counted = 0, 0
    place = joined.find(part)
    while place >= 0:
        number, counted = number + joined.count(" ", counted, place), place
        yield number
        place = joined.find(part, place + len(part) - 1)


def _cut(text: str, places: list[tuple[int, int]], said: str) -> str:
    """Return a text without the words that are copied: the numbers of first words, and how many each."""
    spans = [word.span() for word in _WORD.finditer(said)]
    copied = bytearray(len(spans))
    for place, length in places:
        copied[place : place + length] = b"\1" * length
    kept, position, number = [], 0, copied.find(1)
    while number >= 0:
        end = copied.find(0, number)
        end = len(spans) if end < 0 else end
        kept.append(text[position : spans[number][0]])
        position = spans[end - 1][1]
        number = copied.find(1, end)
    return " ".join((*kept, text[position:]))
