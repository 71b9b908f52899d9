"""Measures of the text that a model copied from a long input into its reasoning."""

from __future__ import annotations

from typing import Literal, TypeAlias

from gym_llm.grading.text_metrics import longest_common_substring, ratio

OverlapMetric: TypeAlias = Literal["lcs", "ngram16", "seq_match"]
_WORDS = 16


def measure_overlap(job: tuple[OverlapMetric, str, str]) -> float:
    """The overlap of (metric, reasoning, input), from 0.0 to 1.0; 0.0 without reasoning.

    `lcs` is the longest common run of characters, as a share of the reasoning. `ngram16` is the share of the
    reasoning's different runs of 16 words that the input has, too. `seq_match` is difflib's ratio.

    >>> measure_overlap(("lcs", "The fox", "a red fox"))
    0.5714285714285714
    """
    metric, *texts = job
    reasoning, given = (" ".join(text.lower().split()) for text in texts)
    return _MEASURES[metric](reasoning, given) if reasoning else 0.0


def _lcs(reasoning: str, given: str) -> float:
    return longest_common_substring(reasoning, given) / len(reasoning)


def _ngrams(reasoning: str, given: str) -> float:
    grams, others = (
        {" ".join(words[n : n + _WORDS]) for n in range(len(words) - _WORDS + 1)}
        for words in (reasoning.split(), given.split())
    )
    return len(grams & others) / len(grams) if grams else 0.0


def _seq_match(reasoning: str, given: str) -> float:
    return ratio((reasoning, given))


_MEASURES = {"lcs": _lcs, "ngram16": _ngrams, "seq_match": _seq_match}
