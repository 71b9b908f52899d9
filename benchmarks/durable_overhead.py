"""Compares the processor time of an episode with a journal and without, in pairs of runs with many episodes in flight.

The episodes call a tool that asks outside in each turn but the last, and end with a verdict of a judge. A stub of a
model server (`benchmarks/chat_stub.py`) answers, with token ids and log probabilities. Each run is a process of its
own, and its processor time is that of the whole process: start, episodes, records. Asked: at most 3 % at 16,384.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import traceback
from pathlib import Path
from statistics import median

from durable_kills import ENV_ID, install_judge
from rollout_http import raise_open_files, stub

from gym_llm import Run


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
    return {
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
