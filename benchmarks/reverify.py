"""Measure stored records scored again per second, in one process, by a verifier in pure Python.

    python benchmarks/reverify.py

The records are of real episodes of Arithmetic, 1 KB each, played by an engine that says what is right or nearly. Each
is parsed, checked, set up, verified and compared, and its line written to a new file. Prints one JSON line last.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gym_llm
from gym_llm.engines import Engine
from gym_llm.evaluation.reverify.reverify import reverify
from gym_llm.utils.json_codec import dumps

ENV = "gym_llm/Arithmetic-v0"
_PLAYED = 500


class _Guess(Engine):
    model = "guess"

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        """Some number, with some words before it."""
        text = f"Let us see: {request['input'][0]['content']} That makes \\boxed{{{int(episode_id[0])}}}."
        content = [{"type": "output_text", "text": text, "annotations": []}]
        item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
        usage = {"input_tokens": 120, "output_tokens": 24, "total_tokens": 144}
        head = {"id": "resp_1", "object": "response", "created_at": 1.0, "model": "guess", "status": "completed"}
        return {**head, "output": [item], "usage": usage}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=50_000, help="records of the file (default 50000)")
    parser.add_argument("--runs", type=int, default=5, help="runs, of which the median counts (default 5)")
    options = parser.parse_args()
    played = gym_llm.collect(ENV, _Guess(), limit=_PLAYED)
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder, "a.jsonl"), Path(folder, "b.jsonl")
        with path.open("wb") as file:
            for number in range(options.records):
                record = played[number % _PLAYED]
                file.write(dumps({**record, "rollout_id": {**record["rollout_id"], "repeat_index": number // _PLAYED}}))
        rates, cpu_rates = [], []
        for run in range(options.runs):
            start, cpu = time.perf_counter(), time.process_time()
            report = reverify(path, ENV, output=output)
            rates.append(options.records / (time.perf_counter() - start))
            cpu_rates.append(options.records / (time.process_time() - cpu))
            if report.scored != options.records or report.changes or output.read_bytes() != path.read_bytes():
                raise RuntimeError("The same verifier did not say the same.")
            output.unlink()
            output.with_suffix(".summary.json").unlink()
            print(f"run {run + 1}/{options.runs}: {rates[-1]:,.0f} records/s", file=sys.stderr)
    figures = {"median": rates, "cpu_median": cpu_rates}
    medians = {name: round(statistics.median(values)) for name, values in figures.items()}
    print(
        json.dumps(
            {"benchmark": "reverify", "unit": "records/s", "promised": 20_000, **medians, "max": round(max(rates))}
        )
    )


if __name__ == "__main__":
    main()
