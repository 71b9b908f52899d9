"""Servers of other frameworks, as environments: they play as the server says, and a hostile one is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from aiohttp import web
from testing import function_call, in_loop, message, serving

from gym_llm import Run
from gym_llm.envs.theirs.environments import home_of
from gym_llm.envs.theirs.frameworks import frameworks
from gym_llm.envs.theirs.peer_process import PeerFailed
from gym_llm.envs.theirs.room import Play, load
from gym_llm.serve import EnvServer

SECRET = "tok-5f1c9e77ab20"
Handler = Callable[[web.Request], Any]


def called(name: str, **arguments: Any) -> dict[str, Any]:
    return {"text": "", "calls": [{"call_id": "c1", "name": name, "arguments": arguments}]}


def said(text: str) -> dict[str, Any]:
    return {"text": text, "calls": []}


class Guess:
    """OpenEnv's wire around a game: a number is guessed, and the server says higher or lower."""

    schema: Any = {"title": "GuessAction", "properties": {"guess": {"type": "integer"}}, "required": ["guess"]}

    def __init__(self, wrong: Any = None, full: int = 0) -> None:
        self.wrong, self.full, self.seen = wrong, full, list[Any]()

    def routes(self) -> dict[str, Handler]:
        async def schema(request: web.Request) -> web.Response:
            self.seen.append(request.headers.get("Authorization"))
            return web.json_response({"action": self.schema})

        async def metadata(_: web.Request) -> web.Response:
            return web.json_response({"name": "guess", "description": "Guess the number."})

        return {"/schema": schema, "/metadata": metadata, "/ws": self.play}

    async def play(self, request: web.Request) -> web.WebSocketResponse:
        socket, number = web.WebSocketResponse(), 0
        await socket.prepare(request)
        async for frame in socket:
            sent = json.loads(frame.data)
            self.seen.append(sent)
            if self.full:
                self.full -= 1
                await socket.send_json({"type": "error", "data": {"code": "CAPACITY_REACHED", "message": "full"}})
                break
            if sent["type"] == "reset":
                number = sent["data"]["seed"] % sent["data"].get("top", 10)
                data = {"observation": {"metadata": {}, "message": "Begin"}, "reward": None, "done": False}
            elif self.wrong is not None:
                await socket.send_str(self.wrong)
                continue
            elif not isinstance(sent["data"].get("guess"), int):
                error = {"code": "VALIDATION_ERROR", "message": "Invalid", "errors": [{"loc": ["guess"]}]}
                await socket.send_json({"type": "error", "data": error})
                continue
            else:
                guess = sent["data"]["guess"]
                text = "yes" if guess == number else "higher" if guess < number else "lower"
                data = {"observation": {"metadata": {}, "message": text}, "reward": 0.1, "done": guess == number}
            await socket.send_json({"type": "observation", "data": data})
        return socket


@in_loop
async def test_openenv_plays_a_call_of_the_action_schema() -> None:
    game = Guess(full=2)
    async with serving(game.routes()) as url:
        play = Play.of("openenv", {"url": url, "reset": {"top": 7}, "headers": {"Authorization": SECRET}})
        turn = await play.reset(12)
        assert turn["say"][0] == {"role": "system", "content": "Guess the number."}
        assert json.loads(turn["say"][1]["content"]) == {"message": "Begin"}
        assert turn["tools"][0]["name"] == "act" and turn["tools"][0]["parameters"]["required"] == ["guess"]
        assert game.seen[0] == SECRET and game.seen[-1]["data"] == {"seed": 12, "top": 7}
        turn = await play.step(called("act", guess="five"))
        assert "Invalid" in turn["say"][0]["output"] and (turn["reward"], turn["info"]) == (0, {"invalid_action": True})
        turn = await play.step(called("act", guess=4))
        assert "higher" in turn["say"][0]["output"] and (turn["reward"], turn["terminated"]) == (0.1, False)
        two = called("act", guess=5)
        two["calls"].append({"call_id": "c2", "name": "act", "arguments": {"guess": 1}})
        turn = await play.step(two)
        assert [item["output"] for item in turn["say"]] == ['{"message": "yes"}', "Not run: the episode is over."]
        assert turn["terminated"] is True
        await play.close()


@in_loop
async def test_openenv_offers_the_tools_of_our_own_server() -> None:
    """The tool is called, and the text after it ends the episode."""
    async with EnvServer("gym_llm/Weather-v0", protocols=["openenv"], port=0) as server:
        play = Play.of("openenv", {"url": server.url})
        turn = await play.reset(0)
        assert [tool["name"] for tool in turn["tools"]] == ["get_weather"]
        turn = await play.step(called("get_weather", city="Rome"))
        assert "Rome" in turn["say"][0]["output"] and not turn["terminated"]
        turn = await play.step(said("It is cold in Rome."))
        assert turn["terminated"]
        await play.close()


def played(env: Any, seed: int) -> list[Any]:
    """What is asked, offered and paid where each second turn calls a tool, if there is one."""
    request, _ = env.reset(seed=seed)
    asked, rewards, is_over, turn = [request], [], False, 0
    while not is_over and turn < 8:
        tools = request.get("tools") or []
        call = [function_call(tools[0]["name"], {"city": "Rome"})] if tools and turn % 2 == 0 else message("7")
        request, reward, terminated, truncated, _ = env.step(call)
        asked, rewards, is_over, turn = [*asked, request], [*rewards, reward], terminated or truncated, turn + 1
    shown = [[item.get("content") or item.get("output") for item in each["input"]] for each in asked]
    return [shown, [each.get("tools") for each in asked], rewards, is_over]


@in_loop
@pytest.mark.parametrize("name", ["Weather", "Arithmetic", "Blackjack", "Counter"])
async def test_our_own_server_asks_and_pays_as_the_environment_does(name: str) -> None:
    own = gym.make(f"gym_llm/{name}-v0", disable_env_checker=True)
    async with EnvServer(f"gym_llm/{name}-v0", protocols=["openenv"], port=0) as server:
        served = gym.make(
            "gym_llm/OpenEnv-v0",
            url=server.url,
            tasks=[{"seed": 3, "responses_create_params": {"input": []}}],
            disable_env_checker=True,
        )
        assert await asyncio.to_thread(played, served, 3) == await asyncio.to_thread(played, own, 3)


@in_loop
async def test_openenv_plays_twenty_episodes_at_once_against_our_own_server() -> None:
    async with EnvServer("gym_llm/Arithmetic-v0", protocols=["openenv"], port=0) as server:
        own = gym.make("gym_llm/Arithmetic-v0").unwrapped

        async def play(seed: int) -> tuple[float, str]:
            episode = Play.of("openenv", {"url": server.url})
            opening = await episode.reset(seed)
            turn = await episode.step(said("7"))
            await episode.close()
            assert turn["terminated"]
            return turn["reward"], opening["say"][-1]["content"]

        played = await asyncio.gather(*map(play, range(20)))
        for seed, (reward, shown) in enumerate(played):
            request, _ = own.reset(seed=seed)
            assert shown == request["input"][-1]["content"]
            assert own.step(message("7"))[1] == reward


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("{", "not answer JSON"),
        ("[]", "not a JSON object"),
        ("[" * 100_000, "not answer JSON"),
        ('{"type": "observation", "data": {"reward": "1"}}', "reward is a str"),
        (json.dumps({"type": "error", "data": {"code": "EXECUTION_ERROR", "message": f"no {SECRET}"}}), "no \\*\\*\\*"),
        ("x" * (1 << 24) + "x", "closed the connection"),
    ],
)
@in_loop
async def test_openenv_refuses_what_its_protocol_does_not_know(wrong: str, why: str) -> None:
    async with serving(Guess(wrong).routes()) as url:
        play = Play.of("openenv", {"url": url, "headers": {"Authorization": f"Bearer {SECRET}"}})
        await play.reset(3)
        with pytest.raises(ConnectionError, match=why) as error:
            await play.step(called("act", guess=1))
        assert SECRET not in str(error.value)
        await play.close()


@in_loop
async def test_a_redirect_and_an_answer_without_end_are_refused() -> None:
    reached = []

    async def other(request: web.Request) -> web.Response:
        reached.append(dict(request.headers))
        return web.json_response({})

    async with serving({"/metadata": other, "/ws": other}) as elsewhere:

        async def redirect(request: web.Request) -> web.Response:
            raise web.HTTPFound(elsewhere + request.path)

        async def endless(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(b" " * (1 << 20))

        game = Guess()
        for routes, why in (
            ({"/metadata": redirect}, "redirects"),
            ({"/ws": redirect}, "redirects"),
            ({"/schema": endless}, "more than 16,777,216 bytes"),
        ):
            async with serving({**game.routes(), **routes}) as url:
                play = Play.of("openenv", {"url": url, "headers": {"X-Key": SECRET}})
                with pytest.raises(ConnectionError, match=why):
                    await play.reset(0)
                await play.close()
    assert not reached


def test_openenv_in_a_run_masks_what_fails_and_keeps_its_secret(tmp_path: Path) -> None:
    """A server that is down masks; the token is in no record."""
    with Run(
        "gym_llm/OpenEnv-v0",
        "constant:1",
        episodes=1,
        env_kwargs={"url": "http://127.0.0.1:9", "headers": {"Authorization": f"Bearer {SECRET}"}},
        retries=0,
        output=tmp_path / "played.jsonl",
        max_failures=None,
    ) as run:
        run.play()
    text = (tmp_path / "played.jsonl").read_text()
    assert SECRET not in text
    record = json.loads(text)
    assert record["reward"] is None and "127.0.0.1/metadata cannot be asked" in record["error"]


@in_loop
async def test_openenv_through_gymnasium() -> None:
    async with serving(Guess().routes()) as url:

        def play() -> None:
            env = gym.make("gym_llm/OpenEnv-v0", url=url, field="message").unwrapped
            observation, _ = env.reset(seed=0, options={"task": {"responses_create_params": {"input": []}, "seed": 4}})
            assert observation["input"][-1]["content"] == "Begin"
            observation, reward, *_ = env.step([function_call("act", {"guess": 2})])
            assert (observation["input"][-1]["output"], reward) == ("higher", 0.1)
            assert env.step([function_call("act", {"guess": 4})])[1:3] == (0.1, True)
            env.close()

        await asyncio.to_thread(play)


BANK = [{"name": "transfer", "inputSchema": {"type": "object"}}, {"name": "bank.balance/of"}]


@in_loop
async def test_mcp_scores_the_expected_calls_and_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is a double: what is tested is what the model sees, and the score."""
    asked = []

    async def ask(_: Any, method: str, *arguments: Any, **__: Any) -> dict[str, Any]:
        asked.append((method, *arguments))
        if method == "list_tools":
            return {"tools": BANK}
        return {"content": [{"type": "text", "text": "no"}], "isError": arguments[1].get("amount") == 99}

    monkeypatch.setattr(load("mcp").Peer, "_ask", ask)
    expected = [{"name": "transfer", "arguments": {"amount": 3}}, {"name": "bank.balance/of", "arguments": {}}]

    async def score(calls: list[dict[str, Any]], text: str) -> float:
        play = Play.of("mcp", {"command": ["python"], "expected_calls": expected, "answer": "7"})
        turn = await play.reset(0)
        assert [tool["name"] for tool in turn["tools"]] == ["transfer", "bank_balance_of"]
        for call in calls:
            assert not (await play.step(call)).get("terminated")
        turn = await play.step(said(text))
        await play.close()
        assert turn["terminated"]
        return turn["reward"]

    first, second = called("transfer", amount=3), called("bank_balance_of")
    assert await score([first, called("transfer", amount=1), second], "It is\n7") == 1
    assert ("call_tool", "bank.balance/of", {}) in asked
    assert await score([second, first], "7") == 0
    assert await score([called("transfer", amount="3"), second], "7") == 0
    assert await score([first, second], "7 or 8") == 0
    expected[0]["arguments"] = {"amount": 99}
    assert await score([called("transfer", amount=99), second], "7") == 0  # the tool refused it


def test_mcp_starts_a_server_for_each_episode() -> None:
    """A server's state must not reach the next episode; one that ends masks its own."""
    if not (home := home_of(frameworks()["mcp"])).exists():
        pytest.skip(f"There is no environment of the package mcp: {home}.")
    rows = [
        {
            "responses_create_params": {"input": [{"role": "user", "content": "Pay 3."}]},
            "arguments": {"command": ["python", str(Path(__file__).parent / "theirs" / "mcp_bank.py"), mode]},
        }
        for mode in ("good", "good", "ends")
    ]
    expected = [{"name": "transfer", "arguments": {"amount": 3}}]
    env = gym.make("gym_llm/MCP-v0", expected_calls=expected, seconds=20.0).unwrapped
    for row in rows:
        mode = row["arguments"]["command"][-1]
        if mode != "good":
            with pytest.raises(PeerFailed, match="has ended"):
                env.reset(options={"task": row})
                env.step([function_call("transfer", {"amount": 3})])
            continue
        env.reset(options={"task": row})
        observation, *_ = env.step([function_call("transfer", {"amount": 3})])
        assert observation["input"][-1]["output"] == "left: 7"
        assert env.step(message("Done."))[1:3] == (1.0, True)
    env.close()


COUNTING = {"type": "function", "name": "increment_counter", "parameters": {"type": "object", "properties": {}}}


def counting(expected: int) -> dict[str, Any]:
    """A row of the counter, as a resources server gets it."""
    request = {"input": [{"role": "user", "content": "Add."}], "tools": [COUNTING]}
    return {"responses_create_params": request, "initial_count": 1, "expected_count": expected}


@in_loop
async def test_nemo_gym_plays_twenty_sessions_at_once_against_our_own_server() -> None:
    """Each counts in the session of its own cookie; every second one counts too little."""
    async with EnvServer("gym_llm/Counter-v0", protocols=["nemo"], port=0) as server:

        async def play(number: int) -> float:
            play = Play.of("nemo_gym", {"url": server.url, "row": counting(1 + 2 * number)})
            assert (await play.reset(0))["say"][0]["content"] == "Add."
            for _ in range(2):
                turn = await play.step(called("increment_counter", count=number - number % 2))
                assert "success" in turn["say"][0]["output"]
            turn = await play.step(said("Done."))
            await play.close()
            assert turn["terminated"]
            return float(turn["reward"])

        assert await asyncio.gather(*map(play, range(20))) == [1.0, 0.0] * 10


@in_loop
async def test_nemo_gym_calls_only_the_rows_tools_and_masks_what_the_server_masks() -> None:
    paths, verdict = list[str](), dict[str, Any]()

    async def seed(request: web.Request) -> web.Response:
        response = web.json_response({})
        response.set_cookie("session", "one")
        return response

    async def tool(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.Response(text="It broke.", status=500)

    async def verify(request: web.Request) -> web.Response:
        paths.append(request.cookies["session"])
        output = (await request.json())["response"]["output"]
        assert [item["type"] for item in output] == ["function_call", "function_call_output"] * 2 + ["message"]
        return web.json_response(verdict)

    async with serving({"/seed_session": seed, "/increment_counter": tool, "/verify": verify}) as url:
        for found, why in (
            ({"reward": 0.0, "mask_sample": True, "failure_reason": f"judge {SECRET}"}, r"masks the episode: judge \*"),
            ({"reward": "1"}, "reward is a str"),
            ([], "has no reward"),
        ):
            verdict = found
            play = Play.of("nemo_gym", {"url": url, "row": counting(1), "headers": {"X-Key": SECRET}})
            await play.reset(0)
            assert (await play.step(called("increment_counter")))["say"][0]["output"] == "It broke."
            assert (await play.step(called("verify", response={})))["say"][0]["output"] == "There is no tool verify."
            with pytest.raises(ConnectionError, match=why):
                await play.step(said("Done."))
            await play.close()
        assert paths == ["/increment_counter", "one"] * 3


@in_loop
async def test_nemo_gym_through_gymnasium() -> None:
    async with EnvServer("gym_llm/Counter-v0", protocols=["nemo"], port=0) as server:

        def play() -> None:
            env = gym.make("gym_llm/NeMoGym-v0", url=server.url).unwrapped
            env.reset(options={"task": {"responses_create_params": {"input": []}, "arguments": {"row": counting(3)}}})
            env.step([function_call("increment_counter", {"count": 2})])
            assert env.step(message("Done."))[1:3] == (1.0, True)
            env.close()
            env = gym.make("gym_llm/NeMoGym-v0", url=server.url, max_turns=1).unwrapped  # the last turn is verified
            env.reset(options={"task": {"responses_create_params": {"input": []}, "arguments": {"row": counting(3)}}})
            assert env.step([function_call("increment_counter", {"count": 2})])[1:4] == (1.0, False, True)
            env.close()

        await asyncio.to_thread(play)
