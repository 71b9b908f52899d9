"""Kills durable runs at random moments, and compares their records with those of a run that was left alone.

The episodes have 20 turns, with tools, a Python session in a sandbox, and a judge. Each life of the run is a process
that is killed with SIGKILL after a random time; the next one goes on with `resume=True`. The engine and the judge write
down every answer that they give. After each kill the journal is read. A turn counts as sampled twice if it is sampled
again though the journal had it. A turn that was on its way when the process was killed cannot be known.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym

from gym_llm import Run, tool
from gym_llm.concurrency.answered_once import answered_once
from gym_llm.engines.engine import Engine
from gym_llm.engines.engine_response import text_response
from gym_llm.judge import JudgedEnv
from gym_llm.judge.verdicts import Labels
from gym_llm.rollouts.durable.left_journals import read_journal
from gym_llm.rollouts.durable.lines import SAMPLED
from gym_llm.rollouts.durable.run_journals import journals_beside
from gym_llm.sandbox.python_session import PythonSession
from gym_llm.sandbox.shared import sandbox_for
from gym_llm.types import Episode
from gym_llm.utils.json_codec import dumps

ENV_ID = "durable_kills/LongEpisode-v0"
TURNS = 20
YES = Labels("[[yes]]", "[[no]]")
_TIMES = ("timing", "turn_timing", "created_at", "made_by")
_COUNTED = "GYM_LLM_DURABLE_KILLS"
"""The folder of the files in which answers are counted."""


def count(name: str, what: object) -> None:
    """Write down that something was answered, so that it survives a kill."""
    if folder := os.environ.get(_COUNTED):
        descriptor = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{what}\n".encode())
        os.close(descriptor)


def noise(*parts: object) -> random.Random:
    """Return random numbers that are the same in every life of a run."""
    return random.Random(repr(parts))


class Scripted(Engine):
    """Plays the long episode: a call in most turns, with token ids that grow as a model's do."""

    model = "scripted"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        """Return the turn's call; its length and its pause are those of this turn in every life."""
        turn = sum(item.get("type") == "function_call" for item in request["input"])
        draw = noise("turn", episode_id, turn)
        await asyncio.sleep(self.seconds * draw.random())
        number = draw.randrange(1000)
        calls = [
            ("add", {"number": number}),
            ("look_up", {"word": f"word{number}"}),
            ("compute", {"code": f"total = globals().get('total', 0) + {number}\nprint(total)"}),
        ]
        ids = [draw.randrange(150_000) for _ in range(60)]
        before = next((item for item in reversed(request["input"]) if "prompt_token_ids" in item), None)
        prompt = ids[:40] if before is None else before["prompt_token_ids"] + before["generation_token_ids"] + ids[:20]
        log_probs = [-draw.random() for _ in ids[20:]]
        answer = text_response("Done.", tokens=(prompt, ids[20:], log_probs), model=self.model)
        answer["id"], answer["created_at"] = f"resp_{episode_id}_{turn}", 0.0
        answer["output"][0]["id"] = f"msg_{episode_id}_{turn}"
        if turn < TURNS - 1:
            name, arguments = calls[turn % 3]
            tokens = {key: value for key, value in answer["output"][0].items() if "token" in key or "log_probs" in key}
            call = {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}
            answer["output"] = [{**call, "call_id": f"call_{turn}", "id": f"fc_{turn}", **tokens}]
        count("sampled", f"{episode_id} {turn}")
        return answer


class CountedJudge(Engine):
    """A judge that says yes, and is counted."""

    model = "judge"

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        """Return a verdict and some words that are never the same again."""
        await asyncio.sleep(0.002)
        count("judged", json.dumps(request["input"][-1]["content"])[-60:])
        return text_response("[[yes]]", model=self.model)


class LongEpisode(JudgedEnv):
    """An episode of 20 turns: a sum, a dictionary elsewhere, a Python session, and a judge at two places."""

    judge_prompts = {"judge": {"user": "Is this right? {answer}"}}

    def generate(self, rng: Any) -> Any:
        """Return a task."""
        return self.row(f"Begin {int(rng.integers(1_000_000))}.")

    def setup(self, task: Any) -> dict[str, Any]:
        """Return the sum so far."""
        return {"sum": 0, "session": None, "verdicts": 0}

    @tool
    def add(self, number: int, state: dict[str, Any]) -> int:
        """Add a number."""
        state["sum"] += number
        return state["sum"]

    @tool
    async def look_up(self, word: str) -> str:
        """Look a word up elsewhere: its answer is another one each time."""
        await asyncio.sleep(0.001)
        count("looked_up", word)
        return f"{word} means {len(word)}"

    @tool
    async def compute(self, code: str, state: dict[str, Any]) -> str:
        """Run Python in the episode's session, and ask a judge what it thinks."""
        if state["session"] is None:
            state["session"] = PythonSession(await sandbox_for(self))
        cell = await state["session"].run(code)
        assert self.episode is not None
        said = await self.ask({"answer": f"{self.episode.request['input'][0]['content']} {cell.stdout}"}, YES)
        state["verdicts"] += said.value is not None
        return f"{cell.stdout}{cell.error or ''}"

    async def verify(self, task: Any, episode: Episode) -> float:
        """Return the share of verdicts, and let the judge have the last word."""
        said = await self.ask({"answer": f"{episode.request['input'][0]['content']} {episode.state['sum']}"}, YES)
        day = await answered_once("day", episode.state["sum"], self._day)
        return float(said.value is not None) + episode.state["sum"] / 1e6 + len(day) / 1e9

    async def _day(self) -> str:
        count("asked_the_day", "Monday")
        return "Monday"

    async def teardown(self, task: Any, episode: Episode) -> None:
        """End the session."""
        if episode.state["session"] is not None:
            await episode.state["session"].close()


if ENV_ID not in gym.registry:
    gym.register(ENV_ID, entry_point=LongEpisode)


def open_run(options: argparse.Namespace, output: Path, *, durable: bool, resume: bool = False) -> Run:
    """Return the run of all lives."""
    return Run(
        ENV_ID,
        Scripted(options.seconds),
        limit=options.episodes,
        env_kwargs={"judge": "counted"},
        output=output,
        resume=resume,
        concurrency=options.concurrency,
        max_failures=None,
        durable=durable,
        accept_changes=resume,
    )


def life(options: argparse.Namespace, output: Path, *, durable: bool = True, resume: bool = False) -> int:
    """Play in a process of its own; return its number."""
    sys.stdout.flush()
    number = os.fork()
    if number:
        return number
    code = 1
    try:
        os.setsid()
        with open_run(options, output, durable=durable, resume=resume) as run:
            run.play()
        code = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def journalled(output: Path) -> Iterator[str]:
    """Yield the turns that the journals have."""
    for folder in journals_beside(output).glob("*/*"):
        for job, episode in read_journal(folder).items():
            for turn in range(sum(line.kind == SAMPLED for line in episode.lines())):
                yield f"{job.episode_id} {turn}"


def answers(folder: Path, name: str) -> Counter[str]:
    """Return how often each answer was given."""
    path = folder / name
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()


def plain(output: Path) -> dict[str, bytes]:
    """Return the records of a file as bytes without their times, by episode."""
    records = {}
    for line in output.read_bytes().splitlines():
        record = json.loads(line)
        name = json.dumps(record["rollout_id"])
        records[name] = dumps(_without_times(record))
    return records


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(each) for key, each in value.items() if key not in _TIMES}
    return [_without_times(each) for each in value] if isinstance(value, list) else value


def show_difference(name: str, expected: dict[str, Any], record: dict[str, Any]) -> None:
    """Print the fields of a record that differ from those of the run that was left alone."""
    for field in sorted({*expected, *record}):
        if expected.get(field) != record.get(field):
            print(f"{name} {field}: {expected.get(field)!r:.400} is {record.get(field)!r:.400}", file=sys.stderr)


def kill_often(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Kill a run as often as asked, and return the counts."""
    os.environ[_COUNTED] = str(folder / "alone")
    (folder / "alone").mkdir()
    number = life(options, folder / "alone.jsonl", durable=False)
    os.waitpid(number, 0)
    expected = plain(folder / "alone.jsonl")
    draw, kills, runs = random.Random(options.seed), 0, 0
    totals: Counter[str] = Counter()
    while kills < options.kills:
        runs += 1
        counted, output = folder / f"counted{runs}", folder / f"killed{runs}.jsonl"
        counted.mkdir()
        os.environ[_COUNTED] = str(counted)
        known: set[str] = set()
        before: Counter[str] = Counter()
        while True:
            number = life(options, output, resume=output.exists() or journals_beside(output).exists())
            is_last = kills >= options.kills
            pause = draw.uniform(*options.between)
            answered = None if draw.random() < 0.25 else counted / "sampled"  # else it is killed while it restores
            ended, status = _wait(number, None if is_last else pause, answered)
            if not ended:
                os.kill(number, signal.SIGKILL)
                os.waitpid(number, 0)
                kills += 1
            sampled = answers(counted, "sampled")
            totals["sampled_twice"] += sum(sampled[turn] > before[turn] for turn in known)
            before, in_journal = sampled, set(journalled(output))
            totals["turns_restored"] += 0 if ended else len(in_journal)
            known |= in_journal
            if ended:
                totals["lives_that_failed"] += bool(status)
                break
        records = plain(output)
        totals["episodes"] += len(expected)
        totals["lost"] += len(expected.keys() - records.keys())
        totals["masked"] += sum(b'"reward":null' in record for record in records.values())
        different = [name for name, record in expected.items() if records.get(name) != record]
        totals["different"] += len(different)
        for name in different:
            show_difference(name, json.loads(expected[name]), json.loads(records.get(name, b"{}")))
        totals["turns"] += len(sampled)
        totals["asked_again_in_flight"] += sum(sampled.values()) - len(sampled)
        judged = answers(counted, "judged")
        totals["judge_asked_again_in_flight"] += sum(judged.values()) - len(judged)
        totals["journals_left"] += journals_beside(output).exists()
        for path in (output, output.with_name(f"{output.stem}.summary.json"), *counted.iterdir()):
            path.unlink(missing_ok=True)
    return {"kills": kills, "runs": runs, **{name: totals[name] for name in _COUNTS}}


_COUNTS = (
    *("episodes", "turns", "lost", "masked", "different", "sampled_twice", "asked_again_in_flight", "turns_restored"),
    *("judge_asked_again_in_flight", "lives_that_failed", "journals_left"),
)


def _wait(number: int, seconds: float | None, answered: Path | None) -> tuple[bool, int]:
    """Wait until a life has ended, or for so long after its first answer in this file; return if it ended, and how."""
    if seconds is None:
        return True, os.waitpid(number, 0)[1]
    before = _size(answered)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(number, os.WNOHANG)
        if ended:
            return True, status
        if answered is not None and _size(answered) == before:
            end = time.monotonic() + seconds
        time.sleep(0.002)
    return False, 0


def _size(path: Path | None) -> int:
    return path.stat().st_size if path is not None and path.exists() else 0


def install_judge(folder: Path) -> None:
    """Make `CountedJudge` an engine that a spec can name, as another package would."""
    info = folder / "durable_kills-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: durable-kills\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[gym_llm.engines]\ncounted = durable_kills:CountedJudge\n")
    sys.path[:0] = [str(folder), str(Path(__file__).parent)]


def main() -> None:
    """Kill, compare and measure; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=0.05, help="longest pause of the engine before an answer")
    parser.add_argument("--between", type=float, nargs=2, default=(0.05, 2.0), help="seconds of a life, from and to")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        install_judge(folder)
        figures = kill_often(options, folder)
    print(json.dumps({"episodes_per_run": options.episodes, "turns_each": TURNS, **figures}))


if __name__ == "__main__":
    main()
