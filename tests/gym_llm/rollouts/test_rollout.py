"""gym_llm.rollout and gym_llm.collect in this process; the engine is a stand-in, everything else is real."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any

import gymnasium as gym
import pytest
from testing import function_call, message_item, response, row

import gym_llm
from gym_llm import Episode, Verdict, VerifierEnv, tool
from gym_llm.data import dumps
from gym_llm.engines import Engine
from gym_llm.errors import EngineError
from gym_llm.records.record_files import parse_record


class FakeEngine(Engine):
    """Answers by a function of the episode's id and the request; knows how many requests were open at once."""

    model = "fake"

    def __init__(
        self,
        answer: Callable[[str, Any], dict[str, Any]] = lambda episode, request: response(message_item("x")),
        seconds: Callable[[str], float] = lambda episode: 0.0,
    ) -> None:
        self.answer, self.seconds = answer, seconds
        self.open = self.peak = self.cancelled = 0
        self.asked: Counter[str] = Counter()
        self.requests: list[Any] = []

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        self.asked[episode_id] += 1
        self.requests.append(request)
        self.open += 1
        self.peak = max(self.peak, self.open)
        try:
            await asyncio.sleep(self.seconds(episode_id))
            return self.answer(episode_id, request)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.open -= 1


class Panic(BaseException):
    """Like that of pyo3: no `Exception`."""


class ClientError(Exception):
    """Of a client whose status is not known yet."""

    @property
    def status_code(self) -> int:
        raise RuntimeError("no answer yet")


class Slow(VerifierEnv):
    """Has tools that take time, and rows that break it."""

    async def setup(self, task: Any) -> None:
        if getattr(task, "broken", None) == "setup":
            raise RuntimeError("no state")

    @tool
    async def wait_a_little(self) -> str:
        """Take 100 ms."""
        await asyncio.sleep(0.1)
        return "waited"

    def user_turn(self, task: Any, episode: Episode) -> Any:
        return ["hello"] if getattr(task, "broken", None) == "reply" else None

    everybody: asyncio.Barrier

    @tool
    async def wait_for_everybody(self) -> str:
        """Wait until as many wait as the barrier is for."""
        async with asyncio.timeout(60):
            await self.everybody.wait()
        return "all there"

    others = threading.Barrier(16, timeout=60)

    @tool(blocking=True)
    def block_for_others(self) -> str:
        """Block a thread until 16 threads are blocked."""
        self.others.wait()
        return "all there"

    def verify(self, task: Any, episode: Episode) -> Verdict:
        match getattr(task, "broken", None):
            case "verify":
                raise KeyError("no verdict")
            case "cancel":
                raise asyncio.CancelledError
            case "panic":
                raise Panic("index out of bounds")
            case "status":
                raise ClientError
            case "row":
                episode.row = None  # type: ignore[assignment]
        return Verdict(float(self.np_random.integers(100)), {"said": episode.answer})


ID = "Test/Slow-v0"


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    gym.register(ID, entry_point=lambda **kwargs: Slow(**kwargs))
    yield
    del gym.registry[ID]


def rows(count: int) -> list[dict[str, Any]]:
    return [row(f"Question {n}", number=n) for n in range(count)]


def call_once(name: str) -> Callable[[str, Any], dict[str, Any]]:
    """Calls the tool in the first turn, answers in the second."""

    def answer(episode: str, request: Any) -> dict[str, Any]:
        first = not any(item.get("type") == "function_call" for item in request["input"])
        return response(function_call(name) if first else message_item("done"))

    return answer


def ids(records: list[Any]) -> list[tuple[int, int]]:
    return [(r["rollout_id"]["task_index"], r["rollout_id"]["repeat_index"]) for r in records]


def test_every_episode_is_a_record_of_the_documented_shape() -> None:
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    engine = FakeEngine(lambda episode, request: response(message_item("x"), usage=usage, model="fake"))
    records = gym_llm.collect(ID, engine, tasks=rows(3), repeats=2, sampling={"temperature": 0.5})
    assert ids(records) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    record = records[2]
    assert record["env_id"] == ID and record["number"] == 1 and record["error"] is None
    assert record["responses_create_params"]["input"] == [{"role": "user", "content": "Question 1"}]
    assert record["responses_create_params"]["temperature"] == 0.5
    assert record["response"]["output"] == [message_item("x")] and record["response"]["usage"] == usage
    assert record["response"]["model"] == "fake" and record["response"]["status"] == "completed"
    assert (record["terminated"], record["truncated"], record["trajectory"]) == (True, False, None)
    assert record["info"]["said"] == "x" and record["info"]["turn"] == 1
    assert 0 <= record["timing"]["engine"] <= record["timing"]["total"]
    assert all(request["temperature"] == 0.5 for request in engine.requests)
    dumps(records)


def test_a_record_holds_the_whole_conversation() -> None:
    (record,) = gym_llm.collect(ID, FakeEngine(call_once("wait_a_little")), tasks=rows(1))
    assert [item["type"] for item in record["response"]["output"]] == [
        "function_call",
        "function_call_output",
        "message",
    ]
    assert record["info"]["turn"] == 2
    assert [turn["env"] > 0 for turn in record["turn_timing"]] == [True, True]


def test_waiting_for_an_engine_that_fails_is_timed_too() -> None:
    def fail(episode: str, request: Any) -> dict[str, Any]:
        if episode == "2-0":
            return response(message_item("x"))
        raise EngineError("the server said 500") if episode == "0-0" else KeyError("a bug")

    with pytest.warns(UserWarning, match="2 of 3 episodes are masked"):
        records = gym_llm.collect(ID, FakeEngine(fail, seconds=lambda episode: 0.05), tasks=rows(3))
    assert [record["error"] for record in records] == ["the server said 500", "KeyError: 'a bug'", None]
    for record in records:
        assert 0.05 <= record["timing"]["engine"] <= record["timing"]["total"]
        assert [turn["engine"] for turn in record["turn_timing"]] == [record["timing"]["engine"]]


def test_no_episode_waits_for_the_slowest() -> None:
    class Stragglers(FakeEngine):
        """Answers nothing of the first 19 episodes before it has been asked about the last."""

        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            number = int(episode_id.split("-")[0])
            if number == 199:
                last.set()
            if number < 19:
                await asyncio.wait_for(last.wait(), 60)
            return await super().respond(request, episode_id=episode_id)

    last = asyncio.Event()
    records = gym_llm.collect(ID, Stragglers(), tasks=rows(200), concurrency=20)
    assert [record["error"] for record in records] == [None] * 200


def test_as_many_episodes_are_played_at_once_as_there_may_be() -> None:
    engine = FakeEngine(seconds=lambda episode: 0.01)
    gym_llm.collect(ID, engine, tasks=rows(200), concurrency=20)
    assert engine.peak == 20


def test_records_come_as_episodes_finish() -> None:
    async def main() -> list[int]:
        engine = FakeEngine(seconds=lambda episode: 0.3 if episode == "0-0" else 0.0)
        records = gym_llm.rollout(ID, engine, tasks=rows(10), concurrency=2)
        return [record["rollout_id"]["task_index"] async for record in records]

    order = asyncio.run(main())
    assert order[-1] == 0 and sorted(order) == list(range(10))


def test_concurrency_is_how_many_are_asked_at_once() -> None:
    engine = FakeEngine(seconds=lambda episode: 0.02)
    gym_llm.collect(ID, engine, tasks=rows(30), concurrency=7)
    assert engine.peak == 7
    with pytest.raises(ValueError, match="1 or more"):
        gym_llm.collect(ID, engine, tasks=rows(1), concurrency=0)


def test_a_reader_that_does_not_keep_up_holds_the_run_back() -> None:
    engine = FakeEngine()

    async def main() -> int:
        async with aclosing(gym_llm.rollout(ID, engine, tasks=rows(500), concurrency=4)) as records:
            await anext(records)
            await asyncio.sleep(0.3)
            played = sum(engine.asked.values())
            assert len([record async for record in records]) == 499
            return played

    assert 4 <= asyncio.run(main()) <= 16


def test_a_failing_engine_costs_its_episode_only() -> None:
    def answer(episode: str, request: Any) -> dict[str, Any]:
        match episode:
            case "1-0":
                raise EngineError("the server said 500")
            case "2-0":
                raise ZeroDivisionError("a bug")
            case "3-0":
                return "not a response"  # type: ignore[return-value]
        return response(message_item("x"))

    with pytest.warns(UserWarning, match="3 of 6 episodes are masked, the first one so: the server said 500"):
        records = gym_llm.collect(ID, FakeEngine(answer), tasks=rows(6), concurrency=2)
    errors = [record["error"] for record in records]
    assert errors[1] == "the server said 500" and errors[2] == "ZeroDivisionError: a bug"
    assert errors[3].startswith("InvalidAction: ") and errors[0] is errors[4] is errors[5] is None
    failed = records[1]
    assert (failed["reward"], failed["terminated"], failed["truncated"], failed["number"]) == (None, False, False, 1)
    kinds = [record["failure_kind"] for record in records[1:4]]
    assert kinds == ["agent_request_failed", "agent_run_error", "agent_run_error"]
    assert [record["error_phase"] for record in records[1:4]] == ["engine"] * 3


@pytest.mark.parametrize(
    "hook, words",
    [
        ("setup", "no state"),
        ("verify", "no verdict"),
        ("cancel", "CancelledError"),
        ("panic", "Panic: index out of bounds"),
        ("status", "ClientError: "),
        ("row", "TypeError: "),
        ("reply", "user_turn returns"),
    ],
)
def test_a_failing_environment_costs_its_episode_only(hook: str, words: str) -> None:
    tasks = rows(6)
    tasks[2]["broken"] = hook
    with pytest.warns(UserWarning, match="1 of 6 episodes is masked"):
        records = gym_llm.collect(ID, FakeEngine(), tasks=tasks, concurrency=2)
    assert ids(records) == [(n, 0) for n in range(6)]
    assert words in records[2]["error"] and records[2]["reward"] is None
    assert [record["error"] for record in records if record is not records[2]] == [None] * 5
    assert [record["number"] for n, record in enumerate(records) if n != 2] == [0, 1, 3, 4, 5]


def test_skipped_episodes_are_not_played() -> None:
    engine = FakeEngine()
    records = gym_llm.collect(ID, engine, tasks=rows(3), repeats=2, skip={(0, 0), (2, 1)})
    assert ids(records) == [(0, 1), (1, 0), (1, 1), (2, 0)] and sum(engine.asked.values()) == 4
    assert gym_llm.collect(ID, engine, tasks=rows(1), skip={(0, 0)}) == []


def test_leaving_early_cancels_what_is_under_way() -> None:
    engine = FakeEngine(seconds=lambda episode: 0.0 if episode == "0-0" else 60.0)

    async def main() -> None:
        async with aclosing(gym_llm.rollout(ID, engine, tasks=rows(50), concurrency=8)) as records:
            async for _ in records:
                break
        assert engine.open == 0 and engine.cancelled >= 7
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    assert sum(engine.asked.values()) <= 9


def test_cancelling_the_reader_cancels_what_is_under_way() -> None:
    engine = FakeEngine(seconds=lambda episode: 60.0)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), aclosing(gym_llm.rollout(ID, engine, tasks=rows(5))) as records:
                await anext(records)
        assert engine.open == 0 and engine.cancelled == 5

    asyncio.run(main())


def test_the_same_seed_gives_the_same_records_at_any_concurrency() -> None:
    def play(seed: int, concurrency: int) -> list[Any]:
        records = gym_llm.collect(ID, FakeEngine(), tasks=rows(5), repeats=4, seed=seed, concurrency=concurrency)
        return [{**record, "timing": None, "turn_timing": None} for record in records]

    assert play(0, 1) == play(0, 7) == play(0, 20)
    assert play(0, 1) != play(1, 1)


def test_asynchronous_tools_of_a_thousand_episodes_overlap() -> None:
    Slow.everybody = asyncio.Barrier(1000)
    engine = FakeEngine(call_once("wait_for_everybody"))
    records = gym_llm.collect(ID, engine, tasks=rows(1000), concurrency=1000, wrappers=())
    assert {record["response"]["output"][1]["output"] for record in records} == {"all there"}


def test_blocking_tools_overlap_and_hold_nobody_up() -> None:
    records = gym_llm.collect(ID, FakeEngine(call_once("block_for_others")), tasks=rows(128), concurrency=128)
    assert {record["response"]["output"][1]["output"] for record in records} == {"all there"}


def test_collect_works_inside_a_running_loop() -> None:
    async def main() -> list[Any]:
        return gym_llm.collect(ID, FakeEngine(call_once("wait_a_little")), tasks=rows(3))

    assert len(asyncio.run(main())) == 3


def test_text_is_parsed_unless_other_wrappers_are_given() -> None:
    text = '<think>Hm.</think><tool_call>{"name": "wait_a_little", "arguments": {}}</tool_call>'

    def answer(episode: str, request: Any) -> dict[str, Any]:
        return response(message_item(text if len(request["input"]) == 1 else "done"))

    (record,) = gym_llm.collect(ID, FakeEngine(answer), tasks=rows(1))
    kinds = [item["type"] for item in record["response"]["output"]]
    assert kinds == ["reasoning", "function_call", "function_call_output", "message"]
    (record,) = gym_llm.collect(ID, FakeEngine(answer), tasks=rows(1), wrappers=())
    assert record["info"]["said"] == text


def test_episodes_that_say_what_json_cannot_are_still_records() -> None:
    odd = response(message_item("\ud800"), function_call("\udfff", "\ud800"), usage={"input_tokens": 2**70})
    records = gym_llm.collect(ID, FakeEngine(lambda episode, request: odd), tasks=rows(2), env_kwargs={"max_turns": 2})
    assert [record["truncated"] for record in records] == [True, True]
    assert dumps(records[0]).count(b"\n") == 1


def test_what_is_wrong_with_the_arguments_is_said_before_anything_is_played() -> None:
    engine = FakeEngine()
    for arguments, error in (({"episodes": 1, "repeats": 2}, ValueError), ({"tasks": []}, ValueError)):
        with pytest.raises(error):
            gym_llm.collect(ID, engine, **{"tasks": rows(1), **arguments})
    with pytest.raises(ValueError, match="Unknown engine"):
        gym_llm.collect(ID, "pockt", tasks=rows(1))
    assert not engine.asked


@pytest.mark.parametrize(
    ("sampling", "said"),
    [
        ({"temprature": 0.5}, r"no field 'temprature'\. Did you mean temperature\?"),
        ({"max_output_token": 5}, r"Did you mean max_output_tokens\?"),
        ({"temperature": "0.5"}, "sampling: temperature is a number"),
    ],
)
def test_sampling_that_is_misspelt_or_of_the_wrong_kind_is_refused_at_once(sampling, said) -> None:
    with pytest.raises(ValueError, match=said):
        gym_llm.collect(ID, FakeEngine(lambda episode, request: None), tasks=rows(1), sampling=sampling)


def test_sampling_may_have_what_only_a_server_knows() -> None:
    engine = FakeEngine(lambda episode, request: response(message_item(str(request["dry_multiplier"]))))
    (record,) = gym_llm.collect(ID, engine, tasks=rows(1), sampling={"dry_multiplier": 0.5})
    assert record["responses_create_params"]["dry_multiplier"] == 0.5


@pytest.mark.parametrize("info", [None, {"turn": "two"}, {"trajectory": "all of it"}, {"trajectory": [[1, 2]]}])
def test_what_a_wrapper_makes_of_an_info_cannot_spoil_the_file(info: Any) -> None:
    class Spoils(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            observation, reward, terminated, truncated, before = self.env.step(action)
            spoilt = before["task_index"] == 1
            return observation, reward, terminated, truncated, info if spoilt else before

    with pytest.warns(UserWarning, match="1 of 2 episodes is masked"):
        records = gym_llm.collect(ID, FakeEngine(), tasks=rows(2), wrappers=[Spoils])
    assert [record["outcome"] for record in records] == ["scored", "masked"]
    assert [parse_record(dumps(record))["outcome"] for record in records] == ["scored", "masked"]
