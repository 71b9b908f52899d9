"""chrF, by sacrebleu."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any

from gymnasium.error import DependencyNotInstalled

from gym_llm.utils.extras import install

MOST_INLINE = 5_000
"""Characters of a translation and its reference that are compared at once, some 10 ms; more go to a process."""


@cache
def _metric() -> Any:
    try:
        from sacrebleu.metrics import CHRF
    except ImportError:
        message = f"WMTTranslation scores with sacrebleu, which is not installed: {install('translation')}"
        raise DependencyNotInstalled(message) from None
    return CHRF()


def check_sacrebleu() -> None:
    """Raise DependencyNotInstalled without sacrebleu."""
    _metric()


def chrf(generation: str, reference: str) -> float:
    """The chrF2 of a sentence, 0 to 100 (Popović 2015), after Unicode's composition; 0.0 if it is empty.

    >>> chrf("Guten Morgen", "Guten Morgen"), chrf("", "Guten Morgen")
    (100.0, 0.0)
    """
    if not generation:
        return 0.0
    hypothesis, gold = (unicodedata.normalize("NFC", text) for text in (generation, reference))
    return float(_metric().sentence_score(hypothesis, [gold]).score)


def chrf_of(pair: tuple[str, str]) -> float:
    """`chrf`, for a worker process."""
    return chrf(*pair)


def without_reasoning(text: str) -> str:
    """Return the text after the last `</think>`; nothing if a `<think>` is not closed.

    >>> without_reasoning("Good day? </think>Guten Tag"), without_reasoning("<think>Good")
    ('Guten Tag', '')
    """
    _, closed, rest = text.rpartition("</think>")
    return rest if closed or "<think>" not in text else ""
