"""Words and tokens of a text, by rules: nothing is downloaded."""

from __future__ import annotations

import re
import string
from itertools import cycle

from gym_llm.grading.constraints.sentences import split_sentences

_WORD = re.compile(r"\w+")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
EDGES = string.punctuation + " "
"""What is taken off a word's ends: ASCII punctuation, and the space."""


_SPACED = str.maketrans({chr(code): " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")})


def words(text: str) -> list[str]:
    r"""Return a text's runs of word characters, which IFEval counts as words: `don't` is two.

    >>> words("It's 3.5 km")
    ['It', 's', '3', '5', 'km']
    """
    return text.translate(_SPACED).split() if text.isascii() else _WORD.findall(text)


def without_punctuation(text: str) -> str:
    """Without any ASCII punctuation: `don't` is `dont`."""
    return text.translate(_PUNCTUATION)


_SPECIAL = r"\[\](){}<>;@#$%&?!\"“”‘’«»„`*–—"
_TOKEN = re.compile(
    rf"\.{{3}}|--|``|''|[{_SPECIAL}]|[:,](?!\d)|(?:[^\s.,:'\-{_SPECIAL}]|\.(?!\.\.)|[,:](?=\d)|'(?!')|-(?!-))+|\S"
)
_CLITIC = re.compile(r"(?i)(?:n't|'(?:s|m|d|ll|re|ve)?)\Z")
_PAIRS = {
    "cannot": 3, "d'ye": 1, "gimme": 3, "gonna": 3, "gotta": 3, "lemme": 3, "more'n": 4, "wanna": 3, "tis": 1,
    "twas": 1,
}  # fmt: skip
_AFTER_STOP = "])}>\"'»”’ \t\r\n\f\v"


def tokens(text: str) -> list[str]:
    """Words and marks, as the Penn Treebank (and with it NLTK) divides them: `can't.` is `ca`, `n't`, `.`.

    Full stops are divided from the last word of a sentence only; double quotes become two backticks and two
    apostrophes in turn.

    >>> tokens("He said (in 1,000 words) I can't. Nobody e.g. we cared...")
    ['He', 'said', '(', 'in', '1,000', 'words', ')', 'I', 'ca', "n't", '.', 'Nobody', 'e.g.', 'we', 'cared', '...']
    """
    found: list[str] = []
    for sentence in split_sentences(text):
        body = sentence.rstrip(_AFTER_STOP)
        if body.endswith(".") and not body.endswith(".."):
            _divide(body[:-1], found)
            found.append(".")
            _divide(sentence[len(body) :], found)
        else:
            _divide(sentence, found)
    if '"' in text:
        quotes = cycle(("``", "''"))
        found = [next(quotes) if token == '"' else token for token in found]
    return found


def _divide(text: str, found: list[str]) -> None:
    for token in _TOKEN.findall(text):
        if len(token) < 3 or ("'" not in token and token.lower() not in _PAIRS):
            found.append(token)
        else:
            _divide_word(token, found)


def _divide_word(word: str, found: list[str]) -> None:
    if word[0] == "'" and not _CLITIC.fullmatch(word):
        found.append("'")
        word = word[1:]
    if at := _PAIRS.get(word.lower()):
        found += [word[:at], word[at:]]
    elif (match := _CLITIC.search(word, max(0, len(word) - 3))) and match.start():
        found += [word[: match.start()], match[0]]
    else:
        found.append(word)
