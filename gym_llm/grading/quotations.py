"""The words by which a model answers: no thoughts, no copies of the prompt, nothing that it takes back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from gym_llm.grading.denials import is_withdrawn
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import Episode, content_texts

_WORD = re.compile(r"\w+")
_LETTERS = re.compile(r"(?<![\\A-Za-z])[^\W\d_]{2,}")  # no LaTeX command
_LEAST_LETTERS = 6  # bytes of letters in a sentence; a formula has fewer
_LEAST_LINE = 7  # words of a message's first or last line that are a quotation
_OPTION = re.compile(r"\W{0,8}[A-Za-z0-9]{1,2}[).:\]]")
_ASKING = frozenset(("user", "system", "developer"))
_MOST_PARTS = 8  # into which a long message is cut
_LONGEST_KEPT = 20_000  # characters of a message that is remembered
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
    said = ""
    for item in (*episode.request["input"], *episode.items):
        if item.get("role") in _ASKING:
            content = item.get("content")
            for message in (content,) if isinstance(content, str) else content_texts(content):
                if 2 * _MOST_PARTS * len(text) > len(message):
                    said = said or _lowered(text)
                    if len(message) <= 2 * _LEAST_PART and not _may_repeat(said, message):
                        continue
                    sentences = (_sentences if len(message) <= _LONGEST_KEPT else _sentences.__wrapped__)(message)
                    for sentence in sentences:
                        if len(sentence.text) <= len(said) + 2 and sentence.longest[0] in said:
                            text, said = _without(text, said, sentences)
                            break
    return text


def meant_words(text: str, episode: Episode) -> str:
    """Return `own_words` without thoughts; "" if the text breaks off in one, or ends with "No wait, that is wrong.".

    Every verifier that looks for an answer in a text reads this, but for `conform="nemo"`.
    """
    text = strip_thinking(text)
    return "" if is_withdrawn(text) else own_words(text, episode)


def _may_repeat(said: str, message: str) -> bool:
    """Return whether a text has the first word of a short message, or of its last line: most answers do not."""
    word = _WORD.search(message)
    if word is None or word[0].lower() in said:
        return True
    if "\n" not in message:
        return False
    word = _WORD.search(message.rstrip().rpartition("\n")[2])
    return word is None or word[0].lower() in said


def _lowered(text: str) -> str:
    """Return a text in small letters, of the same length: "İ" would become two characters."""
    said = text.lower()
    return (said if len(said) == len(text) else text).replace("\\n", "  ")  # a line break in JSON


def _without(text: str, said: str, sentences: list[_Sentence]) -> tuple[str, str]:
    """Return a text without a message's parts, and in small letters, in linear time."""
    sentences = [sentence for sentence in sentences if all(word in said for word in sentence.longest)]
    if not sentences:
        return text, said
    joined = f" {' '.join(_WORD.findall(said))} "
    places = [(place, each.words) for each in sentences for place in _places(joined, each.text)]
    if not places:
        return text, said
    text = _cut(text, places, said)
    return text, _lowered(text)


class _Sentence(NamedTuple):
    """The words of a part of the prompt: joined, with a space around them."""

    text: str
    words: int
    longest: list[str]


@lru_cache(maxsize=512)  # the many answers to a task have one prompt
def _sentences(message: str) -> list[_Sentence]:
    """Return the parts of a message that are quotations, without those that are but a formula."""
    found = []
    for part in _parts(message):
        words = _WORD.findall(part.lower().replace("\\n", "  "))
        letters = sum(len(word.encode()) for word in _LETTERS.findall(part))
        if letters >= _LEAST_LETTERS or len(words) >= _LEAST_PART:
            found.append(_Sentence(f" {' '.join(words)} ", len(words), sorted(words, key=len)[:-13:-1]))
    return found


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
