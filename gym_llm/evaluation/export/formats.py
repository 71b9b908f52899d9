"""`export`: a rollout file in another tool's format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from gym_llm.errors import EngineError, UsageError
from gym_llm.records.record_files import read_records
from gym_llm.types import Rollout
from gym_llm.utils.extras import install
from gym_llm.utils.text import did_you_mean


class _Format(NamedTuple):
    write: str
    """`module:function`, which takes records and the place to write to."""
    ending: str
    """The ending of a file whose place is not named."""
    takes_masked: bool = True
    is_chat: bool = True
    """Whether what has no place in a chat has none here."""
    is_fine_tuning: bool = False
    """Whether episodes that do not end with an answer are left out, and reasoning unless it is asked for."""


FORMATS: dict[str, _Format] = {
    "openai-chat": _Format(
        "gym_llm.evaluation.export.record_conversation:write", ".chat.jsonl", takes_masked=False, is_fine_tuning=True
    ),
    "atif": _Format("gym_llm.evaluation.export.atif:write", ".atif.jsonl", is_chat=False),
    "inspect": _Format("gym_llm.evaluation.export.inspect_log:write", ".eval"),
    "atropos": _Format("gym_llm.evaluation.export.atropos_groups:write", ".atropos.jsonl"),
    "parquet": _Format("gym_llm.evaluation.export.parquet_table:write_parquet", ".parquet"),
    "hf": _Format("gym_llm.evaluation.export.parquet_table:write_folder", "-hf"),
}
"""By name, how each is written; `gym-llm export --help` says what it is."""


@dataclass
class Exported:
    """The result of an export.

    Attributes:
        output: Where they were written.
        episodes: How many were.
        masked: How many were left out because they are masked: no format for training has a place for them.
        below: How many were left out because of their reward.
        unsayable: How many were left out because the format has no words for something in them.
        reason: Why the first of these was.
    """

    output: Path
    episodes: int = 0
    masked: int = 0
    below: int = 0
    unsayable: int = 0
    reason: str | None = None


def export(
    path: str | os.PathLike[str],
    to: str,
    output: str | os.PathLike[str] | None = None,
    *,
    min_reward: float | None = None,
    drop_masked: bool = False,
    dataset: str | None = None,
    reasoning: bool = False,
    on_read: Callable[[int], None] | None = None,
) -> Exported:
    """Write the episodes of a rollout file in another tool's format.

    Args:
        path: The rollout file, ours or NeMo Gym's, also compressed.
        to: One of `FORMATS`.
        output: Where to write; None for beside the file, with the format's ending.
        min_reward: Only episodes of this reward or more; masked ones have none.
        drop_masked: Leave masked episodes out of formats that have a place for them.
        dataset: Only episodes of this dataset, of a file that has several.
        reasoning: For `openai-chat`: keep `reasoning_content`, which TRL's `SFTTrainer` takes and OpenAI refuses.
        on_read: Called with the bytes of each line that was read.

    Raises:
        UsageError: If the format is unknown, has no `reasoning` option, or what it needs is not installed.
        DataError: If the file cannot be read or written, or a line is not a record.
    """
    if to not in FORMATS:
        raise UsageError(f"There is no format {to!r}.{did_you_mean(to, FORMATS)} There are {', '.join(FORMATS)}.")
    form = FORMATS[to]
    if reasoning and not form.is_fine_tuning:
        raise UsageError(f"The format {to} keeps reasoning anyway: only openai-chat has the option.")
    exported = Exported(Path(output) if output is not None else _beside(Path(path), form.ending))
    if exported.output.exists() and exported.output.samefile(path):
        raise UsageError(f"{output} is the file that is read: name another one.")
    module, _, function = form.write.partition(":")
    try:
        write: Callable[..., Any] = getattr(import_module(module), function)
    except ModuleNotFoundError as error:
        raise UsageError(f"The format {to} needs {error.name}: {install(to)}.") from None
    keep_masked = form.takes_masked and not drop_masked and min_reward is None

    def chosen() -> Iterator[Rollout]:
        for line, record in read_records(path):
            if on_read is not None:
                on_read(len(line))
            if dataset is not None and record.get("dataset") != dataset:
                continue
            reward = record["reward"]
            if reward is None and not keep_masked:
                exported.masked += 1
            elif reward is not None and min_reward is not None and reward < min_reward:
                exported.below += 1
            elif form.is_chat and (reason := _unsayable(record, form)) is not None:
                exported.unsayable += 1
                exported.reason = exported.reason or reason
            else:
                exported.episodes += 1
                yield record

    write(chosen(), exported.output, **({"reasoning": reasoning} if form.is_fine_tuning else {}))
    return exported


def _beside(path: Path, ending: str) -> Path:
    name = path.name
    for known in (".gz", ".zst", ".jsonl"):
        name = name.removesuffix(known)
    return path.with_name(name + ending)


def _unsayable(record: Rollout, form: _Format) -> str | None:
    """Return why a record is not a chat; None if it is one."""
    from gym_llm.evaluation.export.record_conversation import conversation, fine_tuning_chat

    try:
        (fine_tuning_chat if form.is_fine_tuning else conversation)(record)
    except EngineError as error:
        return str(error)
    return None
