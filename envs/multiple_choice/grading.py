r"""Which option a text chooses, by grading mode or by a row's own pattern.

Source of the modes: `resources_servers/mcqa` of https://github.com/NVIDIA-NeMo/Gym; of the Arabic and Bengali letters:
`normalize_extracted_answer` in https://github.com/openai/simple-evals (`common.py`). What is read as a choice is in
`gym_llm.grading.choices`. `search_last` runs a task's own patterns and belongs in a worker process.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, NamedTuple

from gym_llm.grading.choices import ANY_LETTER, Options, boxed_choice, line_choice, read_choice, stated_choice
from gym_llm.grading.markup import without_emphasis, without_fonts

GradingMode = Literal["strict_single_letter_boxed", "lenient_boxed", "lenient_answer_colon", "lenient_answer_colon_md"]

_CONTEXT = 400
_NEAR = 60
"""Characters between a pattern's own words and the letter that they announce; further away, its whole line is read."""
_ANYTHING = re.compile(r"(?:\(\?[a-z]+\))*\^?\(?(?:\?:)?(?:\[\\s\\S\]|\[\\S\\s\]|\[\\w\\W\]|\.)[*+]")
"""The beginning of a pattern that finds the last letter of a text, wherever it stands."""
_LABELLED = re.compile(r"\W*(?:(?:option|choice)\s)?([A-Za-z])[).:\]]\s", re.IGNORECASE)
_LISTED = re.compile(
    r"(?<!\w)([A-Za-z])[\s*_)\].]*(?:[/|&,;+、，]|\b(?:n?or|and|oder|und|ou|et|o|y|e)\b)[\s(\[*_]*$", re.IGNORECASE
)
_DENIED = re.compile(r"(?:\b(?:not|neither|nor|never|no|except|nicht|kein|pas|than)|n['’]t)[\s(\[*_\"']*$", re.I)
_UNCERTAIN = re.compile(
    r"\b(?:not|no|neither|nor|never|none|know|unsure|cannot|or|and|either|between|except|unless|if|whether|options"
    r"|choices)\b"
    r"|n['’]t\b|\?",
    re.IGNORECASE,
)
# Words right before a letter at the end of a line, by which it is the answer; letters of other scripts are, too.
_IS = re.compile(
    r"(?:(?:\b(?:is|ist|lautet|wäre|es|est|serait|sería|seria|sarebbe|é|è|adalah|ialah|ni|là|la|le|el|die|option|opción"
    r"|opzione|opção|choix|buchstabe|letra|lettre|lettera)|c['’]est|[:：])\s*|[^\W\d_a-zA-ZÀ-ɏ]\s?)[(\[*_\"']*$",
    re.IGNORECASE,
)
_LONE = re.compile(r"(?<![\w'’])[A-Z](?![\w'’])")


class Capture(NamedTuple):
    """A pattern's captured text, and what stands around it."""

    text: str
    before: str
    after: str
    words: str | None = ""
    """The pattern's own words right before it, on the same line; None where it stands anywhere."""


def extract_answer(text: str, options: Options, mode: GradingMode) -> str | None:
    r"""Return the letter of the option that `text` chooses, or None.

    - `strict_single_letter_boxed`: the last `\boxed{…}` holds a capital letter (`B`, `[B]`, `\textbf{B}`), or a label
      and that option's text (`B. Bergen`). A small letter does not count (it does not in NeMo either).
    - `lenient_boxed`: else the one option whose text is said in the box.
    - `lenient_answer_colon`: after the last `Answer:` the line has nothing but a letter of either case, or an option's
      text, or both.
    - `lenient_answer_colon_md`: the same with an explanation behind the letter; the last box and the last "The answer
      is …" count, too.

    >>> options = Options.read([{"A": "Oslo"}, {"B": "Bergen"}])
    >>> extract_answer(r"So \boxed{\text{B}}.", options, "strict_single_letter_boxed")
    'B'
    >>> extract_answer(r"\boxed{\text{oslo, Norway}}", options, "lenient_boxed")
    'A'
    >>> extract_answer("**Answer:** B, because of the rain", options, "lenient_answer_colon_md")
    'B'
    """
    if not options.letters:
        return None
    if mode == "lenient_answer_colon":
        return line_choice(text, options, brief=True)
    if mode == "lenient_answer_colon_md":
        return stated_choice(text, options)
    return boxed_choice(text, options, within=mode == "lenient_boxed")


def search_last(patterns_and_text: tuple[list[str], str]) -> list[Capture | None]:
    """For each pattern, what its last match in the text captured (the whole match if it has no group).

    If none matches, the text counts without fonts and emphasis, as simple-evals takes them out.

    A pattern may take exponential time and holds the interpreter meanwhile: call this in a worker process.
    """
    patterns, text = patterns_and_text
    captures = [_last_capture(pattern, text) for pattern in patterns]
    if not any(captures):
        captures = [_last_capture(pattern, without_emphasis(without_fonts(text))) for pattern in patterns]
    return captures


def _last_capture(pattern: str, text: str) -> Capture | None:
    last = None
    for match in re.finditer(pattern, text, re.IGNORECASE):
        last = match
    if last is None:
        return None
    group = next((number for number, captured in enumerate(last.groups(), 1) if captured is not None), 0)
    start, end = last.span(group)
    words = text[last.start() : start]
    is_near = len(words) <= _NEAR and "\n" not in words.strip() and _ANYTHING.match(pattern) is None
    before, after = text[max(0, start - _CONTEXT) : start], text[end : end + _CONTEXT]
    return Capture(last[group], before, after, words if is_near else None)


def chosen_option(captured: str | Capture, options: Options) -> str | None:
    """The option that a captured string names by its letter or its whole text; any letter where a row has no options.

    A letter counts only where it stands alone: not the `a` of "a hard one", the `D` of "Don't", or one of several.

    >>> chosen_option(" ب ", Options.read([{"A": "Oslo"}, {"B": "Bergen"}]))
    'B'
    """
    text, before, after, words = captured if isinstance(captured, Capture) else Capture(captured, "", "")
    options = options if options.letters else ANY_LETTER
    name = text.strip()
    if len(name) != 1:
        return read_choice(name, options, brief=True)
    if _is_joined(before[-1:]) or _is_joined(after[:1]) or _DENIED.search(before):
        return None
    if (listed := _LISTED.search(before)) is not None and listed[1].upper() in options.letters - {name.upper()}:
        return None
    rest = after.partition("\n")[0].partition("\\boxed")[0]
    if words is not None:
        return None if _UNCERTAIN.search(words) else read_choice(name + rest, options)
    above, _, line = before.rpartition("\n")
    label = _LABELLED.match(above.rstrip().rpartition("\n")[2])
    if label is not None and label[1].upper() in options.letters - {name.upper()}:
        return None  # the last line of a list of options
    return read_choice(line + name + rest, options) or _choice_at_the_end(line, name, rest, options)


def _choice_at_the_end(line: str, name: str, rest: str, options: Options) -> str | None:
    """The only capital of a line that ends with it, in any language, where the line doubts nothing."""
    if (
        name.islower()
        or not _IS.search(line)
        or _LONE.search(line)
        or _UNCERTAIN.search(line + rest)
        or rest.strip(" .)]*_\"'。")
    ):
        return None
    return read_choice(name, options)


def _is_joined(neighbour: str) -> bool:
    """Whether a letter beside another makes a word with it; Chinese, Arabic or Hindi letters do not."""
    return bool(neighbour) and (neighbour in "'’_" or unicodedata.category(neighbour) in ("Lu", "Ll", "Nd"))
