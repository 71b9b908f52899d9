"""Playing an environment while everything fails, and checking the outcome of each episode."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from chaos.faults import Fault, Faulty, choose
from chaos.faulty_server import FaultyServer
from gym_llm.concurrency import wait
from gym_llm.core.registry.env_files import dry_run_kwargs
from gym_llm.errors import DataError, RayUnavailable
from gym_llm.records.record_files import read_records
from gym_llm.records.rollout_file import RolloutFile
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.run import Run
from gym_llm.rollouts.settings import DEFAULT_WRAPPERS, RolloutSettings
from gym_llm.types import Rollout

_STEP_TIMEOUT = 5.0  # a slow machine, or a verifier with a long queue, is no fault
_STEP_TIMEOUT_OVER_RAY = 10.0  # in new processes verifiers have pools to start, and modules to import
_INTERRUPTIONS = ("cancelled", "disk full")
_INTERRUPTIONS_OVER_RAY = ("shard killed", "raylet killed")
_SHOWN = 20


@dataclass
class Report:
    """The result of a campaign.

    Attributes:
        env_id: The environment's id.
        episodes: Number of episodes.
        outcomes: Counts of results by place and kind of fault; `("", "none")` for episodes without a fault. The results
            are `masked`, `retried` (scored at a later try), `scored` (the fault did not happen) and `wrong`.
        interruptions: How often the run was cancelled, ran out of disk space, or lost a shard or the raylet.
        lost: Episodes without a record.
        doubled: Episodes with several records.
        wrong: The first 20 other errors, one sentence each.
    """

    env_id: str
    episodes: int
    outcomes: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    interruptions: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    doubled: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def faults(self) -> int:
        """Faults that struck."""
        rows = [counts for (place, _), counts in self.outcomes.items() if place]
        return sum(counts.total() - counts["scored"] for counts in rows) + self.interruptions.total()

    @property
    def is_clean(self) -> bool:
        """Whether every episode was recorded once, and as it should be."""
        return not (self.lost or self.doubled or self.wrong)


def attack(
    env_id: str,
    *,
    episodes: int = 500,
    share: float = 0.5,
    seed: int = 0,
    workers: int = 0,
    concurrency: int = 64,
    step_timeout: float | None = None,
    env_kwargs: dict[str, Any] | None = None,
    on_record: Callable[[int], None] | None = None,
) -> Report:
    """Play an environment with `FaultyPolicy`, once without faults, once with, and compare.

    In the second run, a share of the episodes has one fault each:

    - The engine, a hook or a tool raises, hangs, or returns junk.
    - The engine's server, a real one, replies 429, 500 or 503, or resets the connection within a reply.

    Meanwhile the run itself is cancelled or runs out of disk space, and the clock jumps. Over Ray, a shard and the
    raylet are killed. Each time the run is resumed.

    Args:
        env_id: A registered id.
        episodes: Number of episodes.
        share: The share of them that has a fault, (0, 1].
        seed: Chooses tasks, answers and faults.
        workers: Processes, over Ray; 0 for this one alone.
        concurrency: Episodes at once.
        step_timeout: Seconds after which a step that hangs is cancelled; None for 5, over Ray 10.
        env_kwargs: Further arguments of the environment; over those of its class's `dry_run_kwargs`.
        on_record: Called with the number of finished episodes, of both runs.

    Raises:
        UsageError: If the environment cannot be played.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share is a share of the episodes, more than 0 and at most 1; got {share}.")
    arguments = {**dry_run_kwargs(env_id), **(env_kwargs or {})}
    patience = step_timeout or (_STEP_TIMEOUT_OVER_RAY if workers else _STEP_TIMEOUT)
    count = 0

    def counted() -> None:
        nonlocal count
        count += 1
        if on_record is not None:
            on_record(count)

    def run(output: Path, share: float, resume: bool) -> Run:
        settings = RolloutSettings(
            seed=seed,
            concurrency=concurrency,
            step_timeout=patience if share else 600.0,
            retries=1,
            workers=workers if share else 0,
            wrappers=(partial(Faulty, fault_seed=seed, share=share), *DEFAULT_WRAPPERS),
        )
        options = {"fault_seed": seed, "share": share, **({"server": server.url} if share else {})}
        return Run(
            env_id,
            "faulty",
            engine_options=options,
            episodes=episodes,
            env_kwargs=arguments,
            output=output,
            resume=resume,
            max_failures=None,
            settings=settings,
        )

    with TemporaryDirectory(prefix="gym-llm-chaos-") as folder, FaultyServer() as server:
        calm, stormy = Path(folder, "calm.jsonl"), Path(folder, "stormy.jsonl")
        with run(calm, 0.0, False) as reference:
            wait(_play(reference, counted))
        report = Report(reference.title, episodes)
        rng = random.Random(seed)
        kinds = [*_INTERRUPTIONS, *(_INTERRUPTIONS_OVER_RAY if workers else _INTERRUPTIONS)]
        rng.shuffle(kinds)
        with _jumping_clock(rng):
            for kind in [*kinds, ""]:
                _storm(partial(run, stormy, share, True), kind, rng, report, counted)
        _compare(report, _records(calm), _records(stormy), seed, share)
    return report


def _records(path: Path) -> list[Rollout]:
    return [record for _, record in read_records(path)]


async def _play(run: Run, counted: Callable[[], None], most: int | None = None) -> None:
    """Continue a run, or leave it after a number of records."""
    played = 0
    async with aclosing(run.records()) as records:
        async for _ in records:
            played += 1
            counted()
            if played == most:
                return


def _storm(
    open_run: Callable[[], Run], kind: str, rng: random.Random, report: Report, counted: Callable[[], None]
) -> None:
    """Play on until this interrupts the run; without a kind, to the end."""
    with open_run() as run:
        if not (remaining := run.remaining):
            return
        after = rng.randrange(1, max(2, remaining // 4))
        if not kind:
            wait(_play(run, counted))
        elif kind == "cancelled":
            wait(_play(run, counted, after))
            report.interruptions[kind] += 1
        elif kind == "disk full":
            with _full_disk(after), suppress(OSError, DataError):
                wait(_play(run, counted))
            report.interruptions[kind] += 1
        else:
            find = _shards if kind == "shard killed" else _raylets
            with suppress(RayUnavailable):  # which a run without its raylet ends with, if it notices in time
                wait(_play(run, partial(_kill_one, find, kind, Counter(), after, report, counted), 2 * after))


@contextmanager
def _full_disk(after: int) -> Iterator[None]:
    """Fill the device after a number of records."""
    append, left = RolloutFile.append, after

    def full(file: RolloutFile, record: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(28, "No space left on device")
        append(file, record)

    with mock.patch.object(RolloutFile, "append", full):
        yield


@contextmanager
def _jumping_clock(rng: random.Random) -> Iterator[None]:
    now = time.time
    with mock.patch("time.time", lambda: now() + rng.uniform(-6e5, 6e5)):
        yield


def _kill_one(
    find: Callable[[], list[int]],
    kind: str,
    played: Counter[str],
    after: int,
    report: Report,
    counted: Callable[[], None],
) -> None:
    counted()
    played["records"] += 1
    if played["records"] == after and (processes := find()):
        os.kill(processes[after % len(processes)], signal.SIGKILL)
        report.interruptions[kind] += 1


def _shards() -> list[int]:
    return _ours(lambda process: (process / "cmdline").read_bytes().startswith(b"ray::ShardActor"))


def _raylets() -> list[int]:
    return _ours(lambda process: (process / "comm").read_text() == "raylet\n")


def _ours(is_meant: Callable[[Path], bool]) -> list[int]:
    """The processes of a kind that descend from this one."""
    parents, meant = {}, []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if is_meant(entry):
                    meant.append(int(entry.name))
            except OSError:  # it has ended
                continue

    def is_ours(process: int) -> bool:
        while process > 1 and process != os.getpid():
            process = parents.get(process, 0)
        return process == os.getpid()

    return sorted(filter(is_ours, meant))


def _compare(report: Report, calm: list[Rollout], stormy: list[Rollout], seed: int, share: float) -> None:
    expected = {Job(**record["rollout_id"]): record for record in calm}
    records: dict[Job, Rollout] = {}
    for record in stormy:
        job = Job(**record["rollout_id"])
        report.doubled += job in records
        records[job] = record
    report.lost = len(expected) - len(expected.keys() & records.keys())
    for job, record in records.items():
        fault = choose(job.env_seed(seed), seed, share)
        became, complaint = _judge(fault, expected[job], record)
        row = (fault.place, fault.kind) if fault else ("", "none")
        report.outcomes.setdefault(row, Counter())[became] += 1
        if complaint and len(report.wrong) < _SHOWN:
            where = f"with {fault.kind!r} in {fault.place}" if fault else "without a fault"
            report.wrong.append(f"Episode {job.episode_id}, {where}: {complaint}.")


def _judge(fault: Fault | None, calm: Rollout, record: Rollout) -> tuple[str, str]:
    """Return an episode's outcome, and what is wrong with it."""
    if calm["reward"] is None:
        return "wrong", f"it is masked even without faults ({calm['error']})"
    reached = fault is not None and (fault.phase == "engine" or fault.place in calm["info"]["reached"])
    if fault is None or not reached or fault.passes:
        if record["reward"] != calm["reward"] or record["outcome"] != calm["outcome"]:
            return "wrong", (
                f"it is {record['outcome']} with reward {record['reward']} ({record['error']}), and should be "
                f"{calm['outcome']} with {calm['reward']}"
            )
        return "retried" if reached else "scored", ""
    if record["reward"] is not None or record["outcome"] != "masked":
        return "wrong", f"it is {record['outcome']} with reward {record['reward']}, and should be masked"
    if record["error_phase"] != fault.phase or record["failure_kind"] != fault.failure_kind:
        return "wrong", (
            f"it is masked for {record['failure_kind']} in {record['error_phase']} ({record['error']}), and should be "
            f"for {fault.failure_kind} in {fault.phase}"
        )
    return "masked", ""
