"""FaultyPolicy: the random engine, with the faults of engines and of their servers; `faulty` is its spec."""

from __future__ import annotations

import json

from chaos.faults import Fault, choose
from gym_llm.engines.around import conversation_of
from gym_llm.engines.http import HTTPEngine
from gym_llm.engines.random_policy import RandomPolicy
from gym_llm.rollouts.plan import Job
from gym_llm.types import Request, ResponseDict


class FaultyPolicy(RandomPolicy):
    """Answers at random, and fails in the episodes whose fault is the engine's.

    Args:
        seed: Of what it says, and the run's.
        fault_seed: Chooses the faults.
        share: The share of episodes that have a fault.
        server: The URL of a `FaultyServer`, for faults of servers: their episodes' answers come from there.
    """

    def __init__(self, *, seed: int = 0, fault_seed: int = 0, share: float = 0.0, server: str | None = None) -> None:
        super().__init__(seed=seed)
        self._fault_seed = fault_seed
        self._share = share
        self._failed: set[str] = set()
        self._http = None if server is None else HTTPEngine(server, model=self.model, api="responses", max_retries=0)

    async def start(self) -> None:
        """Open the connections to the server, if there is one."""
        if self._http is not None:
            await self._http.start()

    async def aclose(self) -> None:
        """Close them."""
        if self._http is not None:
            await self._http.aclose()

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer; see `Engine.respond`."""
        fault, strikes = self._fault(episode_id) if self._share else (None, False)
        if fault is not None and fault.place == "http" and self._http is not None:
            answer = await super().respond(request, episode_id=episode_id)
            metadata = {"answer": json.dumps(answer), "fault": fault.kind if strikes else ""}
            return await self._http.respond({**request, "metadata": metadata}, episode_id=episode_id)
        if fault is not None and fault.place == "engine" and strikes:
            junk = fault.strike()
            return await junk if fault.later else junk  # type: ignore[no-any-return]
        return await super().respond(request, episode_id=episode_id)

    def _fault(self, episode_id: str) -> tuple[Fault | None, bool]:
        """The episode's fault, and whether it strikes now: each time that it is asked for, or only the first time."""
        episode = conversation_of(episode_id)
        task, _, repeat = episode.rpartition("-")
        fault = choose(Job(int(task), int(repeat)).env_seed(self._seed), self._fault_seed, self._share)
        if fault is None or fault.place not in ("engine", "http") or (fault.once and episode in self._failed):
            return fault, False
        self._failed.add(episode)
        return fault, True
