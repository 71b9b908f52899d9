"""Translation: WMT24++, FLORES+, and whole documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypedDict

from gym_llm.data.recipes.recipe import Benchmark, Load, Source
from gym_llm.types import Row
from gym_llm.utils.json_codec import loads

_FACTS = "NeMo Gym 07d6b0d, benchmarks/{}"
_TEXTS = Path(__file__).parent / "texts"
_WMT: dict[str, str] = loads((_TEXTS / "wmt24pp_languages.json").read_bytes())
_FLORES: dict[str, str] = loads((_TEXTS / "flores_languages.json").read_bytes())
_ENGLISH = "eng_Latn"
_ASK = "Translate this text into {target_lang_name}. Write the translation alone, without an explanation.\n\n{text}"


class Sentence(TypedDict):
    """A sentence and its translation; some sources are marked as bad."""

    source: str
    target: str
    is_bad_source: bool


def sentence(row: Sentence, load: Load) -> Row | None:
    """Leave out bad sources."""
    if row["is_bad_source"]:
        return None
    return {
        "text": row["source"],
        "translation": row["target"],
        "source_language": "en",
        "target_language": load.label,
        "source_lang_name": "English",
        "target_lang_name": _WMT[load.label],
    }


def flores(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """Pair the English sentences with those of each other language."""
    for language, rows in tables.items():
        if language == _ENGLISH:
            continue
        for source, target in zip(tables[_ENGLISH], rows, strict=True):
            yield {
                "text": source["text"],
                "translation": target["text"],
                "source_language": _ENGLISH,
                "target_language": language,
                "source_lang_name": _FLORES[_ENGLISH],
                "target_lang_name": _FLORES[language],
            }


def documents(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """Join the sentences of each document in their order."""
    for language, rows in tables.items():
        by_document: dict[str, list[Row]] = {}
        for row in rows:
            if not row["is_bad_source"]:
                by_document.setdefault(row["document_id"], []).append(row)
        for name, parts in by_document.items():
            parts.sort(key=lambda part: part["segment_id"])
            sentences = [part["source"] for part in parts]
            yield {
                "text": " ".join(sentences),
                "source_sentences": sentences,
                "reference_sentences": [part["target"] for part in parts],
                "source_language": "en",
                "target_language": language,
                "source_lang_name": "English",
                "target_lang_name": _WMT[language].partition(" (")[0],
                "doc_id": name,
                "seg_id": 1,
            }


_LOCALES = tuple(Source("google/wmt24pp", config=f"en-{locale}", split="train", label=locale) for locale in _WMT)

BENCHMARKS = [
    Benchmark(
        name="wmt24pp",
        title="WMT24++: sentences from English into 55 languages",
        domain="translation",
        sources=_LOCALES,
        convert=sentence,
        env_id="gym_llm/WMTTranslation-v0",
        prompt=_ASK,
        license="Creative Commons Attribution-ShareAlike 4.0 International",
        headline="macro:target_language",
        facts=_FACTS.format("wmt24pp"),
        notes="The reward is chrF; NeMo Gym adds xCOMET and checks the language.",
    ),
    Benchmark(
        name="flores200",
        title="FLORES+: sentences from English into 219 languages (devtest)",
        domain="translation",
        sources=tuple(
            Source("openlanguagedata/flores_plus", config=code, split="devtest", shared=code == _ENGLISH)
            for code in _FLORES
        ),
        convert=flores,
        joins=True,
        env_id="gym_llm/WMTTranslation-v0",
        prompt=_ASK,
        license="CC-BY-SA 4.0",
        headline="macro:target_language",
        facts=_FACTS.format("flores200"),
        notes="The reward is chrF.",
    ),
    Benchmark(
        name="longmt_wmt24pp",
        title="WMT24++, whole documents",
        domain="translation",
        sources=_LOCALES,
        convert=documents,
        joins=True,
        prompt=_ASK,
        repeats=5,
        license="Creative Commons Attribution-ShareAlike 4.0 International",
        facts=_FACTS.format("longmt_wmt24pp"),
    ),
]
