"""What the viewer answers, whom it answers, and what it finds."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from testing import message_item

from gym_llm.errors import UsageError
from gym_llm.evaluation.view import search as search_module
from gym_llm.evaluation.view.index import RunIndex
from gym_llm.evaluation.view.search import Search
from gym_llm.evaluation.view.view_server import ViewServer
from gym_llm.stats.run_summary import Summary
from gym_llm.utils.json_codec import dumps

REWARDS: list[float | None] = [1.0, 0.0, None, 0.5, 1.0, 0.0]


def episode(task: int, repeat: int, **fields: Any) -> dict[str, Any]:
    reward = fields.get("reward", 1.0)
    return {
        "responses_create_params": {"input": "Go."},
        "response": {"output": [message_item(f'It said "Grüße" {task}.{repeat}\nTwice.')]},
        "rollout_id": {"task_index": task, "repeat_index": repeat},
        "env_id": "test/Env-v0",
        "outcome": "masked" if reward is None else "scored",
        "reward": reward,
        "failure_kind": "judge_failed" if reward is None else None,
        "error": "No judge." if reward is None else None,
        "error_phase": None,
        "info": {"turn": 1, "tool_errors": 0, "score": task},
        "trajectory": [{"input_ids": [123456], "loss_mask": [1], "logprobs": [-0.5]}],
        "schema_version": 2,
        **fields,
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three tasks, each played twice; then a line that is no record."""
    records = [episode(n // 2, n % 2, reward=reward, dataset="ab"[n // 4]) for n, reward in enumerate(REWARDS)]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(map(dumps, records)) + b"broken\n")
    return path


Get = Callable[..., Awaitable[Any]]


def served(paths: list[Path], use: Callable[[ViewServer, Get], Awaitable[Any]]) -> Any:
    """What `use` returns, with a running server and a function that asks it."""

    async def main() -> Any:
        async with ViewServer(paths) as server, aiohttp.ClientSession() as client:

            async def get(name: str, status: int = 200, **query: Any) -> Any:
                query = {key: str(value) for key, value in query.items()}
                url = f"http://127.0.0.1:{server.port}/api/{name}"
                async with client.get(url, params=query, headers={"X-Token": server.token}) as answer:
                    assert answer.status == status, await answer.text()
                    return await answer.json()

            while any(run["indexed"] < 1 for run in await get("runs")):
                await asyncio.sleep(0.01)
            return await use(server, get)

    return asyncio.run(main())


def asked(path: Path, name: str, **query: Any) -> Any:
    return served([path], lambda _, get: get(name, **query))


def test_runs_are_listed_with_their_summaries(path: Path) -> None:
    path.with_name("a.summary.json").write_text('{"model": "pocket"}')
    os.utime(path, (2e9, 2e9))  # later than now: it was written to a moment ago
    (run,) = asked(path, "runs")
    assert (run["name"], run["episodes"], run["bytes"]) == ("a.jsonl", 7, path.stat().st_size)
    assert run["summary"] == {"model": "pocket"} and run["growing"] is True
    path.with_name("a.summary.json").write_text('{"episodes": 7}')
    assert asked(path, "runs")[0]["growing"] is False
    path.with_name("a.summary.json").write_text("{broken")
    os.utime(path, (1e9, 1e9))
    (run,) = asked(path, "runs")
    assert (run["summary"], run["growing"]) == (None, False)


def test_rows_are_filtered_sorted_and_paged(path: Path) -> None:
    async def use(server: ViewServer, get: Get) -> None:
        async def numbers(**query: Any) -> list[int]:
            return [row["n"] for row in (await get("rows", **query))["rows"]]

        assert await numbers() == [0, 1, 2, 3, 4, 5, 6]
        assert await numbers(offset=2, limit=3) == [2, 3, 4]
        assert await numbers(sort="reward", desc=1) == [0, 4, 3, 1, 5, 2, 6]
        assert await numbers(sort="score", desc=1, limit=2) == [4, 5]
        assert await numbers(sort="task", desc=1, limit=4) == [4, 5, 2, 3]
        assert (await get("rows", sort="reward", desc=1, at=1, limit=0))["position"] == 3
        assert (await get("rows", outcome="masked", at=1))["position"] is None
        assert await numbers(outcome="masked") == [2] and await numbers(outcome="unreadable") == [6]
        assert await numbers(dataset="b") == [4, 5] and await numbers(dataset="c") == []
        assert await numbers(task=1, repeat=1) == [3]
        assert await numbers(failure_kind="judge_failed") == [2]
        assert await numbers(reward_min=0.4, reward_max=0.9) == [3]
        assert (await get("rows", limit=0))["total"] == 7
        assert (await get("rows"))["fields"] == ["score"]
        for wrong in ({"sort": "x"}, {"limit": "x"}, {"task": "x"}, {"q": "x" * 2000}, {"x_min": 1}, {"offset": -1}):
            assert (await get("rows", 400, **wrong))["error"].endswith(".")
        assert "no run 5" in (await get("rows", 404, run=5))["error"]

    served([path], use)


@pytest.mark.parametrize(
    ("text", "found"),
    [("grüße", 6), ('SAID "', 6), (".1\nTwice", 3), ("No judge", 1), ("123456", 0), ("broken", 1), ("nowhere", 0)],
)
def test_a_text_is_found_wherever_it_stands(path: Path, text: str, found: int) -> None:
    answer = asked(path, "rows", q=text, deadline_ms=10_000)
    assert answer["total"] == found and "searched" not in answer


def test_a_text_is_found_however_the_line_was_escaped(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(episode(0, 0)) + "\n")
    assert asked(path, "rows", q='"Grüße"', deadline_ms=10_000)["total"] == 1


def test_a_search_finds_what_was_added_meanwhile_and_can_be_ended(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "_BATCH", 100)  # less than a line
    run = RunIndex(path)
    asyncio.run(run.update())
    search = Search(run, "Grüße")
    assert search.matches(60.0)[0] == [0, 1, 2, 3, 4, 5]
    with open(path, "ab") as file:
        file.write(dumps(episode(9, 0)))
    asyncio.run(run.update())
    matches, searched = search.matches(60.0)
    assert (matches, searched) == ([0, 1, 2, 3, 4, 5, 7], 1.0)
    path.write_bytes(dumps(episode(1, 0)))
    asyncio.run(run.update())
    assert not search.is_of_this_file
    ended = Search(run, "Grüße")
    ended.cancel()
    assert ended.matches(60.0)[0] == []
    run.close()


def test_the_figures_are_those_of_the_summary(path: Path) -> None:
    stats = asked(path, "stats")
    summary = Summary()
    for line in path.read_bytes().splitlines()[:6]:
        summary.add(json.loads(line))
    assert stats["mean"] == pytest.approx(summary.mean_reward)
    assert stats["standard_error"] == pytest.approx(summary.standard_error)
    assert stats["coverage"] == pytest.approx(summary.coverage)
    assert stats["outcomes"] == {"scored": 5, "masked": 1, "unreadable": 1}
    assert stats["failure_kinds"] == {"judge_failed": 1}
    assert sum(stats["histogram"]["counts"]) == 5 and len(stats["histogram"]["edges"]) == 21
    assert stats["datasets"]["b"]["mean"] == 0.5
    assert stats["grid"] == {
        **{"total": 3, "tasks": [0, 1, 2], "datasets": ["a", "a", "b"], "repeats": 2},
        "rewards": [[1.0, 0.0], [None, 0.5], [1.0, 0.0]],
        "cells": [[0, 1], [2, 3], [4, 5]],
    }


def test_the_hardest_tasks_come_first_with_all_their_repeats(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rewards = {0: [1.0, 1.0], 1: [0.0, None], 2: [1.0, 0.5], 3: [None, None]}
    played = [episode(task, repeat, reward=rewards[task][repeat]) for repeat in range(2) for task in rewards]
    path.write_bytes(b"".join(map(dumps, played)))

    def tasks(**query: Any) -> list[tuple[int, int]]:
        return [(row["task"], row["repeat"]) for row in asked(path, "rows", sort="task_mean", **query)["rows"]]

    hardest = [(1, 0), (1, 1), (2, 0), (2, 1), (0, 0), (0, 1)]
    assert tasks() == [*hardest, (3, 0), (3, 1)]
    assert tasks(desc=1) == [(0, 0), (0, 1), (2, 0), (2, 1), (1, 0), (1, 1), (3, 0), (3, 1)]


def test_points_are_lengths_and_rewards(path: Path, tmp_path: Path) -> None:
    assert asked(path, "points")["total"] == 0  # without numbers of tokens there is nothing to draw
    records = [episode(n, 0, reward=n % 2, dataset="ab"[n % 2]) for n in range(5000)]
    for n, record in enumerate(records):
        record["response"]["usage"] = {"input_tokens": 7, "output_tokens": n + 1}
    many = tmp_path / "many.jsonl"
    many.write_bytes(b"".join(map(dumps, records)))
    points = asked(many, "points")
    assert points["total"] == 5000 and len(points["n"]) == 1667 and points["n"][:3] == [0, 3, 6]
    assert points["tokens"][:3] == [1, 4, 7] and points["reward"][:3] == [0.0, 1.0, 0.0]
    assert points["task"][1] == 3 and points["repeat"][1] == 0
    some = asked(many, "points", dataset="b")
    assert some["total"] == 2500 and set(some["reward"]) == {1.0}


def test_rewards_of_0_and_1_are_told_from_others(path: Path, tmp_path: Path) -> None:
    assert asked(path, "stats")["is_binary"] is False
    binary = tmp_path / "b.jsonl"
    binary.write_bytes(b"".join(dumps(episode(n, 0, reward=n % 2)) for n in range(4)))
    assert asked(binary, "stats")["is_binary"] is True


def test_the_grid_comes_in_pages_and_by_dataset(path: Path) -> None:
    assert asked(path, "stats", offset=1, limit=1)["grid"]["cells"] == [[2, 3]]
    assert asked(path, "stats", dataset="b")["grid"]["cells"] == [[4, 5]]
    assert asked(path, "stats", dataset="c")["grid"]["cells"] == []


@pytest.mark.parametrize("repeat", [300, 2**62])
def test_a_repeat_beyond_measure_makes_no_large_grid(tmp_path: Path, repeat: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(dumps(episode(-1, 0)) + dumps(episode(2**62, repeat, reward=1e300)))
    grid = asked(path, "stats")["grid"]
    assert grid["repeats"] == 256 and grid["total"] == 2


def test_an_empty_file_is_a_run_without_episodes(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"")

    async def use(server: ViewServer, get: Get) -> None:
        assert (await get("rows", sort="reward", q="x"))["total"] == 0
        stats = await get("stats")
        assert (stats["mean"], stats["histogram"]["counts"], stats["grid"]["cells"]) == (None, [], [])
        await get("episode", 404, n=0)

    served([path], use)


def test_an_episode_is_its_line_and_its_siblings_are_the_same_tasks(path: Path) -> None:
    async def use(server: ViewServer, get: Get) -> None:
        assert await get("episode", n=3) == json.loads(path.read_bytes().splitlines()[3])
        assert [row["n"] for row in (await get("siblings", n=3))["rows"]] == [2, 3]
        assert [row["n"] for row in (await get("siblings", n=6))["rows"]] == [6]
        await get("episode", 404, n=7)
        await get("episode", 400, n="x")

    served([path], use)


# -- whom it answers ---------------------------------------------------------------------------------------------------


def test_nobody_is_answered_without_the_token_or_under_another_name(path: Path) -> None:
    async def use(server: ViewServer, get: Get) -> None:
        base = f"http://127.0.0.1:{server.port}"
        async with aiohttp.ClientSession() as client:

            async def status(url: str, method: str = "GET", **headers: str) -> int:
                async with client.request(method, base + url, headers=headers) as answer:
                    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
                    assert answer.headers["X-Content-Type-Options"] == "nosniff"
                    assert answer.headers["Referrer-Policy"] == "no-referrer"
                    assert "Access-Control-Allow-Origin" not in answer.headers
                    return answer.status

            good = {"X-Token": server.token}
            assert await status("/api/runs", **good) == 200
            assert await status(f"/api/runs?token={server.token}") == 200
            assert await status(server.url.removeprefix(base)) == 200
            for url in ("/", "/api/runs", "/api/episode?n=0", "/?token=", "/api/runs?token=é", "/api/nothing"):
                assert await status(url) == 403
            assert await status("/api/runs", **{"X-Token": server.token[:-1]}) == 403
            for name in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", "10.0.0.1", ""):
                assert await status("/api/runs", Host=name, **good) == 403
                assert await status("/static/index.html", Host=name) == 403
            for name in ("localhost", f"localhost:{server.port}", "[::1]:80"):
                assert await status("/api/runs", Host=name, **good) == 200
            for method in ("POST", "PUT", "DELETE", "OPTIONS"):
                assert await status("/api/runs", method, **good) == 405
            for name in ("../server.py", "%2e%2e/server.py", "/etc/passwd", "", ".", "..%2fserver.py", "%00"):
                assert await status(f"/static/{name}", **good) == 404

    served([path], use)


def test_a_port_that_is_taken_is_told(path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()

        async def serve() -> None:
            async with ViewServer([path], port=taken.getsockname()[1]):
                pass

        with pytest.raises(UsageError, match="Cannot listen"):
            asyncio.run(serve())


def test_a_file_that_grows_is_shown_as_it_grows(path: Path) -> None:
    async def use(server: ViewServer, get: Get) -> None:
        (before,) = await get("runs")
        with open(path, "ab") as file:
            file.write(dumps(episode(8, 0)))
        while (await get("rows"))["total"] == 7:
            await asyncio.sleep(0.05)
        (after,) = await get("runs")
        assert after["episodes"] == 8 and after["changed"] > before["changed"]

    served([path], use)
