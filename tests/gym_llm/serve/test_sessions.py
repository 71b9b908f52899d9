"""Sessions of a served environment: each client plays its own, and what goes wrong has a name."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import gymnasium as gym
import pytest
from testing import function_call, in_loop, row

from gym_llm import VerifierEnv, tool
from gym_llm.concurrency.relaxed_gc import relax_gc
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.serve.episode_session import BadRequest, EpisodeFailed
from gym_llm.serve.sessions import AtCapacity, Sessions, UnknownSession


class Waits(VerifierEnv):
    """Its tool waits for `gate`; its verifier says what its name is told."""

    gate: asyncio.Event | None = None
    torn_down = 0

    @tool
    async def look(self) -> str:
        """Look."""
        if Waits.gate is not None:
            await Waits.gate.wait()
        return "seen"

    def verify(self, task: Any, episode: Any) -> float:
        if episode.answer == "raise":
            raise KeyError("no")
        return float(episode.answer == "yes")

    def teardown(self, task: Any, episode: Any) -> None:
        Waits.torn_down += 1


ID = "test/Waits-v0"
gym.register(ID, Waits, disable_env_checker=True)


@asynccontextmanager
async def opened(**options: Any) -> AsyncGenerator[Sessions, None]:
    Waits.gate = None
    Waits.torn_down = 0
    sessions = Sessions({ID: EnvFactory(ID, tasks=[row("A?"), row("B?")])}, **options)
    try:
        yield sessions
    finally:
        await sessions.aclose()


@in_loop
async def test_an_episode_is_played_and_counted():
    async with opened() as sessions:
        session = sessions.open()
        begun = await session.reset(options={"task_index": 1})
        assert begun.request["input"][0]["content"] == "B?"
        looked = await session.step([function_call("look", {})])
        assert [item["output"] for item in looked.new_items] == ["seen"]
        assert not looked.done
        ended = await session.step("yes")
        assert (ended.reward, ended.terminated, session.outcome) == (1.0, True, "scored")
        assert ended.new_items == []
        with pytest.raises(BadRequest, match="reset first"):
            await session.step("yes")
        assert sessions.counts["scored"] == 1


@in_loop
async def test_what_a_client_asks_wrongly_leaves_the_episode_as_it_was():
    async with opened() as sessions:
        session = sessions.open()
        for options in ({"task_index": 7}, {"task_index": "x"}, {"task": {"no": 1}}, {"what": 1}):
            with pytest.raises(BadRequest):
                await session.reset(options=options)
        await session.reset(seed=3)
        for action in ({"output": 3}, 3, [{"type": "function_call"}], None):
            with pytest.raises(BadRequest):
                await session.step(action)
        assert (await session.step("yes")).reward == 1.0


@in_loop
async def test_a_verifier_that_raises_masks_the_episode_and_the_session_goes_on():
    async with opened() as sessions:
        session = sessions.open()
        await session.reset()
        with pytest.raises(EpisodeFailed) as failed:
            await session.step("raise")
        assert failed.value.failure.kind == "verifier_error"
        assert (session.outcome, session.is_playing, Waits.torn_down) == ("masked", False, 1)
        await session.reset()
        assert (await session.step("yes")).reward == 1.0


@in_loop
async def test_a_step_goes_on_when_its_client_vanishes_and_is_there_when_it_comes_back():
    async with opened() as sessions:
        session = sessions.open()
        await session.reset()
        Waits.gate = asyncio.Event()
        caller = asyncio.create_task(session.step([function_call("look", {})]))
        await asyncio.sleep(0.01)
        caller.cancel()
        await asyncio.wait({caller})
        second = asyncio.create_task(session.step("yes"))
        await asyncio.sleep(0.01)
        assert not second.done()
        Waits.gate.set()
        assert (await second).reward == 1.0
        assert [item["type"] for item in session.episode.items] == ["function_call", "function_call_output", "message"]


@in_loop
async def test_a_step_that_takes_too_long_masks_its_episode():
    async with opened(step_timeout=0.2) as sessions:
        session = sessions.open()
        await session.reset()
        Waits.gate = asyncio.Event()
        with pytest.raises(EpisodeFailed, match="StepTimeout"):
            await session.step([function_call("look", {})])
        assert (session.failure.phase, Waits.torn_down) == ("tool", 1)


@in_loop
async def test_sessions_are_capped_and_expire_and_their_environments_serve_others():
    ended = []
    async with opened(capacity=2, idle_seconds=0.2) as sessions:
        first, second = sessions.open(on_end=lambda: ended.append(1)), sessions.open(session_id="mine")
        await first.reset()
        with pytest.raises(AtCapacity, match="All 2 sessions"):
            sessions.open()
        with pytest.raises(UnknownSession):
            sessions.get("other")
        env = first.verifier
        for _ in range(10):
            await asyncio.sleep(0.05)
            assert sessions.get("mine") is second
        assert (ended, Waits.torn_down, len(sessions)) == ([1], 1, 1)
        with pytest.raises(UnknownSession, match="expired"):
            sessions.get(first.id)
        third = sessions.open()
        assert third.verifier is env
        assert third.episode is None
        with pytest.raises(UnknownSession, match="taken"):
            sessions.open(session_id="mine")
        assert {name: sessions.counts[name] for name in ("opened", "expired", "refused", "abandoned")} == {
            "opened": 3,
            "expired": 1,
            "refused": 1,
            "abandoned": 1,
        }


@in_loop
async def test_a_busy_session_does_not_expire():
    async with opened(idle_seconds=0.1) as sessions:
        session = sessions.open()
        await session.reset()
        Waits.gate = asyncio.Event()
        step = asyncio.create_task(session.step([function_call("look", {})]))
        await asyncio.sleep(0.3)
        assert sessions.get(session.id) is session
        Waits.gate.set()
        assert (await step).new_items[0]["output"] == "seen"


@in_loop
async def test_what_many_sessions_leave_behind_is_collected_although_python_looks_rarely(monkeypatch):
    class Circle:
        pass

    monkeypatch.setattr("gym_llm.serve.sessions._COLLECT_AFTER", 20)
    thresholds = gc.get_threshold()
    relax_gc()
    left: list[weakref.ref[Circle]] = []
    try:
        async with opened(idle_seconds=0.2) as sessions:
            for _ in range(20):
                circle = Circle()
                circle.itself = circle
                left.append(weakref.ref(circle))
                sessions.open()
            del circle
            async with asyncio.timeout(10):
                while any(circle() is not None for circle in left):
                    await asyncio.sleep(0.05)
    finally:
        gc.set_threshold(*thresholds)


@in_loop
async def test_a_seed_is_forgotten_with_its_session():
    factory = EnvFactory("gym_llm/Weather-v0")  # its tasks are generated, each by its number

    async def drawn(sessions: Sessions, seed: int | None) -> list[int]:
        session = sessions.open()
        steps = [await session.reset(seed=seed), await session.reset()]
        await sessions.close(session)
        return [step.info["task_index"] for step in steps]

    env = gym.make("gym_llm/Weather-v0")
    made = [env.reset(seed=7)[1]["task_index"], env.reset()[1]["task_index"]]
    sessions = Sessions({factory.env_id: factory})
    try:
        unseeded = []
        for _ in range(2):  # all in the same environment, which goes from session to session
            assert await drawn(sessions, 7) == made
            unseeded.append(await drawn(sessions, None))
        assert unseeded[0] != unseeded[1]
    finally:
        await sessions.aclose()


@in_loop
async def test_nothing_is_played_in_a_session_that_has_ended():
    async with opened() as sessions:
        session = sessions.open()
        await session.reset()
        Waits.gate = asyncio.Event()
        looking = asyncio.create_task(session.step([function_call("look", {})]))
        await asyncio.sleep(0)
        closing = asyncio.create_task(sessions.close(session))
        resetting = asyncio.create_task(session.reset())  # it came while the session was about to end
        await asyncio.sleep(0)
        Waits.gate.set()
        await asyncio.gather(looking, closing)
        with pytest.raises(BadRequest, match="has ended"):
            await resetting
        with pytest.raises(BadRequest, match="has ended"):
            await session.reset()
        assert sessions.counts["resets"] == Waits.torn_down == 1


@in_loop
async def test_a_server_that_ends_does_not_wait_for_steps_that_hang(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gym_llm.serve.sessions._LAST_SECONDS", 0.1)
    async with asyncio.timeout(5), opened(step_timeout=None) as sessions:
        left, closed = sessions.open(), sessions.open()
        steps = []
        for session in (left, closed):
            await session.reset()
            Waits.gate = asyncio.Event()
            steps.append(asyncio.create_task(session.step([function_call("look", {})])))
        await asyncio.sleep(0)
        sessions.close_soon(closed)
    assert all(
        isinstance(each, asyncio.CancelledError) for each in await asyncio.gather(*steps, return_exceptions=True)
    )
    assert Waits.torn_down == 2
