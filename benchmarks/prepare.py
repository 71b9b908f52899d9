"""`gym-llm data prepare` on many rows: rows per second, and the memory of all its processes together.

Run: `python benchmarks/prepare.py` (200,000 rows of 2 KB); `--rows N` for more, `--tokenizer DIR` to count tokens. The
    yardstick reads the same file in the way of NeMo Gym's `ng_prepare_data`: in one process, one row after the other.
    It
parses each row, validates it with pydantic, and observes its figures one by one. It reads all rows a second time to
collate them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError

from gym_llm.protocols.responses import ResponseCreateParams

ENV_ID = "gym_llm/MultipleChoice-v0"
ROW_BYTES = 2000
VOCABULARY = 30_000
BOOK_WORDS = 5_000_000
YARDSTICK_ROWS = 50_000
PREPARE = "import sys; from gym_llm.cli import main; sys.exit(main(sys.argv[1:]))"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=200_000)
    arguments.add_argument("--tokenizer", default="none", help="as for gym-llm data prepare (default: none)")
    arguments.add_argument("--no-yardstick", action="store_true")
    arguments.add_argument("--folder", type=Path, help="where the files are made (default: a temporary folder)")
    args = arguments.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="prepare-", dir=args.folder))
    try:
        size = write_rows(folder / "train.jsonl", args.rows)
        print(f"{args.rows:,} rows, {size / args.rows:.0f} bytes each")
        result = measure(folder, args.rows, args.tokenizer)
        if not args.no_yardstick:
            result |= measure_yardstick(folder, min(args.rows, YARDSTICK_ROWS))
            result["speedup"] = round(result["rows_per_second"] / result["yardstick_rows_per_second"], 1)
    finally:
        shutil.rmtree(folder)
    print(json.dumps(result))


def write_rows(path: Path, count: int) -> int:
    """Multiple-choice rows about a long text of words as frequent as those of a language; returns their bytes."""
    rng = random.Random(0)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(rng.choices(letters, range(26, 0, -1), k=rng.randint(1, 9))) for _ in range(VOCABULARY)]
    frequencies = list(itertools.accumulate(1 / (rank + 3) for rank in range(VOCABULARY)))
    book = " ".join(rng.choices(words, cum_weights=frequencies, k=BOOK_WORDS))
    length = ROW_BYTES - 400
    with open(path, "w") as file:
        for number in range(count):
            options = [{letter: words[rng.randrange(VOCABULARY)]} for letter in "ABCD"]
            start = rng.randrange(len(book) - length)
            text = book[start : start + length]
            messages = [{"role": "system", "content": "Answer with a letter."}, {"role": "user", "content": text}]
            row = {
                "responses_create_params": {"input": messages, "temperature": rng.choice([0.6, 0.8, 1.0])},
                "options": options,
                "expected_answer": rng.choice("ABCD"),
                "grading_mode": "strict_single_letter_boxed",
                "uuid": f"{rng.getrandbits(128):032x}",
                "difficulty": rng.random(),
                "source": f"chapter {number % 977}",
            }
            file.write(json.dumps(row) + "\n")
    return path.stat().st_size


def measure(folder: Path, rows: int, tokenizer: str) -> dict[str, Any]:
    """Run the command; its time includes starting Python."""
    dataset = {"name": "train", "type": "train", "license": "TBD", "jsonl_fpath": str(folder / "train.jsonl")}
    config = folder / "config.yaml"
    config.write_text(json.dumps({"quiz": {"env": ENV_ID, "datasets": [dataset]}}))
    command = [sys.executable, "-c", PREPARE, "data", "prepare", "--config", str(config), "--tokenizer", tokenizer]
    command += ["--output-dir", str(folder / "out"), "--mode", "train_preparation"]
    began = time.perf_counter()
    process = subprocess.Popen(command)
    peak = PeakMemory(process.pid)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    peak.stop()
    if status:
        raise SystemExit(f"prepare failed: {status}")
    shutil.rmtree(folder / "out")
    cpu = usage.ru_utime + usage.ru_stime
    return {
        "rows": rows,
        "tokenizer": tokenizer,
        "rows_per_second": round(rows / seconds),
        "seconds": round(seconds, 2),
        "cpu_microseconds_per_row": round(cpu / rows * 1e6, 1),
        "peak_memory_mb": round(peak.megabytes),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def measure_yardstick(folder: Path, rows: int) -> dict[str, Any]:
    """Run the single-threaded algorithm over the first rows of the file."""
    began, cpu_began = time.perf_counter(), time.process_time()
    yardstick(folder, rows)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    return {
        "yardstick_rows_per_second": round(rows / seconds),
        "yardstick_cpu_microseconds_per_row": round(cpu / rows * 1e6, 1),
    }


class PeakMemory:
    """The largest resident memory of a process and its children together, sampled; shared pages count each time."""

    def __init__(self, pid: int) -> None:
        self.megabytes = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(psutil.Process(pid),))
        self._thread.start()

    def stop(self) -> None:
        """End the watch."""
        self._stopped.set()
        self._thread.join()

    def _watch(self, process: psutil.Process) -> None:
        while not self._stopped.wait(0.1):
            try:
                processes = [process, *process.children(recursive=True)]
                resident = sum(each.memory_info().rss for each in processes)
            except psutil.Error:  # one of them has just ended
                continue
            self.megabytes = max(self.megabytes, resident / 1e6)


# The yardstick --------------------------------------------------------------------------------------------------------


class Row(BaseModel):
    """What NeMo Gym demands of a row."""

    model_config = ConfigDict(extra="allow")

    responses_create_params: ResponseCreateParams


class Average(BaseModel):
    """Welford's running figures, as a pydantic model per observation that is merged into the total."""

    total: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")

    def observe(self, value: float) -> None:
        """Count a value."""
        self.total += 1
        delta = value - self.mean
        self.mean += delta / self.total
        self.squares += delta * (value - self.mean)
        self.low, self.high = min(self.low, value), max(self.high, value)

    def merge(self, other: Average) -> None:
        """Add another's values."""
        if not other.total:
            return
        total = self.total + other.total
        delta = other.mean - self.mean
        self.mean += delta * other.total / total
        self.squares += other.squares + delta**2 * self.total * other.total / total
        self.total, self.low, self.high = total, min(self.low, other.low), max(self.high, other.high)


class Figures(BaseModel):
    """The figures of one row, or of all."""

    examples: int = 0
    tools: Average = Average()
    words: Average = Average()
    turns: Average = Average()
    temperature: Average = Average()

    def merge(self, other: Figures) -> None:
        """Add another's rows."""
        self.examples += other.examples
        for name in ("tools", "words", "turns", "temperature"):
            getattr(self, name).merge(getattr(other, name))


def yardstick(folder: Path, rows: int) -> None:
    """NeMo Gym's algorithm, over the first rows of the file."""
    figures = Figures()
    others: dict[str, Average] = {}
    strings: dict[str, dict[str, int]] = {}
    with open(folder / "train.jsonl") as file:
        for line in itertools.islice(file, rows):
            observed = observe(line)
            if observed is None:
                continue
            figures.merge(observed)
            for name, value in json.loads(line).items():  # read again, as there
                for part in value if isinstance(value, list) else [value]:
                    if isinstance(part, (int, float)):
                        others.setdefault(name, Average()).observe(part)
                    elif isinstance(part, str):
                        counts = strings.setdefault(name, {})
                        counts[part] = counts.get(part, 0) + 1
    assert figures.examples == rows
    with open(folder / "train.jsonl") as file, open(folder / "prepared.jsonl", "w") as prepared:
        for line in itertools.islice(file, rows):
            row = json.loads(line)
            row["agent_ref"] = {"type": "responses_api_agents", "name": "quiz"}
            prepared.write(f"{json.dumps(row)}\n")
    with open(folder / "prepared.jsonl", "rb") as prepared_file, open(folder / "collated.jsonl", "wb") as collated:
        shutil.copyfileobj(prepared_file, collated)


def observe(line: str) -> Figures | None:
    try:
        params = Row.model_validate(json.loads(line)).responses_create_params.model_dump(exclude_unset=True)
    except (ValidationError, ValueError):
        return None
    figures = Figures(examples=1, tools=Average(), words=Average(), turns=Average(), temperature=Average())
    if params.get("tools") is not None:
        figures.tools.observe(len(params["tools"]))
    if turns := [item for item in params["input"] if item.get("role") == "user"]:
        figures.turns.observe(len(turns))
    if params.get("temperature") is not None:
        figures.temperature.observe(params["temperature"])
    figures.words.observe(len(json.dumps(params).split()))
    return figures


if __name__ == "__main__":
    main()
