"""Statistics on disk: compared with the new ones, then replaced, all of them or none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gym_llm.data.files.atomic import write_atomically
from gym_llm.data.prepare.dataset_metrics import COUNTER, TOKENS
from gym_llm.data.prepare.tokens import WORDS_ONLY
from gym_llm.errors import DataError, PreparationFailed

_RELATIVE = 5e-3
_ABSOLUTE = 5e-4  # metrics below 1 are rounded to three digits


@dataclass
class PreparedFile:
    """Statistics of a data set or of a collated file.

    Attributes:
        label: Which of them.
        metrics: Its statistics.
        metrics_path: Where they are on disk; None for a data set on the hub.
        collated: The training file, if it is one.
    """

    label: str
    metrics: dict[str, Any]
    metrics_path: Path | None
    collated: Path | None = None


def store_metrics(files: Sequence[PreparedFile], overwrite: bool, notes: list[str]) -> None:
    """Compare all statistics with those on disk, then write them.

    Token counts are compared only where they were counted with the same tokenizer; a run without one keeps those that
    are there.

    Args:
        files: Whose statistics.
        overwrite: Replace statistics that disagree, instead of failing.
        notes: Gets what the user should know, one sentence each.

    Raises:
        DataError: If statistics on disk cannot be read, or two data sets have the same place for theirs.
        PreparationFailed: If some disagree; then only the `*_conflict.json` files are written.
    """
    reports: list[str] = []
    to_write: dict[Path, dict[str, Any]] = {}
    conflicts: dict[Path, dict[str, Any]] = {}
    for file in files:
        path, metrics = file.metrics_path, file.metrics
        if path is None:
            continue
        if to_write.get(path, metrics) != metrics:
            raise DataError(f"Two datasets would both write {path}: give them different names.")
        old = _read_metrics(path)
        same_counter = old.get(COUNTER) == metrics[COUNTER]
        compared = old if same_counter else {n: v for n, v in old.items() if n not in (COUNTER, TOKENS)}
        if disagreements := differences(compared, metrics):
            reports.append("\n  ".join([f"{path} disagrees with the data:", *disagreements]))
            conflicts[_conflict_path(path)] = metrics
        elif old and not same_counter and metrics[COUNTER] == WORDS_ONLY and COUNTER in old:
            notes.append(f"{path} keeps its token counts by {old[COUNTER]}, which were not checked.")
            continue
        elif old and old.keys() >= metrics.keys() and same_counter:
            continue
        to_write[path] = metrics
    if conflicts and not overwrite:
        for path, metrics in conflicts.items():
            write_atomically(path, _dump(metrics))
        hint = "If the data is right, give --overwrite-metrics; the new metrics are beside the old as *_conflict.json."
        raise PreparationFailed("\n".join([*reports, hint]))
    notes += [f"Overwritten: {report}" for report in reports]
    for path, metrics in to_write.items():
        write_atomically(path, _dump(metrics))
    for file in files:
        if file.metrics_path is not None:
            _conflict_path(file.metrics_path).unlink(missing_ok=True)


def _conflict_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}_conflict.json")


def _read_metrics(path: Path) -> dict[str, Any]:
    try:
        metrics = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise DataError(f"The metrics {path} cannot be read ({error}): repair or delete the file.") from None
    if not isinstance(metrics, dict):
        raise DataError(f"The metrics {path} are not a JSON object: repair or delete the file.")
    return metrics


def _dump(metrics: dict[str, Any]) -> bytes:
    return json.dumps(metrics, indent=4, ensure_ascii=False).encode() + b"\n"


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Return the contradictions between new and old metrics: a sentence for each key, which begins with `path`.

    Whole numbers and texts must be equal; other numbers agree within 0.5 %, or within the rounding of small ones. A key
    that only the new metrics have does not contradict.

    >>> differences({"Average": 100.0, "Min": 1}, {"Average": 100.4, "Min": 2, "Max": 3})
    ['Min: 1 on disk, 2 now']
    """
    if isinstance(old, dict) and isinstance(new, dict):
        disagreements = []
        for name, value in old.items():
            place = f"{path}.{name}" if path else name
            if name in new:
                disagreements += differences(value, new[name], place)
            elif value is not None:  # NeMo Gym writes null for what a configuration does not say
                disagreements.append(f"{place}: {value!r:.100} on disk, not there now")
        return disagreements
    return [] if _agree(old, new) else [f"{path}: {old!r:.100} on disk, {new!r:.100} now"]


def _agree(old: Any, new: Any) -> bool:
    types = {type(old), type(new)}
    if float in types and types <= {int, float}:
        return abs(old - new) <= max(_RELATIVE * max(abs(old), abs(new)), _ABSOLUTE)
    return len(types) == 1 and bool(old == new)
