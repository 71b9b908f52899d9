"""Lists the verifiers whose interrupted episodes come out as if they had never been interrupted.

Each verifier plays some of its example rows three times with the engine `random`, whose answers depend on the episode
and the turn alone. Two runs are left alone. The third is stopped in the middle of its episodes, and goes on from its
journal with `resume=True`. Records are compared without times and ids. A verifier is

- `equal` if all three runs have the same records, and no turn was sampled twice;
- `not deterministic` if the two runs that were left alone differ already;
- `different` if only the third differs, or a turn was sampled twice;
- `not played` if it needs something that is not here.

Prints one JSON line last; the exit code is 1 if a verifier is `different`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import random
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from gym_llm import Run
from gym_llm.core.registry.classes import env_class
from gym_llm.core.registry.env_files import dry_run_kwargs
from gym_llm.core.registry.ids import env_ids
from gym_llm.engines.random_policy import RandomPolicy
from gym_llm.errors import GymLLMError

KINDS = ("equal", "not deterministic", "different", "not played")
_TIMES = re.compile(r"timing|seconds|_time|time_|created_at|made_by|latency|^id$|elapsed|duration|group_id")
"""Names of fields that no two runs share."""


class Stopping(RandomPolicy):
    """The random policy; it stops every episode after one to four turns, or between its score and its record."""

    def __init__(self, stops: bool) -> None:
        super().__init__(seed=0)
        self.stops = stops
        self.asked: Counter[tuple[str, int]] = Counter()
        self.stopped: set[str] = set()
        self.turns: Counter[str] = Counter()

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        """Answer, or wait for ever."""
        self.turns[episode_id] += 1
        if self.stops and self.turns[episode_id] > random.Random(episode_id).randrange(1, 5):
            await self._stop(episode_id)
        response = await super().respond(request, episode_id=episode_id)
        self.asked[episode_id, len(request["input"])] += 1
        return response

    async def end_episode(self, episode_id: str, *, rewards: Any = (), failed: bool = False) -> Any:
        """Wait for ever if the episode has not stopped before: it is scored, and has no record."""
        if self.stops and not failed:
            await self._stop(episode_id)
        return await super().end_episode(episode_id, rewards=rewards, failed=failed)

    async def _stop(self, episode_id: str) -> None:
        self.stopped.add(episode_id)
        await asyncio.sleep(3600)


async def follow(run: Run, engine: Stopping, seconds: float) -> None:
    """Play until all episodes are recorded or stopped."""

    async def drain() -> None:
        async for _ in run.records():
            pass

    playing = asyncio.create_task(drain())
    async with asyncio.timeout(seconds):
        while not playing.done() and not (engine.stops and 0 < run.remaining <= len(engine.stopped)):
            await asyncio.wait([playing], timeout=0.02)
    if playing.done():
        playing.result()
    playing.cancel()
    await asyncio.gather(playing, return_exceptions=True)


def play(env_id: str, output: Path, options: argparse.Namespace, *, stops: bool = False, **more: Any) -> Stopping:
    """Play some rows; return the engine, which knows what it was asked."""
    engine = Stopping(stops)
    with Run(
        env_id,
        engine,
        env_kwargs=dict(dry_run_kwargs(env_id)),
        limit=options.rows,
        repeats=2 if env_class(env_id).scores_groups else 1,
        output=output,
        max_failures=None,
        retries=0,
        **more,
    ) as run:
        asyncio.run(follow(run, engine, options.seconds))
    return engine


def records(output: Path) -> dict[str, Any]:
    """Return a file's records without times, by episode."""
    lines = map(json.loads, output.read_bytes().splitlines()) if output.exists() else ()
    return {json.dumps(record["rollout_id"]): _plain(record) for record in lines}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items() if not _TIMES.search(key)}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def judge(env_id: str, folder: Path, options: argparse.Namespace) -> tuple[str, str]:
    """Return a verifier's kind, and why."""
    try:
        alone = [folder / "alone.jsonl", folder / "again.jsonl"]
        for output in alone:
            play(env_id, output, options)
        one, two = map(records, alone)
        if all(record["reward"] is None for record in one.values()):
            return "not played", next((record["error"] or "" for record in one.values()), "no episode")[:100]
        if one != two:
            return "not deterministic", ""
        cut = folder / "cut.jsonl"
        first = play(env_id, cut, options, stops=True, durable=True)
        second = play(env_id, cut, options, resume=True, durable=True)
        three = records(cut)
        twice = sum((first.asked & second.asked).values())
        if three != one or twice:
            return (
                "different",
                f"{sum(three.get(name) != record for name, record in one.items())} records, {twice} turns",
            )
        return "equal", f"{len(first.stopped)} episodes, {sum(first.asked.values())} turns restored"
    except (GymLLMError, ImportError, ValueError, TypeError, OSError, TimeoutError) as error:
        return "not played", f"{type(error).__name__}: {error}"[:100]


def main() -> int:
    """Play all verifiers; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", nargs="*", help="ids of verifiers (default: all that are registered)")
    parser.add_argument("--rows", type=int, default=3, help="rows of each verifier")
    parser.add_argument("--seconds", type=float, default=120.0, help="longest time of a run")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for env_id in options.env or env_ids():
        with tempfile.TemporaryDirectory() as name, contextlib.redirect_stderr(None):
            kind, why = judge(env_id, Path(name), options)
        found[kind].append(env_id)
        print(f"{kind:18}{env_id:45}{why}", flush=True)
    print(json.dumps({"counts": {kind: len(ids) for kind, ids in found.items()}, **found}))
    return bool(found["different"])


if __name__ == "__main__":
    sys.exit(main())
