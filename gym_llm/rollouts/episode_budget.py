"""Budgets of an episode: tokens, seconds and dollars, after which its model is not asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

from gym_llm.engines.around import EngineAround, conversation_of
from gym_llm.engines.engine import Engine, EpisodeReport
from gym_llm.engines.engine_response import empty_response
from gym_llm.errors import UsageError
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.stats.prices import Prices, dollars
from gym_llm.types import Request, ResponseDict, cached_tokens_of, sum_usage


def price_of(prices: Prices, model: str, option: str) -> Mapping[str, float]:
    """Return a model's price.

    Raises:
        UsageError: If it has none; `option` is the setting that needs it.
    """
    if model not in prices:
        known = ", ".join(prices) or "none"
        raise UsageError(f"{option} needs the price of {model}: add it to the prices, which have {known}.")
    return prices[model]


class _Spent:
    """What an episode has spent so far."""

    __slots__ = ("dollars", "end", "tokens")

    def __init__(self, end: float) -> None:
        self.tokens = 0
        self.dollars = 0.0
        self.end = end


class BudgetEngine(EngineAround):
    """An engine that answers an episode until a budget is spent.

    From then on its responses are empty and incomplete, so the environment truncates the episode and scores it. Their
    reason, e.g. `max_tokens_spent`, stands in the record's response. The answer that passes a limit of tokens or
    dollars is still played. When the time is over, the request under way is cancelled.

    Seats, and the lines of an agent's conversations, spend the budget of their episode.

    Args:
        engine: The engine, started.
        settings: `max_tokens`, `max_seconds`, `max_dollars` and `prices` are used.

    Raises:
        UsageError: If dollars are limited, and the model has no price.
    """

    def __init__(self, engine: Engine, settings: RolloutSettings) -> None:
        super().__init__(engine)
        self._tokens, self._seconds, self._dollars = settings.max_tokens, settings.max_seconds, settings.max_dollars
        self._price: Mapping[str, float] | None = None
        if self._dollars is not None:
            self._price = price_of(cast(Prices, settings.prices), engine.model, "max_dollars")
        self._spent: dict[str, _Spent] = {}

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one request if the episode has a budget left; see `Engine.respond`."""
        name = conversation_of(episode_id)
        spent = self._spent.get(name)
        if spent is None:
            end = 0.0 if self._seconds is None else asyncio.get_running_loop().time() + self._seconds
            spent = self._spent[name] = _Spent(end)
        if (reason := self._reason(spent)) is not None:
            return empty_response(self.model, reason)
        if self._seconds is None:
            response = await self.engine.respond(request, episode_id=episode_id)
        else:
            try:
                async with asyncio.timeout_at(spent.end) as limit:
                    response = await self.engine.respond(request, episode_id=episode_id)
            except TimeoutError:
                if not limit.expired():
                    raise
                return empty_response(self.model, "max_seconds_spent")
        if isinstance(usage := response.get("usage"), dict):
            counts = sum_usage(None, cast("dict[str, Any]", usage))  # without what is invalid
            given, sampled = counts["input_tokens"], counts["output_tokens"]
            spent.tokens += given + sampled
            if self._price is not None:
                spent.dollars += dollars(self._price, given, sampled, cached_tokens_of(counts))
        return response

    async def end_episode(
        self, episode_id: str, *, rewards: Sequence[float] = (), failed: bool = False
    ) -> EpisodeReport | None:
        """Let go of an episode; see `Engine.end_episode`."""
        self._spent.pop(conversation_of(episode_id), None)
        return await self.engine.end_episode(episode_id, rewards=rewards, failed=failed)

    def _reason(self, spent: _Spent) -> str | None:
        if self._tokens is not None and spent.tokens >= self._tokens:
            return "max_tokens_spent"
        if self._dollars is not None and spent.dollars >= self._dollars:
            return "max_dollars_spent"
        if self._seconds is not None and asyncio.get_running_loop().time() >= spent.end:
            return "max_seconds_spent"
        return None
