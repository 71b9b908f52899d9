"""New endings of recorded episodes: the same beginning to the last id, and then other turns."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from testing import function_call, message_item, response, row

import gym_llm
from gym_llm.engines import Engine
from gym_llm.errors import CannotFork
from gym_llm.records.record import read_record
from gym_llm.rollouts.play import iter_records, open_plan
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.trainers.shared.token_rows import token_rows
from gym_llm.types import TOKEN_FIELDS
from gym_llm.utils.json_codec import dumps, loads

COUNTER = "gym_llm/Counter-v0"


class Words(Engine):
    """Counts up for a number of turns that depends on the episode, and samples ids by its name."""

    model = "words"

    def __init__(self, turns: int = 3) -> None:
        self.turns, self.asked = turns, []

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        items = request["input"]
        calls = sum(item.get("type") == "function_call" for item in items)
        self.asked.append((episode_id, calls))
        last = next((item for item in reversed(items) if "generation_token_ids" in item), None)
        history = [1, 2, 3] if last is None else last["prompt_token_ids"] + last["generation_token_ids"] + [9]
        sampled = [100 + (hash((episode_id, calls, n)) % 1000) for n in range(3)]
        tokens = {
            "prompt_token_ids": history,
            "generation_token_ids": sampled,
            "generation_log_probs": [-0.5, -0.25, -sum(sampled) / 1000],
        }
        if calls < self.turns:
            item = function_call("increment_counter", {"count": len(sampled)}, f"call_{calls}")
        else:
            item = message_item("Done.")
        return response({**item, **tokens}, usage={"input_tokens": 3, "output_tokens": 3, "total_tokens": 6})


def played(engine: Engine | None = None, **options: Any) -> Any:
    async def main() -> list[Any]:
        plan = open_plan(COUNTER, limit=1)
        async with engine or Words() as started:
            return [one async for one in iter_records(plan, started, RolloutSettings(seed=5, **options))]

    (record,) = asyncio.run(main())
    return read_record(loads(dumps(record)))


def forked(record: Any, engine: Engine | None = None, **arguments: Any) -> list[Any]:
    async def main() -> list[Any]:
        async with engine or Words() as started:
            return [one async for one in gym_llm.fork(record, engine=started, **arguments)]

    records = asyncio.run(main())
    return sorted(records, key=lambda one: one["forked_from"]["number"])


@pytest.mark.parametrize("turn", [0, 1, 2, 3])
def test_forks_share_the_ids_up_to_their_turn_and_differ_after_it(turn: int):
    parent = played()
    (whole,) = token_rows(parent)
    engine = Words()
    forks = forked(parent, engine, turn=turn, n=3)
    rows = [token_rows(fork) for fork in forks]
    assert all(len(each) == 1 for each in rows)
    end = 3 + 4 * turn if turn else 3
    for (one,) in rows:
        assert one.input_ids[:end] == whole.input_ids[:end]
        assert one.logprobs[:end] == whole.logprobs[:end]
        assert one.loss_mask[:end] == whole.loss_mask[:end]
        assert len(one.input_ids) == len(whole.input_ids)
    assert len({tuple(one.input_ids) for (one,) in rows}) == 3
    assert {calls for _, calls in engine.asked} == set(range(turn, 4))  # no recorded turn is asked for again
    assert [fork["response"]["usage"]["total_tokens"] for fork in forks] == [6 * (4 - turn)] * 3
    assert all(fork["outcome"] == "scored" and fork["info"]["turn"] == 4 for fork in forks)


def test_a_fork_names_its_parent_and_has_an_id_of_its_own_that_is_stable():
    parent = played()
    first, again = (forked(parent, turn=2, n=2) for _ in range(2))
    assert [one["rollout_id"] for one in first] == [one["rollout_id"] for one in again]
    assert [token_rows(one) for one in first] == [token_rows(one) for one in again]
    assert first[0]["rollout_id"] != first[1]["rollout_id"] != parent["rollout_id"]
    origin = first[1]["forked_from"]
    assert (origin["rollout_id"], origin["turn"], origin["number"]) == (parent["rollout_id"], 2, 1)
    for name in ("task_key", "task_sha256", "env_id"):
        assert first[0][name] == parent[name]
    (more,) = forked(parent, turn=2, n=1, first=1)
    assert more["rollout_id"] == first[1]["rollout_id"]
    assert read_record(loads(dumps(more)))["forked_from"] == origin


class Thinker(Words):
    """Samples unfinished reasoning before each call: the environment says nothing and asks again."""

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        answer = await super().respond(request, episode_id=episode_id)
        if request["input"][-1].get("type") != "reasoning":
            tokens = {name: answer["output"][0][name] for name in TOKEN_FIELDS}
            tokens["generation_token_ids"] = [7, 7]
            tokens["generation_log_probs"] = [-1.0, -1.0]
            answer["output"] = [{"type": "reasoning", "id": "rs", "summary": [], "status": "incomplete", **tokens}]
        return answer


@pytest.mark.parametrize("turn", range(6))
def test_turns_that_the_environment_does_not_answer_are_told_apart_by_their_ids(turn: int):
    parent = played(Thinker(2))
    assert parent["info"]["turn"] == 6  # reasoning and a call, twice, then reasoning and a message
    (whole,) = token_rows(parent)
    (fork,) = forked(parent, Thinker(2), turn=turn, n=1)
    (row,) = token_rows(fork)
    assert row.turns == whole.turns
    end = row.turns[turn][0]
    assert row.input_ids[:end] == whole.input_ids[:end]
    assert fork["info"]["turn"] == 6 and fork["outcome"] == "scored"


class Stammerer(Words):
    """Writes a call whose beginning is missing, and one that is whole."""

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        answer = await super().respond(request, episode_id=episode_id)
        (item,) = answer["output"]
        if item["type"] == "function_call":
            call = '{"name": "increment_counter", "arguments": {"count": 3}}'
            text = f"{call}\n</tool_call>\n<tool_call>{call}</tool_call>"
            answer["output"] = [{**message_item(text), **{name: item[name] for name in TOKEN_FIELDS}}]
        return answer


def test_recorded_turns_are_not_parsed_again():
    parent = played(Stammerer(2))
    items = [item["type"] for item in parent["response"]["output"]]
    assert items == ["message", "function_call", "function_call_output"] * 2 + ["message"]
    (fork,) = forked(parent, Stammerer(2), turn=2, n=1)
    assert [item["type"] for item in fork["response"]["output"]] == items
    assert fork["reward"] == parent["reward"] and fork["outcome"] == "scored"


def test_a_fork_can_be_forked():
    parent = played()
    (fork,) = forked(parent, turn=1, n=1)
    (leaf,) = forked(read_record(loads(dumps(fork))), turn=3, n=1)
    (one,), (other,), (root,) = token_rows(leaf), token_rows(fork), token_rows(parent)
    assert one.input_ids[:15] == other.input_ids[:15] and one.input_ids != other.input_ids
    assert one.input_ids[:7] == root.input_ids[:7] and one.input_ids[:8] != root.input_ids[:8]
    assert leaf["forked_from"]["env_seed"] == fork["forked_from"]["env_seed"]


class Dice(gym_llm.VerifierEnv):
    """Answers with a number of its generator."""

    offset = 0

    def user_turn(self, task, episode):
        return str(int(self.np_random.integers(1 << 30)) + Dice.offset) if episode.turn < 4 else None

    def verify(self, task, episode):
        return float(episode.turn)


class Talk(Words):
    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        return response(message_item(f"{episode_id} {len(request['input'])}"))


@pytest.fixture
def dice(monkeypatch: pytest.MonkeyPatch) -> Any:
    import gymnasium as gym

    gym.register("ForkedDice-v0", entry_point=lambda **kwargs: Dice(tasks=[row()], **kwargs))
    record = gym_llm.collect("ForkedDice-v0", Talk(), seed=11)[0]
    yield record
    gym.registry.pop("ForkedDice-v0")


def said(record: Any) -> list[str]:
    return [item["content"] for item in record["response"]["output"] if item.get("role") == "user"]


def test_the_environment_draws_what_it_drew(dice: Any):
    forks = forked(dice, Talk(), turn=2, n=2)
    assert [said(fork) for fork in forks] == [said(dice)] * 2


def test_an_environment_that_asks_for_something_else_is_refused(dice: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Dice, "offset", 1)
    assert len(forked(dice, Talk(), turn=0, n=1)) == 1  # nothing had been said yet
    with pytest.raises(CannotFork, match="turn 2"):
        forked(dice, Talk(), turn=1, n=2)


def test_what_cannot_be_forked_is_refused():
    parent = played()
    for turn in (-1, 4, 1.0):
        with pytest.raises(ValueError, match="turn"):
            forked(parent, turn=turn, n=1)
    with pytest.raises(ValueError, match="n is"):
        forked(parent, turn=0, n=0)
    with pytest.raises(ValueError, match="process"):
        forked(parent, turn=0, n=1, workers=2)
    with pytest.raises(CannotFork, match="agent"):
        forked({**parent, "info": {**parent["info"], "agent": {}}}, turn=0, n=1)
    with pytest.raises(CannotFork, match="agent"):
        forked(parent, turn=0, n=1, agent="cat")
    with pytest.raises(CannotFork, match="never began"):
        forked({name: value for name, value in parent.items() if name != "response"}, turn=0, n=1)
    with pytest.raises(CannotFork, match="cannot be separated"):
        forked({**parent, "info": {**parent["info"], "turn": 9}}, turn=0, n=1)


def test_a_record_from_before_may_have_a_task_field_of_that_name():
    record = {**played(), "schema_version": 4, "forked_from": "a task's own"}
    assert read_record(loads(dumps(record)))["task_fields"]["forked_from"] == "a task's own"


@pytest.mark.slow
def test_a_real_model_goes_on_from_the_recorded_ids():
    pytest.importorskip("transformers")
    options = {"sampling": {"max_output_tokens": 24}, "seed": 3}
    (parent,) = gym_llm.collect("gym_llm/Weather-v0", "pocket", limit=1, **options)

    async def main() -> list[Any]:
        turn = parent["info"]["turn"] - 1
        return [one async for one in gym_llm.fork(parent, turn=turn, n=3, **options)]

    rows = [token_rows(one)[-1] for one in asyncio.run(main())]
    (*_, last) = token_rows(parent)
    start = last.turns[-1][0]
    assert all(one.input_ids[:start] == last.input_ids[:start] for one in rows)
