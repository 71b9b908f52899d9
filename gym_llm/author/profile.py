"""Profiling a verifier: stored rollouts are played again through the real environment, under yappi.

Each pass has one clock, so the rollouts are played twice, by wall-clock time and by processor time. The difference is
the time that a function waited for a coroutine, a thread, a process or a lock. Episodes are played one at a time in
this thread, blocking hooks included, so nothing overlaps. The work of other threads is listed under their names. The
first episode is played once before the measurement, because imports and start-up do not belong to an episode.
"""

from __future__ import annotations

import inspect
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple, get_args

from gym_llm.author.flame import Flames, Frame, Spent, flame_graph, stacks_under
from gym_llm.concurrency import is_cancellation
from gym_llm.core.driver import Driver
from gym_llm.data.files.atomic import write_atomically
from gym_llm.errors import UsageError
from gym_llm.evaluation.reverify.rescoring import NotFromItems, score_replayed
from gym_llm.evaluation.stored_runs import of_one_dataset, records_of, run_settings
from gym_llm.records.failures import reason
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.rollouts.workload import Part
from gym_llm.types import Phase, Rollout
from gym_llm.utils.extras import install
from gym_llm.utils.json_codec import dumps

HOOKS: Final = tuple(phase for phase in get_args(Phase) if phase != "engine")
_OUTSIDE = 0  # yappi's tag of what no hook does
_MOST_SLOW = 20
_CLOCKS = ("wall", "cpu")


class Place(NamedTuple):
    """A function, under a hook, in a thread."""

    hook: str
    thread: str
    file: str
    line: int
    name: str


@dataclass(slots=True)
class FunctionTime:
    """The time of a function under one hook, in seconds.

    Attributes:
        hook: `setup`, `tool`, `respond`, `verify` or `teardown`.
        function: Its qualified name, as the next two.
        file: Where it is.
        line: From 1; 0 for one that is not Python.
        thread: Which thread ran it.
        calls: How often it was called.
        own_wall: By the clock, without what it called.
        total_wall: With it; of a coroutine also while it waits.
        own_cpu: The same of the processor's time, as the next.
        total_cpu: See there.
        mean_wall: Of a call, as `total_wall`.
        waiting: Of `own_wall`, what was no work.
    """

    hook: str
    function: str
    file: str
    line: int
    thread: str
    calls: int = 0
    own_wall: float = 0.0
    total_wall: float = 0.0
    own_cpu: float = 0.0
    total_cpu: float = 0.0
    mean_wall: float = 0.0
    waiting: float = 0.0


@dataclass(slots=True)
class HookTime:
    """The time of a hook or tool: `calls`, total `wall`, `cpu` and `waiting` seconds, `mean_wall` of a call."""

    hook: str
    calls: int
    wall: float
    cpu: float
    waiting: float
    mean_wall: float


@dataclass
class Profile:
    """The outcome.

    Attributes:
        env_id: What was profiled.
        episodes: How many episodes were played, in each pass.
        left_out: How many records have no episode to play.
        failed: How many episodes failed.
        first_error: Why the first of these did.
        hooks: Per hook and tool, the longest first.
        functions: Per function, the one with the most time of its own first.
        threads: Seconds by the clock of what other threads did, or waited for, meanwhile; by their names.
        slowest: The episodes that took longest: dataset, task index, repeat index, seconds.
        flames: The stacks, for `flame_graph`.
    """

    env_id: str
    episodes: int = 0
    left_out: int = 0
    failed: int = 0
    first_error: str | None = None
    hooks: list[HookTime] = field(default_factory=list)
    functions: list[FunctionTime] = field(default_factory=list)
    threads: dict[str, float] = field(default_factory=dict)
    slowest: list[dict[str, Any]] = field(default_factory=list)
    flames: Flames = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The profile as JSON values, without the stacks."""
        return {name: value for name, value in asdict(self).items() if name != "flames"}

    def write(self, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
        """Write `profile.json` and `profile.speedscope.json` (https://www.speedscope.app opens it) into a folder."""
        paths = Path(folder, "profile.json"), Path(folder, "profile.speedscope.json")
        write_atomically(paths[0], dumps(self.as_dict(), indent=True))
        write_atomically(paths[1], dumps(flame_graph(self.env_id, self.flames)))
        return paths


def profile(
    path: str | os.PathLike[str],
    env_id: str,
    *,
    env_kwargs: dict[str, Any] | None = None,
    dataset: str | None = None,
    limit: int | None = None,
    on_read: Callable[[int], None] | None = None,
) -> Profile:
    """Play the episodes of a rollout file again, twice, and say where the environment's time goes.

    Args:
        path: The rollout file, ours or NeMo Gym's.
        env_id: The environment, as for a rollout.
        env_kwargs: Its further arguments.
        dataset: Which one, of a file that has several.
        limit: Play only the first records, this many.
        on_read: Called with the size in bytes of each line that is read; each line is read twice.

    Raises:
        UsageError: If yappi is not installed, the environment cannot be used, or nothing can be played.
        DataError: If the file cannot be read.
    """
    yappi = _yappi()
    opened = Part(env_id, env_kwargs=env_kwargs or {}).plan(RolloutSettings(), needs_tasks=False)
    env = opened.plan.factory.make()
    verifier: Any = env.unwrapped
    run_seed = run_settings(path, dataset or "").get("seed")
    seed = run_seed if isinstance(run_seed, int) else 0
    result = Profile(opened.env_id)
    classes: dict[type, None] = {}
    times: dict[Place, FunctionTime] = {}
    edges: dict[Place, dict[Place, float]] = {}

    def tag() -> int:
        phase = verifier.phase
        return HOOKS.index(phase) + 1 if phase in HOOKS else _OUTSIDE

    try:
        for clock in _CLOCKS:
            yappi.clear_stats()
            yappi.set_clock_type(clock)
            yappi.set_tag_callback(tag)
            records = of_one_dataset(records_of(path, on_read), path, dataset)
            for number, record in enumerate(records):
                if limit is not None and number >= limit:
                    break
                is_first = clock == _CLOCKS[0]
                if "response" not in record:
                    result.left_out += is_first
                    continue
                if not classes:
                    _play(None, env, record, seed)
                error, seconds = _play(yappi, env, record, seed)
                classes[type(verifier.playing)] = None
                if is_first:
                    _count(result, record, error, seconds)
            _read(yappi, clock, times, edges, result.threads)
    finally:
        yappi.stop()
        yappi.set_tag_callback(None)
        yappi.clear_stats()
        env.close()
    if not result.episodes:
        raise UsageError(f"{path} has no episode to play.")
    for each in times.values():
        each.waiting = max(0.0, each.own_wall - each.own_cpu)
        each.mean_wall = each.total_wall / each.calls if each.calls else 0.0
    result.functions = sorted(times.values(), key=lambda each: each.own_wall, reverse=True)
    result.slowest = sorted(result.slowest, key=lambda each: each["seconds"], reverse=True)[:_MOST_SLOW]
    _add_hooks(result, classes, times, edges)
    return result


def _yappi() -> ModuleType:
    try:
        import yappi
    except ModuleNotFoundError:
        raise UsageError(f"gym-llm profile needs yappi: {install('profile')}.") from None
    if yappi.is_running():
        raise UsageError("yappi is running already: stop it first.")
    return yappi  # type: ignore[no-any-return]


def _play(yappi: ModuleType | None, env: Any, record: Rollout, seed: int) -> tuple[BaseException | None, float]:
    """Play an episode, under the profiler if there is one: what went wrong, and seconds by the clock."""
    start = time.perf_counter()
    if yappi is not None:
        yappi.start()
    try:
        score_replayed(Driver(env), record, seed)
    except BaseException as error:
        if is_cancellation(error) or isinstance(error, NotFromItems):
            raise
        return error, time.perf_counter() - start
    finally:
        if yappi is not None:
            yappi.stop()
        with suppress(Exception):
            env.unwrapped.end_episode()
    return None, time.perf_counter() - start


def _count(result: Profile, record: Rollout, error: BaseException | None, seconds: float) -> None:
    result.episodes += 1
    if error is not None:
        result.failed += 1
        result.first_error = result.first_error or reason(error)
    dataset = {"dataset": record["dataset"]} if "dataset" in record else {}
    result.slowest.append({**dataset, **record["rollout_id"], "seconds": seconds})


def _read(
    yappi: ModuleType,
    clock: str,
    times: dict[Place, FunctionTime],
    edges: dict[Place, dict[Place, float]],
    threads: dict[str, float],
) -> None:
    """Add what a pass has measured."""
    known = {thread.ident: thread.name for thread in threading.enumerate()}
    known[threading.get_ident()] = ""
    names: dict[int, str] = {}
    for thread in yappi.get_thread_stats():
        name = names[thread.id] = known.get(thread.tid, thread.name)
        if clock == "wall" and name:
            threads[name] = threads.get(name, 0.0) + thread.ttot
    for number, hook in enumerate(HOOKS, 1):
        for function in yappi.get_func_stats(filter={"tag": number}):
            thread = names.get(function.ctx_id, "")
            place = _place(hook, thread, function)
            spent = times.setdefault(place, FunctionTime(hook, place.name, place.file, place.line, thread))
            if clock == "wall":
                spent.calls += function.ncall
                spent.own_wall += function.tsub
                spent.total_wall += function.ttot
                below = edges.setdefault(place, {})
                for callee in function.children:
                    key = _place(hook, thread, callee)
                    below[key] = below.get(key, 0.0) + callee.ttot
            else:
                spent.calls = spent.calls or function.ncall  # of what only this pass has seen
                spent.own_cpu += function.tsub
                spent.total_cpu += function.ttot


def _place(hook: str, thread: str, function: Any) -> Place:
    return Place(hook, thread, function.module, function.lineno or 0, function.name)


def _add_hooks(
    result: Profile,
    classes: dict[type, None],
    times: dict[Place, FunctionTime],
    edges: dict[Place, dict[Place, float]],
) -> None:
    """Add up what hooks and tools took, and unfold the stacks beneath them."""
    spent = {
        place: Spent(
            Frame(place.name, place.file, place.line),
            each.total_wall,
            min(1.0, each.waiting / each.own_wall) if each.own_wall > 0 else 0.0,
        )
        for place, each in times.items()
    }
    codes = {place: name for cls in classes for name, place in _hooks_of(cls)}
    for place, each in times.items():
        name = codes.get((place.hook, place.file, place.line))
        if name is None:
            continue
        waiting = max(0.0, each.total_wall - each.total_cpu)
        result.hooks.append(HookTime(name, each.calls, each.total_wall, each.total_cpu, waiting, each.mean_wall))
        root = Frame(name)
        result.flames += [((root, *stack), seconds) for stack, seconds in stacks_under(place, spent, edges)]
    result.hooks.sort(key=lambda hook: hook.wall, reverse=True)


def _hooks_of(cls: Any) -> Iterator[tuple[str, tuple[str, str, int]]]:
    """The names of a class's hooks and tools; and under which hook, in which file and line each of them is."""
    hooks = {phase: "user_turn" if phase == "respond" else phase for phase in HOOKS if phase != "tool"}
    named = [(phase, phase, getattr(cls, hook)) for phase, hook in hooks.items()]
    named += [("tool", f"tool {name}", tool.function) for name, tool in cls._tools.items()]
    for hook, name, function in named:
        code = inspect.unwrap(function).__code__
        yield name, (hook, code.co_filename, code.co_firstlineno)
