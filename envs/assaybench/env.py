"""AssayBench: the genes that a CRISPR screen finds, in order (NeMo Gym's `assaybench`)."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterable
from statistics import fmean
from typing import Any

from pydantic import Field, FiniteFloat, model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.core.env_config import Count, LocalPath
from gym_llm.envs.assaybench.genes import mapped, ranking_in, read_symbols
from gym_llm.grading.quotations import meant_words
from gym_llm.tokens.parsers.thinking import without_spans
from gym_llm.types import Row, known


class AssayBench(NemoCompatible):
    """Rank the genes that a screen finds; the reward is the adjusted nDCG: 0.0 as by chance, 1.0 the best order.

    Details: `predicted_genes`, `num_predicted`, `extraction_mode`, `dspy_parse_failed`, `truncated`,
    `phenotype_group`, `hallucination_rate` (with `genes`) and, of a list that is long enough, `precision`,
    `normalized_precision`, `fdr`, `normalized_fdr`.

    Args:
        genes: A folder with HGNC's table of symbols, e.g. `assaybench/data/hgnc` of the package assaybench, to map
            former symbols and aliases. None to compare names as they are written.
        use_gene_mapper: NeMo Gym's option: true needs `genes`, as names cannot be mapped without.
        k: How many genes of a list count.
        min_expected_genes: With fewer genes in the answer's field, a longer list in the text counts.
        conform: `"nemo"` reads answers as NeMo Gym does; the README lists the differences.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        DataError: If the table cannot be read.
        ValueError: If names are to be mapped, and there is no table.
    """

    reverify_mode = "stateless"
    metrics = {
        "normalized_precision": Metric(),
        "fdr": Metric(higher_is_better=False),
        "hallucination_rate": Metric(higher_is_better=False),
    }

    class Task(BaseTask):
        """The genes of the screen, each with its relevance: above 0 for a hit, below for one the other way round."""

        relevance_genes: list[str] = Field(min_length=1)
        relevance_scores: list[FiniteFloat]
        cleaned_phenotype: str | None = None

        @model_validator(mode="before")
        @classmethod
        def _lift_metadata(cls, row: Any) -> Any:
            metadata = row.get("verifier_metadata") if isinstance(row, dict) else None
            return {**metadata, **row} if isinstance(metadata, dict) else row

        @model_validator(mode="after")
        def _has_hits(self) -> AssayBench.Task:
            if len(self.relevance_genes) != len(self.relevance_scores):
                raise ValueError("relevance_genes and relevance_scores must be of the same length")
            if not any(score > 0 for score in self.relevance_scores):
                raise ValueError("relevance_scores must have one above 0")
            return self

    class Config(NemoCompatible.Config):
        """The table of symbols, and how many genes count."""

        genes: LocalPath | None = None
        use_gene_mapper: bool = False
        k: Count = 100
        min_expected_genes: int = Field(0, ge=0)

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        if self.config.use_gene_mapper and self.config.genes is None:
            raise ValueError("use_gene_mapper needs genes=FOLDER with HGNC's table (see the README), or give false.")
        self._symbols = None if self.config.genes is None else read_symbols(self.config.genes)

    def oracle(self, task: Task) -> str:
        """Return the hits by their relevance."""
        pairs = sorted(zip(task.relevance_scores, task.relevance_genes, strict=True), reverse=True)
        hits = ", ".join(gene for score, gene in pairs if score > 0)
        return f"[[ ## reasoning ## ]]\nBy effect.\n\n[[ ## answer ## ]]\n{hits}\n\n[[ ## completed ## ]]"

    def near_misses(self, task: Task) -> list[str]:
        """Return the hits in reverse, behind the genes that are not."""
        pairs = sorted(zip(task.relevance_scores, task.relevance_genes, strict=True))
        return [f"[[ ## reasoning ## ]]\nNo.\n[[ ## answer ## ]]\n{', '.join(gene for _, gene in pairs)}"]

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Read the list, and compare its order with the best one."""
        text = episode.text
        text = without_spans(text, "<think>", "</think>") if self.conform else meant_words(text, episode)
        ranking = ranking_in(text, fewest=self.config.min_expected_genes, conform=self.conform is not None)
        names = dict.fromkeys(ranking.genes)
        scores = dict(zip(map(self._symbol, task.relevance_genes), task.relevance_scores, strict=True))
        values = [scores.get(gene) for gene in dict.fromkeys(map(self._symbol, names))]
        details: dict[str, Any] = {
            "predicted_genes": ranking.genes,
            "num_predicted": len(ranking.genes),
            "extraction_mode": ranking.mode,
            "dspy_parse_failed": not ranking.in_form,
            "truncated": episode.last_response.get("status") == "incomplete",
            "phenotype_group": re.sub("[^a-z0-9]+", "_", (task.cleaned_phenotype or "").lower()).strip("_") or None,
        }
        if self._symbols is not None and names:
            details["hallucination_rate"] = fmean(mapped(name, self._symbols) is None for name in names)
        details |= _rates(values, task.relevance_scores, self.config.k)
        if not self.conform and all(value is None for value in values):
            return Verdict(0.0, details)  # with many genes that count below 0, no gene at all beats chance
        return Verdict(adjusted_ndcg(values, task.relevance_scores, self.config.k), details)

    def _symbol(self, name: str) -> str:
        symbol = None if self._symbols is None else mapped(name, self._symbols)
        return name.strip().upper() if symbol is None else symbol


def adjusted_ndcg(values: list[float | None], relevances: list[float], k: int) -> float:
    """Return how much better than chance an order is, relative to the best one; 0.0 if it is not better.

    Args:
        values: The relevances of the listed genes; None for a gene that the screen did not test, which is left out.
        relevances: Those of all genes.
        k: How many listed genes count.

    >>> round(adjusted_ndcg([0.0, 1.0], [1.0, 0.0, 0.0, 0.0], 2), 3)
    0.377
    """
    best = _dcg(heapq.nlargest(k, (max(relevance, 0.0) for relevance in relevances)))
    if best == 0:
        return 0.0
    chance = _dcg([fmean(relevances)] * min(k, len(relevances))) / best
    listed = _dcg(value for value in values[:k] if value is not None) / best
    return 0.0 if chance >= 1 else min(1.0, max(0.0, (listed - chance) / (1 - chance)))


def _dcg(relevances: Iterable[float]) -> float:
    return sum(relevance / math.log2(place) for place, relevance in enumerate(relevances, 2))


def _rates(values: list[float | None], relevances: list[float], k: int) -> dict[str, float]:
    if len(values) < k:
        return {}
    tested = [value for value in values[:k] if value is not None]
    rates: dict[str, float] = {}
    for name, sign in (("precision", 1), ("fdr", -1)):
        found = sum(sign * value > 0 for value in tested)
        all_of_them = min(sum(sign * relevance > 0 for relevance in relevances), len(tested))
        rates |= {name: found / len(tested) if tested else 0.0}
        rates |= known(**{f"normalized_{name}": found / all_of_them if all_of_them else None})
    return rates
