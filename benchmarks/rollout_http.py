"""Measure an episode's process time with a remote model: episodes against a stub of a model server.

`benchmarks/chat_stub.py` runs as a second process and answers every Chat Completions request after a fixed latency. At
each level of concurrency the same number of requests is made in three ways, each in a fresh process:

- `rollout`: MultipleChoice episodes, verified, through `gym_llm.rollout`;
- `engine`: the same requests through HTTPEngine alone;
- `bare`: the same requests through an aiohttp client, nothing else; answers are parsed.

Each row has episodes per second, CPU milliseconds per episode (user + system, this process only) and errors. It also
has the largest number of requests at once at the stub, and the resident memory at its peak and per episode in flight.
In the last row, `hold`, the stub's latency is so long that all episodes of the highest level wait at the same time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import psutil

ENV_ID = "gym_llm/MultipleChoice-v0"
STUB = Path(__file__).with_name("chat_stub.py")
_LETTERS = "ABCDEFGHIJ"
_OPTIONS = [
    {letter: f"Statement number {n}, about as long as the options of MMLU-Pro are."}
    for n, letter in enumerate(_LETTERS)
]
_QUESTION = "Which statement is true? Answer with one letter inside \\boxed{}.\n" + "\n".join(
    f"{letter}: {text}" for option in _OPTIONS for letter, text in option.items()
)
TASKS: list[dict[str, Any]] = [
    {
        "responses_create_params": {"input": [{"role": "user", "content": f"Question {number}. {_QUESTION}"}]},
        "options": _OPTIONS,
        "expected_answer": "A",
        "grading_mode": "strict_single_letter_boxed",
    }
    for number in range(8)
]


async def play_rollout(base_url: str, episodes: int, concurrency: int) -> tuple[int, str]:
    """Play the episodes through `gym_llm.rollout`; the number of failed ones and an example of why."""
    import gym_llm

    errors, example = 0, ""
    async for record in gym_llm.rollout(
        ENV_ID, engine=base_url, tasks=TASKS, episodes=episodes, concurrency=concurrency
    ):
        if record["error"] is not None:
            errors, example = errors + 1, record["error"]
        elif record["reward"] != 1.0:  # the stub always answers A, which is right
            errors, example = errors + 1, f"reward {record['reward']}: {record['response']}"
    return errors, example


async def play_engine(base_url: str, episodes: int, concurrency: int) -> tuple[int, str]:
    """Make the requests of the episodes through HTTPEngine, without environments."""
    from gym_llm.engines import make_engine
    from gym_llm.errors import EngineError

    requests = [task["responses_create_params"] for task in TASKS]
    errors, example = 0, ""
    left = iter(range(episodes))

    async with make_engine(base_url) as engine:

        async def play() -> None:
            nonlocal errors, example
            for index in left:
                try:
                    await engine.respond(requests[index % len(requests)], episode_id=f"{index}-0")
                except EngineError as error:
                    errors, example = errors + 1, str(error)

        await asyncio.gather(*(play() for _ in range(concurrency)))
    return errors, example


async def play_bare(base_url: str, episodes: int, concurrency: int) -> tuple[int, str]:
    """Make the requests of the episodes with aiohttp and nothing else."""
    bodies = [{"model": "stub", "messages": task["responses_create_params"]["input"]} for task in TASKS]
    errors, example = 0, ""
    left = iter(range(episodes))
    raise_open_files()
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        headers={"Content-Type": "application/json"},
    ) as session:

        async def play() -> None:
            nonlocal errors, example
            for index in left:
                try:
                    body = orjson.dumps(bodies[index % len(bodies)])
                    async with session.post(f"{base_url}/chat/completions", data=body) as reply:
                        orjson.loads(await reply.read())["choices"][0]["message"]["content"]
                except (aiohttp.ClientError, OSError) as error:
                    errors, example = errors + 1, repr(error)

        await asyncio.gather(*(play() for _ in range(concurrency)))
    return errors, example


PLAYERS = {"rollout": play_rollout, "engine": play_engine, "bare": play_bare}


def raise_open_files() -> None:
    """Allow as many sockets as the system does."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@asynccontextmanager
async def stub(latency_ms: float, turns: int = 1) -> AsyncIterator[str]:
    """A stub in a process of its own; its base URL."""
    options = ["--latency-ms", str(latency_ms), "--turns", str(turns)]
    process = subprocess.Popen([sys.executable, str(STUB), *options], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["base_url"]
    finally:
        process.terminate()
        process.wait()


async def measure(player: str, episodes: int, concurrency: int, latency_ms: float) -> dict[str, Any]:
    """One row: play the episodes in this process, which is fresh."""
    play = PLAYERS[player]
    async with stub(latency_ms) as base_url:
        await play(base_url, 64, 64)  # imports, first compilations of schemas: paid once, not per episode
        rss = psutil.Process().memory_info().rss
        peak: list[int] = [rss]
        watch = asyncio.create_task(watch_rss(peak))
        before = resource.getrusage(resource.RUSAGE_SELF)
        began = time.perf_counter()
        errors, example = await play(base_url, episodes, concurrency)
        seconds = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_SELF)
        watch.cancel()
        async with (
            aiohttp.ClientSession() as session,
            session.get(base_url.removesuffix("/v1") + "/stats") as reply,
        ):
            stats = await reply.json()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "what": player,
        "concurrency": concurrency,
        "latency_ms": latency_ms,
        "episodes": episodes,
        "episodes_per_s": round(episodes / seconds, 1),
        "cpu_ms_per_episode": round(cpu / episodes * 1e3, 3),
        "peak_in_flight": stats["peak_in_flight"],
        "connections": stats["connections"],
        "rss_peak_mb": round(max(peak) / 2**20, 1),
        "rss_kb_per_episode_in_flight": round((max(peak) - rss) / 2**10 / min(concurrency, episodes), 1),
        "errors": errors,
        "example_error": example,
    }


async def watch_rss(peak: list[int]) -> None:
    """Note the resident memory ten times a second."""
    process = psutil.Process()
    while True:
        peak[0] = max(peak[0], process.memory_info().rss)
        await asyncio.sleep(0.1)


def measure_here(arguments: tuple[str, int, int, float]) -> dict[str, Any]:
    """`measure`, for a process pool."""
    return asyncio.run(measure(*arguments))


def measure_apart(*arguments: Any) -> dict[str, Any]:
    """`measure` in a fresh process, so that no row's memory or CPU shows in another."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        row: dict[str, Any] = pool.apply(measure_here, (arguments,))
        return row


def main() -> None:
    """Measure all rows; progress on stderr, the last line of stdout is the result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=16_384, help="per row (default: 16384)")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1024, 4096, 16_384], help="levels")
    parser.add_argument("--latency-ms", type=float, default=50.0, help="of the stub (default: 50)")
    parser.add_argument("--hold-ms", type=float, default=20_000.0, help="latency of the hold row, 0 for none (20000)")
    parser.add_argument("--what", nargs="+", choices=list(PLAYERS), default=list(PLAYERS), help="rows (default: all)")
    parser.add_argument("--repeats", type=int, default=1, help="measure each row so often, keep the least CPU (1)")
    args = parser.parse_args()
    plan = [(what, args.episodes, level, args.latency_ms) for level in args.concurrency for what in args.what]
    if args.hold_ms > 0:
        plan.append((args.what[0], args.episodes, max(args.concurrency), args.hold_ms))
    rows = []
    for arguments in plan:
        tries = [measure_apart(*arguments) for _ in range(args.repeats)]
        row = min(tries, key=lambda row: row["cpu_ms_per_episode"])
        if arguments[3] == args.hold_ms:
            row["what"] += " (hold)"
        rows.append(row)
        print(
            "{what:>15}  {concurrency:>6} at once: {episodes_per_s:>7.0f} episodes/s, {cpu_ms_per_episode:.3f} ms CPU "
            "each, {peak_in_flight:>6} in flight, {rss_peak_mb:.0f} MB ({rss_kb_per_episode_in_flight:.1f} KB each), "
            "{errors} errors".format(**row),
            file=sys.stderr,
            flush=True,
        )
        if row["example_error"]:
            print(f"                 {row['example_error']}", file=sys.stderr, flush=True)
    print(json.dumps({"benchmark": "rollout_http", "cpus": os.cpu_count(), "rows": rows}))


if __name__ == "__main__":
    main()
