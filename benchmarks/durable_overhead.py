"""Compares the processor time of an episode with a journal and without, in pairs of runs with many episodes in flight.

The episodes call a tool that asks outside in each turn but the last, and end with a verdict of a judge. A stub of a
model server (`benchmarks/chat_stub.py`) answers, with token ids and log probabilities. Each run is a process of its
own, and its processor time is that of the whole process: start, episodes, records. Asked: at most 3 % at 16,384.

On a machine with other work, the ratios of pairs differ by more than that. So the parts are measured, too: what a turn
and an answer of the outside cost in a journal, each the least of many tries. `parts_overhead` is their sum over the
least processor time of an episode without a journal.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
import traceback
from pathlib import Path
from statistics import median
from typing import Any

from durable_kills import ENV_ID, install_judge
from rollout_http import raise_open_files, stub

from gym_llm import Run
from gym_llm.concurrency.answered_once import answered_once, remembering
from gym_llm.engines.engine import Engine
from gym_llm.engines.engine_response import text_response
from gym_llm.rollouts.durable.durable_episode import DurableEpisode, DurableModel
from gym_llm.rollouts.durable.journal import Journal
from gym_llm.rollouts.plan import Job


def processor_seconds(options: argparse.Namespace, base_url: str, output: Path, *, durable: bool) -> float:
    """Play one run in a process of its own, and return its seconds of user and system time."""
    number = os.fork()
    if not number:
        code = 1
        try:
            raise_open_files()
            with Run(
                *(ENV_ID, base_url),
                engine_options={"token_ids": True},
                limit=options.episodes,
                env_kwargs={"judge": "counted"},
                output=output,
                concurrency=options.episodes,
                durable=durable,
            ) as run:
                run.play()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status, used = os.wait4(number, 0)
    if status:
        raise SystemExit("a run failed")
    return used.ru_utime + used.ru_stime


def parts(folder: Path, turns: int, tries: int = 20, episodes: int = 100) -> dict[str, float]:
    """Return the microseconds that a turn and an answer of the outside take with a journal."""
    draw, items = random.Random(1), [{"type": "message", "role": "user", "content": "Begin 12345."}]
    prompt: list[int] = []
    requests: list[Any] = []
    answers: list[Any] = []
    for turn in range(turns):
        ids = [draw.randrange(150_000) for _ in range(60)]
        prompt = [*prompt, *ids[:20]]
        answer = text_response("x", tokens=(prompt, ids[20:], [-draw.random() for _ in ids[20:]]), model="stub")
        requests.append({"input": list(items), "temperature": 1.0, "max_output_tokens": 100, "turn": turn})
        answers.append(answer)
        prompt = [*prompt, *ids[20:]]
        items += [*answer["output"], {"type": "function_call_output", "call_id": f"call_{turn}", "output": "12345"}]

    class Answered(Engine):
        model = "stub"

        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            return answers[request["turn"]]

    engine, journal = Answered(), Journal(folder / "parts")

    async def play(durable: bool) -> None:
        under_way: dict[str, DurableEpisode] = {}
        model = DurableModel(engine, under_way, in_order=True) if durable else engine
        for number in range(episodes):
            job = Job(number, 0)
            if durable:
                under_way[job.episode_id] = DurableEpisode(journal, job)
                under_way[job.episode_id].begin()
            for request in requests:
                await model.respond(request, episode_id=job.episode_id)
            journal.recorded(job)

    async def look_up() -> str:
        return "word means 5"

    async def ask(durable: bool) -> None:
        memory = DurableEpisode(journal, Job(episodes, 0))
        memory.begin()
        with remembering(memory if durable else None):
            for number in range(episodes * turns):
                await answered_once("tool look_up", {"word": f"word{number}"}, look_up)
        journal.recorded(Job(episodes, 0))

    least: dict[Any, float] = {}
    for _ in range(tries):
        for run in (play, ask):
            for durable in (True, False):
                began = time.thread_time()
                asyncio.run(run(durable))
                taken = (time.thread_time() - began) / episodes / turns * 1e6
                least[run, durable] = min(taken, least.get((run, durable), taken))
    journal.close()
    return {
        "us_per_turn": round(least[play, True] - least[play, False], 2),
        "us_per_answer": round(least[ask, True] - least[ask, False], 2),
    }


async def compare(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Return the figures of all pairs."""
    ratios, plain_ms = [], []
    async with stub(options.latency_ms, turns=options.turns) as base_url:
        for pair in range(options.pairs):
            seconds = {}
            for durable in (True, False) if pair % 2 else (False, True):
                output = folder / "run.jsonl"
                seconds[durable] = processor_seconds(options, base_url, output, durable=durable)
                turns = sum(len(json.loads(line)["turn_timing"]) for line in output.read_bytes().splitlines())
                if turns != options.episodes * options.turns:
                    raise SystemExit(f"{turns} turns were played, not {options.episodes * options.turns}.")
                output.unlink()
            ratios.append(seconds[True] / seconds[False])
            plain_ms.append(seconds[False] / options.episodes * 1e3)
    of_parts = parts(folder, options.turns)
    journal_ms = (of_parts["us_per_turn"] * options.turns + of_parts["us_per_answer"] * (options.turns - 1)) / 1e3
    return {
        **of_parts,
        "parts_overhead": round(journal_ms / min(plain_ms), 4),
        "overhead": round(median(ratios) - 1, 4),
        "ratios": [round(ratio, 4) for ratio in ratios],
        "cpu_ms_per_episode": round(median(plain_ms), 2),
    }


def main() -> None:
    """Measure; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=16_384, help="of a run, all in flight at once")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--latency-ms", type=float, default=2000.0, help="of an answer of the model")
    parser.add_argument("--pairs", type=int, default=3, help="of runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        install_judge(folder)
        figures = asyncio.run(compare(options, folder))
    print(json.dumps({"episodes": options.episodes, "turns_each": options.turns, **figures}))


if __name__ == "__main__":
    main()
