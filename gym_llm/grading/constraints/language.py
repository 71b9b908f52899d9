"""Which language a text is in, by langdetect: seeded, so that the same text always has the same language."""

from __future__ import annotations

from functools import cache
from typing import Any

_LONGEST = 20_000
"""Characters that are looked at: langdetect itself reads 10,000, after it has taken out addresses."""


@cache
def _detector_factory() -> Any:
    from langdetect import DetectorFactory
    from langdetect.detector_factory import PROFILES_DIRECTORY

    factory = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    factory.seed = 0
    return factory


def detect_language(text: str) -> str | None:
    """The code of its language as langdetect writes it (`en`, `zh-cn`), or None where there is nothing to tell it by.

    It takes 5 ms and more, and a second the first time.
    """
    from langdetect.lang_detect_exception import LangDetectException

    detector = _detector_factory().create()
    try:
        detector.append(text[:_LONGEST])
        language = detector.detect()
    except LangDetectException:
        return None
    return None if language == "unknown" else language


def is_language(text: str, language: str) -> bool:
    """Whether the text is in the language (`zh` is any of Chinese's), or in none that could be told."""
    detected = detect_language(text)
    return detected is None or language.lower() in (detected, detected.partition("-")[0])
