"""Reading a letter that a judge gives as a grade, in whatever form it writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice

from gym_llm.judge.json_verdicts import MOST_READ
from gym_llm.judge.last_word import ADJECTIVES, AFTER_NOUN, BEFORE_VALUE, VERDICTS, is_last_word, plain
from gym_llm.judge.verdicts import MOST_WORDS, Parser, around, is_disputed, label_forms, last_label, last_match
from gym_llm.judge.withdrawn import is_denied, is_meant

_NOUN = (
    rf"(?:(?<![^\W_]){ADJECTIVES}(?i:(?:grade|verdict|judge?ment)s?)(?![^\W_])|"
    r"(?i:^[\s*_#|\"'{<]{0,6}(?:final\s|my\s|new\s){0,2}answer\b"
    r"|\b(?:final|my|new|overall)\s(?:decision|conclusion|result|rating|choice|label|evaluation|assessment)\b"
    r"|(?:^|(?<=[.!?;]\s))[\s*_#|\"'{<]{0,6}(?:decision|conclusion|rating|choice|label|classification|final)\b))"
)
_SO = (
    r"(?:(?i:\b(?:so|hence|thus|therefore|it\sis|it['’]s|this\sis|rather|finally|actually|instead|make\s(?:it|that)"
    r"|(?:I|I['’](?:ll|d)|I\s(?:now|would|will|therefore|thus|hence))"
    r"\s(?:choose|select|pick|grade|assign|give|go\swith|say|answer|change)"
    r"(?:\s(?:it|this))?(?:\s(?:my\s)?(?:grade|answer|verdict))?(?:\s(?:as|to))?"
    r"|(?:this|it|that|(?:the|its?)(?:\s\w{1,20}){1,2})\s(?:(?:would|should|will)\sget|gets|earns|deserves|receives"
    r"|merits|is\s(?:graded|marked|rated)(?:\sas)?))\b)|[→⇒]),?:?\s{0,2}(?i:an?\s|the\s)?(?i:grade\s)?"
)
_OPENING = r"[*_\"'`(\[]{0,4}"
_CLOSING = r"[\s*_`\"'”’)\]}|.!~]"
_ENDS = rf"(?={_CLOSING}*(?:$|[,;\n]|(?<=[.!])\s))"
_LONGEST_LINE = 40
_MARKUP = " \t.:)*[]('\"“”‘’`_#>|{}-!"


def letter(letters: str, words: Mapping[str, str] | None = None) -> Parser:
    r"""Return a parser of a letter grade.

    The last of these counts, if the judge means it:

    1. the first line, the last line, or all of the text, if it is a letter (`**B**.`);
    2. `grade is B`, `Answer: B`, `<verdict>B</verdict>`, a table's `| Grade | B |`;
    3. `So B.`, `I choose B.`;
    4. a word that stands for a letter. In other cases than given it only counts if nothing else does.

    Args:
        letters: The grades, e.g. `ABC`.
        words: Words that mean a grade, `{"INCORRECT": "B"}`; whole ones, upper and lower case alike.

    >>> grade = letter("ABC", {"CORRECT": "A", "INCORRECT": "B", "NOT_ATTEMPTED": "C"})
    >>> [grade(text) for text in ("B", "After thinking, the grade is B.", "INCORRECT", "Answer: c", "I like it")]
    ['B', 'B', 'B', 'C', None]
    """
    meanings = {word.upper(): grade for word, grade in (words or {}).items()}
    names = tuple(meanings)
    forms = label_forms(names, False) if names else None
    one = rf"(?i:[{letters}])"
    alone = re.compile(
        r"(?:[\s*_]{0,4}(?i:option|choice|label|grade)\s)?"
        rf"(?:\\boxed\{{|\\text\{{|[\s.:)*\[\](\"'“‘`_#>|{{-]){{0,12}}({one})[\s.:)*\]}}\"'”’`_|!]{{0,12}}"
    )
    said = "|".join(map(re.escape, names)) or "(?!)"
    at_end = re.compile(rf"(?:[.!?;]\s{{1,2}}|(?<=[^\W\d_]{{2}}):\s{{0,2}}){_OPENING}([{letters}]){_CLOSING}*\Z")
    word_at_end = re.compile(rf"(?:^|[.!?]\s{{1,2}}){_OPENING}({said}){_CLOSING}*\Z", re.IGNORECASE | re.MULTILINE)
    begins = re.compile(rf"[*\[(`\"']{{0,4}}([{letters}])(?:[.:)*\]`\"',]|\s[-–—]\s|\sit\sis\b|\s\((?i:{said})\))")
    is_whole = rf"(?:(?=[\s*_`\"'”)\]}}<|.!]*(?:$|[\n;,<(]))|(?<=[{letters}])(?![\w'’]))"
    named = re.compile(
        rf"{_NOUN}(?:{AFTER_NOUN}{BEFORE_VALUE}|[*_\"'`]{{0,3}}\s{{0,2}}(?={_OPENING}[{letters}]){_OPENING}"
        rf"|[*_:\s]{{0,4}}\n{{1,2}}(?={_OPENING}{one}{_CLOSING}*$){_OPENING})({one}){is_whole}",
        re.MULTILINE,
    )
    so = re.compile(rf"{_SO}{_OPENING}([{letters}]){_ENDS}", re.MULTILINE)
    stray = re.compile(rf"(?<![\w'’-])([{letters}])(?![\w'’+-]){_ENDS.replace(';', ';?')}", re.MULTILINE)
    named_word = re.compile(
        rf"{_NOUN}{AFTER_NOUN}{BEFORE_VALUE}(?:{forms.word.pattern})" if forms else "(?!)", re.MULTILINE
    )

    def places_in(text: str) -> Iterator[tuple[int, int, str]]:
        """The letters, and the words as they are given, with their places; the last of each form."""
        last_start = text.rfind("\n") + 1
        for start, line in ((0, text[: max(text.find("\n"), 0)]), (last_start, text[last_start:])):
            if len(line) < _LONGEST_LINE and (match := alone.fullmatch(line.strip())):
                yield start, start + len(line), match[1].upper()
        if match := begins.match(text, last_start):
            yield *match.span(), match[1]
        for pattern in (named, so, at_end):
            if match := last_match(pattern, text):
                yield *match.span(), match[1].upper()
        if forms is None:
            return
        if match := word_at_end.search(text, last_start):
            yield *match.span(1), meanings[match[1].upper()]
        if match := last_match(named_word, text):
            yield *match.span(), meanings[forms.label_in(match)]
        if (match := last_match(forms.label, text)) and is_meant(text, *around(text, *match.span())):
            yield *match.span(), meanings[forms.label_in(match)]

    def disputed(value: str, text: str, end: int) -> bool:
        for match in islice(stray.finditer(text, end), MOST_WORDS):
            if match[1] != value and not is_denied(text, match.start()):
                return True
        same = [name for name in names if meanings[name] == value]
        return forms is not None and any(is_disputed(forms, name, text, end) for name in same)

    def parse(text: str) -> str | None:
        text = plain(text[-MOST_READ:]).strip().removesuffix("```").rstrip()
        start, end, value = max(places_in(text), key=lambda place: place[1], default=(0, 0, ""))
        if not value:
            word = last_label(text, names, ignore_case=True) if names else None
            return None if word is None else meanings[word]
        if text[start:end].strip(_MARKUP).upper() != value and not is_meant(text, *around(text, start, end)):
            return None
        return value if is_last_word(text, end, partial(disputed, value), VERDICTS) else None

    return parse
