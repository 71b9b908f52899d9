"""Which of the candidates an answer chooses: NeMo Gym's `spartqa` rules, written anew, in linear time.

Source of the rules: `resources_servers/spartqa` of https://github.com/NVIDIA-NeMo/Gym.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from gym_llm.grading.denials import is_given_in_sentence

BOTH, NONE = "both of them", "none of them"
_LINE = r"^(?:[*_`#>-]|[^\S\n])*+{}(?:\s+is)?[*_`\s]*[:-][{}\s]*(.+)"  # also on the next line that is not blank


def _patterns(marks: str) -> list[tuple[str, re.Pattern[str]]]:
    """How a choice is introduced, best first, and a word of it; marks between it and a colon are passed over."""
    end = r"\b" if marks else ""  # NeMo Gym reads "answer isn't" as "answer is"
    patterns = (
        ("final", _LINE.format(r"final\s+answer", marks)),
        ("selected", _LINE.format(r"selected\s+answer", marks)),
        ("answer", _LINE.format("answer", marks)),
        ("answer", rf"\banswer\s+(?:is|would\s+be|should\s+be){end}\s*[:-]?\s*(.+)"),
        ("selected", r"\bselected\s+(?:option|answer)\s+(?:is|would\s+be)\s*[:-]?\s*(.+)"),
    )
    return [(word, re.compile(pattern, re.IGNORECASE | re.MULTILINE)) for word, pattern in patterns]


_PATTERNS = _patterns("*_`")
_PATTERNS_OF_NEMO_GYM = _patterns("")
_THOUGHTS = [
    (re.compile("<think>", re.IGNORECASE), re.compile("</think>", re.IGNORECASE)),
    (re.compile(r"<\|channel>thought", re.IGNORECASE), re.compile(r"<channel\|>", re.IGNORECASE)),
]
_THINK_TAG = re.compile("</?think>", re.IGNORECASE)
_BULLETS = re.compile(r"[-*•\s]*")
_MARKS = "*_` \t\r"
_QUOTES = "\"'` "
_HEADINGS = {"final answer", "answer"}
_THINKING_ALOUD = ("thinking process", "analysis", "the user wants", "we need")
_LONGEST_ENDING = 50_000  # characters in which the line is looked for
_MOST_MATCHES = 1_000
_MOST_LINES = 1_000
_LONGEST_LINE = 10_000

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ALIASES = {
    **dict.fromkeys(("both", "both objects", "both of the objects", "both of these"), BOTH),
    **dict.fromkeys(("none", "none of the objects", "neither", "neither of them", "neither object", "no object"), NONE),
    **dict.fromkeys(("dk", "do not know", "dont know"), NONE),
}


def _plain(text: str) -> str:
    return " ".join(text.lower().translate(_NO_PUNCTUATION).split())


def label_key(label: str) -> str:
    """A label as labels are compared: lower case, without punctuation and a leading article.

    >>> label_key(" The  big, Blue square. ")
    'big blue square'
    """
    plain = _plain(label)
    article, _, rest = plain.partition(" ")
    return rest if rest and article in ("a", "an", "the") else plain


@dataclass(slots=True, frozen=True)
class Label:
    """A candidate answer."""

    text: str
    key: str

    def is_affirmed(self, answer: str) -> bool:
        """Return whether an answer names it, and does not deny it or ask for it."""
        said = answer.lower() if self.key in answer.lower() else label_key(answer)
        return any(is_given_in_sentence(said, *found.span()) for found in re.finditer(re.escape(self.key), said))


def labels_of(candidates: Iterable[str]) -> list[Label]:
    """The candidates and, after them, both and none, each key once."""
    texts = {label_key(text): text.strip() for text in reversed([*candidates, BOTH, NONE]) if label_key(text)}
    return [Label(text, key) for key, text in reversed(texts.items())]


_MOST_THOUGHTS = 5_000
"""That are taken out, of either kind, some 5 ms each; no model thinks so often."""


def without_thoughts(text: str) -> str:
    """Without what stands between `<think>` tags, or the marks of a thinking channel; stripped."""
    if "<" not in text:
        return text.strip()
    for opening, closing in _THOUGHTS:
        kept, position = [], 0
        for _ in range(_MOST_THOUGHTS):
            if not (start := opening.search(text, position)) or not (end := closing.search(text, start.end())):
                break
            kept.append(text[position : start.start()])
            position = end.end()
        text = "".join(kept) + text[position:]
    return text.strip()


def extract_answer(text: str, *, nemo: bool = False) -> str:
    r"""Return the line in which a text, without its thinking, names its choice; "" if it does not.

    Args:
        text: What the model wrote.
        nemo: Whether `**Final answer:**` and a line break are followed by no choice, as in NeMo Gym.

    >>> extract_answer("The cup is above it.\n**Final answer:**\nthe cup"), extract_answer("- the cup")
    ('the cup', 'the cup')
    """
    ending = text[-_LONGEST_ENDING:]
    lowered = ending.lower() if ending.isascii() else ""
    for word, pattern in _PATTERNS_OF_NEMO_GYM if nemo else _PATTERNS:
        if lowered and word not in lowered:  # found many times faster
            continue
        captures = [match[1] for match in pattern.finditer(ending)][-_MOST_MATCHES:]
        for capture in reversed(captures):
            if capture.strip(None if nemo else _MARKS) and _plain(capture) != "candidate answer":
                return next(_lines(capture.splitlines()), "")
    lines = text.splitlines()
    first = list(islice(_lines(lines[:_MOST_LINES]), 2))
    if len(first) == 2 and _plain(first[0]).startswith(_THINKING_ALOUD):
        return next(_lines(reversed(lines[-_MOST_LINES:])), first[0])
    return first[0] if first else ""


def _lines(lines: Iterable[str]) -> Iterator[str]:
    """Lines without bullets, stars, quotes and tags, those left out that say nothing else than "answer"."""
    for line in lines:
        stripped = line[:_LONGEST_LINE].strip()
        bullets = _BULLETS.match(stripped)
        text = stripped[bullets.end() if bullets else 0 :].rstrip("*").strip()
        text = _THINK_TAG.sub("", text).strip().strip(_QUOTES)
        if text and _plain(text) not in _HEADINGS:
            yield text


def choose(answer: str, labels: list[Label], *, nemo: bool = False) -> Label | None:
    """The label that an answer names, also as "neither" and the like, or the only one that it contains.

    Args:
        answer: The extracted answer.
        labels: The candidates.
        nemo: Whether a label counts also behind "not", as in NeMo Gym.

    >>> choose("neither", labels_of(["a cup", "a jug"])).text
    'none of them'
    """
    key = label_key(answer)
    if (same := next((label for label in labels if label.key == key), None)) is not None:
        return same
    named = _ALIASES.get(key)
    if (same := next((label for label in labels if label.text == named), None)) is not None:
        return same
    hits = [label for label in labels if label.key in key and (nemo or label.is_affirmed(answer))]
    hits = [hit for hit in hits if not any(hit is not other and hit.key in other.key for other in hits)]
    return hits[0] if len(hits) == 1 else None
