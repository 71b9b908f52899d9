"""TensorBoard: event files in a folder, `runs/tensorboard` unless another is named."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from gym_llm.evaluation.tracking.trackers import Table, Tracker, file_name, folder


class TensorBoardTracker(Tracker):
    """Scalars, and texts for the configuration and the samples: `tensorboard --logdir FOLDER` shows them."""

    def start(self, name: str, config: Mapping[str, Any]) -> None:
        """See `Tracker`; a run that goes on adds a file to its folder."""
        self._writer = EventFileWriter(str(folder(self.project, "runs/tensorboard") / file_name(name)))
        self._text("config", "\n".join(f"    {line}" for line in json.dumps(dict(config), indent=2).splitlines()))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """See `Tracker`."""
        values = [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))

    def table(self, name: str, table: Table) -> None:
        """See `Tracker`: a table in Markdown, which TensorBoard shows without its HTML."""
        columns, rows = table
        lines = [columns, ["---"] * len(columns), *rows]
        self._text(name, "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines))

    def close(self) -> None:
        """See `Tracker`."""
        self._writer.close()

    def _text(self, name: str, text: str) -> None:
        metadata = SummaryMetadata(
            plugin_data=SummaryMetadata.PluginData(
                plugin_name="text", content=TextPluginData(version=0).SerializeToString()
            )
        )
        tensor = TensorProto(
            dtype=DT_STRING,
            string_val=[text.encode()],
            tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
        )
        value = Summary.Value(tag=f"{name}/text_summary", metadata=metadata, tensor=tensor)
        self._writer.add_event(Event(wall_time=time.time(), summary=Summary(value=[value])))


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\r", "").replace("\n", "<br>")
