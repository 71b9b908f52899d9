"""Stored rollouts scored again, without an engine, and without tools unless asked for."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from gym_llm.concurrency import Waiting, is_cancellation, run_until_wait, wait
from gym_llm.concurrency.relaxed_gc import relaxed_gc
from gym_llm.core.driver import Driver
from gym_llm.data.files.atomic import replacing
from gym_llm.errors import DataError, UsageError
from gym_llm.evaluation.reverify.changes import Reverified, with_verdict
from gym_llm.evaluation.reverify.group_pass import GroupPass, Member
from gym_llm.evaluation.reverify.rescoring import (
    NotFromItems,
    Score,
    can_be_scored,
    check_env,
    outcome_of,
    score_items,
    score_replayed,
)
from gym_llm.evaluation.stored_runs import check_output, of_one_dataset, run_settings
from gym_llm.records.failures import TRANSIENT, Failure
from gym_llm.records.record import check_record
from gym_llm.records.record_files import numbered_records
from gym_llm.rollouts.env_slots import EnvSlots
from gym_llm.rollouts.group_scores import GroupScorer
from gym_llm.rollouts.made_by import scored_by
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.rollouts.workload import Part
from gym_llm.types import Rollout
from gym_llm.utils.json_codec import dumps, dumps_record, loads
from gym_llm.utils.secrets import mask
from gym_llm.version import __version__

_STEP_SECONDS = 600.0
_PAUSE = 1.0  # seconds, before a verifier that was let down is asked once more
_MOST_WAITING = 4_096
_YIELD_EVERY = 256  # records; so often others on the event loop have their turn


class _Line(NamedTuple):
    """A record, and its score if it has one or waits for one."""

    number: int
    line: bytes
    record: Rollout
    score: Score | Failure | asyncio.Task[Score | Failure] | None


def reverify(path: str | os.PathLike[str], env_id: str, **options: Any) -> Reverified:
    """Score the episodes of a rollout file again; see `areverify`, which this waits for."""
    return wait(areverify(path, env_id, **options))


async def areverify(
    path: str | os.PathLike[str],
    env_id: str,
    *,
    env_kwargs: dict[str, Any] | None = None,
    output: str | os.PathLike[str] | None = None,
    rerun_tools: bool = False,
    dataset: str | None = None,
    concurrency: int = 64,
    on_read: Callable[[int], None] | None = None,
) -> Reverified:
    """Score the episodes of a rollout file again, with a verifier as it is now.

    An episode is rebuilt from its record: `setup`, `verify` and `teardown` run; tools answer as recorded. Episodes in
    which tools or `user_turn` took part are refused unless the class declares `reverify_mode = "stateless"`;
    `rerun_tools` plays the recorded turns through the environment instead. A masked episode is scored if only `verify`
    or `teardown` had failed; otherwise it stays masked. A verifier with `verify_group` scores each group of the file
    again; a group of which episodes are missing stays as it was.

    Args:
        path: The rollout file, ours or NeMo Gym's; may be compressed.
        env_id: The environment that scores, as for a rollout.
        env_kwargs: Its further arguments.
        output: A new rollout file, with the summary beside it: all records, those as they were that come to the same.
            None for comparing only.
        rerun_tools: Whether tools and `user_turn` run again. The records keep the conversation as it was.
        dataset: Which records to score, of a file that has several datasets; the others stay as they are.
        concurrency: Episodes at once, where a verifier waits.
        on_read: Called with the size in bytes of each line that is read.

    Raises:
        UsageError: If the environment cannot be used, or the episodes cannot be scored from their items.
        DataError: If the file cannot be read, or the output is there already.
    """
    if concurrency < 1:
        raise UsageError(f"concurrency is 1 or more, got {concurrency}.")
    part = Part(env_id, tasks=None, env_kwargs=env_kwargs or {})
    opened = part.plan(RolloutSettings(), needs_tasks=False)
    summary_path = None
    if output is not None:
        check_output(output)
        summary_path = Path(os.fspath(output).removesuffix(".jsonl") + ".summary.json")
        check_output(summary_path)
    settings = run_settings(path, dataset or "")
    report = Reverified(os.fspath(path), None if output is None else os.fspath(output), opened.env_id)
    scored = scored_by(opened.plan.factory)
    report.made_by = dict(scored.key)
    repeats = settings.get("repeats")
    report.summary.repeats = repeats if isinstance(repeats, int) and repeats > 0 else 1
    with ExitStack() as files:
        new = None if output is None else files.enter_context(replacing(output))
        files.enter_context(relaxed_gc())
        async with aclosing(EnvSlots(opened.plan.factory, concurrency, step_timeout=_STEP_SECONDS)) as shard:
            seed = settings.get("seed")
            pass_ = _Pass(shard, report, new, rerun_tools, seed if isinstance(seed, int) else 0)
            if opened.plan.factory.scores_groups:
                async with aclosing(GroupScorer(opened.plan.factory, concurrency=concurrency)) as scorer:
                    await pass_.run_groups(scorer, path, dataset, on_read, repeats)
            else:
                await pass_.run(path, dataset, on_read)
    if summary_path is not None:
        told = mask({"env_kwargs": part.env_kwargs}, part.secrets)
        if isinstance(identity := settings.get("identity"), dict):
            told["identity"] = {**identity, **scored.identity}
        more = {"env_id": opened.env_id, **told, "reverified": os.fspath(path), "gym_llm": __version__}
        with replacing(summary_path) as file:
            numbers = {"output": os.path.basename(report.output or ""), **report.summary.as_dict(), "complete": True}
            file.write(dumps({**numbers, "settings": {**settings, **more}, "changes": report.counts()}, indent=True))
    return report


class _Pass:
    """A pass through a file. Records leave in the order in which they came."""

    def __init__(self, shard: EnvSlots, report: Reverified, new: BinaryIO | None, rerun_tools: bool, seed: int) -> None:
        self._shard = shard
        self._report = report
        self._new = new
        self._seed = seed
        self._score = score_replayed if rerun_tools else score_items
        if not rerun_tools:
            check_env(shard.env(0))
        self._free = list(range(shard.num_envs - 1, -1, -1))
        self._lines: deque[_Line] = deque()

    async def run(
        self, path: str | os.PathLike[str], dataset: str | None, on_read: Callable[[int], None] | None
    ) -> None:
        """Score, and write."""

        def pass_by(member: Member) -> None:
            self._put(_Line(*member, None))

        try:
            for count, (number, line, record) in enumerate(_members(path, dataset, on_read, pass_by), 1):
                score = None
                if can_be_scored(record):
                    if not self._free:
                        await self._slot()
                    score = self._scored(record)
                if self._lines or isinstance(score, asyncio.Task):
                    self._put(_Line(number, line, record, score))
                else:
                    self._write(number, line, record, score)
                if count % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)
                if len(self._lines) > _MOST_WAITING and isinstance(task := self._lines[0].score, asyncio.Task):
                    await asyncio.wait({task})
                    self._put()
            while self._lines:
                if isinstance(task := self._lines[0].score, asyncio.Task):
                    await asyncio.wait({task})
                self._put()
        finally:
            tasks = [line.score for line in self._lines if isinstance(line.score, asyncio.Task)]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def run_groups(
        self,
        scorer: GroupScorer,
        path: str | os.PathLike[str],
        dataset: str | None,
        on_read: Callable[[int], None] | None,
        repeats: Any,
    ) -> None:
        """Score and write a file whose verifier scores groups; `repeats` is the run's own setting, if it is known."""

        def pass_by(member: Member) -> None:
            self._write(*member, None)

        members = _members(path, dataset, on_read, pass_by)
        size = repeats if isinstance(repeats, int) and repeats > 0 else None
        await GroupPass(self._shard, scorer, self._score, self._write, seed=self._seed, repeats=size).run(members)

    async def _slot(self) -> None:
        """Wait for a free slot."""
        while not self._free:
            await asyncio.wait(
                [line.score for line in self._lines if isinstance(line.score, asyncio.Task)],
                return_when=asyncio.FIRST_COMPLETED,
            )
            await asyncio.sleep(0)  # its slot is free when its callback has run

    def _scored(self, record: Rollout) -> Score | Failure | asyncio.Task[Score | Failure]:
        """Begin to score an episode in a free slot; what has to be waited for is a task."""
        slot = self._free[-1]
        driver = self._shard.driver(slot)
        try:
            outcome = run_until_wait(self._score, driver, record, self._seed)
        except NotFromItems:
            raise
        except BaseException as error:
            if is_cancellation(error):
                raise
            failure = driver.failure(error)
            if failure.kind not in TRANSIENT:
                return failure
            outcome = failure  # type: ignore[assignment]
        if isinstance(outcome, Score):
            return outcome
        task = asyncio.create_task(self._finished(driver, record, outcome))  # type: ignore[arg-type]
        self._free.pop()
        task.add_done_callback(lambda _: self._free.append(slot))
        return task

    async def _finished(self, driver: Driver, record: Rollout, begun: Waiting[Score] | Failure) -> Score | Failure:
        """Wait for a score; once more, after a pause, where something failed that may pass."""
        if isinstance(begun, Waiting):
            score = await outcome_of(driver, driver.resume(begun))
            if isinstance(score, Score) or score.kind not in TRANSIENT:
                return score
        await asyncio.sleep(_PAUSE)
        return await outcome_of(driver, driver.run(self._score, driver, record, self._seed))

    def _put(self, line: _Line | None = None) -> None:
        """Write what is ready, in order, after the lines before it."""
        if line is not None:
            self._lines.append(line)
        while self._lines:
            number, text, record, score = self._lines[0]
            if isinstance(score, asyncio.Task):
                if not score.done():
                    return
                score = score.result()
            self._lines.popleft()
            self._write(number, text, record, score)

    def _write(self, number: int, text: bytes, record: Rollout, score: Score | Failure | None) -> None:
        changed = with_verdict(record, score, self._report, number)
        if self._new is None:
            return
        if changed is not None:
            text = dumps_record(changed)
        elif not text.endswith(b"\n"):
            text += b"\n"
        self._new.write(text)


def _members(
    path: str | os.PathLike[str],
    dataset: str | None,
    on_read: Callable[[int], None] | None,
    pass_by: Callable[[Member], None],
) -> Iterator[Member]:
    """The lines of a dataset in a file; `pass_by` gets those of other datasets, before the next line is read."""
    latest: deque[Member] = deque(maxlen=1)

    def records() -> Iterator[Rollout]:
        for number, line, record in numbered_records(path, _parse):
            latest.append(Member(number, line, record))
            if on_read is not None:
                on_read(len(line))
            if dataset not in (None, record.get("dataset", "")):
                pass_by(latest[0])
            yield record

    for _ in of_one_dataset(records(), path, dataset):
        yield latest[0]


def _parse(line: bytes) -> Rollout:
    try:
        value = loads(line)
    except ValueError:
        raise DataError("not JSON") from None
    return check_record(value)
