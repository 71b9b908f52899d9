"""The same 200 (task, answer) pairs in process, over each wire, and by an agent through capture: the same rewards.

Bit for bit, with the same truncation, and masked where the others are. The clients here are bare HTTP and WebSocket
ones that send what the specifications say; the protocols' own packages are in tests/downstream.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any, NamedTuple

import aiohttp
import gymnasium as gym
import pytest
from conformance_pairs import KINDS, MAX_TURNS, Pair, Turn, pairs
from testing import Item, response

import gym_llm
from gym_llm.engines.engine import Engine
from gym_llm.serve import EnvServer

PAIRS = pairs()
_MOST_TURNS = 20
_AT_ONCE = 16
KWARGS = {"max_turns": MAX_TURNS}


class Outcome(NamedTuple):
    """What an episode came to."""

    reward: float | None
    truncated: bool | None

    @property
    def bits(self) -> tuple[str | None, bool | None]:
        """For comparing: the reward's own bits."""
        return (None if self.reward is None else self.reward.hex(), self.truncated)


MASKED = Outcome(None, None)


def in_process(pair: Pair) -> Outcome:
    """Gymnasium's own loop."""
    with closing(gym.make(pair.env_id, disable_env_checker=True, **KWARGS)) as env:
        total = 0.0
        try:
            env.reset(options={"task": pair.row})
            for number in range(_MOST_TURNS):
                _, reward, terminated, truncated, _ = env.step(pair.turn(number))
                total += float(reward)
                if terminated or truncated:
                    return Outcome(total, truncated)
        except Exception:
            return MASKED
    raise AssertionError("the episode does not end")


class Server:
    """A client's view of a served environment."""

    def __init__(self, url: str) -> None:
        self.url = url

    def client(self) -> aiohttp.ClientSession:
        """One of its own for each episode."""
        return aiohttp.ClientSession(self.url, cookie_jar=aiohttp.CookieJar(unsafe=True))


async def over_openenv(server: Server, pair: Pair) -> Outcome:
    """A WebSocket: reset with the row, and a step for each turn."""
    async with server.client() as client, client.ws_connect("ws", max_msg_size=1 << 26) as socket:

        async def ask(kind: str, data: Any) -> Any:
            await socket.send_json({"type": kind, "data": data})
            return json.loads(await socket.receive_str())

        begun = await ask("reset", {"task": pair.row})
        assert begun["type"] == "observation", begun
        total = 0.0
        for number in range(_MOST_TURNS):
            turn = pair.turn(number)
            answer = await ask("step", turn if isinstance(turn, dict) else {"output": turn})
            if answer["type"] == "error":
                assert answer["data"]["failure_kind"] == "verifier_error", answer
                return MASKED
            total += answer["data"]["reward"]
            if answer["data"]["done"]:
                return Outcome(total, answer["data"]["observation"]["truncated"])
    raise AssertionError("the episode does not end")


async def post(client: aiohttp.ClientSession, path: str, body: Any, **more: Any) -> tuple[int, Any]:
    """A status, and an answer: JSON, or a text."""
    raw = {"data": body} if isinstance(body, bytes) else {"json": body}
    async with client.post(path, **raw, **more) as reply:
        text = await reply.text()
        try:
            return reply.status, json.loads(text)
        except ValueError:
            return reply.status, text


async def over_nemo(server: Server, pair: Pair) -> Outcome:
    """What NeMo Gym's simple agent does; where the user talks, what its Gymnasium agent does."""
    async with server.client() as client:
        if pair.talks:
            return await _turn_by_turn(client, pair)
        status, seeded = await post(client, "seed_session", pair.row)
        assert status == 200, seeded
        said: list[Item] = []
        whole: dict[str, Any] = {}
        for number in range(_MOST_TURNS):
            turn = pair.turn(number)
            whole = turn if isinstance(turn, dict) else response(*turn)
            items = whole["output"]
            said += items
            calls = [item for item in items if item["type"] == "function_call"]
            if whole["status"] == "incomplete" or not (calls or any(item["type"] == "reasoning" for item in items)):
                break
            if not calls and any(item["type"] == "message" for item in items):
                break
            for call in calls:
                _, output = await post(client, call["name"], call["arguments"].encode())
                text = output if isinstance(output, str) else json.dumps(output)
                said.append({"type": "function_call_output", "call_id": call["call_id"], "output": text})
        status, verdict = await post(client, "verify", {**pair.row, "response": {**whole, "output": said}})
        assert status == 200, verdict
        if verdict["mask_sample"]:
            assert verdict["reward"] == 0.0 and verdict["failure_kind"] == "verifier_error", verdict
            return MASKED
        return Outcome(verdict["reward"], verdict["truncated"])


async def over_nemo_by_turns(server: Server, pair: Pair) -> Outcome:
    """What NeMo Gym's Gymnasium agent does."""
    async with server.client() as client:
        return await _turn_by_turn(client, pair)


async def _turn_by_turn(client: aiohttp.ClientSession, pair: Pair) -> Outcome:
    status, begun = await post(client, "reset", pair.row)
    assert status == 200, begun
    total = 0.0
    for number in range(_MOST_TURNS):
        turn = pair.turn(number)
        answer = turn if isinstance(turn, dict) else response(*turn)
        status, step = await post(client, "step", {**pair.row, "response": answer})
        if status == 500:
            assert step["failure_kind"] == "verifier_error", step
            return MASKED
        total += step["reward"]
        if step["terminated"] or step["truncated"]:
            return Outcome(total, step["truncated"])
    raise AssertionError("the episode does not end")


async def over_mcp(server: Server, pair: Pair) -> Outcome:
    """A handshake, `reset` with the row, the tools, and `submit` for whatever is no call of one tool."""
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    async with server.client() as client:

        async def ask(method: str, params: Any) -> Any:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            async with client.post("mcp", json=body, headers=headers) as reply:
                answer = await reply.json()
                assert reply.status == 200 and "result" in answer, answer
                headers.update(
                    {"Mcp-Session-Id": reply.headers.get("Mcp-Session-Id", headers.get("Mcp-Session-Id", ""))}
                )
                return answer["result"]

        about = {"name": "test", "version": "1"}
        await ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about})
        begun = await ask("tools/call", {"name": "reset", "arguments": {"task": pair.row}})
        assert not begun.get("isError"), begun
        for number in range(_MOST_TURNS):
            turn = pair.turn(number)
            call = one_call(turn)
            name, arguments = ("submit", {"answer": turn}) if call is None else call
            structured = (await ask("tools/call", {"name": name, "arguments": arguments}))["structuredContent"]
            if structured.get("masked"):
                assert structured["failure_kind"] == "verifier_error", structured
                return MASKED
            if structured["done"]:
                return Outcome(structured["reward"], structured["truncated"])
    raise AssertionError("the episode does not end")


def one_call(turn: Turn) -> tuple[str, dict[str, Any]] | None:
    """The call of a turn that is one call and no more, and of an object."""
    if isinstance(turn, dict) or len(turn) != 1 or turn[0]["type"] != "function_call":
        return None
    try:
        arguments = json.loads(turn[0]["arguments"])
    except ValueError:
        return None
    return (turn[0]["name"], arguments) if isinstance(arguments, dict) else None


class Script(Engine):
    """Says a pair's turns: it is asked for `PAIR TURN`."""

    model = "script"

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        number, _, turn = request["input"][-1]["content"].partition(" ")
        answer = PAIRS[int(number)].turn(int(turn))
        return answer if isinstance(answer, dict) else response(*answer)


async def agent(episode: Any) -> None:
    """Asks the capture server, calls the tools, and submits whatever else the model says."""
    number = episode.request["metadata"]["pair"]
    headers = {"Authorization": f"Bearer {episode.api_key}"}
    async with aiohttp.ClientSession(headers=headers) as client:
        for turn in range(_MOST_TURNS):
            body = {"model": episode.model, "input": [{"role": "user", "content": f"{number} {turn}"}]}
            status, answer = await post(client, f"{episode.base_url}/responses", body)
            assert status == 200, answer
            items = answer["output"]
            if items and answer["status"] == "completed" and all(item["type"] == "function_call" for item in items):
                await asyncio.gather(*(episode.call_tool(item["name"], item["arguments"]) for item in items))
            elif await episode.step(answer) is None:
                return
            if episode.is_over:
                return


async def by_an_agent(env_id: str) -> list[Outcome]:
    """All pairs of an environment as a rollout of the agent."""
    mine = [pair for pair in PAIRS if pair.env_id == env_id]
    records = {}
    async for record in gym_llm.rollout(
        env_id, engine=Script(), agent=agent, tasks=[pair.row for pair in mine], env_kwargs=KWARGS, concurrency=_AT_ONCE
    ):
        masked = record["outcome"] == "masked"
        records[record["rollout_id"]["task_index"]] = (
            MASKED if masked else Outcome(record["reward"], record["truncated"])
        )
        assert record["failure_kind"] == "verifier_error" if masked else True, record
    return [records[number] for number in range(len(mine))]


Player = Callable[[Server, Pair], Awaitable[Outcome]]
PLAYERS: dict[str, Player] = {
    "openenv": over_openenv,
    "nemo": over_nemo,
    "nemo, by turns": over_nemo_by_turns,
    "mcp": over_mcp,
}


@pytest.fixture(scope="module")
def expected() -> list[Outcome]:
    """What the pairs come to in process: all kinds of outcomes."""
    outcomes = [in_process(pair) for pair in PAIRS]
    assert len(outcomes) >= 200
    kinds = Counter("masked" if one is MASKED else "truncated" if one.truncated else "scored" for one in outcomes)
    assert min(kinds[kind] for kind in ("masked", "truncated", "scored")) >= 3, kinds
    assert len({one.reward for one in outcomes}) > 5
    return outcomes


@pytest.mark.parametrize("wire", PLAYERS)
def test_a_wire_gives_the_rewards_of_this_process(wire: str, expected: list[Outcome]) -> None:
    async def main() -> list[Outcome]:
        kwargs = dict.fromkeys(KINDS, KWARGS)
        async with EnvServer(list(KINDS), port=0, env_kwargs=kwargs) as server:
            limit = asyncio.Semaphore(_AT_ONCE)

            async def play(pair: Pair) -> Outcome:
                async with limit:
                    return await PLAYERS[wire](Server(f"{server.url}/{pair.env_id.rpartition('/')[2]}/"), pair)

            return await asyncio.gather(*map(play, PAIRS))

    check(asyncio.run(main()), expected, PAIRS)


@pytest.mark.parametrize("env_id", KINDS)
def test_an_agent_through_capture_gets_the_rewards_of_this_process(env_id: str, expected: list[Outcome]) -> None:
    mine = [number for number, pair in enumerate(PAIRS) if pair.env_id == env_id]
    outcomes = asyncio.run(by_an_agent(env_id))
    check(outcomes, [expected[number] for number in mine], [PAIRS[number] for number in mine])


def check(outcomes: list[Outcome], expected: list[Outcome], played: list[Pair]) -> None:
    """Compare them, bit for bit."""
    different = [
        f"{pair.env_id}, {str(pair.turns)[:200]}: {found}, in process {wanted}"
        for pair, found, wanted in zip(played, outcomes, expected, strict=True)
        if found.bits != wanted.bits
    ]
    assert not different, "\n".join(different)
