"""Reasoning that stands in the text of an answer, between `<think>` tags, because no parser took it out."""

from __future__ import annotations

import re

_OPENING = re.compile(r"<think(?:ing)?>")
_CLOSING = re.compile(r"</think(?:ing)?>")
_CUT_OFF = re.compile(r"\s*<think(?:ing)?>")
_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "[THINK]": "[/THINK]",
    "<seed:think>": "</seed:think>",
    "◁think▷": "◁/think▷",
    "<reasoning>": "</reasoning>",
    "<thought>": "</thought>",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|channel|>analysis<|message|>": "<|end|>",
}
CLOSING_TAGS = tuple(_TAGS.values())
"""What ends a thought, in the formats of several models."""
_QUOTES = "`\"'“‘"
_MOST_TAGS = 10_000
"""Pairs that are taken out, some 10 ms; no model thinks so often."""


def closing_tag(prompt_end: str) -> str | None:
    r"""Return what ends the thought that a prompt has opened; None if it has opened none.

    >>> closing_tag("<|im_start|>assistant\n<think>\n"), closing_tag("<think>\n\n</think>\n\n")
    ('</think>', None)
    """
    prompt_end = prompt_end.rstrip()
    return next((closing for opening, closing in _TAGS.items() if prompt_end.endswith(opening)), None)


def strip_thinking(text: str, *, unclosed: bool | None = None, conform: bool = False) -> str:
    """Remove `<think>…</think>` and `<thinking>…</thinking>`, and all text before a closing tag that was never opened.

    The next closing tag, of either kind, closes a tag. The time is linear in the length of the text.

    Args:
        text: The model's text.
        unclosed: Whether a tag that is never closed removes all, unless it stands in quotes: the generation was cut
            off. By default it does so without `conform`.
        conform: Whether to apply NeMo Gym's rules. A tag is closed by its own kind. Of several closing tags that were
            never opened, only the first ends the reasoning. Only a text without a closing tag is unclosed.

    Returns:
        The rest of the text, stripped.

    >>> strip_thinking("<think>2 or 3?</think> 3"), strip_thinking("or 3?</think>3")
    ('3', '3')
    >>> strip_thinking("3 <think>or"), strip_thinking("Write `<think>`.")
    ('', 'Write `<think>`.')
    """
    if "<" not in text:
        return text.strip()
    if conform:
        return _strip_as_nemo_gym(text, bool(unclosed))
    kept: list[str] = []
    position = 0
    for _ in range(_MOST_TAGS):
        if (opening := _OPENING.search(text, position)) is None:
            break
        closing = _CLOSING.search(text, opening.end())
        if closing is None:
            if unclosed is not False and text[max(0, opening.start() - 1)] not in _QUOTES:
                return ""
            break
        kept.append(text[position : opening.start()])
        position = closing.end()
    rest = "".join(kept) + text[position:]
    ends = [place + len(tag) for tag in ("</think>", "</thinking>") if (place := rest.rfind(tag)) >= 0]
    return rest[max(ends, default=0) :].strip()


def without_cut_thought(text: str) -> str:
    """Return a text unchanged, or "" if it opens a thought and never closes it: the generation was cut off.

    >>> without_cut_thought("<think>x = 1"), without_cut_thought("x = '<think>'")
    ('', "x = '<think>'")
    """
    is_open = "<think" in text and _CUT_OFF.match(text) is not None and _CLOSING.search(text) is None
    return "" if is_open else text


def _strip_as_nemo_gym(text: str, unclosed: bool) -> str:
    if unclosed and _OPENING.search(text) and not _CLOSING.search(text):
        return ""
    for tag in ("think", "thinking"):
        text = without_spans(text, f"<{tag}>", f"</{tag}>")
    for tag in ("think", "thinking"):
        before, closing, after = text.partition(f"</{tag}>")
        text = after if closing else before
    return text.strip()


def without_spans(text: str, opening: str, closing: str) -> str:
    """Leave out all from an opening tag to the next closing one; the time is linear in the length of the text.

    >>> without_spans("a<i>b</i>c<i>", "<i>", "</i>")
    'ac<i>'
    """
    return _joined(text, _outside(text, opening, closing))


def _outside(text: str, opening: str, closing: str) -> list[tuple[int, int]]:
    """Where a text is outside of all that goes from an opening tag to the next closing one."""
    kept: list[tuple[int, int]] = []
    position = 0
    for _ in range(_MOST_TAGS):
        start = text.find(opening, position)
        end = text.find(closing, start) if start >= 0 else -1
        if end < 0:
            break
        kept.append((position, start))
        position = end + len(closing)
    return [*kept, (position, len(text))]


def _joined(text: str, spans: list[tuple[int, int]]) -> str:
    return "".join([text[start:end] for start, end in spans])


def without_tagged(text: str, tag: str) -> str:
    """Leave out `<tag>…</tag>`, then all before a closing tag that is left, then opening tags that are left.

    Upper and lower case are the same. The time is linear in the length of the text.

    Args:
        text: What the model wrote.
        tag: The tag's name.

    Returns:
        What is left, stripped.

    >>> without_tagged("<Plan>A?</plan> B <plan>", "plan"), without_tagged("A?</plan>B", "plan")
    ('B', 'B')
    """
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter that becomes two: then the tags' case counts
        lowered = text
    opening, closing = f"<{tag}>".lower(), f"</{tag}>".lower()
    kept = _outside(lowered, opening, closing)
    rest, lowered = _joined(text, kept), _joined(lowered, kept)
    if (last := lowered.rfind(closing)) >= 0:
        rest = rest[last + len(closing) :]
    if opening in lowered:
        rest = re.sub(re.escape(opening), "", rest, flags=re.IGNORECASE)
    return rest.strip()
