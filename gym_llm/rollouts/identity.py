"""The settings that all records of a file share, and their changes since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_OF_A_DATASET = ("env_id", "tasks_sha256", "prompt_sha256", "env_kwargs", "sampling")
_OF_A_RUN = (
    *("env_id", "tasks_sha256", "prompt_sha256", "env_kwargs", "sampling", "seed"),
    *("datasets", "reasoning_parser", "tool_call_parser", "wrappers", "agent", "agent_machine", "budgets"),
    "compaction",
)
"""Settings that all records of a file share, like the model; where it is served and how much is played may change."""
_NEWER = ("agent", "agent_machine", "budgets", "compaction")

_IN_WORDS = {
    "verifier": "the verifier's code",
    "arguments": "the environment's arguments or the files that they name",
    "engine": "the engine, its options or the files that they name",
    "agent": "the agent or its code",
    "budgets": "the budgets of an episode, or the prices",
    "agent_machine": "the machine of the agent",
}
"""What the hashes in a record's `made_by` are of."""

_SHOWN = 3
_LONGEST = 160


def changed_settings(earlier: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Describe the differences between a file's settings and a run's; empty if the run may continue the file.

    >>> changed_settings({"seed": 1, "sampling": {}}, {"seed": 2, "sampling": {}})
    ['seed was 1 and is 2']
    >>> changed_settings({"identity": {"files": {"my_env.py": "1f"}}}, {"identity": {"files": {"my_env.py": "2e"}}})
    ['my_env.py has changed']
    """
    changes = [
        change
        for name in _OF_A_RUN
        if name in earlier or (name in _NEWER and earlier)  # files of before there were such settings have none
        for change in (
            _changed_datasets(earlier[name], now.get(name))
            if name == "datasets"
            else _changed(name, earlier.get(name), now.get(name))
        )
    ]
    changes += _changed_identity("", earlier, now)
    if _has_identity(earlier):  # files of before are not compared with
        changes += _changed("gym_llm", earlier.get("gym_llm"), now.get("gym_llm"))
    return changes


def changed_key(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Describe the differences between a record's `made_by` and a run's.

    >>> changed_key({"engine": "1f", "seed": 0}, {"engine": "2e", "seed": 1})
    ['the engine, its options or the files that they name changed', 'seed was 0 and is 1']
    """
    changes: list[str] = []
    for name in dict.fromkeys((*recorded, *now)):
        if recorded.get(name) == now.get(name) or name == "model":  # known when the engine has started
            continue
        if name in ("gym_llm", "environment", "seed"):
            changes += _changed(name, recorded.get(name), now.get(name))
        else:
            changes.append(f"{_IN_WORDS.get(name, f'the {name}')} changed")
    return changes


def in_one_phrase(changes: list[str]) -> str:
    """Join the first changes, shortened, for a sentence."""
    shown = [f"{change[:_LONGEST]}…" if len(change) > _LONGEST else change for change in changes[:_SHOWN]]
    more = [f"{len(changes) - _SHOWN} more"] if len(changes) > _SHOWN else []
    return ", ".join(shown + more)


def _changed(name: str, before: Any, now: Any) -> Iterator[str]:
    if before != now:
        yield f"{name} was {before!r} and is {now!r}"


def _changed_datasets(before: dict[str, Any], now: dict[str, Any] | None) -> Iterator[str]:
    now = now or {}
    if missing := [name for name in before if name not in now]:
        yield f"it has the dataset {missing[0]}, which is not played"
    if more := [name for name in now if name not in before]:
        yield f"it does not have the dataset {more[0]}"
    for name in before:
        if name in now:
            for key in _OF_A_DATASET:
                yield from _changed(f"{name}.{key}", before[name].get(key), now[name].get(key))
            yield from _changed_identity(f"{name}.", before[name], now[name])


def _has_identity(settings: Mapping[str, Any]) -> bool:
    return "identity" in settings or any("identity" in part for part in settings.get("datasets", {}).values())


def _changed_identity(prefix: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """The changes of the engine, its options, and of the files that take part."""
    earlier, identity = before.get("identity"), now.get("identity")
    if not isinstance(earlier, dict) or not isinstance(identity, dict):
        return
    yield from _changed(f"{prefix}engine", earlier.get("engine"), identity.get("engine"))
    for name, old, new in _pairs(earlier, identity, "engine_options"):
        yield from _changed(f"{prefix}engine option {name}", old, new)
    for name, old, new in (*_pairs(earlier, identity, "verifier_files"), *_pairs(earlier, identity, "files")):
        if old != new:
            verb = "is new" if old is None else "is no longer used" if new is None else "has changed"
            yield f"{'the code of gym_llm' if name == 'gym_llm' else name} {verb}"


def _pairs(before: Mapping[str, Any], now: Mapping[str, Any], key: str) -> Iterator[tuple[str, Any, Any]]:
    old, new = (value if isinstance(value := each.get(key), dict) else {} for each in (before, now))
    for name in dict.fromkeys((*old, *new)):
        yield name, old.get(name), new.get(name)
