"""A step that waits too long masks its episode, also where a hook swallows the cancellation and goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.error import ResetNeeded
from testing import function_call, message, message_item, response, row

from gym_llm import VerifierEnv, tool
from gym_llm.engines import Engine
from gym_llm.errors import StepTimeout
from gym_llm.rollouts.env_slots import EnvSlots, Reset
from gym_llm.rollouts.episode_worker import EpisodeWorker
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.settings import RolloutSettings

FOR_EVER = 1e9


class Deaf(VerifierEnv):
    """Goes on when it is cancelled: in the hook that the task names, so often."""

    torn_down = 0

    async def _wait(self, hook: str) -> None:
        where, times = getattr(self._task, "deaf", ("", 0))
        for _ in range(times if hook == where else 0):
            try:
                await asyncio.sleep(FOR_EVER)
            except asyncio.CancelledError:
                pass

    async def setup(self, task: Any) -> None:
        await self._wait("setup")

    @tool
    async def go(self) -> str:
        """Go on."""
        await self._wait("tool")
        return "went"

    async def user_turn(self, task: Any, episode: Any) -> None:
        await self._wait("respond")

    async def verify(self, task: Any, episode: Any) -> float:
        await self._wait("verify")
        return 1.0

    def teardown(self, task: Any, episode: Any) -> None:
        Deaf.torn_down += 1


class Goes(Engine):
    """Calls the tool, then is done."""

    model = "goes"

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        return response(function_call("go") if len(request["input"]) == 1 else message_item("done"))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(Deaf, "torn_down", 0)
    gym.register("test/Deaf-v0", Deaf)
    yield
    del gym.registry["test/Deaf-v0"]


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("hook", ["setup", "respond", "verify"])
def test_an_episode_whose_hook_swallows_its_cancellation_is_masked(hook: str, times: int) -> None:
    async def main() -> list[Any]:
        shard = EnvSlots(EnvFactory("test/Deaf-v0", tasks=[row(deaf=(hook, times))]), 1)
        playing = EpisodeWorker(shard, Goes(), RolloutSettings(step_timeout=0.05, retries=0))
        ((_, record),) = await playing.submit_and_poll([Job(0, 0)])
        await playing.aclose()
        await shard.aclose()
        return record

    record: Any = asyncio.run(main())
    assert (record["outcome"], record["reward"], record["failure_kind"]) == ("masked", None, "agent_timeout")
    assert record["error_phase"] == hook and record["error"] == f"StepTimeout: {StepTimeout()}"
    assert Deaf.torn_down == 1


def test_in_a_vector_its_episode_is_over() -> None:
    async def main() -> list[Any]:
        shard = EnvSlots(EnvFactory("test/Deaf-v0", tasks=[row(deaf=("setup", 1))]), 1, step_timeout=0.05)
        errors = []
        for order in (Reset(), message("done")):
            shard.submit([0], [order])
            await shard.wait_ready(1)
            errors += [outcome.error for outcome in shard.take()]
        await shard.aclose()
        return errors

    late, refused = asyncio.run(main())
    assert isinstance(late, StepTimeout) and isinstance(refused, ResetNeeded) and Deaf.torn_down == 1
