"""Tables: a parquet file, or a folder that `datasets.load_dataset` and the Hugging Face hub accept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_llm.data.files.atomic import replacing, replacing_folder
from gym_llm.errors import DataError, UsageError
from gym_llm.evaluation.export.record_conversation import conversation
from gym_llm.records.record import OWN_NAMES
from gym_llm.types import Rollout
from gym_llm.utils.extras import install
from gym_llm.utils.json_codec import dumps

if TYPE_CHECKING:
    import pyarrow

_GROUP_ROWS = 256
_SHARD_ROWS = 50_000
_COLUMNS = ("input_ids", "loss_mask", "logprobs", "constrained", "weight_versions")
_CARD = """---
configs:
- config_name: default
  data_files: data/*.parquet
tags: [gym_llm, rollouts]
---
Episodes of {envs}, exported by gym_llm: `messages` (a chat; a content that is no text is JSON), `tools` (JSON),
`reward` (null where the episode is masked: a fault, not a zero), and `segments` with the token ids that were read and
sampled, a mask of the sampled ones, their log probabilities, and a mask of those sampled under a constraint (null where
the episode has none).
"""


def write_parquet(records: Iterable[Rollout], output: Path) -> None:
    """Write one parquet file."""
    _write_rows(map(row, records), output)


def write_folder(records: Iterable[Rollout], output: Path) -> None:
    """Write `data/train-00000.parquet`, … and a `README.md` that says what is in them."""
    envs: dict[str, None] = {}

    def noted() -> Iterator[dict[str, Any]]:
        for record in records:
            envs[record.get("env_id", "")] = None
            yield row(record)

    rows = noted()
    number = 0
    with replacing_folder(output) as folder:
        while (first := list(islice(rows, 1))) or not number:
            _write_rows(chain(first, islice(rows, _SHARD_ROWS - 1)), folder / f"data/train-{number:05}.parquet")
            number += 1
        card = _CARD.format(envs=", ".join(filter(None, envs)) or "no environment")
        (folder / "README.md").write_bytes(card.encode())


def row(record: Rollout) -> dict[str, Any]:
    """Return an episode as a row of the table."""
    chat = conversation(record)
    info = record.get("info") or {}
    usage: Any = record.get("response", {}).get("usage") or {}  # type: ignore[typeddict-item]
    row = {name: value for name, value in record.items() if name not in OWN_NAMES}
    return {
        **record["rollout_id"],
        "env_id": record.get("env_id"),
        "dataset": record.get("dataset"),
        "outcome": record["outcome"],
        "reward": record["reward"],
        "failure_kind": record.get("failure_kind"),
        "error": record.get("error"),
        "messages": [_message(message) for message in chat["messages"]],
        "tools": _json(chat["tools"]) if "tools" in chat else None,
        "turns": info.get("turn"),
        "tool_errors": info.get("tool_errors"),
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "info": _json(info),
        "task": _json({**row, **record.get("task_fields", {})}),
        "segments": [{name: segment.get(name) for name in _COLUMNS} for segment in record.get("trajectory") or ()],
    }


def _message(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    return {
        "role": message.get("role"),
        "content": content if content is None or isinstance(content, str) else _json(content),
        "reasoning_content": message.get("reasoning_content"),
        "tool_calls": message.get("tool_calls"),
        "tool_call_id": message.get("tool_call_id"),
    }


def _json(value: Any) -> str:
    return dumps(value).decode().rstrip("\n")


def _schema(arrow: Any) -> pyarrow.Schema:
    text, whole = arrow.string(), arrow.int64()
    function = arrow.struct({"name": text, "arguments": text})
    call = arrow.struct({"id": text, "type": text, "function": function})
    message = {"role": text, "content": text, "reasoning_content": text}
    message |= {"tool_calls": arrow.list_(call), "tool_call_id": text}
    columns = {"input_ids": arrow.int32(), "loss_mask": arrow.int8(), "logprobs": arrow.float64()}
    columns |= {"constrained": arrow.int8(), "weight_versions": arrow.int64()}
    segment = arrow.struct({name: arrow.list_(kind) for name, kind in columns.items()})
    kinds = {name: whole for name in ("task_index", "repeat_index")}
    kinds |= {name: text for name in ("env_id", "dataset", "outcome")} | {"reward": arrow.float64()}
    kinds |= {"failure_kind": text, "error": text, "messages": arrow.list_(arrow.struct(message)), "tools": text}
    kinds |= {name: whole for name in ("turns", "tool_errors", "input_tokens", "output_tokens")}
    return arrow.schema({**kinds, "info": text, "task": text, "segments": arrow.list_(segment)})


def _write_rows(rows: Iterator[dict[str, Any]], output: Path) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise UsageError(f"A parquet file needs pyarrow: {install('data')}.") from None
    schema = _schema(pyarrow)
    with replacing(output) as file, pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while group := list(islice(rows, _GROUP_ROWS)):
            try:
                table = pyarrow.Table.from_pylist(group, schema=schema)
            except (pyarrow.ArrowException, OverflowError) as error:  # a name that is a number, for example
                raise DataError(f"A record does not fit the columns of the table: {error}.") from None
            writer.write_table(table)
