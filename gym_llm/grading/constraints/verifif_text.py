"""Words, sentences and paragraphs in the eleven languages of VerifIF, by rules."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, TypeAlias

from gym_llm.grading.constraints.sentences import split_sentences

Language: TypeAlias = Literal["en", "fre", "es", "it", "de", "pt-BR", "ja", "zh", "ko", "hi", "ar"]

WITHOUT_CASE = frozenset({"ja", "zh", "ko", "hi", "ar"})
"""Languages that have no capital letters, and of which vowels are not letters of their own."""
_WITHOUT_SPACES = frozenset({"ja", "zh"})
_VOWELS = {
    "en": "aeiou", "fre": "aàâäeéèêëiîïoôöuùûü", "es": "aáeéiíoóuúü", "it": "aàeèéiìoòuù", "de": "aäeëiïoöuüy",
    "pt-BR": "aáàâãeéêiíoóõôuúü",
}  # fmt: skip
_WORD = re.compile(r"[^\W_]+(?:['’´.\-][^\W_]+)*")
_ITALIAN_WORD = re.compile(r"[^\W_]+(?:[.\-][^\W_]+)*")
_HINDI_WORD = re.compile(r"(?:[^\W_]|[\u0900-\u0963\u0966-\u097f])+")
_ENDS = {"hi": re.compile("[।.?!]+"), "ar": re.compile("[؟.?!…]+"), "zh": re.compile("[。！？.?!…]+")}
_ENDS["ja"] = _ENDS["zh"]
_ARABIC_MARKS = re.compile("[\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed]")
_MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)]|#{1,9})[ \t]+")
_SPACES = re.compile(r"\s+")


def normalized(text: str, language: Language) -> str:
    """In one form of Unicode (NFKC) and one case, with single spaces; Arabic without vowel marks."""
    text = unicodedata.normalize("NFKC", text)
    if language == "ar":
        text = _ARABIC_MARKS.sub("", text)
    return _SPACES.sub(" ", text).strip().casefold()


def words_of(text: str, language: Language) -> list[str]:
    """Return a text's words, without numbers of lists; in Chinese and Japanese each character is one."""
    text = "\n".join(without_marker(line) for line in text.split("\n"))
    if language in _WITHOUT_SPACES:
        return [character for character in text if character.isalnum()]
    pattern = _HINDI_WORD if language == "hi" else _ITALIAN_WORD if language == "it" else _WORD
    return pattern.findall(text)


def sentences_of(text: str, language: Language) -> list[str]:
    """Return a text's sentences, without tables and rules; each line begins one."""
    found: list[str] = []
    for line in _prose(text):
        line = without_marker(line.strip())
        ends = _ENDS.get(language)
        found += split_sentences(line) if ends is None else [part.strip() for part in ends.split(line) if part.strip()]
    return [sentence for sentence in found if any(map(str.isalnum, sentence))]


def paragraphs_of(text: str) -> list[str]:
    """Return a text's blocks between blank lines; titles `<<…>>`, headings, tables and rules do not count."""
    lines = ["" if _is_title(line.strip()) else line for line in _prose(text)]
    return [block.strip() for block in re.split(r"\n(?:[ \t\r\f\v]*\n)+", "\n".join(lines)) if block.strip()]


def vowels_of(language: Language) -> str:
    """The letters that are vowels, small ones."""
    return _VOWELS[language]


def without_marker(line: str) -> str:
    """A line without the mark of a list's item or a heading before it."""
    line = line.lstrip()
    marker = _MARKER.match(line)
    return line[marker.end() :] if marker else line


def count_keyword(text: str, keyword: str, language: Language) -> int:
    """Count a word or phrase, in any case, as words of its own; anywhere if spaces do not divide words.

    >>> count_keyword("Cats, a cat; the CAT", "cat", "en"), count_keyword("我爱猫", "猫", "zh")
    (2, 1)
    """
    text, keyword = normalized(text, language), normalized(keyword, language)
    if not keyword:
        return 0
    if language in _WITHOUT_SPACES or language == "ko":
        return text.count(keyword)
    count, at = 0, text.find(keyword)
    while at >= 0:
        end = at + len(keyword)
        if not (at and _joins(text[at - 1], keyword[0])) and not (end < len(text) and _joins(text[end], keyword[-1])):
            count += 1
            at = text.find(keyword, end)
        else:
            at = text.find(keyword, at + 1)
    return count


def _joins(first: str, second: str) -> bool:
    return all(character == "_" or unicodedata.category(character)[0] in "LMN" for character in (first, second))


def _prose(text: str) -> list[str]:
    """Return the lines of a text, with those of tables and rules emptied."""
    lines = text.split("\n")
    rows = [line.lstrip().startswith("|") and line.count("|") > 1 for line in lines]
    return [
        "" if (row and (before or after)) or _is_rule(line) else line
        for line, row, before, after in zip(lines, rows, [False, *rows], [*rows[1:], False], strict=False)
    ]


def _is_rule(line: str) -> bool:
    marks = "".join(line.split())
    return len(marks) > 2 and marks[0] in "*_-" and marks == marks[0] * len(marks)


def _is_title(line: str) -> bool:
    return (line.startswith("<<") and line.endswith(">>")) or re.match(r"#+\s", line) is not None
