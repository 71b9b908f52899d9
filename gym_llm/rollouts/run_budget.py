"""Budgets of a run: tokens, seconds and dollars, after which it ends and can be resumed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

from gym_llm.errors import BudgetSpent
from gym_llm.rollouts.episode_budget import price_of
from gym_llm.rollouts.settings import check_budgets
from gym_llm.stats.prices import Prices, dollars
from gym_llm.types import Rollout, cached_tokens_of

RUN_BUDGETS = ("run_max_tokens", "run_max_seconds", "run_max_dollars")


class RunBudget:
    """Counts what a run's episodes have spent, and ends the run when a limit is reached.

    Tokens and dollars are those of all records in the run's file, so a resumed run goes on counting. Seconds are those
    of this run. Episodes under way at the end are dropped; `resume` plays them.

    Args:
        run_max_tokens: Tokens, given to the models and generated; None for no limit, as for the others.
        run_max_seconds: Seconds since the run's first engine was started.
        run_max_dollars: The price of the tokens.
        prices: Of the models.

    Raises:
        ValueError: If a limit is not a positive number, or there are no prices for dollars.
    """

    def __init__(
        self,
        *,
        run_max_tokens: int | None = None,
        run_max_seconds: float | None = None,
        run_max_dollars: float | None = None,
        prices: Prices | None = None,
    ) -> None:
        self._limits: dict[str, Any] = dict(
            zip(RUN_BUDGETS, (run_max_tokens, run_max_seconds, run_max_dollars), strict=True)
        )
        check_budgets(self._limits, RUN_BUDGETS)
        if run_max_dollars is not None and not prices:
            raise ValueError("run_max_dollars needs prices: a table of models, or a YAML file.")
        self._prices = prices or {}
        self._tokens = 0
        self._dollars = 0.0
        self._end: float | None = None

    def count(self, record: Rollout | Mapping[str, Any], model: str | None) -> None:
        """Count an episode, played now or by an earlier run."""
        response: Mapping[str, Any] = record.get("response") or {}
        usage = response.get("usage") or {}
        given, sampled = usage.get("input_tokens") or 0, usage.get("output_tokens") or 0
        self._tokens += given + sampled
        if self._limits["run_max_dollars"] is not None and given + sampled:
            price = price_of(self._prices, model or str(response.get("model") or ""), "run_max_dollars")
            self._dollars += dollars(price, given, sampled, cached_tokens_of(usage))

    def check(self) -> None:
        """Check the limits.

        Raises:
            BudgetSpent: If one is reached.
        """
        tokens, seconds, most = self._limits.values()
        if tokens is not None and self._tokens >= tokens:
            raise BudgetSpent(f"run_max_tokens is {tokens:,}, and the run's episodes have {self._tokens:,} tokens")
        if most is not None and self._dollars >= most:
            raise BudgetSpent(f"run_max_dollars is {most:g}, and the run's episodes cost ${self._dollars:.4g}")
        if self._end is not None and time.monotonic() >= self._end:
            raise BudgetSpent(f"run_max_seconds is {seconds:g}, and the time is over")

    def start(self, model: str) -> None:
        """Begin to measure the time, if it has not begun; `model` is about to play.

        Raises:
            UsageError: If dollars are limited, and the model has no price.
        """
        if self._limits["run_max_dollars"] is not None:
            price_of(self._prices, model, "run_max_dollars")
        if self._end is None and (seconds := self._limits["run_max_seconds"]) is not None:
            self._end = time.monotonic() + seconds

    async def within(self, records: AsyncIterator[Rollout]) -> AsyncGenerator[Rollout, None]:
        """Yield records until the time is over.

        Raises:
            BudgetSpent: If it is.
        """
        while True:
            left = None if self._end is None else self._end - time.monotonic()
            try:
                record = await (anext(records) if left is None else asyncio.wait_for(anext(records), left))
            except StopAsyncIteration:
                return
            except TimeoutError:
                self.check()
                raise
            yield record
