"""Playing single episodes for a trainer that asks for them one by one, in its own event loop."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from gym_llm.core.step_clock import StepClock
from gym_llm.engines.engine import Engine
from gym_llm.rollouts.agent_option import agents_of
from gym_llm.rollouts.env_slots import EnvSlots
from gym_llm.rollouts.episode import play_episode
from gym_llm.rollouts.episode_worker import with_retries
from gym_llm.rollouts.factory import EnvFactory, Wrap
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.settings import DEFAULT_WRAPPERS, RolloutSettings
from gym_llm.types import Rollout

_MOST = 2**31


class EpisodePlayer:
    """Environments for as many episodes at once as are asked for. Used from one event loop.

    Args:
        factory: Makes the environments, which live on between episodes.
        env_wrappers: What each is wrapped with, innermost first; None for `DEFAULT_WRAPPERS`.
    """

    def __init__(self, factory: EnvFactory, env_wrappers: Sequence[Wrap] | None = None) -> None:
        wrappers = DEFAULT_WRAPPERS if env_wrappers is None else tuple(env_wrappers)
        self._shard = EnvSlots(factory, _MOST, wrappers)
        self._free: list[int] = []
        self._made = 0
        self._clocks: dict[float, StepClock] = {}

    async def play(self, job: Job, engine: Engine, settings: RolloutSettings | None = None) -> Rollout:
        """Play one episode with a started engine. Cancelling it ends the episode.

        Returns:
            Its record; one that fails is masked, and nothing is raised.
        """
        settings = settings or RolloutSettings()
        clock = None
        if (seconds := settings.step_timeout) is not None:
            clock = self._clocks.setdefault(seconds, StepClock(seconds))
        if self._free:
            slot = self._free.pop()
        else:
            slot, self._made = self._made, self._made + 1
        try:
            env = self._shard.env(slot)
            agents = agents_of(engine, settings, lambda: env)
            async with agents or nullcontext(engine) as player:
                return await with_retries(
                    lambda: play_episode(env, player, job, settings, clock=clock), retries=settings.retries
                )
        finally:
            self._free.append(slot)

    async def aclose(self) -> None:
        """Close the environments, when no episode is under way."""
        self._free, self._made = [], 0
        await self._shard.aclose()
