"""An evaluation: several environments played by several engines into one folder, with a report of what it says."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, aclosing, suppress
from pathlib import Path
from typing import Any

from gym_llm.concurrency import wait
from gym_llm.data.files.atomic import new_path
from gym_llm.errors import DataError, InfrastructureError, UsageError
from gym_llm.evaluation.examples import Examples
from gym_llm.evaluation.results import EvaluationResult, collect_results, write_results
from gym_llm.evaluation.suite import EngineNames, env_parts, file_names, suite_parts
from gym_llm.records.record_files import read_records
from gym_llm.rollouts.run import Run
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.rollouts.workload import Part
from gym_llm.stats.prices import read_prices
from gym_llm.stats.run_summary import PASS_THRESHOLD
from gym_llm.types import Rollout, Row
from gym_llm.utils.text import did_you_mean

RECORDS = "records"


class Evaluation(AbstractContextManager["Evaluation"]):
    """Parts that are played by several engines, each engine's records in a file of its own: a `Run` each.

    The folder gets `records/ENGINE.jsonl`, and by `report` `results.json`, `report.md`, `report.html`,
    `episodes.html` (examples, which the report links) and `plots/`.
    An evaluation that was interrupted, killed even, is completed by another one of the same arguments with
    `resume=True`: it plays what is missing. Engines may be added so, and more repeats, and tasks where `limit` left
    some out; what differs otherwise is refused.

    Args:
        parts: What each engine plays, by the engine's name; see `gym_llm.evaluation.suite`.
        output: The folder; None for a new one, `evaluations/NAME-DATE-TIME`.
        resume: Whether to go on with a folder that has records already.
        by: Fields whose values have figures of their own; see `gym_llm.stats.episode_scores.score_of`.
        prices: What tokens cost, or the file that says so; see `gym_llm.stats.prices`.
        pass_threshold: The reward from which on an episode counts as solved.
        settings: How the episodes are played.
        **options: Of each engine's `Run`: `episodes`, `limit`, `retry_failed`, `accept_changes`, `max_failures`,
            `run_max_tokens`, `run_max_seconds`, `run_max_dollars`, `reasoning_parser`, `tool_call_parser`; or settings
            one by one, see `RolloutSettings`.

    Raises:
        UsageError: If something cannot be played, or the folder was made in another way.
        DataError: If the folder has records and is not to be resumed, or cannot be written; or prices are invalid.
        TypeError: If an option is unknown.

    Attributes:
        folder: Where everything is.
        runs: Each engine's, by its name.
    """

    def __init__(
        self,
        parts: Mapping[str, Sequence[Part]],
        *,
        output: str | os.PathLike[str] | None = None,
        resume: bool = False,
        by: str | Sequence[str] = (),
        prices: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        pass_threshold: float = PASS_THRESHOLD,
        settings: RolloutSettings | None = None,
        **options: Any,
    ) -> None:
        if resume and output is None:
            raise UsageError("resume needs output: the folder to go on with.")
        self.by = by.split(",") if isinstance(by, str) else list(by)
        if not all(self.by):
            raise UsageError(f"Fields to group by have names, e.g. subject,level; got {','.join(self.by)!r}.")
        self.prices = read_prices(prices)
        if settings is None:
            options.setdefault("prices", self.prices)
        self.pass_threshold = pass_threshold
        files = file_names(parts)
        self.folder = Path(output if output is not None else _new_folder(parts))
        _check_folder(self.folder, set(files.values()), resume)
        self.runs: dict[str, Run] = {}
        with ExitStack() as stack:
            stack.callback(_remove_empty, self.folder / RECORDS, self.folder, *[self.folder.parent] * (output is None))
            for name, engines_parts in parts.items():
                run = Run(
                    engines_parts,
                    output=self.folder / RECORDS / files[name],
                    resume=resume,
                    pass_threshold=pass_threshold,
                    settings=settings,
                    **options,
                )
                self.runs[name] = stack.enter_context(run)
            for run in self.runs.values():
                for part in run.parts.values():
                    if part.remaining():
                        part.spec.make_engine(run.settings.seed)  # what is wrong with it shows now
            self._open = stack.pop_all()

    @property
    def remaining(self) -> int:
        """Episodes that are still to be played."""
        return sum(run.remaining for run in self.runs.values())

    @property
    def played(self) -> int:
        """Episodes that were played here, not by an earlier evaluation in this folder."""
        return sum(run.played for run in self.runs.values())

    @property
    def finished(self) -> int:
        """Episodes that are in the files."""
        return sum(run.summary.episodes for run in self.runs.values())

    async def records(self) -> AsyncGenerator[tuple[str, Rollout], None]:
        """Play what is left, one engine after the other.

        Yields:
            The engine's name and each record when it is in the file.

        Raises:
            Exception: As `Run.records`.
        """
        for name, run in self.runs.items():
            if run.remaining:
                async with aclosing(run.records()) as records:
                    async for record in records:
                        yield name, record

    def play(self) -> None:
        """Play what is left, and wait for it.

        Raises:
            Exception: As `Run.records`.
        """

        async def drain() -> None:
            async with aclosing(self.records()) as records:
                async for _ in records:
                    pass

        wait(drain())

    def report(self, *, on_bytes: Callable[[int], None] | None = None) -> EvaluationResult:
        """Compute the figures from the files, and write `results.json` and the reports.

        Args:
            on_bytes: Called with the size of each record that was read.

        Raises:
            UsageError: If no record has a field that is to be grouped by; all else is written.
            DataError: If something cannot be read or written.
        """
        examples = Examples(self.pass_threshold)
        result = collect_results(
            self.folder,
            self.runs,
            by=self.by,
            prices=self.prices,
            pass_threshold=self.pass_threshold,
            examples=examples,
            on_bytes=on_bytes,
        )
        examples.write(self.folder)
        write_results(result)
        if unknown := result.data["suite"]["unknown_by"]:
            raise UsageError(
                f"No record has the field {unknown[0]!r} to group by.{self._like(unknown[0])} Resume {self.folder} "
                "with another --by."
            )
        return result

    def close(self) -> None:
        """Write the summaries, and let others have the files."""
        self._open.close()

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def _like(self, field: str) -> str:
        run = next(run for run in self.runs.values() if run.summary.episodes)
        record = next(record for _, record in read_records(run.path))
        fields = sorted({*record, *record.get("task_fields", {}), *(record.get("info") or {})})
        return did_you_mean(field, fields) or f" There are {', '.join(fields)}."


def evaluate(
    env_id: str | os.PathLike[str] | Part | Sequence[str | Part],
    engines: EngineNames | None = None,
    *,
    tasks: str | list[Row] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    engine_options: dict[str, Any] | None = None,
    repeats: int | None = None,
    output: str | os.PathLike[str] | None = None,
    resume: bool = False,
    by: str | Sequence[str] = (),
    prices: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    pass_threshold: float = PASS_THRESHOLD,
    settings: RolloutSettings | None = None,
    **options: Any,
) -> EvaluationResult:
    """Play environments with engines into one folder, and report the results: what `gym-llm eval` does.

    >>> result = gym_llm.evaluate(  # doctest: +SKIP
    ...     "gym_llm/Arithmetic-v0", ["pocket", "base=http://localhost:8000/v1"], repeats=8, output="runs/sums"
    ... )
    >>> result.metrics(engine="base")["pass_at"]["8"]["interval"]  # doctest: +SKIP
    [0.61, 0.82]

    Args:
        env_id: An id, several, or parts, which name their environments' tasks; or a suite, a file `*.yaml`.
        engines: Specs, `NAME=SPEC`, a suite's names, or engines that the caller started; None for the suite's own, or
            the pocket model.
        tasks: As for `gym_llm.rollout`, of the one environment.
        env_kwargs: Further arguments of every environment that an id names; a `Part` has its own.
        engine_options: The engines' arguments.
        repeats: How often each task is played; None for what parts or sections say, or once.
        output: The folder; see `Evaluation`, as for the others.
        resume: Whether to play only what is missing in it.
        by: Fields whose values have figures of their own.
        prices: What tokens cost, or the file that says so.
        pass_threshold: The reward from which on an episode counts as solved.
        settings: How the episodes are played.
        **options: See `Evaluation`.

    Raises:
        Exception: As `Evaluation` and `Run.records`; what is finished is in the folder, and reported if it was an
            interrupt or an engine that ended it.
    """
    if isinstance(env_id, (str, os.PathLike)) and is_suite(os.fspath(env_id)):
        from gym_llm.rollouts.config import load_config

        if tasks is not None or env_kwargs:
            raise UsageError("A suite says itself which tasks and arguments its environments have.")
        config = load_config([os.fspath(env_id)], one_engine=False)
        parts = suite_parts(config, engines, engine_options=engine_options, repeats=repeats)
    else:
        targets = [env_id] if isinstance(env_id, (str, Part)) else list(env_id)  # type: ignore[arg-type]
        parts = env_parts(
            targets, engines, tasks=tasks, env_kwargs=env_kwargs, engine_options=engine_options, repeats=repeats
        )
    with Evaluation(
        parts,
        output=output,
        resume=resume,
        by=by,
        prices=prices,
        pass_threshold=pass_threshold,
        settings=settings,
        **options,
    ) as evaluation:
        try:
            if evaluation.remaining:
                evaluation.play()
        except (KeyboardInterrupt, InfrastructureError):
            if evaluation.finished:
                evaluation.report()
            raise
        return evaluation.report()


def is_suite(name: str) -> bool:
    """Whether a name is that of a YAML file, not of an environment."""
    return name.endswith((".yaml", ".yml"))


def _new_folder(parts: Mapping[str, Sequence[Part]]) -> str:
    names = dict.fromkeys(part.dataset.partition("/")[0] for each in parts.values() for part in each)
    name = "-".join(names).replace(os.sep, "-")[:80]
    return new_path(f"evaluations/{name}")


def _remove_empty(*folders: Path) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def _check_folder(folder: Path, files: set[str], resume: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise DataError(f"Cannot write {folder}: it is a file; name a folder.")
    there = {file.name for file in (folder / RECORDS).glob("*.jsonl")}
    if there and not resume:
        raise DataError(f"{folder} holds an evaluation already: resume it (--resume) or name another folder.")
    if others := sorted(there - files):
        ours = ", ".join(sorted(files))
        raise UsageError(
            f"{folder} has {RECORDS}/{others[0]} from another engine than {ours}: add it with --engine, or name "
            "another folder."
        )
