"""What many episodes share: made once on each event loop, closed when nobody uses it any more."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest
from testing import message, row

from gym_llm import VerifierEnv
from gym_llm.concurrency import drive, resources, wait
from gym_llm.concurrency.resources import SharedResources, open_resources


@pytest.fixture(autouse=True)
def nothing_open() -> None:
    """What other files' tests have left open would be waited for here without end."""
    resources._close_all()


class Client:
    """Writes down in which task it is opened and closed."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    async def __aenter__(self) -> Client:
        await asyncio.sleep(0)
        self.log.append(("open", asyncio.current_task()))
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0)
        self.log.append(("closed", asyncio.current_task()))


class Closing:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class AsyncClosing(Closing):
    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.closed += 1


def events(log: list[Any]) -> list[str]:
    return [event for event, _ in log]


async def let_go(*users: SharedResources) -> None:
    """Have users let go as `env.close` does, and wait until what they used is closed."""
    for user in users:
        user.release()
    while open_resources():
        await asyncio.sleep(0.001)


def test_however_many_ask_at_once_it_is_made_once_and_closed_by_the_task_that_made_it() -> None:
    log: list[Any] = []

    async def main() -> None:
        users = [SharedResources() for _ in range(100)]
        clients = await asyncio.gather(*(user.get("client", lambda: Client(log)) for user in users))
        assert len({id(client) for client in clients}) == 1 and open_resources() == ["client"]
        for user in users[1:]:
            user.release()
        await asyncio.sleep(0.01)
        assert events(log) == ["open"]
        await let_go(users[0])

    asyncio.run(main())
    assert events(log) == ["open", "closed"] and log[0][1] is log[1][1]


def test_names_are_json_values_and_say_what_is_the_same() -> None:
    async def main() -> None:
        user, made = SharedResources(), []

        async def get(name: Any) -> Any:
            return await user.get(name, lambda: made.append(name) or Closing())

        assert await get(("judge", {"a": 1, "b": 2})) is await get(["judge", {"b": 2, "a": 1}])
        assert await get(("judge", {"a": 2})) is not await get("judge")
        assert len(made) == 3 and open_resources() == ['["judge", {"a": 1, "b": 2}]', '["judge", {"a": 2}]', "judge"]
        await let_go(user)

    asyncio.run(main())


def test_a_failure_to_make_it_reaches_all_who_wait_and_the_next_one_tries_again() -> None:
    tries: list[int] = []

    async def make() -> str:
        tries.append(1)
        await asyncio.sleep(0.01)
        if len(tries) == 1:
            raise ConnectionError("no judge")
        return "judge"

    async def main() -> None:
        users = [SharedResources() for _ in range(10)]
        results = await asyncio.gather(*(user.get("judge", make) for user in users), return_exceptions=True)
        assert [str(result) for result in results] == ["no judge"] * 10 and len(tries) == 1
        assert open_resources() == []
        assert await users[0].get("judge", make) == "judge" and len(tries) == 2
        await let_go(*users)

    asyncio.run(main())


def test_who_is_cancelled_while_it_is_made_does_not_take_it_from_the_others() -> None:
    log: list[Any] = []

    async def main() -> None:
        first, second = SharedResources(), SharedResources()
        asking = asyncio.create_task(first.get("client", lambda: Client(log)))
        await asyncio.sleep(0)
        asking.cancel()
        assert isinstance(await second.get("client", lambda: Client(log)), Client)
        assert asking.cancelled()
        await let_go(first, second)

    asyncio.run(main())
    assert events(log) == ["open", "closed"]


def test_what_nobody_waits_for_any_more_is_not_made() -> None:
    async def main() -> None:
        user = SharedResources()
        asking = asyncio.create_task(user.get("slow", lambda: asyncio.sleep(1e9)))
        await asyncio.sleep(0.01)
        asking.cancel()
        await let_go(user)

    asyncio.run(main())


@pytest.mark.parametrize("kind", [Closing, AsyncClosing])
@pytest.mark.parametrize("awaited", [False, True])
def test_an_object_is_closed_by_its_aclose_or_close(kind: type[Closing], awaited: bool) -> None:
    thing = kind()

    async def later() -> Closing:
        return thing

    async def main() -> None:
        user = SharedResources()
        assert await user.get("thing", later if awaited else lambda: thing) is thing and thing.closed == 0
        await let_go(user)

    asyncio.run(main())
    assert thing.closed == 1


def test_an_event_loop_that_ends_closes_what_was_made_on_it_and_another_loop_has_its_own() -> None:
    log: list[Any] = []
    user = SharedResources()

    async def main() -> Any:
        return await user.get("client", lambda: Client(log))

    assert asyncio.run(main()) is not asyncio.run(main())
    assert events(log) == ["open", "closed"] * 2 and open_resources() == []
    user.release()


@pytest.mark.parametrize("deaf", [False, True])
def test_one_that_does_not_close_is_given_up_and_reported_without_its_key(deaf: bool, monkeypatch, caplog) -> None:
    monkeypatch.setattr(resources, "_CLOSING_SECONDS", 0.05)
    monkeypatch.setattr("gym_llm.concurrency.bridge._GRACE", 0.05)
    give_in = asyncio.Event()

    class Hanging:
        async def aclose(self) -> None:
            while not give_in.is_set():
                try:
                    await give_in.wait()
                except asyncio.CancelledError:
                    if not deaf:
                        raise

    async def main() -> None:
        user = SharedResources()
        await user.get(("sandbox", "key-123"), Hanging)
        user.release()
        while "longer than 0.05 seconds" not in caplog.text:
            await asyncio.sleep(0.01)
        assert (open_resources() != []) is deaf
        give_in.set()
        await let_go()

    asyncio.run(main())
    assert '["sandbox"' in caplog.text and "key-123" not in caplog.text


def test_one_that_fails_to_close_is_reported(caplog) -> None:
    class Broken:
        def close(self) -> None:
            raise ConnectionError("already gone")

    async def main() -> None:
        user = SharedResources()
        await user.get("broken", Broken)
        await let_go(user)

    asyncio.run(main())
    assert "already gone" in caplog.text


class Judged(VerifierEnv):
    """Asks a judge in a synchronous hook, in an async one, or in both."""

    log: list[Any] = []
    clients: list[Any] = []

    def setup(self, task: Any) -> None:
        if task.hooks != "async":
            self.clients.append(wait(self.shared("judge", lambda: Client(self.log))))

    async def verify(self, task: Any, episode: Any) -> float:
        if task.hooks != "sync":
            self.clients.append(await self.shared("judge", lambda: Client(self.log)))
        return 1.0


@pytest.fixture
def judged() -> list[Any]:
    Judged.log, Judged.clients = [], []
    return Judged.log


@pytest.mark.parametrize("hooks", ["sync", "async", "both"])
def test_an_environment_that_is_driven_synchronously_keeps_it_until_it_is_closed_and_opens_it_again(
    judged, hooks: str
) -> None:
    env = Judged(tasks=[row(hooks=hooks)])
    for times in (1, 2):
        for _ in range(3):
            env.reset()
            env.step(message("done"))
        assert events(judged) == ["open", "closed"] * (times - 1) + ["open"] and open_resources() == ["judge"]
        env.close()
        assert open_resources() == []
    assert events(judged) == ["open", "closed"] * 2 and len(set(Judged.clients)) == 2


def test_two_environments_share_it_until_the_second_is_closed(judged) -> None:
    first, second = (Judged(tasks=[row(hooks="both")]) for _ in range(2))
    for env in (first, second):
        env.reset()
        env.step(message("done"))
    first.close()
    assert events(judged) == ["open"] and len(set(Judged.clients)) == 1
    second.close()
    assert events(judged) == ["open", "closed"] and open_resources() == []


def test_in_a_running_loop_without_a_driver_every_hook_has_its_own(judged) -> None:
    async def notebook() -> None:
        env = Judged(tasks=[row(hooks="both")])
        env.reset()
        env.step(message("done"))
        env.close()

    asyncio.run(notebook())
    assert events(judged) == ["open", "closed"] * 2 and open_resources() == []


def test_one_that_fails_to_close_in_any_way_leaves_no_other_open(caplog) -> None:
    class Scoped(Closing):
        def close(self) -> None:
            raise asyncio.CancelledError  # as a cancel scope that was entered elsewhere does

    async def main() -> Closing:
        user, other = SharedResources(), Closing()
        await user.get("scoped", Scoped)
        await user.get("other", lambda: other)
        await drive(user.release)
        while open_resources():
            await asyncio.sleep(0.001)
        return other

    assert asyncio.run(asyncio.wait_for(main(), 10)).closed == 1
    assert "scoped, was not closed" in caplog.text


def test_closing_under_another_running_loop_closes_it(judged) -> None:
    env = Judged(tasks=[row(hooks="both")])
    env.reset()

    async def elsewhere() -> None:
        env.close()

    asyncio.run(elsewhere())
    assert events(judged) == ["open", "closed"] and open_resources() == []


def test_closing_in_another_thread_than_the_one_that_used_it_closes_it(judged) -> None:
    env = Judged(tasks=[row(hooks="both")])
    env.reset()
    closing = threading.Thread(target=env.close)
    closing.start()
    closing.join()
    assert events(judged) == ["open", "closed"] and open_resources() == []


def test_what_an_environment_that_nobody_closes_uses_is_closed_when_the_interpreter_ends() -> None:
    code = """
import asyncio
from contextlib import asynccontextmanager
from gym_llm import VerifierEnv

@asynccontextmanager
async def judge():
    print("open")
    yield "judge"
    await asyncio.sleep(0)
    print("closed")

class Judged(VerifierEnv):
    async def verify(self, task, episode):
        await self.shared("judge", judge)
        return 1.0

env = Judged(tasks=[{"responses_create_params": {"input": "Go."}}])
env.reset()
env.step([])
"""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "open\nclosed\n", "")
