"""New endings of agents' episodes: the agent runs again, and its first calls are answered as recorded."""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_playing import WEATHER, Says, follows

import gym_llm
from gym_llm.agents import AgentEpisode
from gym_llm.errors import CannotFork
from gym_llm.records.record import read_record
from gym_llm.rollouts.fork import forkable_turns
from gym_llm.rollouts.fork_agents import recorded_calls
from gym_llm.utils.json_codec import dumps, loads

SHORT: Any = {"sampling": {"max_output_tokens": 48, "temperature": 2.0}, "seed": 3}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def several(episode: AgentEpisode) -> str:
    """Asks three things at once, then goes on with one answer, then begins a new conversation about all."""
    asked: Any = [{"input": [user(f"{episode.prompt} ({n})")]} for n in range(3)]
    answers = await asyncio.gather(*map(episode.respond, asked))
    more = await episode.respond({"input": [*asked[0]["input"], *answers[0]["output"], user("Go on.")]})
    texts = [item["content"][0]["text"] for each in (*answers, more) for item in each["output"] if "content" in item]
    last = await episode.respond({"input": [user("Sum up: " + " | ".join(texts))]})
    return "".join(item["content"][0]["text"] for item in last["output"] if "content" in item) or "nothing"


ALMOST: Any = {"sampling": {"max_output_tokens": 48, "temperature": 1.0}}


def played(agent: Any, env_id: str = WEATHER, **more: Any) -> Any:
    (record,) = gym_llm.collect(env_id, "pocket", limit=1, agent=agent, **{**SHORT, **more})
    return read_record(loads(dumps(record)))


def forked(record: Any, agent: Any, turn: int, n: int = 3, engine: Any = "pocket", **more: Any) -> list[Any]:
    async def main() -> list[Any]:
        options = {**SHORT, **more, "agent": agent}
        return [one async for one in gym_llm.fork(record, turn=turn, n=n, engine=engine, **options)]

    return sorted(asyncio.run(main()), key=lambda one: one["forked_from"]["number"])


def calls_of(record: Any) -> list[tuple[Any, ...]]:
    columns = ("input_ids", "logprobs", "loss_mask")
    return [
        (each.segment["input_ids"][: each.start], *map(each.sampled, columns), each.sampled("weight_versions"))
        for each in recorded_calls(record)
    ]


@pytest.mark.parametrize(
    ("agent", "env_id", "how"), [(follows, WEATHER, ALMOST), (several, "gym_llm/Arithmetic-v0", SHORT)]
)
def test_forks_make_the_first_calls_of_the_record_and_then_their_own(agent: Any, env_id: str, how: Any) -> None:
    parent = played(agent, env_id, **how)
    of_parent = calls_of(parent)
    assert forkable_turns(parent) == len(of_parent) == parent["info"]["agent"]["model_calls"] >= 2
    for turn in range(len(of_parent)):
        forks = forked(parent, agent, turn, **how)
        assert [fork["forked_from"]["turn"] for fork in forks] == [turn] * 3
        assert all(fork["outcome"] == "scored" and fork["made_by"]["agent"] for fork in forks)
        endings = set()
        for fork in forks:
            calls = calls_of(fork)
            assert calls[:turn] == of_parent[:turn]
            assert calls[turn][0] == of_parent[turn][0]
            endings.add(str(calls[turn:]))
            sampled = sum(len(ids) for _, ids, *_ in calls[turn:])
            assert fork["response"]["usage"]["output_tokens"] == sampled  # of the new calls alone
        if agent is several:
            assert len(endings) == 3


@pytest.mark.parametrize(("agent", "env_id"), [(follows, WEATHER), (several, "gym_llm/Arithmetic-v0")])
def test_a_fork_without_chance_is_its_parent_token_for_token(agent: Any, env_id: str) -> None:
    greedy = {"sampling": {"max_output_tokens": 48, "temperature": 0.0}}
    parent = played(agent, env_id, **greedy)
    ids = [(prompt, sampled) for prompt, sampled, *_ in calls_of(parent)]
    for turn in range(len(ids)):
        (fork,) = forked(parent, agent, turn, n=1, **greedy)
        assert [(prompt, sampled) for prompt, sampled, *_ in calls_of(fork)] == ids
        assert fork["reward"] == parent["reward"]


def test_a_fork_can_be_forked() -> None:
    parent = played(several, "gym_llm/Arithmetic-v0")
    first = forked(parent, several, 3, n=1)[0]
    (second,) = forked(read_record(loads(dumps(first))), several, 4, n=1)
    assert calls_of(second)[:4] == calls_of(first)[:4] and calls_of(second)[:3] == calls_of(parent)[:3]


def test_a_program_is_run_again(tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(
        """
import os, sys, openai
client = openai.OpenAI()
messages = [{"role": "user", "content": sys.stdin.read()}]
for _ in range(3):
    answer = client.chat.completions.create(model=os.environ["GYM_LLM_MODEL"], messages=messages)
    text = answer.choices[0].message.content
    messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "Are you sure?"}]
print(text)
"""
    )
    agent = f"{sys.executable} {program}"
    parent = played(agent, "gym_llm/Arithmetic-v0")
    assert forkable_turns(parent) == 3
    forks = forked(parent, agent, 2)
    for fork in forks:
        assert calls_of(fork)[:2] == calls_of(parent)[:2]
    assert len({str(calls_of(fork)[2]) for fork in forks}) > 1


def test_an_agent_that_does_something_else_is_not_forked() -> None:
    numbers = itertools.count()

    async def moody(episode: AgentEpisode) -> str:
        for _ in range(2):
            await episode.respond({"input": [user(f"Number {next(numbers)}")]})
        return "4"

    parent = played(moody, "gym_llm/Arithmetic-v0")
    with pytest.raises(CannotFork, match="of its first 1 calls, 1 differ"):
        forked(parent, moody, 1)

    numbers = itertools.count()

    async def lost(episode: AgentEpisode) -> str:
        await episode.respond({"input": [user(f"Number {next(numbers)}")]})
        await episode.respond({"input": [user("Last.")]})
        return "4" if next(numbers) < 3 else str(1 / 0)

    parent = played(lost, "gym_llm/Arithmetic-v0")
    with pytest.raises(CannotFork, match="of its first 1 calls, 1 differ"):
        forked(parent, lost, 1, n=1)
    numbers = itertools.count()

    async def lazy(episode: AgentEpisode) -> str:
        for number in range(3 if next(numbers) < 100 else 1):
            await episode.respond({"input": [user(f"Number {number}")]})
        return "4"

    parent = played(lazy, "gym_llm/Arithmetic-v0")
    numbers = itertools.count(100)
    with pytest.raises(CannotFork, match="of its first 2 calls, 1 differ"):
        forked(parent, lazy, 2, n=1)


def test_agents_read_the_usage_of_replayed_calls_and_may_make_calls_that_do_not_fit() -> None:
    async def careful(episode: AgentEpisode) -> str:
        used = 0
        long: Any = [user("word " * 3000)]
        for question in ([user("One.")], long, [user("Two.")], [user("Three.")]):
            answer = await episode.respond({"input": question})
            used += answer["usage"]["output_tokens"] if answer["output"] else 0
        return str(used)

    parent = played(careful, "gym_llm/Arithmetic-v0")
    agent = parent["info"]["agent"]
    assert agent["model_calls"] == 4 and len(agent["calls"]) == 3
    for fork in forked(parent, careful, 2):
        calls = calls_of(fork)
        assert fork["outcome"] == "scored" and calls[:2] == calls_of(parent)[:2]
        answer = fork["response"]["output"][0]["content"][0]["text"]
        assert answer == str(sum(len(ids) for _, ids, *_ in calls))
        assert fork["response"]["usage"]["output_tokens"] == len(calls[2][1])


def test_what_cannot_be_forked_says_why() -> None:
    parent = played(several, "gym_llm/Arithmetic-v0")
    (models,) = gym_llm.collect("gym_llm/Arithmetic-v0", "pocket", limit=1, **SHORT)
    with pytest.raises(CannotFork, match="give the `agent`"):
        forked(parent, None, 0)
    with pytest.raises(CannotFork, match="leave `agent` out"):
        forked(models, several, 0)
    with pytest.raises(ValueError, match="number of calls to keep, 0 to 4; got 5"):
        forked(parent, several, 5)
    with pytest.raises(CannotFork, match="makes no prompts"):
        forked(parent, several, 1, engine=Says())
    for calls in (None, [[9, 0, 1]], [[0, 5, 3]], [[0, 0, 10**6]], [["a"]], [[0, "x", 3]]):
        record = loads(dumps(parent))
        record["info"]["agent"]["calls"] = calls
        with pytest.raises(CannotFork, match="which tokens are of which call"):
            forked(record, several, 0)
    del record["info"]["agent"]["calls"]
    with pytest.raises(CannotFork, match="play it again"):
        forked(record, several, 0)
