"""A run: episodes that are played into a file, and played to the end by a later run if this one is interrupted."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, aclosing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from gym_llm.concurrency import wait
from gym_llm.core.registry.ids import parse_id
from gym_llm.data.files.atomic import new_path
from gym_llm.engines import Engine
from gym_llm.errors import UsageError
from gym_llm.records.failures import TRANSIENT
from gym_llm.records.rollout_file import RolloutFile
from gym_llm.rollouts import failure_limit
from gym_llm.rollouts.durable.run_journals import journals_beside, open_journals, part_folder, remove_journals
from gym_llm.rollouts.failure_limit import FailureLimit
from gym_llm.rollouts.identity import changed_key, changed_settings, in_one_phrase
from gym_llm.rollouts.made_by import wrapper_name
from gym_llm.rollouts.play import iter_records
from gym_llm.rollouts.run_budget import RunBudget
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.rollouts.workload import OpenWorkload, Part, tells_apart
from gym_llm.stats.prices import Prices
from gym_llm.stats.run_summary import PASS_THRESHOLD, Summary
from gym_llm.types import Rollout, Row
from gym_llm.utils.secrets import mask, redact, register_env_secrets
from gym_llm.version import __version__


class Run(AbstractContextManager["Run"]):
    """Episodes that are played into a file, one JSON line each, with `NAME.summary.json` beside it.

    To complete a run that was interrupted or killed, start it again with the same arguments and `resume=True`. It plays
    the missing episodes and no episode twice. It refuses a file whose records were made with other settings.

    >>> with Run("gym_llm/Weather-v0", "replay:earlier.jsonl", output="a.jsonl", resume=True) as run:  # doctest: +SKIP
    ...     print(run.play().mean_reward)
    1.0

    Args:
        env_id: A registered id; or parts, each an environment with its own tasks and engine.
        engine: The model that plays the one environment; `tasks`, `env_kwargs`, `engine_options` and `repeats` are as
            for `gym_llm.rollout`. Parts have their own.
        episodes: As for `gym_llm.rollout`, of each part; `limit` too.
        reasoning_parser: vLLM's or Harmony's name of a parser, instead of looking for `<think>`.
        tool_call_parser: The same for tool calls.
        output: The file; None for a new one, `rollouts/NAME-DATE-TIME.jsonl`.
        resume: Whether to continue a file that has records.
        retry_failed: Whether to play its masked episodes again; whole groups of them where a verifier scores groups.
        accept_changes: Whether to continue a file though settings, code or files have changed since; its summary lists
            the changes (`accepted_changes`).
        max_failures: The run ends when more episodes than this are masked. A number, a share such as `"10%"` (from the
            21st masked one), or None for no limit.
        run_max_tokens: The run ends when its file's episodes have this many tokens, given and generated.
        run_max_seconds: The run ends after this time; episodes under way are played when it is resumed.
        run_max_dollars: The run ends when its file's episodes have cost this much; needs `prices`.
        pass_threshold: The smallest reward of a solved episode, for pass@k.
        notes: Further entries of the summary's `settings`.
        settings: How the episodes are played; or `more` of them one by one, see `RolloutSettings`.

    Raises:
        UsageError: If something cannot be played, or the file was made in another way.
        DataError: If the file holds records and is not to be resumed, or cannot be written.
        TypeError: If a setting is unknown.
        ValueError: If a setting makes no sense.

    Attributes:
        path: The file.
        settings: How the episodes are played.
        parts: What is played, by the parts' datasets.
        summary: Of all records in the file, earlier runs' too; grows as episodes end.
        environments: The same of each environment; several where rows name their verifiers (`Mixed`).
        played: Episodes that this run has played.
        restored: Episodes under way when an earlier, durable run ended: they go on where they were.
    """

    def __init__(
        self,
        env_id: str | Sequence[Part],
        engine: str | Engine = "pocket",
        *,
        tasks: str | list[Row] | None = None,
        env_kwargs: dict[str, Any] | None = None,
        engine_options: dict[str, Any] | None = None,
        episodes: int | None = None,
        limit: int | None = None,
        repeats: int = 1,
        reasoning_parser: str | None = None,
        tool_call_parser: str | None = None,
        output: str | os.PathLike[str] | None = None,
        resume: bool = False,
        retry_failed: bool = False,
        accept_changes: bool = False,
        max_failures: int | str | None = failure_limit.DEFAULT,
        run_max_tokens: int | None = None,
        run_max_seconds: float | None = None,
        run_max_dollars: float | None = None,
        pass_threshold: float = PASS_THRESHOLD,
        notes: dict[str, Any] | None = None,
        settings: RolloutSettings | None = None,
        **more: Any,
    ) -> None:
        self.settings = RolloutSettings.of(settings, **more)
        has_parsers = bool(reasoning_parser or tool_call_parser)
        for wrong, sentence in (
            (resume and output is None, "resume needs output: the file to go on with."),
            (retry_failed and not resume, "retry_failed only makes sense with resume."),
            (accept_changes and not resume, "accept_changes only makes sense with resume."),
            (self.settings.wrappers is not None and has_parsers, "Give either wrappers or parsers' names, not both."),
        ):
            if wrong:
                raise UsageError(sentence)
        register_env_secrets()
        if isinstance(env_id, str):
            env_id = [Part(env_id, engine, tasks, env_kwargs or {}, engine_options or {}, repeats)]
        _check_names(env_id)
        how: dict[str, Any] = {"episodes": episodes, "limit": limit, "pass_threshold": pass_threshold}
        parsers = {"reasoning_parser": reasoning_parser, "tool_call_parser": tool_call_parser}
        self.parts = {
            part.dataset: part.plan(self.settings, part.wrappers(**parsers) or self.settings.wrappers, **how)
            for part in env_id
        }
        self._failures = FailureLimit(max_failures)
        self._budget = RunBudget(
            run_max_tokens=run_max_tokens,
            run_max_seconds=run_max_seconds,
            run_max_dollars=run_max_dollars,
            prices=cast("Prices | None", self.settings.prices),
        )
        self.summary = Summary(max(part.repeats for part in env_id), pass_threshold)
        self.environments: dict[str, Summary] = {}
        self.played = self._dropped = 0
        self._closed = False
        self._to_retry: set[str] = set()
        self._journals: Path | None = None
        self._may_go_on = False  # an episode was masked for a reason that may pass, and its journal stays
        self._recorded: dict[str, set[tuple[int, int]]] = {name: set() for name in self.parts}
        self._seconds = self._started = self._cpu_seconds = 0.0
        counts = {"episodes": episodes, "limit": limit}
        self._made_by = {name: part.made_by(self.settings) for name, part in self.parts.items()}
        self._summary_settings = {**mask(notes or {}), **self._describe(), **parsers, **counts}
        with ExitStack() as stack:
            self._file = stack.enter_context(RolloutFile(output or self._default_path(), resume=resume))
            self.path = self._file.path
            self._take_over(retry_failed, accept_changes)
            self._to_play = sum(part.remaining() for part in self.parts.values())
            self.restored = self._open_journals(resume)
            if not self._to_play:
                self._summary_settings = self._file.read_summary().get("settings", self._summary_settings)
            stack.callback(self._write_summary)
            self._open = stack.pop_all()

    @property
    def remaining(self) -> int:
        """Episodes that are still to be played."""
        return self._to_play - self.played

    @property
    def seconds(self) -> float:
        """Seconds that the episodes of this run have taken so far."""
        return self._seconds + (time.monotonic() - self._started if self._started else 0.0)

    @property
    def model(self) -> str | None:
        """The model's name as its engine reports it, if known; several names if the parts have several engines."""
        return ", ".join(dict.fromkeys(part.model for part in self.parts.values() if part.model)) or None

    @property
    def title(self) -> str:
        """The ids of what is played."""
        return ", ".join(dict.fromkeys(part.env_id for part in self.parts.values()))

    @property
    def summary_path(self) -> Path:
        """`runs/a.summary.json` for `runs/a.jsonl`; written with the first record and when the run is closed."""
        return self._file.summary_path

    @property
    def datasets(self) -> dict[str, Summary]:
        """The summary of each named part."""
        return {name: part.summary for name, part in self.parts.items() if name}

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the summary file."""
        seconds = self.seconds
        numbers = {name: {"model": part.model, **part.summary.as_dict()} for name, part in self.parts.items() if name}
        environments = {name: summary.as_dict() for name, summary in self.environments.items()}
        return {
            **self.summary.as_dict(),
            **({"datasets": numbers} if numbers else {}),
            **({"environments": environments} if len(environments) > 1 else {}),
            "model": self.model,
            "complete": not self.remaining,
            "episodes_this_run": self.played,
            "seconds": seconds,
            "episodes_per_second": self.played / seconds if seconds else None,
            "cpu_seconds": self._cpu_seconds,
            "settings": self._summary_settings,
        }

    def _describe(self) -> dict[str, Any]:
        parts = {
            name: {**part.describe(), "identity": self._made_by[name].identity} for name, part in self.parts.items()
        }
        settings = self.settings
        return {
            **parts.get("", {"datasets": parts}),
            "sampling": settings.sampling or {},
            "wrappers": None if settings.wrappers is None else list(map(wrapper_name, settings.wrappers)),
            "concurrency": settings.concurrency,
            "workers": settings.workers,
            "seed": settings.seed,
            "agent": settings.agent_name,
            "budgets": settings.budgets,
            "compaction": settings.compaction,
            "agent_machine": settings.agent_machine,
            "gym_llm": __version__,
        }

    def _default_path(self) -> str:
        sections = "-".join(dict.fromkeys(name.partition("/")[0] for name in self.parts))
        first = next(iter(self.parts.values())).env_id
        name = sections[:80] or parse_id(first)[1]
        return new_path(f"rollouts/{name}", ".jsonl")

    def _take_over(self, retry_failed: bool, accept_changes: bool) -> None:
        """Count what earlier runs wrote, if it was made the way this run would."""
        if not self.path.stat().st_size:
            return
        earlier = self._file.read_summary()
        settings = earlier.get("settings", {})
        self._refuse(changed_settings(settings, self._summary_settings), accept_changes, settings)
        models = earlier.get("datasets", {"": earlier})
        for name, part in self.parts.items():
            part.model = models.get(name, {}).get("model")
        jobs = {name: set(part.plan.jobs()) for name, part in self.parts.items()} if retry_failed else {}
        last: dict[str, Rollout] = {}
        broken, unfinished = self._broken_groups(retry_failed), self._broken_groups(True)
        for record in self._file.records():
            env_id, name = record.get("env_id"), self._part_name(record)
            home = self.parts.get(name)
            if home is None or env_id is None or not home.verifier.plays(env_id):
                env_ids = " and ".join(dict.fromkeys(part.env_id for part in self.parts.values()))
                raise UsageError(f"{self.path} holds rollouts of {env_id}, not of {env_ids}: name another output.")
            last[name] = record
            tells = tells_apart(settings.get("datasets", {}).get(name, settings).get("tasks_sha256"))
            if not (tells or accept_changes) and (problem := home.check_task(record, self.settings)):
                raise UsageError(f"{self.path} was made with other tasks ({problem}): name another output.")
            number = record["rollout_id"]["task_index"], record["rollout_id"]["repeat_index"]
            is_masked = retry_failed and record["reward"] is None and number in jobs[name]
            if is_masked or (name, number[0]) in broken:
                self._to_retry.add(name)
            else:
                self._count(home, record)
            if not (record.get("failure_kind") in TRANSIENT or (name, number[0]) in unfinished):
                self._recorded[name].add(number)
        # Changes between earlier records were accepted then: the run that wrote the last one has compared.
        for name, record in last.items():
            if recorded := record.get("made_by"):
                self.parts[name].model = self.parts[name].model or recorded.get("model")
                self._refuse(changed_key(recorded, self._made_by[name].key), accept_changes, settings)

    def _open_journals(self, resume: bool) -> int:
        """Get the journals of a durable run ready, and count the episodes that go on in the middle."""
        folder = journals_beside(self.path)
        durable = self.settings.durable or (resume and folder.is_dir())
        if not (durable and resume and (self._to_play or self._may_go_on)):
            remove_journals(folder)
        if not (durable and self._to_play):
            return 0
        if isinstance(durable, str):
            raise UsageError("A Run has its journal beside its output: give durable=True.")
        if any(part.spec.engine == "agent" for part in self.parts.values()):
            raise UsageError(
                "The engine `agent` is not durable: name the agent with --agent and its model as the engine."
            )
        self._journals = folder
        made_by = {name: {**part.key, "model": None} for name, part in self._made_by.items()}
        left = open_journals(folder, made_by, self._recorded)
        return sum(len(jobs - self.parts[name].finished) for name, jobs in left.items())

    def _broken_groups(self, retry_failed: bool) -> set[tuple[str, int]]:
        """Return the groups to play again, by part and task index: those not whole, or with a masked episode to retry.

        Only a verifier that scores groups has any: an episode's reward there depends on the others.
        """
        missing: dict[tuple[str, int], set[int]] = {}
        for name, part in self.parts.items():
            if part.plan.factory.scores_groups:
                for task, repeat in part.plan.jobs():
                    missing.setdefault((name, task), set()).add(repeat)
        masked: set[tuple[str, int]] = set()
        for record in self._file.records() if missing else ():
            number = record["rollout_id"]
            group = self._part_name(record), number["task_index"]
            missing.get(group, set()).discard(number["repeat_index"])
            if retry_failed and record["reward"] is None:
                masked.add(group)
        return {group for group, repeats in missing.items() if repeats or group in masked}

    def _refuse(self, changes: list[str], accept_changes: bool, settings: dict[str, Any]) -> None:
        if changes and not accept_changes:
            raise UsageError(
                f"{self.path} was made with other settings ({in_one_phrase(changes)}): name another output, or go on "
                "with --accept-changes."
            )
        if accepted := [
            *self._summary_settings.get("accepted_changes", settings.get("accepted_changes", [])),
            *changes,
        ]:
            self._summary_settings["accepted_changes"] = list(dict.fromkeys(accepted))

    def _part_name(self, record: Rollout) -> str:
        return "" if "" in self.parts else record.get("dataset", "")

    def _drop_masked(self, parts: Sequence[OpenWorkload]) -> None:
        """Remove the records that are about to be made again; not before it is sure that they can be."""
        names = {part.spec.dataset for part in parts} & self._to_retry
        self._to_retry -= names

        def stays(record: Rollout) -> bool:
            name, number = self._part_name(record), record["rollout_id"]
            return name not in names or (number["task_index"], number["repeat_index"]) in self.parts[name].finished

        if names:
            self._dropped += self._file.keep(stays)

    def _count(self, part: OpenWorkload, record: Any) -> None:
        number, env_id = record["rollout_id"], record["env_id"]
        part.finished.add((number["task_index"], number["repeat_index"]))
        self._may_go_on |= record.get("failure_kind") in TRANSIENT
        self.summary.add(record)
        self._budget.count(record, part.model)
        if part.spec.dataset:
            part.summary.add(record)
            return
        if env_id not in self.environments:
            self.environments[env_id] = Summary(self.summary.repeats, self.summary.pass_threshold)
        self.environments[env_id].add(record)

    def play(self) -> Summary:
        """Play what is left, and wait for it. An interrupt (Ctrl-C) loses no finished episode; `play` again goes on.

        Returns:
            `summary`.

        Raises:
            Exception: As `records`.
        """

        async def drain() -> None:
            async with aclosing(self.records()) as records:
                async for _ in records:
                    pass

        wait(drain())
        return self.summary

    async def records(self) -> AsyncGenerator[Rollout, None]:
        """Play what is left.

        Yields:
            Each record when it is in the file, in the order of finishing; an episode that fails is a masked one.

        Raises:
            UsageError: If an engine or one of its options is unknown, or the file was played by another model.
            EngineUnavailable: If an engine cannot be used.
            RayUnavailable: If there are to be workers and Ray cannot be used.
            DataError: If the file cannot be written.
            TooManyFailures: If more episodes are masked than `max_failures` allows. A run that resumes goes on.
            BudgetSpent: If a budget of the run is spent; episodes are left.
        """
        if self._closed:
            raise UsageError("This run is closed: make another one, with resume=True to go on with its file.")
        began = time.thread_time()  # of the thread that runs the event loop: it drives all episodes
        try:
            for engine, parts in self._engines():
                self._budget.check()
                async with self._started_here(engine, parts[0]):
                    for part in parts:
                        if part.model not in (None, engine.model, redact(engine.model)):
                            raise UsageError(
                                f"{self.path} was played by {part.model}, not {engine.model}: name another output."
                            )
                        part.model = engine.model
                    self._drop_masked(parts)
                    self._started = self._started or time.monotonic()
                    self._budget.start(engine.model)
                    for part in parts:
                        async with aclosing(self._played(part, engine)) as records:
                            async for record in self._budget.within(records):
                                if part.spec.dataset:
                                    record["dataset"] = part.spec.dataset
                                self._write(part, record)
                                yield record
                                self._failures.count(record)
                                if self.remaining:
                                    self._budget.check()
        finally:
            self._seconds, self._started = self.seconds, 0.0
            self._cpu_seconds += max(0.0, time.thread_time() - began)

    def _played(self, part: OpenWorkload, engine: Engine) -> AsyncGenerator[Rollout, None]:
        in_workers = bool(self.settings.workers)  # each makes an engine of its own
        return iter_records(
            part.plan,
            part.spec.engine if in_workers else engine,
            replace(
                self.settings,
                wrappers=part.wrappers,
                sampling=part.sampling(self.settings),
                durable=self._journal(part),
            ),
            skip=part.finished,
            engine_options=part.spec.engine_options if in_workers else None,
            made_by={**self._made_by[part.spec.dataset].key, "model": redact(engine.model)},
        )

    def _journal(self, part: OpenWorkload) -> str | bool:
        return False if self._journals is None else str(part_folder(self._journals, part.spec.dataset))

    def _write(self, part: OpenWorkload, record: Rollout) -> None:
        if not self.played:  # from now on the file has records, so it has to say how they were made
            self._file.write_summary(self._origin())
        self._file.append(record)
        self.played += 1
        self._count(part, record)

    def _engines(self) -> list[tuple[Engine, list[OpenWorkload]]]:
        groups: dict[tuple[str | Engine, str], list[OpenWorkload]] = {}
        for part in self.parts.values():
            if part.remaining():
                groups.setdefault((part.spec.engine, repr(part.spec.engine_options)), []).append(part)
        return [(group[0].spec.make_engine(self.settings.seed), group) for group in groups.values()]

    def _started_here(self, engine: Engine, part: OpenWorkload) -> AbstractAsyncContextManager[Any]:
        elsewhere = self.settings.workers and part.spec.capabilities.loads_model
        return nullcontext() if elsewhere or engine is part.spec.engine else engine

    def _origin(self) -> dict[str, Any]:
        models = {name: {"model": part.model} for name, part in self.parts.items() if name and part.model}
        return {
            **({"datasets": models} if models else {}),
            "model": self.model,
            "complete": False,
            "settings": self._summary_settings,
        }

    def _write_summary(self) -> None:
        if self.summary.episodes and (self.played or self._dropped or not self._to_play):
            self._file.write_summary(self.as_dict())
        elif self._dropped:
            self._file.remove_summary()

    def close(self) -> None:
        """Write the summary file, and let others have the output."""
        self._closed = True
        self._open.close()
        if self._journals is not None and not (self.remaining or self._may_go_on):
            remove_journals(self._journals)

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


def _check_names(parts: Sequence[Part]) -> None:
    names = {part.dataset for part in parts}
    if not names or len(names) < len(parts) or ("" in names and len(names) > 1):
        raise ValueError("A run has one part or more; each of several parts needs a `dataset` of its own.")
