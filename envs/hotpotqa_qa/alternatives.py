"""Other spellings of an expected answer, and the search for them in a model's answer.

Source of the rules: `resources_servers/hotpotqa_qa` of https://github.com/NVIDIA-NeMo/Gym.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gym_llm.grading.denials import is_given_in_sentence

_ARTICLE = re.compile(r"^(?:the|a|an)\s+", re.IGNORECASE)
_PARENTHESES = re.compile(r"\(([^()]*)\)")
_QUOTES = str.maketrans("", "", '"“”')
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})")
_DOTS = re.compile(r"(?<!\d)\.|\.(?!\d)")
_SPACES = re.compile(" {2,}")
_WORDS = [
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen"),
    *("fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
]
_ORDINALS = {"first": "1st", "second": "2nd", "third": "3rd", "fourth": "4th", "fifth": "5th", "nineteenth": "19th",
             "twentieth": "20th", "twenty-first": "21st"}  # fmt: skip
_DIGITS = {word: str(number) for number, word in enumerate(_WORDS, 1)} | _ORDINALS
_NUMBERS = _DIGITS | {digits: word for word, digits in _DIGITS.items()}
_ASCII = str.maketrans(
    dict.fromkeys(map(chr, (0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)), " ")
    | dict.fromkeys(map(chr, range(0x2010, 0x2016)), "-")
    | dict.fromkeys("‘’‚‛", "'")
    | dict.fromkeys("“”„‟", '"')
)
_STOPWORDS = frozenset(
    {"a", "an", "and", "at", "by", "de", "for", "from", "in", "la", "of", "on", "or", "the", "to", "von", "with"}
)
_JOINED_BEFORE = re.compile(r"(?:\w|(?<!\w)-|\d[.,])$")
_JOINED_AFTER = re.compile(r"\w|[.,]\d")
_REFUSED_BEFORE = re.compile(r"(?:\b(?:not|n?or|either|neither|never)|n't|/)\s*(?:(?:the|an?|in|by|at)\s)?[\"'(]?$")
_HEDGED_AFTER = re.compile(r"[\"')]?,?\s*(?:n?or\b|/)")
_NO_ANSWER = re.compile(
    r"\s+(?:answer|idea|clue|info\w*|comment|data|response|opinion|one|knowledge|evidence|context|results?"
    r"|documents?|sources?|lo|se|sé|sabe)\b"
)
_NUMBERS_LISTED = re.compile(r"[^\w,;]*(?:\d+\s*[,;]\s*){2,}\d+\W*")
_SHORT = 4  # characters of an alternative that has to stand alone
_LONG = 80  # characters of an answer that has to begin with the expected one, or nearly:
_SOON = 40
_LONGEST_EXPECTED = 40


def alternatives(expected: str) -> set[str]:
    """Return the expected answer in other spellings.

    >>> sorted(alternatives("The Beatles (band)"))
    ['Beatles', 'Beatles (band)', 'The Beatles', 'The Beatles (band)', 'band']
    """
    forms = {
        expected,
        expected.translate(_QUOTES),
        _PARENTHESES.sub(" ", expected),
        *(inside.strip() for inside in _PARENTHESES.findall(expected) if len(inside.strip()) >= 2),
        _NUMBERS.get(expected.strip().lower(), expected),
        _THOUSANDS.sub("", expected),
        expected.rstrip(".,;:!?"),
        _DOTS.sub("", expected),
        expected if expected.startswith("-") else expected.replace("-", " "),
        expected.replace(" & ", " and "),
        expected.replace(" and ", " & ", 1),
    }
    forms |= {_ARTICLE.sub("", form) for form in forms}
    forms = {" ".join(form.split()) for form in forms}
    gold = " ".join(expected.split())
    return {form for form in forms if len(form) >= 3 or form == gold or form.isdigit()}


def plain(text: str) -> str:
    """Return a text in lower case, with ASCII for typographic spaces, hyphens and quotes, without double spaces."""
    text = text.lower()
    text = text if text.isascii() else text.translate(_ASCII)
    return _SPACES.sub(" ", text) if "  " in text else text


@dataclass(slots=True, frozen=True)
class Alternative:
    """A spelling to look for, in plain form; a short one counts only without a letter or digit beside it."""

    text: str
    alone: re.Pattern[str] | None

    @classmethod
    def read(cls, form: str) -> Alternative:
        """Make an alternative of a spelling."""
        text = plain(form)
        exact = re.escape(text)
        return cls(text, re.compile(rf"{exact}(?!\w)(?<!\w{exact})") if len(text) <= _SHORT else None)

    def found_strictly(self, answer: str) -> bool:
        """Return whether it is in the plain answer; in a long answer it has to be near the beginning."""
        if self.alone is None:
            place = answer.find(self.text)
        else:
            match = self.alone.search(answer)
            place = -1 if match is None else match.start()
        return place >= 0 and (len(answer) <= _LONG or place <= _SOON)

    def is_given(self, answer: str) -> bool:
        """Return whether it is in the plain answer, early, in whole words, neither denied nor one of several."""
        if "," in answer and self.text.isdigit():
            answer = _THOUSANDS.sub("", answer)
        if self.text.isdigit() and _NUMBERS_LISTED.fullmatch(answer.removeprefix("\\boxed")):
            return False
        place = answer.find(self.text)
        while place >= 0 and (len(answer) <= _LONG or place <= _SOON):
            before, after = answer[:place], answer[place + len(self.text) :]
            if not (_JOINED_BEFORE.search(before) or _JOINED_AFTER.match(after)):
                if self.text == "no" and _NO_ANSWER.match(after):
                    return False
                is_meant = _REFUSED_BEFORE.search(before) is None and _HEDGED_AFTER.match(after) is None
                return is_meant and is_given_in_sentence(answer, place, place + len(self.text))
            place = answer.find(self.text, place + 1)
        return False


def reason_to_remove(expected: str) -> str:
    """Return the reason that an expected answer is hard to match fairly (too long, a long name), or "".

    >>> reason_to_remove("Anne Marie Louise"), reason_to_remove("Oslo")
    ('multi_word_name', '')
    """
    if len(expected) > _LONGEST_EXPECTED:
        return "gt_too_long"
    words = expected.split()
    names = sum(word[0].isupper() and word.lower() not in _STOPWORDS for word in words)
    if (3 <= len(words) <= 4 and names == len(words)) or (5 <= len(words) <= 6 and names >= 3):
        return "multi_word_name"
    return ""
