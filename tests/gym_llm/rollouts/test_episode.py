"""One episode of a rollout: whatever a hook raises is its record, says where it arose, and costs no other episode."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.error import InvalidAction, ResetNeeded
from testing import function_call, message_item, response, row

import gym_llm
from gym_llm import VerifierEnv, tool
from gym_llm.engines import Engine
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.vector import LocalVectorEnv

HOOKS = ("setup", "tool", "respond", "verify", "teardown")


class Panic(BaseException):
    """Like that of pyo3: no `Exception`."""


ERRORS = (GeneratorExit, Panic, SystemExit, InvalidAction, ResetNeeded, asyncio.CancelledError)


class Raises(VerifierEnv):
    """Raises in one hook of its second task, at once or after some waiting."""

    where, later, torn_down = "", False, 0
    error: BaseException = KeyError()

    def _in(self, hook: str, task: Any, value: Any = None) -> Any:
        async def raise_later() -> Any:
            await asyncio.sleep(0)
            raise self.error

        if getattr(task, "fails", False) and hook == self.where:
            if self.later:
                return raise_later()
            raise self.error
        return value

    def setup(self, task: Any) -> Any:
        return self._in("setup", task)

    @tool
    def go(self) -> Any:
        """Go on."""
        return self._in("tool", self._task, "went")

    def user_turn(self, task: Any, episode: Any) -> Any:
        return self._in("respond", task)

    def verify(self, task: Any, episode: Any) -> Any:
        return self._in("verify", task, 1.0)

    def teardown(self, task: Any, episode: Any) -> Any:
        Raises.torn_down += 1
        return self._in("teardown", task)


class Goes(Engine):
    """Calls the tool, then is done; or raises."""

    model = "goes"

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        if self.error is not None and episode_id == "1-0":
            raise self.error
        return response(function_call("go") if len(request["input"]) == 1 else message_item("done"))


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    gym.register("test/Raises-v0", Raises)
    yield
    del gym.registry["test/Raises-v0"]


def play(engine: Engine | None = None, **settings: Any) -> list[Any]:
    async def main() -> list[Any]:
        plan = {"tasks": [row(), row(fails=True), row()], "settings": RolloutSettings(retries=0, **settings)}
        async with aclosing(gym_llm.rollout("test/Raises-v0", engine or Goes(), **plan)) as records:
            return [record async for record in records]

    return sorted(asyncio.run(main()), key=lambda record: record["rollout_id"]["task_index"])


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("where", HOOKS)
@pytest.mark.parametrize("error", ERRORS)
def test_whatever_a_hook_raises_masks_its_episode_alone(
    where: str, error: type[BaseException], later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"where": where, "error": error("x"), "later": later, "torn_down": 0}.items():
        monkeypatch.setattr(Raises, name, value)
    records = play()
    assert [record["reward"] for record in records] == [1.0, None, 1.0]
    masked = records[1]
    assert (masked["outcome"], masked["error_phase"]) == ("masked", where)
    expected = "session_release_failed" if where == "teardown" else "verifier_error"
    if error is asyncio.CancelledError and where != "teardown":
        expected = "cancelled"
    assert masked["failure_kind"] == expected
    assert masked["fails"] is True and masked["responses_create_params"]["input"][0]["role"] == "user"
    assert Raises.torn_down == (2 if where == "setup" else 3)


@pytest.mark.parametrize("error", [Panic, GeneratorExit, SystemExit, asyncio.CancelledError])
def test_a_teardown_that_fails_after_another_error_is_a_note_on_it_and_logged(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def teardown(self: Any, task: Any, episode: Any) -> None:
        if getattr(task, "fails", False):
            raise error("of the teardown")

    for name, value in {"where": "verify", "error": Panic("of verify"), "teardown": teardown}.items():
        monkeypatch.setattr(Raises, name, value)
    records = play()
    assert [record["reward"] for record in records] == [1.0, None, 1.0]
    assert (records[1]["error"], records[1]["error_phase"]) == ("Panic: of verify", "verify")
    assert "teardown failed, too: " in records[1]["traceback"] and "teardown failed, too: " in caplog.text


def test_a_panic_in_a_teardown_keeps_no_other_environment_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing a vector in the midst of its episodes."""
    for name, value in {"where": "teardown", "error": Panic("of the teardown"), "torn_down": 0}.items():
        monkeypatch.setattr(Raises, name, value)
    envs = LocalVectorEnv("test/Raises-v0", 3, tasks=[row(), row(fails=True)])
    envs.reset(options={"task_index": [1, 0, 1]})
    with pytest.raises(Panic):
        envs.close()
    assert Raises.torn_down == 3


def test_a_generator_exit_of_the_engine_s_masks_its_episode_alone() -> None:
    records = play(Goes(GeneratorExit()))
    assert [record["reward"] for record in records] == [1.0, None, 1.0] and records[1]["error_phase"] == "engine"


@pytest.mark.parametrize("later", [False, True])
def test_an_interrupt_ends_the_run_wherever_it_arrives(later: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python raises it in whatever runs: in a hook it is Ctrl-C all the same."""
    for name, value in {"where": "verify", "error": KeyboardInterrupt(), "later": later}.items():
        monkeypatch.setattr(Raises, name, value)
    with pytest.raises(KeyboardInterrupt):
        play()


def test_a_run_that_is_closed_in_the_midst_records_no_failure() -> None:
    class Waits(Goes):
        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            if episode_id == "1-0":
                await asyncio.sleep(1e9)
            return await super().respond(request, episode_id=episode_id)

    async def main() -> list[Any]:
        async with aclosing(gym_llm.rollout("test/Raises-v0", Waits(), tasks=[row()] * 3)) as records:
            return [await anext(records), await anext(records)]

    assert [record["reward"] for record in asyncio.run(main())] == [1.0, 1.0]
