"""Sentence splitting by rules: nothing is downloaded, and a text has the same sentences everywhere.

IFEval and later benchmarks use two splitters, and their rows depend on both:

- `sentences` follows IFEval's own list of regular expressions. Every `.`, `?` and `!` ends a sentence, except in
  titles, initials, acronyms, decimals and web addresses.
- `split_sentences` follows NLTK's Punkt. Only a mark before white space ends a sentence, and not after an abbreviation.
  Punkt's model is a download, so only its rules are here, without its word counts.
"""

from __future__ import annotations

import re

_STARTERS = r"(?= (?:Mr|Mrs|Ms|Dr|Prof|Capt|Cpt|Lt|Wherever|(?:He|She|It|They|Their|Our|We|But|However|That|This)\s))"
_MARK = re.compile(r"[.?!](?:(?<=\.)\.+)?")
_STOP = re.compile(
    r"\.(?!com|net|org|io|gov|edu|me)(?<!Mr\.)(?<!St\.)(?<!Mrs\.)(?<!Ms\.)(?<!Dr\.)(?<!Ph\.D\.)"
    r"(?<!Ph\.(?=D\.))(?<![0-9]\.(?=[0-9]))(?:"
    r"(?<! Inc\.)(?<! Ltd\.)(?<! Jr\.)(?<! Sr\.)(?<! Co\.)"  # no company
    r"(?<!\s[A-Za-z]\.(?= ))(?<! [A-Za-z]\.)(?<![A-Za-z]\.[A-Za-z]\.)(?<![A-Za-z]\.(?=[A-Za-z]\.))"  # no initial
    rf"|(?<=[A-Z]\.[A-Z]\.){_STARTERS}|(?<= Inc\.){_STARTERS}|(?<= Ltd\.){_STARTERS}|(?<= [JS]r\.){_STARTERS}"
    rf"|(?<= Co\.){_STARTERS})"
)
_QUOTES = {".": '"”', "?": '"', "!": '"'}


def sentences(text: str) -> list[str]:
    """The sentences as IFEval's own splitter has them, each with its mark, stripped.

    A mark before a closing quote goes behind it, and every mark of several ends a sentence: `Why?!` is two.

    >>> sentences('Dr. A. Smith of the U.S. paid $3.50. "Why?" It was e.g. too much')
    ['Dr. A. Smith of the U.S. paid $3.50.', '"Why"?', 'It was e.g. too much']
    """
    text = f" {text}  ".replace("\n", " ")
    found, start = [], 0
    for match in _MARK.finditer(text):
        mark, at, end = match[0], match.start(), match.end()
        if mark == "." and not _STOP.match(text, at):
            continue
        quote = text[end] if len(mark) == 1 and text[end] in _QUOTES[mark] else ""
        found.append(f"{text[start:at]}{quote}{mark}".strip())
        start = end + len(quote)
    if rest := text[start:].strip():
        found.append(rest)
    return found


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PUNKT_END = re.compile(r"(?<![.?!])[.?!]++[\"')\]}»”’*_]*+(?=\s)")
_ABBREVIATIONS = _words(
    """
    adj adm adv al approx apt assn assoc asst aug ave bldg blvd brig bros ca capt cf ch cmdr co col comdr corp cpl
    dec dept dist dr ed eds esp est etc ext feb fig figs ft gen gov hon hr hrs ie inc jan jr lt ltd maj mar max
    messrs min mr mrs ms msgr mt mts nos nov oct op para pl pop pp pres prof rep reps rev sen sens sept sgt sr st
    ste supt tel univ usu viz vol vols vs yr yrs
    """
)
_OPENS = _words(
    """
    after all although and another as at because before but by during each even every finally first for from he her
    here his how however i if in instead is it its last later let many meanwhile more most my never next no not now
    on once one only or other our perhaps second she since so some sometimes soon still such that the their then
    there these they third this those though thus to today together under unfortunately until we what when where
    whether which while who why with without yes yet you your
    """
)


def split_sentences(text: str) -> list[str]:
    """The sentences by Punkt's rules, stripped: a mark ends one only before white space.

    After an abbreviation, an initial or an ellipsis a sentence ends only where the next word is a capitalised one that
    otherwise is written small.

    >>> split_sentences("Mr. J. Smith, e.g., paid 3.5 million... really? Yes. He lives in the U.S. now.")
    ['Mr. J. Smith, e.g., paid 3.5 million... really?', 'Yes.', 'He lives in the U.S. now.']
    """
    found, start = [], 0
    for match in _PUNKT_END.finditer(text):
        if match[0][0] == "." and not _ends(text, start, match):
            continue
        found.append(text[start : match.end()].strip())
        start = match.end()
    if rest := text[start:].strip():
        found.append(rest)
    return found


_NEXT_WORD = re.compile(r"\s+[\"'(\[{«“‘*_]{0,8}(\w*)")
_LONGEST_WORD = 24


def _ends(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether a match that begins with a full stop ends a sentence."""
    at = match.start()
    following = _NEXT_WORD.match(text, match.end())
    word_after = following[1] if following else ""
    if "?" in match[0] or "!" in match[0]:
        return True
    pieces = text[max(start, at - _LONGEST_WORD) : at].split()
    word = pieces[-1].lstrip("\"'([{«“‘*_").lower() if pieces else ""
    if match[0].startswith("..") or word in _ABBREVIATIONS or _is_initials(word):
        return word_after[:1].isupper() and word_after.lower() in _OPENS
    if word.isdigit():
        return not word_after[:1].islower()
    return True


def _is_initials(word: str) -> bool:
    return bool(word) and all(len(part) == 1 and part.isalpha() for part in word.split("."))
