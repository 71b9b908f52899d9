"""Facts by which runs differ: environment, model, date, settings and headline figure."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from gym_llm.evaluation.view.index import RunIndex
from gym_llm.evaluation.view.run_files import read_summary, shown_name
from gym_llm.utils.json_codec import dumps, loads
from gym_llm.utils.text import printable

_MOST_ENVIRONMENTS = 8
_LONGEST_TEXT = 200
_LONGEST_SETTING = 80
_LARGEST_FIRST = 4 << 20
_LARGEST_RESULTS = 16 << 20
_EARLIEST, _LATEST = 1e9, 1e11  # seconds since 1970: others are no dates
_SHOWN = ("repeats", "limit", "seed", "history", "reasoning_parser", "tool_call_parser")


def describe(number: int, run: RunIndex) -> dict[str, Any]:
    """A run as the page lists it."""
    summary = read_summary(run.path)
    is_summed_up = _object(summary).get("episodes") == len(run.table)  # the run has ended, if only a moment ago
    return {
        "run": number,
        "name": shown_name(run.path),
        "bytes": run.size,
        "episodes": len(run.table),
        "indexed": round(run.indexed, 4),
        "growing": run.is_growing and not is_summed_up,
        "changed": run.changed,
        "summary": summary,
        "facts": run_facts(run, summary),
    }


def run_facts(run: RunIndex, summary: dict[str, Any] | None) -> dict[str, Any]:
    """Return what a run played, and how, as JSON values; files and summaries of others may have anything in them.

    `group` is the same for runs of the same tasks in the same environments: only these are compared with each other.
    """
    rows = len(run.table)
    known, seen = run.table.cache.get("facts", (-1, {}))
    if known != rows:  # rows may be added while the facts are read
        seen = _seen(run)
        run.table.cache["facts"] = rows, seen
    settings = _object(_object(summary).get("settings"))
    parts = [_object(part) for part in _object(settings.get("datasets")).values()] or [settings]
    environments = seen["environments"] or [_text(part.get("env_id")) for part in parts if part.get("env_id")]
    played = [[part.get(name) for name in ("env_id", "tasks", "tasks_sha256", "env_kwargs")] for part in parts]
    group = [sorted(environments), seen["datasets"], played if any(map(any, played)) else None]
    model = _text(_object(summary).get("model")) or seen["model"] or _text(settings.get("model"))
    return {
        "environments": environments,
        "datasets": seen["datasets"],
        "tasks": next((_text(part["tasks"]) for part in parts if part.get("tasks")), ""),
        "group": blake2b(dumps(group), digest_size=8).hexdigest(),
        "model": model,
        "engine": engine_of(summary),
        "date": seen["date"] or run.modified,
        "settings": _settings(settings, parts),
        "headline": _benchmark_figure(run.path),
        "pass_at": _numbers(_object(summary).get("pass_at")),
    }


def engine_of(summary: dict[str, Any] | None, dataset: str = "") -> str:
    """Return the specification of the engine that played a run, or a dataset of it; "" if the summary has none."""
    settings = _object(_object(summary).get("settings"))
    part = _object(_object(settings.get("datasets")).get(dataset)) or settings
    parts = [part, *map(_object, _object(settings.get("datasets")).values())]
    return next((_text(each["engine"]) for each in parts if isinstance(each.get("engine"), str)), "")


def run_keys(paths: list[Path]) -> list[str]:
    """Return a short name for each file, which stays the same when other files are added, where it can.

    >>> run_keys([Path("a/records/pocket.jsonl"), Path("b/records/pocket.jsonl"), Path("sums.jsonl")])
    ['a/pocket', 'b/pocket', 'sums']
    """
    names = [shown_name(path).removesuffix(".jsonl") for path in paths]
    several = Counter(names)
    folders = [(path.parent.parent if path.parent.name == "records" else path.parent).name for path in paths]
    keys = [
        f"{printable(folder)}/{name}" if several[name] > 1 and folder else name
        for name, folder in zip(names, folders, strict=True)
    ]
    return [key if keys.index(key) == n else f"{key}~{n}" for n, key in enumerate(keys)]


def _seen(run: RunIndex) -> dict[str, Any]:
    """What the rows and the first record say."""
    first: Any = {}
    for offset, length, cut, cut_length in run.table.select(
        "offset, length, cut, cut_length", "WHERE outcome < 3 LIMIT 1"
    ):
        if length - cut_length <= _LARGEST_FIRST:
            after = cut + cut_length
            with suppress(ValueError, OSError):
                first = loads(run.read(offset, cut) + run.read(offset + after, length - after))
    response = _object(_object(first).get("response"))
    created = response.get("created_at")
    is_date = isinstance(created, (int, float)) and _EARLIEST < created < _LATEST

    def names(column: str) -> list[str]:
        rows = run.table.select(f"DISTINCT {column}", f"WHERE {column} NOT NULL LIMIT ?", (_MOST_ENVIRONMENTS,))
        return [name for (name,) in rows]

    return {
        "environments": names("env_id"),
        "datasets": names("dataset"),
        "model": _text(response.get("model")),
        "date": created if is_date else None,
    }


def _settings(settings: dict[str, Any], parts: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The settings that say how the model was asked, as names and short texts."""
    named: dict[str, Any] = {}
    for part in (settings, *parts):
        for name, value in _object(part.get("sampling")).items():
            named.setdefault(name, value)
        named |= {name: part[name] for name in _SHOWN if part.get(name) is not None and name not in named}
        for name, value in (*_object(part.get("engine_options")).items(), *_object(part.get("env_kwargs")).items()):
            named.setdefault(name, value)
    agent = settings.get("agent")
    if agent:
        named = {"agent": _object(agent).get("command") or _object(agent).get("name") or agent} | named
    shown = []
    for name, value in list(named.items())[:24]:
        text = value if isinstance(value, str) else dumps(value)[:-1].decode(errors="replace")
        shown.append(
            (_text(name)[:_LONGEST_SETTING], text if len(text) <= _LONGEST_SETTING else f"{text[:_LONGEST_SETTING]}…")
        )
    return shown


def _benchmark_figure(path: Path) -> dict[str, Any] | None:
    """The figure of the one benchmark of a run, by the benchmark's own rule, from the `results.json` of its folder."""
    place = path.parent.parent / "results.json"
    if path.parent.name != "records":
        return None
    with suppress(OSError, ValueError):
        if not place.is_file() or place.is_symlink() or place.stat().st_size > _LARGEST_RESULTS:
            return None
        results = _object(orjson.loads(place.read_bytes())).get("results")
        own = [
            each
            for each in map(_object, results if isinstance(results, list) else [])
            if each.get("engine") == path.stem
        ]
        benchmark = _object(own[0].get("benchmark")) if len(own) == 1 else {}
        figure = _object(benchmark.get("figure"))
        if type(figure.get("value")) in (int, float):
            numbers = {
                name: figure[name] for name in ("value", "low", "high") if type(figure.get(name)) in (int, float)
            }
            return {**numbers, "title": _text(benchmark.get("title")), "rule": _text(benchmark.get("rule"))}
    return None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value[:_LONGEST_TEXT].encode(errors="replace").decode() if isinstance(value, str) else ""


def _numbers(value: Any) -> dict[str, float]:
    return {_text(name): number for name, number in _object(value).items() if type(number) in (int, float)}
