"""Chats for supervised fine-tuning: the lines that OpenAI's fine-tuning and TRL's SFTTrainer read.

Format: https://platform.openai.com/docs/guides/supervised-fine-tuning (`messages`, `tools`), with `reasoning_content`
beside an assistant's content, as the chat templates of open models have it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gym_llm.data.files.atomic import replacing
from gym_llm.evaluation.export.record_conversation import conversation
from gym_llm.types import Rollout
from gym_llm.utils.json_codec import dumps


def write(records: Iterable[Rollout], output: Path) -> None:
    """Write one chat a line; the caller leaves out masked episodes."""
    with replacing(output) as file:
        for record in records:
            file.write(dumps(conversation(record)))
