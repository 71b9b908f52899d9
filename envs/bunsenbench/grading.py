r"""Rules by which a text chooses an option, reimplemented from NeMo Gym's `bunsenbench_chemistry_mcq`.

They read the last 50,000 characters of a text in linear time.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import deque
from collections.abc import Iterator, Mapping
from functools import lru_cache

from gym_llm.grading.answer_lines import answer_statements
from gym_llm.grading.answers import last_box
from gym_llm.grading.choices import Options, read_choice
from gym_llm.grading.denials import is_denied, is_given

_LONGEST_TEXT = 50_000
_LONGEST = 2_000  # characters of a candidate: options are shorter
_MOST = 64
_MOST_SPELLED = 9  # characters of one spelled character, such as `&middot;`
_MARKS = ("\\boxed", "<", "choose", "select")  # each sign below has one of them
# For a text in lower case. Each alternative begins with a literal character, so that `re` skips the rest quickly.
_SIGN = re.compile(
    r"<\s?(?P<tag>answer|choice|response|final[_-]answer)\b[^<>]*+>"
    r"|(?P<box>\\boxed\s{0,9}\{)"
    r"|i(?<!\wi)\s+(?:choose|select)[\s:]\s*+"
)
_OPTION_LIST = re.compile(r"</?\s?choices\b[^<>]*+>", re.IGNORECASE)
_CHOICE_TAG = re.compile(r"<\s?choice\b[^<>]*+>", re.IGNORECASE)
_CHOICE_END = re.compile(r"<\s?/\s?choice\s?>", re.IGNORECASE)
_THINK = re.compile(r"<\s?(/?)\s?think\b[^<>]*+>", re.IGNORECASE)
_LATEX = re.compile(r"\\(?:boxed|text|mathrm|operatorname)\s?\{(.*)\}", re.DOTALL)
_BRACKETS = {"(": ")", "[": "]", "{": "}", '"': '"', "'": "'", "<": ">"}
_REFUSING = ("sorry", "can", "not able", "unable", "won", "an ai", "decline", "refuse", "do not feel")
_REFUSAL = re.compile(
    r"\bi\s?['\u2019]?\s?a?m sorry,? (?:but )?i (?:can(?:no|['\u2019]?)t|am unable|won['\u2019]?t)"
    r"|\bi can(?:no|['\u2019]?)t (?:help|assist|comply|provide|answer|do that|continue)"
    r"|\bi(?: am|['\u2019]m) (?:not able|unable) to (?:help|assist|comply|provide|answer)"
    r"|\bi won['\u2019]?t be able to (?:help|assist|provide|answer)"
    r"|\bas an ai(?: language)? model,? i\b"
    r"|\bi (?:must|(?:will )?have to) (?:decline|refuse)"
    r"|\bi do not feel comfortable",
    re.IGNORECASE,
)
# Signs of formulas and units that NFKC keeps apart; it turns subscripts and superscripts into digits itself.
_SIGNS = str.maketrans("−–—‒‐‑×✕·∙⋅•µμ⁄∕", "------xx....uu//")


def plain_chemistry(text: str) -> str:
    """Return a formula or a name with one spelling of small digits, signs, entities and spaces; case counts.

    >>> plain_chemistry("SO₄²⁻"), plain_chemistry("2&nbsp;μg")
    ('SO42-', '2 ug')
    """
    text = html.unescape(text)
    if text.isascii():
        return " ".join(text.split())
    text = unicodedata.normalize("NFKC", text).translate(_SIGNS)
    return " ".join("".join(character for character in text if unicodedata.category(character) != "Cf").split())


def chosen_letter(text: str, options: Mapping[str, str]) -> str | None:
    r"""Return the letter of the option that a text chooses, or None.

    Candidates are the contents of `<choice>`, `<answer>`, `<response>` and `<final_answer>` tags and of `\boxed{}`.
    So is the rest of a line after `Answer:`, "the answer is", "my answer is", "I choose" or "I select". The last
    candidate that is an option's letter or whole text decides. Without one, the last line decides, then the first, but
    neither if the last two lines are two options.

    Args:
        text: The model's text.
        options: The options' texts in the form of `plain_chemistry`, by their letters.

    >>> chosen_letter("Water, so <choice>H₂O</choice>.", {"A": "OH-", "B": "H2O"})
    'B'
    """
    first_line = text.lstrip()[:_LONGEST].partition("\n")[0]
    text = text[-_LONGEST_TEXT:]
    if (letter := _at_the_end(text, options)) is not None:
        return letter
    candidates = [(each.start, each.text, not each.is_phrase) for each in answer_statements(text)]
    lowered = _lowered(text)
    if any(mark in lowered for mark in _MARKS):
        candidates = sorted([*candidates, *_signed(text, lowered)])
    for _, candidate, is_final in reversed(candidates[-_MOST:]):
        letter = _letter(candidate, options)
        if letter is not None or (is_final and candidate.strip()):
            return letter
    before, _, last_line = text.rstrip().rpartition("\n")
    letter = _letter(last_line, options)
    if letter is not None and _letter(before.rstrip().rpartition("\n")[2], options) not in (None, letter):
        return None  # a list of the options
    return letter or _letter(first_line, options)


def why_no_choice(text: str, *, refused: bool, cut_short: bool) -> str:
    """Return NeMo Gym's name for the reason that a text chooses no option.

    Args:
        text: The model's text.
        refused: Whether the response has a refusal.
        cut_short: Whether the generation was cut off.
    """
    text = text[-_LONGEST_TEXT:]
    if refused:
        return "refusal"
    slashes = _THINK.findall(text)
    if cut_short or slashes.count("") > slashes.count("/"):
        return "early_termination"
    lowered = text.lower()
    if any(word in lowered for word in _REFUSING) and _REFUSAL.search(" ".join(text.split())):
        return "refusal"
    lists = _option_lists(text)
    for tag in _CHOICE_TAG.finditer(text):
        if not _within(tag.start(), lists):
            return "malformed_choice" if _CHOICE_END.search(text, tag.end()) else "format_violation"
    return "format_violation"


def _signed(text: str, lowered: str) -> Iterator[tuple[int, str, bool]]:
    """Yield where the text after each of the last signs begins, that text, and whether it is explicit."""
    lists = _option_lists(text)
    for sign in deque(_SIGN.finditer(lowered), _MOST):
        if is_denied(text, sign.start()):
            continue
        if tag := sign["tag"]:
            if tag.lower() == "choice" and _within(sign.start(), lists):
                continue
            end = re.compile(rf"<\s?/\s?{tag}\s?>", re.IGNORECASE).search(text, sign.end(), sign.end() + _LONGEST)
            if end:
                yield sign.end(), text[sign.end() : end.start()], True
        elif sign["box"]:
            box = last_box(text[sign.start() : sign.start() + _LONGEST])
            if box is not None and is_given(text, sign.start(), sign.start() + box[1]):
                yield sign.end(), text[sign.start() + box[0] : sign.start() + box[1]], False
        else:
            yield sign.end(), text[sign.end() : sign.end() + _LONGEST].partition("\n")[0], False


def _at_the_end(text: str, options: Mapping[str, str]) -> str | None:
    """Return the option in the `<choice>` that ends the text: a fast path for the usual answer."""
    text = text.rstrip()
    start = text.rfind("<choice>")
    if start < 0 or not text.endswith("</choice>"):
        return None
    inside = text[start + len("<choice>") : -len("</choice>")]
    return None if _SIGN.search(_lowered(inside)) else _letter(inside, options)


def _lowered(text: str) -> str:
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text  # positions have to stay the same


def _option_lists(text: str) -> list[tuple[int, int]]:
    """Return the places where the model repeats the options, `<choices>…</choices>`."""
    lists: list[tuple[int, int]] = []
    if "choices" not in text.lower():
        return lists
    start = -1
    for tag in _OPTION_LIST.finditer(text):
        if tag[0][1] != "/":
            start = tag.start() if start < 0 else start
        elif start >= 0:
            lists.append((start, tag.end()))
            start = -1
    return lists[-_MOST:]


def _within(position: int, spans: list[tuple[int, int]]) -> bool:
    return any(start <= position < end for start, end in spans)


def _letter(candidate: str, options: Mapping[str, str]) -> str | None:
    candidate = candidate[:_LONGEST].strip()
    longest = _MOST_SPELLED * max(map(len, options.values())) + 100
    for form in (candidate, unwrapped(candidate)):
        if form:
            if (letter := read_choice(form, _read(tuple(options.items())), texts=False)) is not None:
                return letter
            if len(form) > longest:
                continue
            wanted = plain_chemistry(form)
            for letter, text in options.items():
                if text == wanted:
                    return letter
    return None


@lru_cache(maxsize=512)
def _read(options: tuple[tuple[str, str], ...]) -> Options:
    return Options.read([dict(options)])


def unwrapped(text: str) -> str:
    r"""Return a text without the Markdown marks, LaTeX commands, brackets and punctuation around it.

    >>> unwrapped(r"**\text{(H2O)}**.")
    'H2O'
    """
    for _ in range(9):
        before = text
        text = text.strip(" \t\r\n`*_.;,")
        if latex := _LATEX.fullmatch(text):
            text = latex[1]
        elif len(text) > 1 and _BRACKETS.get(text[0]) == text[-1]:
            text = text[1:-1]
        if text == before:
            break
    return text
