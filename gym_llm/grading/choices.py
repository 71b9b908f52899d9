r"""Reading which option a text chooses: its letter, its text, or both.

What is given as the answer is read as a whole: `B`, `(B)`, `\textbf{B}`, `B. Bergen`, "option B", "B, because it
rains". "not B", "A or B", "Don't know", "A mixture" and `D-glucose` choose nothing. Every function takes time linear in
the text.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from gym_llm.grading.answer_lines import answer_statements, last_answer_line
from gym_llm.grading.answers import boxed_answer, last_box
from gym_llm.grading.denials import is_given
from gym_llm.grading.markup import without_markup
from gym_llm.grading.quantities import read_quantity

_LONGEST = 6_000
"""Characters of an answer that are looked at: more than any letter or option has. Normalising takes time quadratic in
the marks on one character, 20 ms for so many."""
_OTHER_LETTERS = dict(zip("أبجدঅবডঢ", "ABCDABCD", strict=True))
_OTHER_LETTER = re.compile(rf"(?<!\w)[{''.join(_OTHER_LETTERS)}](?!\w)")
_TAG = re.compile(r"</\w{1,20}>|<[biu]>(?=[^<>]{1,80}</)")
_EMOJI = re.compile("[\u2600-\u27bf\ufe0f\u20e3\U0001f000-\U0001faff]")
_GUILLEMETS = str.maketrans("«»", '""')
_AROUND = " \t.,;:!*_\"'“”`"

# Words before a letter that say only that it is the answer.
_LEAD = re.compile(
    r"""(?:(?:(?:it['’]s|that['’]s|i['’]d|i['’]ll|so|thus|therefore|hence|then|finally|overall|i|we|would|will|think
    |believe|choose|chose|select|selected|pick|say|go|with|that|my|our|the|correct|right|best|final|most|likely|probably
    |definitely|certainly|clearly|obviously|simply|only
    |closest|answer|option|choice|letter|alternative|statement|is|be|it|this|must|should)\b|=>|->|→)[\s,:]*+)*+""",
    re.IGNORECASE | re.VERBOSE,
)
_NOT_BUT = re.compile(r"not \(?[A-Za-z]\)?,? but (?:rather )?", re.IGNORECASE)
_TEXT_FIRST = re.compile(r"(.+?)\s*[(\[]([A-Za-z])[)\]]\.?")
_ALONE = re.compile(r"(['‘])?[\[({<\"“\s]*([A-Za-z])[\])}>\"”.,;:!\s*_]*(?(1)['’]\.?)")
_LETTER = re.compile(r"[\[({<\"'“\s]*([A-Za-z])(?![\w'’])(?:\s?([\])}>\"'”]))?")
_END = re.compile(r"[\s.,;:!)\]*_]*")
_SEPARATOR = re.compile(r"\s?[.:,;)\]](?=(\s)?)\s*|\s+[-–—]+\s+|\s?[–—]\s?|\s+|-")
_JOINER = r"(?:[/|&,;+:=、，…–-]|\b(?:to|through)\b|\b(?:n?or|and|and/or|as\swell\sas|versus|vs)\b)"
_ANOTHER = re.compile(
    rf"[\s*_)\].]*+({_JOINER}[\s,]*+(?:\b(?:and|or)\b)?)?[\s(\[*_\"']*+(?:(?:option|choice)\s)?([A-Za-z])(?![\w'’])",
    re.I,
)
_ARTICLE = re.compile(r"\s+(?!(?:and|or|nor)\b)[a-z]")
_VERB = re.compile(r"[)\]*_]*\s+(?:is|was|has|does|would|cannot|can)\b")
_UNSURE = re.compile(
    r"[\s*_()\].,;]*(?:n?or\b|and\b(?!\snot\b)|&|/|\?|(?:maybe|perhaps|possibly|alternatively|also)\b[^.]{0,30}\b(?-i:[A-Z])\b)"
    r"|[^.!]{0,400}\?\s*$",
    re.I,
)
_DENIED = re.compile(
    r"[\s*_)\].,:]*(?:(?:is|are|was|would be|seems|looks)\s(?:definitely\s|clearly\s|certainly\s|also\s)?"
    r"(?:not|wrong|incorrect|false|impossible|unlikely|excluded|eliminated|out)\b|(?:is|was|does|ca|could|do)n['’]t\b"
    r"|(?:can)?not\b(?!\s\(?(?-i:[A-Z])\b)|(?:wrong|incorrect|false)\b)",
    re.I,
)
_NUMBER_FIRST = re.compile(r"[-+−]?\(?[-+−]?(?:[\d.√]|\\(?:frac|sqrt|pi))")
_BECAUSE = re.compile(r"(?:is|because|since|as|due|given|which|that|rather than|instead of)\b", re.I)
_SENTENCE = re.compile(
    r"(?i:is|because|since|as|due|given|which|that|it|this|the|there|if|when|where|for|by|in|from|all|only|both|we|i|an?"
    r"|not|see|explanation|reason|note|however|but|with|based|according|choice|option|answer)\b|[(\[]"
    r"|[A-Z]\S*\s+\S+\s+\S",
)
_NEGATION = re.compile(
    r"\b(?:not|no|less|never|neither|nor|none|non|cannot|without|except|unless|than|instead|(?:any|every)thing but)\b"
    r"|\ball but\b|n['’]t\b|\\sqrt|√",
    re.I,
)
_BRACKETED = re.compile(r"(?<![\w(])\(?([A-Z])\)")
_RULED_OUT = re.compile(r"\bnot\s\([A-Z]\)")
_LABEL = re.compile(r"[\W_]*([a-z])[).:\]]")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_DECIMAL = re.compile(r"\.\d")
_SCALED = re.compile(r"\s*(?:[%/^*×·]|\\%|percent|hundred|thousand|million|billion|trillion|dozen)", re.I)
# Lines that begin another question, or collect the answers to several: a word, and the line before and after it.
_NEXT_QUESTIONS = {
    "question": (
        _MARKS := re.compile(r"[ \t#*_]*"),
        _NUMBERED := re.compile(r"[ \t]{0,3}[\d.]{0,6}[*_]{0,3}[ \t]*[:：]"),
    ),
    "problem": (_MARKS, _NUMBERED),
    "\nq": (re.compile(""), _NUMBERED),
    "answers": (re.compile(r"[^\n]{0,50}\ball\b[^\n]{0,30}"), re.compile("")),
    "总结": (re.compile(r"[^\n]{0,20}"), re.compile("")),
}
_MOST_QUESTIONS = 8
_LONGEST_BEFORE = 100


@dataclass(frozen=True)
class Options:
    """The options of a task, ready for grading."""

    letters: frozenset[str]
    """The upper-cased letters that a model can choose."""
    texts: tuple[tuple[str, str], ...]
    """(letter, text as `plain` has it) of each option."""

    @classmethod
    def read(cls, options: Iterable[dict[str, str | None]]) -> Options:
        """From a row: dicts from one letter to a text; a null text means there is no such option."""
        texts = [
            (letter.upper(), plain(text))
            for option in options
            for letter, text in option.items()
            if len(letter) == 1 and letter.isalpha() and text is not None
        ]
        return cls(frozenset(letter for letter, _ in texts), tuple(texts))

    @cached_property
    def forms(self) -> tuple[tuple[str, str], ...]:
        """(letter, text as it is compared: without markup, case and punctuation around it), without empty ones."""
        forms = ((letter, _comparable(_normal(text))) for letter, text in self.texts)
        return tuple((letter, form) for letter, form in forms if form)

    def form(self, letter: str) -> str:
        """Return the option's text as it is compared, or ""."""
        return next((form for name, form in self.forms if name == letter), "")

    def named(self, text: str) -> str | None:
        """Return the letter of the only option that has this normalised text, or None."""
        said = _comparable(text)
        letters = {letter for letter, form in self.forms if form == said}
        return letters.pop() if len(letters) == 1 else None

    def agrees(self, letter: str, rest: str) -> bool | None:
        """Return True if a letter's option has the text that follows it, False if another has, None if none has."""
        said = _comparable(rest)
        own = self.form(letter)
        if own and said == own:
            return True
        others = [form for name, form in self.forms if name != letter]
        if any(said == form or said.startswith((form + ".", form + ",")) for form in others):
            return False
        if own and said.startswith(own) and not said[len(own) : len(own) + 1].isalnum():
            label = _LABEL.match(said, len(own))
            following = "" if label is None else self.form(label[1].upper())
            return not (label and following and said[label.end() :].lstrip().startswith(following))
        return True if own and (_is_part(said, own) or self.within(said) == letter) else None

    def within(self, said: str) -> str | None:
        """Return the letter of the one option whose text is among these words, which deny nothing; else None."""
        found = [(letter, form) for letter, form in self.forms if _has_words(said, form)]
        longest = max((form for _, form in found), key=len, default="")
        letters = {letter for letter, form in found if form == longest}
        rest = said.replace(longest, " ") if longest else said
        if len(letters) != 1 or any(_has_words(rest, form) for _, form in found):
            return None
        is_denied = _NEGATION.search(rest) or (_NUMBER.search(longest) and _NUMBER.search(rest))
        return None if is_denied else letters.pop()


ANY_LETTER = Options(frozenset(string.ascii_uppercase), ())
"""Options of which nothing is known: every letter can be chosen."""


def plain(text: str) -> str:
    """Lower case, every run of white space one space."""
    return " ".join(text.lower().split())


def read_choice(
    answer: str, options: Options, *, small: bool = True, in_box: bool = False, texts: bool = True, brief: bool = False
) -> str | None:
    r"""Return the letter of the option that an answer chooses, read as a whole; else None.

    Args:
        answer: The text behind `Answer:`, or in a box.
        options: The options.
        small: Whether a small letter is one.
        in_box: Whether it stands in a box: then no explanation follows the letter but in brackets.
        texts: Whether an option's text chooses it without its letter.
        brief: Whether nothing may follow a letter but its option's text.

    >>> options = Options.read([{"A": "Oslo"}, {"B": "Bergen"}])
    >>> read_choice("**(B)**", options), read_choice("B. Bergen", options), read_choice("B, as it rains", options)
    ('B', 'B', 'B')
    >>> read_choice("A or B", options), read_choice("A mixture", options), read_choice("B. Oslo", options)
    (None, None, None)
    """
    said = _normal(answer)
    if (alone := _ALONE.fullmatch(said)) is not None and alone[2].upper() in options.letters:
        return alone[2].upper() if small or alone[2].isupper() else None
    if texts and (letter := options.named(said)) is not None:
        return letter
    if (other := _NOT_BUT.match(said)) is not None:
        said = said[other.end() :]
    elif texts and (named := _TEXT_FIRST.fullmatch(said)) is not None and options.named(named[1]) == named[2].upper():
        return named[2].upper()
    lead = _LEAD.match(said)
    for start in dict.fromkeys((0, lead.end() if lead else 0)):
        rest = said[start:]
        if start and texts and (letter := options.named(rest)) is not None:
            return letter
        found = _LETTER.match(rest)
        if found is None or found[1].upper() not in options.letters or not (small or found[1].isupper()):
            continue
        if _is_choice(found[1], found[2] in (")", "]"), rest[found.end() :], options, in_box, brief):
            return found[1].upper()
    return None


def _is_choice(letter: str, is_closed: bool, tail: str, options: Options, in_box: bool, brief: bool) -> bool:
    """Whether what follows a letter, which may be closed by a bracket, leaves it the one that is chosen."""
    separator, rest = _separated(tail)
    readings = (rest, rest.removeprefix("(").removesuffix(")"), tail.lstrip(" .:)]"))
    if (own := options.form(letter.upper())) and own in map(_comparable, readings):
        return True
    while (another := _ANOTHER.match(tail)) is not None and _is_listed(another, tail, letter, options):
        if another[2].upper() != letter.upper():
            return False
        tail = tail[another.end() :]
    if _END.fullmatch(tail):
        return True
    if brief or _UNSURE.match(tail) or _DENIED.match(tail):
        return False
    separator, rest = _separated(tail)
    agreement = options.agrees(letter.upper(), rest.removeprefix("(").removesuffix(")"))
    if agreement is not None:
        return agreement
    if not options.texts and any(label != letter.upper() for label in _BRACKETED.findall(_RULED_OUT.sub("", tail))):
        return False  # all options in turn
    if is_closed:
        return True
    mark = separator[0].strip() if separator else "?"
    if mark in (")", "]"):
        return True
    if letter.islower() or mark == "?" or (mark == "-" and not tail[0].isspace()):
        return False
    if mark == "" or in_box:
        is_number = mark in (".", ":") and separator is not None and separator[1] and _NUMBER_FIRST.match(rest)
        return bool(_BECAUSE.match(rest) or is_number or (rest.startswith("(") and tail[0].isspace()))
    if mark in (",", ";"):
        return True
    is_spaced = not mark.isascii() or tail[len(mark) :][:1].isspace()
    return is_spaced and bool(_SENTENCE.match(rest) or _NUMBER_FIRST.match(rest))


def _separated(tail: str) -> tuple[re.Match[str] | None, str]:
    """What separates a letter from the words behind it, and these words."""
    separator = _SEPARATOR.match(tail)
    return separator, tail[separator.end() :] if separator else tail


def _is_listed(another: re.Match[str], tail: str, letter: str, options: Options) -> bool:
    """Whether another letter behind the chosen one is one of a list, and no article or subject of a sentence."""
    name, after = another[2], tail[another.end() :]
    if name.upper() not in options.letters or name.isupper() != letter.isupper():
        return False
    if name.upper() in "AI" and _ARTICLE.match(after) and not _VERB.match(after):
        return False
    return bool(another[1] and another[1].strip() not in (",", ";", "-")) or _VERB.match(after) is None


def option_within(text: str, options: Options) -> str | None:
    """Return the letter of the one option whose text is among the words of a box, which denies nothing; else None.

    Of options that are parts of each other, the longest counts. An option that is a number must be the only number.

    >>> options = Options.read([{"A": "red"}, {"B": "dark red"}, {"C": "5"}])
    >>> option_within("a dark red car", options), option_within("infrared", options), option_within("-5", options)
    ('B', None, None)
    """
    number = read_quantity(text)
    equal = [letter for letter, form in options.forms if number and number.is_same(read_quantity(form))]
    said = _normal(text)
    if len(equal) == 1:
        return equal[0]
    choice, label = options.within(_comparable(said)), _LABEL.match(said.lower())
    is_other = label is not None and label[1].upper() in options.letters - {choice}
    return None if is_other or said.endswith("?") else choice


def boxed_choice(text: str, options: Options, *, texts: bool = False, within: bool = False) -> str | None:
    r"""Return the option that the last `\boxed{…}` chooses by a capital letter, or None.

    Args:
        text: What the model wrote.
        options: The options.
        texts: Whether an option's text chooses it, too.
        within: The same, and its text may be a part of what is in the box.

    >>> boxed_choice(r"\boxed{\textbf{D}}", ANY_LETTER), boxed_choice(r"\boxed{D-glucose}", ANY_LETTER)
    ('D', None)
    """
    start = text.find("\\boxed{")
    if (
        text[start + 8 : start + 9] == "}"
        and (letter := text[start + 7]) in options.letters
        and text.find("\\boxed", start + 1) < 0
    ):
        return letter if is_given(text, start, start + 9) else None  # the usual answer
    box = boxed_answer(text)
    if box is None or len(box) > _LONGEST:
        return None
    texts = texts or within
    choice = read_choice(box, options, small=False, in_box=True, texts=texts)
    return option_within(box, options) if choice is None and within else choice


def stated_choice(text: str, options: Options, *, within: bool = False) -> str | None:
    r"""Return the option that the last statement of a text chooses: `Answer: …`, a box, or "the answer is …".

    A line `Answer:` that chooses nothing ends the search. A box with a formula, or a phrase that names no option, does
    not. A model that goes on with a question of its own, or collects the answers to several, has answered before.

    Args:
        text: What the model wrote.
        options: The options.
        within: Whether an option's text may be a part of what is in the box.

    >>> options = Options.read([{"A": "Oslo"}, {"B": "Bergen"}])
    >>> stated_choice("The answer is (B).\n\nQuestion: Why?\nAnswer: A", options)
    'B'
    >>> stated_choice(r"\boxed{B}\nAnswer: neither", options) is None
    True
    """
    for start in _next_questions(text):
        is_stated, choice = _last_stated(text[:start], options, within)
        if is_stated:
            return choice
    return _last_stated(text, options, within)[1]


def _next_questions(text: str) -> list[int]:
    """Return where the first lines begin that `_NEXT_QUESTIONS` describes, but for the text's first line."""
    lowered = text.lower()
    lowered = lowered if len(lowered) == len(text) else text  # positions have to stay the same
    starts = set()
    for word, (before, after) in _NEXT_QUESTIONS.items():
        position = -1
        for _ in range(_MOST_QUESTIONS):
            if (position := lowered.find(word, position + 1)) < 0:
                break
            line = lowered.rfind("\n", max(0, position - _LONGEST_BEFORE), position)
            is_begun = word[0] == "\n" or (line >= 0 and before.fullmatch(lowered, line + 1, position))
            if is_begun and after.match(lowered, position + len(word)):
                starts.add(position if word[0] == "\n" else line)
    return sorted(starts)[:_MOST_QUESTIONS]


def _last_stated(text: str, options: Options, within: bool) -> tuple[bool, str | None]:
    """Whether the text states an answer, and the option that the last statement chooses."""
    span = last_box(text)
    for statement in reversed(answer_statements(text)):
        if span is not None and span[0] > statement.start:
            if (choice := boxed_choice(text, options, texts=True, within=within)) is not None:
                return True, choice
            span = None
        choice = read_choice(statement.text, options)
        if choice is not None or not statement.is_phrase:
            return True, choice
    choice = None if span is None else boxed_choice(text, options, texts=True, within=within)
    return choice is not None, choice


def line_choice(text: str, options: Options, *, brief: bool = False) -> str | None:
    r"""Return the option that the last line `Answer: …` chooses, or None.

    >>> line_choice("Answer: A\n**Answer: (b)**", ANY_LETTER), line_choice("Answer: both", ANY_LETTER)
    ('B', None)
    """
    line = last_answer_line(text)
    return None if line is None else read_choice(line, options, brief=brief)


def _normal(text: str) -> str:
    text = text.strip()[:_LONGEST]
    if not text.isascii():
        text = _EMOJI.sub(" ", unicodedata.normalize("NFKC", text)[:_LONGEST]).translate(_GUILLEMETS)
        text = _OTHER_LETTER.sub(lambda match: _OTHER_LETTERS[match[0]], text)
    return without_markup(_TAG.sub(" ", text) if "<" in text else text)


def _comparable(text: str) -> str:
    text = text.lower().strip(_AROUND.replace(".", "")).rstrip(_AROUND)
    return text if _DECIMAL.match(text) else text.lstrip(_AROUND)


def _has_words(text: str, words: str) -> bool:
    """Whether words stand in a text, and not inside of other words or numbers."""
    position = text.find(words)
    while position >= 0:
        before, after = text[position - 1] if position else " ", text[position + len(words) :]
        if not (before.isalnum() or before in "-−_'^") and not _goes_on(words, before, after):
            return True
        position = text.find(words, position + 1)
    return False


def _is_part(text: str, words: str) -> bool:
    return len(text) > 2 and (words.startswith(text) or _has_words(words, text))


def _goes_on(words: str, before: str, after: str) -> bool:
    if not words[-1].isdigit():
        return after[:1].isalnum() or after[:1] in ("-", "_")
    return bool(before in ".,/" or after[:1].isalnum() or re.match(r"[.,]\d", after) or _SCALED.match(after))
