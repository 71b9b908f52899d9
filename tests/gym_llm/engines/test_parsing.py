"""ParsingEngine: structured items for clients that have no wrapper."""

import asyncio
from typing import Any

import gymnasium as gym
import pytest

import gym_llm
from gym_llm.engines import Engine, make_engine
from gym_llm.engines.parsing_engine import ParsingEngine
from gym_llm.errors import EngineError
from gym_llm.tokens.parsers import make_parser
from gym_llm.types import Item, Request, ResponseDict
from gym_llm.wrappers import TokenIdTracking

PARSERS = ["reasoning", "tool_calls"]
TOKENS = {"prompt_token_ids": [1, 2], "generation_token_ids": [3], "generation_log_probs": [-0.5]}
CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'


class Says(Engine):
    """Always says the same; its model is known once it is started."""

    def __init__(self, output: list[Item]) -> None:
        self.model = ""
        self.output = output
        self.events: list[str] = []

    async def start(self) -> None:
        self.model = "says"
        self.events.append("start")

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        if episode_id == "lost":
            raise EngineError("no answer")
        return {
            **{"id": f"resp_{episode_id}", "object": "response", "created_at": 0.0, "model": self.model},
            **{"status": "completed", "output": self.output},
        }

    async def aclose(self) -> None:
        self.events.append("aclose")

    async def update_weights(self, version: int) -> int:
        return version + 1


def message(text: str, **fields: Any) -> Item:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": [part], **fields}


def test_a_client_without_any_wrapper_gets_structured_items() -> None:
    env = gym.make("gym_llm/Weather-v0")
    request, _ = env.reset(seed=0)

    async def play() -> tuple[list[Item], list[Item], list[Item]]:
        async with ParsingEngine(make_engine("pocket"), PARSERS) as engine:
            plain = await engine.engine.respond(request, episode_id="0-0")
            first = await engine.respond(request, episode_id="0-0")
            after, *_ = env.step(first)
            second = await engine.respond(after, episode_id="0-0")
            return plain["output"], first["output"], second["output"]

    plain, first, second = asyncio.run(play())
    assert [item["type"] for item in plain] == ["message"]
    assert [item["type"] for item in first] == ["reasoning", "function_call"]
    assert [item["type"] for item in second] == ["reasoning", "message"]
    assert {name: first[-1][name] for name in TOKENS} == {name: plain[-1][name] for name in TOKENS}
    assert not TOKENS.keys() & first[0].keys()


@pytest.mark.slow
def test_rollouts_are_those_of_the_wrappers() -> None:
    async def play(engine: Engine, **options: Any) -> list[Any]:
        async with engine:
            records = gym_llm.rollout("gym_llm/Weather-v0", engine, limit=4, concurrency=1, **options)
            played = [(one["response"]["output"], one["reward"], one["trajectory"]) async for one in records]
        for items, _, _ in played:
            for item in items:
                item.pop("id", None)  # made at random
        return played

    parsing = ParsingEngine(make_engine("pocket", seed=0), PARSERS)
    parsed = asyncio.run(play(parsing, wrappers=[TokenIdTracking]))
    assert parsed == asyncio.run(play(make_engine("pocket", seed=0)))
    assert all(reward is not None and trajectory for _, reward, trajectory in parsed)


def test_everything_else_is_the_engines_own() -> None:
    inner = Says([message("<think>Hm.</think>It rains.", **TOKENS)])
    engine = ParsingEngine(inner, PARSERS)
    assert isinstance(engine, Engine)

    async def use() -> tuple[ResponseDict, int]:
        async with engine as same:
            assert same is engine
            with pytest.raises(EngineError, match="no answer"):
                await engine.respond({"input": []}, episode_id="lost")
            return await engine.respond({"input": []}, episode_id="0-1"), await engine.update_weights(6)

    response, version = asyncio.run(use())
    assert (engine.model, inner.events, version) == ("says", ["start", "aclose"], 7)
    assert (response["id"], response["model"], response["status"]) == ("resp_0-1", "says", "completed")
    assert [item["type"] for item in response["output"]] == ["reasoning", "message"]
    assert [item["type"] for item in inner.output] == ["message"]
    with pytest.raises(AttributeError, match="nothing"):
        engine.nothing  # noqa: B018


def test_call_ids_follow_from_what_the_client_sends() -> None:
    engine = ParsingEngine(Says([message(CALL * 2)]), [make_parser("tool_calls", format="hermes")])

    async def converse(turns: int) -> list[str]:
        said: list[Item] = []
        for _ in range(turns):
            said += (await engine.respond({"input": said}))["output"]
        return [item["call_id"] for item in said]

    for _ in range(2):
        assert asyncio.run(converse(2)) == ["call_1", "call_2", "call_3", "call_4"]


def test_unknown_parsers_are_told_before_anything_starts() -> None:
    with pytest.raises(ValueError, match=r"no parser 'tool_call'\. Did you mean tool_calls\?"):
        ParsingEngine(Says([]), ["reasoning", "tool_call"])
