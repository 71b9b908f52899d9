r"""Finding what a model gives as its answer: a line `Answer: …`, or the phrase "the answer is …"."""

from __future__ import annotations

import re
from collections import deque
from typing import NamedTuple

from gym_llm.grading.answers import is_blank

# For a text in lower case. It begins with a literal, so that `re` passes quickly over the rest.
_MARK = re.compile(
    r"answer(?:[*_`]{0,3}\s{0,99}[:：][*_`]{0,3}\s*+(?=\S)|[ \t]{1,9}is\b[*_`]{0,3}[ \t]*[:：]?\s*+(?=\S)"
    r"|[*_`]{0,3}[ \t]*\n\s*+(?=\S)|(?<=<answer)>\s*+(?=\S))"
)
_KINDS = r"(?:final|correct|right|best|only|closest|proper|overall|most\s(?:likely|accurate|appropriate|suitable))"
_SUBJECT = re.compile(rf"(?:(?<!\w)(?:the|my|our)\s|^\W*)(?:{_KINDS}\s){{0,3}}[*_`]{{0,3}}$", re.IGNORECASE)
_ONLY_SUBJECT = re.compile(rf"(?:(?:so|thus|therefore|hence)\W+)?(?:the|my|our)(?:\s{_KINDS}){{0,3}}", re.IGNORECASE)
_DOUBT = re.compile(
    r"\b(?:if|whether|unless|doubt\w*|deny|suppos\w+|assum\w+|(?:not|never)\s\w+|\w+n['’]t\s\w+)(?:\sthat)?[\s,]*$",
    re.IGNORECASE,
)
_END_OF_TURN = re.compile(r"(?:\s*(?:<\|\w{2,20}\|>|</s>|</answer>|<EOS_TOKEN>))+$")
_HEADING = re.compile(r"\s*(?:#{1,6}[ \t]*[*_]{0,3}|[*_]{2,3})(?:the\s)?(?:final\s|correct\s)?$", re.IGNORECASE)
_OPENING = re.compile(r"[*_`]{1,3}(?=(?:\w+\s){0,2}$)")
_PLACEHOLDER = re.compile(r"[$\"'<\[({]{0,3}(?:YOUR[ _])?(?:FINAL[ _])?(?:LETTER|ANSWER|CHOICE|OPTION)[\"'>\])}.]{0,3}")
_TEMPLATE = re.compile(r"[<\[](?:your|the|insert)\b[^<>\[\]]{0,40}[>\]]\.?", re.IGNORECASE)
_OPTION = re.compile(
    r"[\s*>-]*\(?([A-Za-z])(?:[).:\]][*\s]*+(?!(?:is|was|has|does|can|cannot|would)\b)|\s*$)", re.IGNORECASE
)
_LONGEST_OPTION = 1_000
_BULLET = re.compile(r"[-*•]\s+(?=[^\s\d])")
_BLANK = re.compile(r"(?:[\s*_`$]|\\[\[(])*+(?:\.{2,}|…)?")
_LONGEST_TEXT = 100_000
_MOST_MARKS = 256
_LONGEST = 6_000
"""Characters behind a mark that are read: more than any answer in a line has."""
_BEFORE = 60


class Statement(NamedTuple):
    """An answer that a text gives."""

    start: int
    """Where it begins in the text."""
    text: str
    """The rest of its line, stripped, without Markdown that its mark opened; never blank."""
    is_phrase: bool = False
    """Whether "the answer is" announces it, and not a line `Answer:`."""


def answer_statements(text: str) -> list[Statement]:
    r"""Return what the text gives as its answer: after `Answer:`, `<answer>`, "the answer is", or a heading "Answer".

    The mark may be in Markdown, in any case, and with words before it ("Final Answer:"). Without text behind it on its
    line, the next line that is not blank counts. A mark with nothing behind it, or with the words of a template
    (`Answer: $LETTER`), gives no answer. Only the last 256 marks in the last 100,000 characters are read.

    >>> [statement.text for statement in answer_statements("**Answer: 4**, no. Answer: 5\nSo the answer is 6.")]
    ['4**, no.', '5', '6.']
    """
    offset = max(0, len(text) - _LONGEST_TEXT)
    lowered = text.lower()
    # Some letters become two: then only marks in small letters count, and positions stay the same.
    marks = deque(_MARK.finditer(lowered if len(lowered) == len(text) else text, offset), _MOST_MARKS)
    statements: list[Statement] = []
    stop, budget = len(text), _LONGEST
    for mark in reversed(marks):
        line = text.rfind("\n", max(0, mark.start() - _BEFORE), mark.start()) + 1
        before = text[max(line, mark.start() - _BEFORE) : mark.start()]
        if (statement := _statement(text, mark, before, min(stop, mark.end() + budget))) is not None:
            if statements and _ONLY_SUBJECT.fullmatch(statement.text):  # "Answer: The answer is 5."
                statements[-1] = statements[-1]._replace(is_phrase=statement.is_phrase)
                continue
            statements.append(statement)
            budget -= len(statement.text)
            if budget <= 0:
                break
        stop = mark.start()
    statements.reverse()
    return statements


def _statement(text: str, mark: re.Match[str], before: str, stop: int) -> Statement | None:
    sign = mark[0][6:].strip()
    is_phrase = sign.startswith("is")
    if is_phrase and ((subject := _SUBJECT.search(before)) is None or _DOUBT.search(before, 0, subject.start())):
        return None
    if not is_phrase and not {":", "：", ">"}.intersection(sign) and _HEADING.fullmatch(before) is None:
        return None
    end = text.find("\n", mark.end(), stop)
    answer = text[mark.end() : stop if end < 0 else end].strip()
    if "\n" in mark[0]:
        answer = _BULLET.sub("", answer)
    if sign == ">":
        answer = answer.partition("</answer>")[0].rstrip()
    if end >= 0 and (option := _OPTION.match(answer)) is not None:
        answer += _next_option(option[1], text[end : end + _LONGEST_OPTION])
    if answer.endswith(">"):
        answer = _END_OF_TURN.sub("", answer)
    opening = _OPENING.search(before)
    if opening is not None and opening[0] not in mark[0]:
        answer = answer.removesuffix(opening[0]).rstrip()
    if _BLANK.fullmatch(answer) or _PLACEHOLDER.fullmatch(answer) or _TEMPLATE.fullmatch(answer):
        return None
    return None if answer.startswith("\\boxed") and is_blank(answer[6:]) else Statement(mark.end(), answer, is_phrase)


def _next_option(letter: str, text: str) -> str:
    """Return the next line if it is the next option of a list, in which no option is chosen; else ""."""
    line = text.strip().partition("\n")[0]
    option = _OPTION.match(line)
    return f" {line}" if option is not None and ord(option[1].upper()) == ord(letter.upper()) + 1 else ""


def last_answer_line(text: str) -> str | None:
    r"""Return the answer of the last line `Answer: …` (`answer_statements`), or None.

    >>> last_answer_line("**Answer:** `Oslo`\nThe answer is a city.")
    '`Oslo`'
    """
    return next((each.text for each in reversed(answer_statements(text)) if not each.is_phrase), None)


def last_answer_phrase(text: str) -> str | None:
    """Return what follows the last "the answer is" on its line, or None.

    >>> last_answer_phrase("So the answer is 24.")
    '24.'
    """
    return next((each.text for each in reversed(answer_statements(text)) if each.is_phrase), None)
