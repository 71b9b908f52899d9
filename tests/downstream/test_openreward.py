"""The Open Reward Standard, with openreward's own package: its client plays our server, and we play its server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from peers import in_peer, peer_python
from testing import in_loop

from gym_llm.envs.theirs.room import Play
from gym_llm.serve import EnvServer

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
WEATHER = str(ROOT / "envs" / "weather" / "data" / "example.jsonl")
NUMBERS = ROOT / "tests" / "envs" / "theirs" / "ors_demo.py"
TOKEN = "only-with-this"


@in_loop
async def test_its_client_plays_our_server() -> None:
    async with (
        EnvServer("gym_llm/Weather-v0", tasks=WEATHER, port=0, token=TOKEN, protocols=["ors"]) as server,
        EnvServer(["gym_llm/Weather-v0", "gym_llm/FollowUp-v0"], port=0, token=TOKEN, protocols=["ors"]) as several,
    ):
        command = "openreward", "openreward_client.py", server.url, several.url, TOKEN
        seen: dict[str, Any] = await asyncio.to_thread(in_peer, *command)
        assert not len(server.sessions) and server.sessions.counts["scored"] == 1
    weather = seen["weather"]
    assert weather["prompt"] == ["What is the weather in Paris?"]
    assert weather["messages"] == [["user", weather["prompt"]]]
    assert (weather["tools"], weather["final"]) == (["get_weather"], True)
    first, unknown, answer, late = weather["turns"]
    assert "cold" in first[0][0] and first[1:] == [0.0, False]
    assert "no tool named" in unknown[0][0] and unknown[1:] == [0.0, False]
    assert answer == [[], 1.0, True]
    assert late[0] == "ToolCallError" and "episode_finished" in late[1]
    assert (seen["splits"], seen["tasks"], seen["range"]) == (["train"], 5, [1, 2])
    assert "Oslo" in seen["third"][0]
    assert [turn[1:] for turn in seen["named"]["turns"]] == [[0.0, False], [0.0, True]]
    assert "400" in seen["refused"] and "no task 10000" in seen["refused"]
    assert seen["unwelcome"] == "AuthenticationError"


@contextlib.asynccontextmanager
async def numbers() -> AsyncIterator[str]:
    """A server with openreward's own classes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(peer_python("openreward")), "-P", str(NUMBERS), str(port)]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.Popen(command, env=kept, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        async with asyncio.timeout(60):
            while process.poll() is None:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def called(name: str, **arguments: Any) -> dict[str, Any]:
    return {"text": "", "calls": [{"call_id": "c1", "name": name, "arguments": arguments}]}


@in_loop
async def test_we_play_its_server() -> None:
    async with numbers() as url:
        play = Play.of("openreward", {"url": url})
        turn = await play.reset(5)  # the third of three tasks of the training split
        assert turn["say"][0]["role"] == "user"
        assert [part["type"] for part in turn["say"][0]["content"]] == ["input_text", "input_image"]
        assert turn["say"][0]["content"][0]["text"] == "Which number? \u2028 It is small."
        assert [tool["name"] for tool in turn["tools"]] == ["fail", "give_up", "guess"]
        turn = await play.step(called("guess", number=1))
        assert turn["say"][0]["output"] == "higher" + " " * 9_000 + "."
        assert (turn["reward"], turn["terminated"]) == (0.1, False)
        two = called("guess", number=1)
        two["calls"].append({"call_id": "c2", "name": "guess", "arguments": {"number": 2}})
        assert (await play.step(two))["reward"] == 0.2
        for wrong in (called("guess", number="x"), called("no_tool")):
            turn = await play.step(wrong)
            assert "Invalid" in turn["say"][0]["output"] and turn["info"] == {"invalid_action": True}
        turn = await play.step({"text": "2", "calls": []})
        assert (turn["reward"], turn["terminated"]) == (1.0, True)
        await play.close()


@in_loop
async def test_its_servers_failures_mask_and_unknown_tasks_are_refused() -> None:
    async with numbers() as url:
        play = Play.of("openreward", {"url": url, "env": "untold", "split": "hard", "index": 40})
        await play.reset(0)
        with pytest.raises(ConnectionError, match="out of numbers"):
            await play.step(called("fail"))
        turn = await play.step(called("give_up"))
        assert turn["terminated"] and turn["say"][0]["output"] == "A pity."
        assert (await play.step({"text": "40", "calls": []})) == {"terminated": True}
        await play.close()
        for arguments, said in (({"env": "nix"}, "no environment 'nix'"), ({"split": "easy", "index": 3}, "index")):
            play = Play.of("openreward", {"url": url, **arguments})
            with pytest.raises((ConnectionError, ValueError), match=said):
                await play.reset(0)
            await play.close()
