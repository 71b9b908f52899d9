"""Compare the throughput that `gym-llm plan` says with that of real runs.

A Chat Completions stub answers on loopback. An answer takes `base` seconds, and `token` more for each generated token.
It takes `slope` longer for each further request that is being answered. Each case has another stub, number of turns and
concurrency. A case is recorded at two concurrencies, planned for a third one, and then played at it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from aiohttp import web

from gym_llm.engines.http import HTTPEngine
from gym_llm.evaluation.capacity import forecast
from gym_llm.evaluation.recorded_load import fit_speed, read_recording
from gym_llm.rollouts.run import Run

CASES = [  # base seconds, seconds a token, slope, turns, two recorded concurrencies, the planned one
    (0.05, 0.0, 0.0, 1, (4, 8), 32),
    (0.05, 0.002, 0.0, 1, (8, 16), 48),
    (0.05, 0.002, 0.02, 1, (4, 16), 48),
    (0.02, 0.002, 0.05, 1, (4, 12), 32),
    (0.05, 0.001, 0.1, 1, (4, 12), 24),
    (0.05, 0.0, 0.0, 3, (4, 8), 24),
    (0.03, 0.001, 0.02, 3, (4, 16), 40),
    (0.03, 0.002, 0.05, 3, (4, 16), 8),
    (0.02, 0.002, 0.1, 3, (4, 12), 24),
    (0.04, 0.003, 0.03, 3, (6, 18), 36),
]


class Stub:
    """A model server whose requests slow each other down."""

    def __init__(self, base: float, token: float, slope: float, seed: int) -> None:
        self.base, self.token, self.slope, self.step = base, token, slope, max(0.01, base / 4)
        self.rng = random.Random(seed)
        self.in_flight = 0

    async def answer(self, request: web.Request) -> web.Response:
        """Answer with a reply that the environment continues, after the time that it takes."""
        await request.read()
        tokens = self.rng.randint(1, 60)
        left = self.base + self.token * tokens
        self.in_flight += 1
        try:
            while left > 1e-4:  # in steps: the others come and go
                slowdown = 1.0 + self.slope * (self.in_flight - 1)
                began = time.perf_counter()
                await asyncio.sleep(min(left, self.step) * slowdown)
                left -= (time.perf_counter() - began) / slowdown
        finally:
            self.in_flight -= 1
        usage = {"prompt_tokens": 50, "completion_tokens": tokens, "total_tokens": 50 + tokens}
        choice = {"index": 0, "message": {"role": "assistant", "content": "maybe"}, "finish_reason": "stop"}
        return web.json_response({"id": "c", "model": "stub", "choices": [choice], "usage": usage})

    async def models(self, request: web.Request) -> web.Response:
        """List the model."""
        return web.json_response({"data": [{"id": "stub"}]})


async def play(case: Any, seed: int, concurrency: int, args: argparse.Namespace, output: Path) -> float:
    """Play a run of a case into a file, and return its episodes per second."""
    base, token, slope, turns, *_ = case
    stub = Stub(base * args.scale, token * args.scale, slope, seed)
    episodes = args.episodes
    application = web.Application()
    application.add_routes([web.get("/v1/models", stub.models), web.post("/v1/chat/completions", stub.answer)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    task = {"expected_answer": "yes", "follow_ups": ["Sure?"] * (turns - 1)}
    tasks = [{"responses_create_params": {"input": f"Question {n}?"}, **task} for n in range(episodes)]
    try:
        async with HTTPEngine(f"http://127.0.0.1:{port}/v1") as engine:
            with Run(
                "gym_llm/FollowUp-v0",
                engine,
                tasks=tasks,
                concurrency=concurrency,
                output=output,
            ) as run:
                began = time.perf_counter()
                async for _ in run.records():
                    pass
                return episodes / (time.perf_counter() - began)
    finally:
        await runner.cleanup()


def main() -> None:
    """Parse the command line, measure, and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=150, help="per run (default: 150)")
    parser.add_argument("--scale", type=float, default=4.0, help="times longer answers, so that the CPU idles (4)")
    parser.add_argument("--cases", type=int, default=len(CASES), help="the first N cases (default: all)")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(CASES[: args.cases]):
            recorded, planned = case[4], case[5]
            files = [Path(folder, f"{number}-{concurrency}.jsonl") for concurrency in recorded]
            for file, concurrency in zip(files, recorded, strict=True):
                asyncio.run(play(case, number, concurrency, args, file))
            recordings = [read_recording(file) for file in files]
            figures = forecast(recordings[-1], fit_speed(recordings), concurrency=planned)
            real = asyncio.run(play(case, number, planned, args, Path(folder, f"{number}.jsonl")))
            error = figures.episodes_per_second / real - 1.0
            rows.append(
                {
                    "case": case,
                    "planned_per_s": round(figures.episodes_per_second, 2),
                    "measured_per_s": round(real, 2),
                    "error": round(error, 3),
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    within = sum(abs(row["error"]) <= 0.15 for row in rows)
    print(json.dumps({"benchmark": "plan_accuracy", "within_15_percent": within, "cases": len(rows), "rows": rows}))


if __name__ == "__main__":
    main()
