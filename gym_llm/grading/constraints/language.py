"""Language detection by langdetect, seeded, so that a text always has the same language."""

from __future__ import annotations

from functools import cache
from typing import Any

_LONGEST = 20_000
"""Characters that are read: langdetect itself reads 10,000, after it has removed addresses."""


@cache
def _detector_factory() -> Any:
    from langdetect import DetectorFactory
    from langdetect.detector_factory import PROFILES_DIRECTORY

    factory = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    factory.seed = 0
    return factory


def detect_language(text: str) -> str | None:
    """Return the language code of langdetect (`en`, `zh-cn`), or None if the text does not show its language.

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
    """Whether the text is in the language (`zh` is any kind of Chinese), or in one that cannot be detected."""
    detected = detect_language(text)
    return detected is None or language.lower() in (detected, detected.partition("-")[0])
