"""Streams: groups of episodes without end, while the engine's weights change."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import gymnasium as gym
import pytest
from testing import in_loop, row

import gym_llm
from gym_llm import TaskSampler, VerifierEnv
from gym_llm.engines import Capabilities, Engine
from gym_llm.engines.engine_response import text_response
from gym_llm.errors import EngineError, EngineUnavailable, TooManyFailures, UsageError
from gym_llm.records.record import check_record
from gym_llm.rollouts.stream import Stream

ENV = "gym_llm/FollowUp-v0"
TASKS = [row(f"Question {number}?", expected_answer="yes") for number in range(5)]
LONG = [{**task, "follow_ups": ["And now?"] * 3} for task in TASKS]


class Versioned(Engine):
    """Samples three tokens a turn, each with the version of the weights; the second word may be of newer ones."""

    model = "versioned"
    capabilities = Capabilities(token_ids=True, weights=True)

    def __init__(self) -> None:
        self.most = self._now = 0
        self.begun: list[str] = []

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        self.begun.append(episode_id)
        self._now += 1
        self.most = max(self.most, self._now)
        first = self.weight_version
        await asyncio.sleep(0.002)
        self._now -= 1
        runs = [[first, 1], [self.weight_version, 2]] if self.weight_version > first else [[first, 3]]
        said = sum(item.get("role") == "assistant" for item in request["input"])
        tokens = ([1] * (said + 1), [2, 3, 4], [-0.1] * 3)
        return text_response("yes", tokens=tokens, model=self.model, weight_versions=runs)

    async def update_weights(self, weights: Any, *, mode: str = "wait") -> None:
        self.weight_version += 1

    async def sleep(self, level: int = 1) -> None: ...

    async def wake_up(self) -> None: ...


class Ranked(VerifierEnv):
    """Scores the episodes of a group by their places in it."""

    def user_turn(self, task: Any, episode: Any) -> str | None:
        return "And?" if episode.turn < 2 else None

    async def verify_group(self, task: Any, episodes: Any) -> list[float]:
        await asyncio.sleep(0.001)
        return [float(place) for place in range(len(episodes))]


RANKED = "stream_tests/Ranked-v0"
gym.register(RANKED, Ranked)


def stream(engine: Engine, *, env_id: str = ENV, **options: Any) -> Stream:
    return gym_llm.stream(env_id, engine, **{"tasks": TASKS, "group_size": 3, "concurrency": 6, **options})


def versions(group: Any) -> set[int]:
    pairs = [
        (version, used)
        for record in group
        for segment in record["trajectory"] or ()
        for version, used in zip(
            segment.get("weight_versions", [0] * len(segment["loss_mask"])), segment["loss_mask"], strict=True
        )
    ]
    return {version for version, used in pairs if used}


@in_loop
async def test_groups_come_without_end_and_each_task_once_in_a_round() -> None:
    engine = Versioned()
    tasks: list[int] = []
    seen: set[tuple[int, int]] = set()
    async with stream(engine) as groups:
        async for group in groups:
            assert len(group) == 3 and len({record["rollout_id"]["task_index"] for record in group}) == 1
            assert all(record["reward"] == 1.0 and check_record(record) and record["made_by"] for record in group)
            new = {(each["rollout_id"]["task_index"], each["rollout_id"]["repeat_index"]) for each in group}
            assert len(new) == 3 and not new & seen
            seen |= new
            tasks.append(group[0]["rollout_id"]["task_index"])
            if len(tasks) == 20:
                break
    assert sorted(tasks[:5]) == list(range(5)) and all(tasks.count(task) == 4 for task in range(5))
    assert [groups.counts[name] for name in ("groups", "episodes", "tokens")] == [20, 60, 180]
    assert 3 <= engine.most <= 6


@pytest.mark.parametrize("stale", ["keep", "wait"])
@in_loop
async def test_a_verifier_scores_whole_groups_of_a_stream(stale: Any) -> None:
    limits: Any = {} if stale == "keep" else {"max_staleness": 1, "stale": stale, "groups_per_update": 2}
    sampler = TaskSampler(by="uniform")
    engine = Versioned()
    seen: set[tuple[int, int]] = set()
    async with stream(engine, env_id=RANKED, tasks=LONG, sampler=sampler, **limits) as groups:
        for number in range(20):
            group = await asyncio.wait_for(anext(groups), 20)
            assert sorted(record["reward"] for record in group) == [0.0, 1.0, 2.0]
            assert all(len(record["info"]["group"]["members"]) == 3 and record["made_by"] for record in group)
            assert group[0]["info"]["task_probability"] == 0.2
            ids = {(each["rollout_id"]["task_index"], each["rollout_id"]["repeat_index"] // 3) for each in group}
            assert len(ids) == 1 and not ids & seen
            seen |= ids
            if stale != "keep":
                assert engine.weight_version - min(versions(group)) <= 1
            if number % 2:
                await groups.update_weights({})
    assert sampler.state_dict()["tasks"]


@in_loop
async def test_scored_groups_wait_for_a_trainer_that_takes_none() -> None:
    engine = Versioned()
    async with stream(engine, env_id=RANKED) as groups:
        await anext(groups)
        await asyncio.sleep(0.3)
        assert len(set(engine.begun)) <= 3 + 5 * 6


@in_loop
async def test_in_lockstep_no_group_begins_between_the_last_one_and_the_update() -> None:
    engine = Versioned()
    limits: Any = {"max_staleness": 0, "stale": "wait", "groups_per_update": 2}
    async with stream(engine, **limits) as groups:
        for update in range(3):
            await anext(groups)
            await anext(groups)
            await asyncio.sleep(0.05)
            assert len(engine.begun) == 6 * (update + 1)
            await groups.update_weights({})
        for _ in range(3):  # one more than the trainer said: it begins when the trainer waits for it
            await asyncio.wait_for(anext(groups), 20)
        assert len(engine.begun) == 27


@in_loop
async def test_with_wait_new_weights_begin_groups_at_once() -> None:
    class Slow(Versioned):
        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            if len(self.begun) >= 6:
                self.begun.append(episode_id)
                await asyncio.sleep(100)
            return await super().respond(request, episode_id=episode_id)

    engine = Slow()
    limits: Any = {"max_staleness": 1, "stale": "wait", "groups_per_update": 2, "concurrency": 40}
    async with stream(engine, **limits) as groups:
        await anext(groups)
        await anext(groups)
        await asyncio.sleep(0.05)
        assert len(engine.begun) == 12  # of four groups, two of which never end
        await groups.update_weights({})
        await asyncio.sleep(0.05)
        assert len(engine.begun) == 18


@in_loop
async def test_a_trainer_that_takes_nothing_stops_the_sampling() -> None:
    engine = Versioned()
    async with stream(engine) as groups:
        await anext(groups)
        await asyncio.sleep(0.3)
        assert len(engine.begun) <= 3 + 4 * 6
        await anext(groups)


@pytest.mark.parametrize("stale", ["keep", "wait"])
@in_loop
async def test_no_policy_delivers_tokens_that_are_older_than_it_allows(stale: Any) -> None:
    engine = Versioned()
    limits: Any = {} if stale == "keep" else {"max_staleness": 1, "stale": stale, "groups_per_update": 1}
    ages: list[int] = []
    async with stream(engine, tasks=LONG, **limits) as groups:
        for _ in range(60):
            group = await asyncio.wait_for(anext(groups), 20)
            ages += [engine.weight_version - version for version in versions(group)]
            await groups.update_weights({})
    counts = groups.counts
    assert counts["groups"] == 60 and counts["episodes"] == 180
    assert (max(ages) > 1) == (stale == "keep")
    assert engine.weight_version == 60


@in_loop
async def test_what_a_stream_throws_away_when_it_is_closed_is_counted() -> None:
    engine = Versioned()
    async with stream(engine, tasks=LONG) as groups:
        for _ in range(4):
            await asyncio.wait_for(anext(groups), 20)
        await asyncio.sleep(0.05)  # others are finished, or under way
    await groups.aclose()
    counts = groups.counts
    assert counts["discarded_episodes"] > 0 and counts["unfinished_episodes"] >= 0
    assert counts["discarded_tokens"] == counts["discarded_episodes"] * counts["tokens"] / counts["episodes"]
    begun = set(engine.begun)
    known = counts["episodes"] + counts["discarded_episodes"] + counts["unfinished_episodes"]
    assert len(begun) <= known <= len(begun) + 16  # some of the unfinished ones waited for a slot


def test_synchronous_code_takes_groups_while_a_thread_plays() -> None:
    engine = Versioned()
    with stream(engine) as groups:
        for group in itertools.islice(groups, 4):
            assert len(group) == 3
        before = threading.active_count()
        groups.update_weights_and_wait({})
        assert groups.weight_version == 1
        assert versions(next(itertools.dropwhile(lambda each: versions(each) != {1}, groups))) == {1}
    assert threading.active_count() < before
    groups.close()


@in_loop
async def test_a_sampler_chooses_the_tasks_and_learns_from_their_rewards() -> None:
    class Some(Versioned):
        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            answer = await super().respond(request, episode_id=episode_id)
            if episode_id.startswith("2-") and len(self.begun) % 2:
                answer["output"][0]["content"][0]["text"] = "never"
            return answer

    sampler = TaskSampler(share=0.01, seed=1)
    chosen: list[int] = []
    async with stream(Some(), sampler=sampler, env_kwargs={"max_episode_steps": 1}) as groups:
        for _ in range(150):
            group = await anext(groups)
            assert all(0 < record["info"]["task_probability"] < 1 for record in group)
            chosen.append(group[0]["rollout_id"]["task_index"])
    assert chosen[100:].count(2) > 20
    assert sampler.probability(2) > 0.5


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"group_size": 0}, ValueError, "group_size is"),
        *[
            ({"max_staleness": 2, "stale": gone}, ValueError, f"keep or wait, got '{gone}'")
            for gone in ("drop", "cancel", "split")
        ],
        ({"stale": "wait"}, ValueError, "needs max_staleness"),
        ({"max_staleness": -1, "stale": "wait"}, ValueError, "max_staleness is"),
        ({"max_staleness": 1, "stale": "wait"}, ValueError, "groups_per_update"),
        ({"groups_per_update": 3}, ValueError, "groups_per_update"),
        *[
            ({"max_staleness": 1, "stale": "wait", "groups_per_update": wrong}, ValueError, "1 or more")
            for wrong in (0, -1, 1.5, True)
        ],
        ({"max_staleness": 1}, ValueError, "tokens of any age"),
        ({"workers": 2}, ValueError, "is a spec"),
        ({"engines": 2}, ValueError, "with workers"),
        ({"speed": 2}, TypeError, "speed"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        stream(Versioned(), **options)


@in_loop
async def test_what_it_cannot_do_it_says() -> None:
    groups = stream(Versioned())
    with pytest.raises(EngineError, match="has not begun"):
        await groups.update_weights({})
    with pytest.raises(UsageError, match="can be counted"):
        gym_llm.stream("gym_llm/Arithmetic-v0", Versioned(), sampler=TaskSampler())
    with pytest.raises(ValueError, match="2 or more"):
        gym_llm.stream("gym_llm/GenRMCompare-v0", Versioned(), env_kwargs={"judge": "random"}, group_size=1)

    class Down(Versioned):
        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            raise EngineError("the server is down", failure_kind="agent_run_error")

    async with stream(Down(), max_failures=7) as broken:
        with pytest.raises(TooManyFailures, match=r"8 of 8 episodes are masked.* the server is down"):
            while True:
                await anext(broken)
    with pytest.raises(StopAsyncIteration):
        await anext(broken)
    with pytest.raises(EngineError, match="cannot be replaced"):
        async with gym_llm.stream(ENV, "random", tasks=TASKS, group_size=2) as random:
            await random.update_weights({})


@in_loop
async def test_wait_holds_for_a_slow_group_and_for_an_engine_that_was_given_weights_before() -> None:
    class Slow(Versioned):
        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            if episode_id == "0-0":
                await asyncio.sleep(0.5)
            return await super().respond(request, episode_id=episode_id)

    engine = Slow()
    engine.weight_version = 10
    ages: list[int] = []
    limits: Any = {"max_staleness": 1, "stale": "wait", "groups_per_update": 2}
    async with stream(engine, tasks=LONG, concurrency=40, **limits) as groups:
        for number in range(40):
            group = await asyncio.wait_for(anext(groups), 20)
            ages += [engine.weight_version - version for version in versions(group)]
            if number % 2:
                await groups.update_weights({})
    assert max(ages) == 1


@in_loop
async def test_a_lost_patience_ends_no_stream_and_several_may_wait() -> None:
    class Slow(Versioned):
        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            await asyncio.sleep(0.05)
            return await super().respond(request, episode_id=episode_id)

    async with stream(Slow()) as groups:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(groups), 0.01)
        both = await asyncio.wait_for(asyncio.gather(anext(groups), anext(groups)), 20)
        assert [len(group) for group in both] == [3, 3] and both[0] is not both[1]


@in_loop
async def test_it_closes_while_somebody_waits_for_a_group() -> None:
    class Stuck(Versioned):
        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            await asyncio.sleep(100)

    groups = stream(Stuck())
    waiting = [asyncio.ensure_future(anext(groups)) for _ in range(2)]  # type: ignore[arg-type]
    await asyncio.sleep(0.2)
    await asyncio.wait_for(groups.aclose(), 20)
    for one in waiting:
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(one, 20)


@pytest.mark.parametrize("sampler", [None, TaskSampler(seed=2)])
@pytest.mark.parametrize("seed", [0, 3])
@in_loop
async def test_only_the_first_tasks_are_played_and_generated_ones_come_again(seed: int, sampler: Any) -> None:
    options: Any = {"group_size": 2, "concurrency": 4, "limit": 3, "seed": seed, "sampler": sampler}
    for env_id, tasks, first in ((ENV, TASKS, 0), ("gym_llm/Arithmetic-v0", None, seed << 32)):
        async with gym_llm.stream(env_id, "random", tasks=tasks, **options) as groups:
            ids = [record["rollout_id"] for _ in range(24) for record in await anext(groups)]
        assert {each["task_index"] for each in ids} == {first, first + 1, first + 2}
        assert len({tuple(each.values()) for each in ids}) == 48


@in_loop
async def test_a_consumer_with_a_queue_says_how_many_groups_it_has_room_for() -> None:
    engine, queue = Versioned(), []
    async with stream(engine) as base:
        groups = Stream(base._plan, engine, base._settings, room=lambda: max(0, 3 - len(queue)))

        async def take() -> None:
            async for group in groups:
                queue.append(group)  # noqa: PERF401 - others read the list meanwhile

        taking = asyncio.create_task(take())
        for taken in (3, 2, 3):
            while len(queue) < 3:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.05)
            assert len(queue) == 3 and len(set(engine.begun)) == 3 * groups.counts["groups"]
            del queue[:taken]
            groups.look_again()
        await groups.aclose()
        await taking
    assert groups.counts["groups"] >= 8


@in_loop
async def test_an_endless_stream_of_generated_tasks_keeps_nothing_of_them() -> None:
    async with gym_llm.stream("gym_llm/Arithmetic-v0", "random", group_size=2, concurrency=4) as groups:
        for _ in range(50):
            await anext(groups)
        assert not groups._jobs._repeats


def test_a_synchronous_stream_that_cannot_start_leaves_no_thread() -> None:
    with pytest.raises(EngineUnavailable), gym_llm.stream(ENV, "http://localhost:1/v1", tasks=TASKS, group_size=2):
        pass
    assert not any(thread.name == "gym_llm stream" for thread in threading.enumerate())
