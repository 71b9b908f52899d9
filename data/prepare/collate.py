"""Tagging rows with their environment."""

from __future__ import annotations

import json
from typing import Any

import orjson

AGENT_REF = "agent_ref"
ENV_ID = "env_id"


class RowTagger:
    """A tagger that adds `agent_ref` (the agent that plays a row in NeMo Gym) and `env_id` to rows.

    The rest of the line is kept byte for byte, so that no number or escape changes.

    >>> line = b'{"responses_create_params": {"input": "?"}}'
    >>> tagged = RowTagger("quiz", "gym_llm/MultipleChoice-v0").tag(line, orjson.loads(line))
    >>> orjson.loads(tagged)["agent_ref"]
    {'type': 'responses_api_agents', 'name': 'quiz'}
    """

    def __init__(self, section: str, env_id: str) -> None:
        self._tags = {AGENT_REF: {"type": "responses_api_agents", "name": section}, ENV_ID: env_id}
        self._suffix = b"," + orjson.dumps(self._tags)[1:] + b"\n"

    def tag(self, line: bytes, row: dict[str, Any]) -> bytes:
        """The line of a row (its object, with at least one field) with both fields, and a newline."""
        line = line.strip()
        if AGENT_REF not in row and ENV_ID not in row:
            return line[:-1].rstrip() + self._suffix
        if all(row.get(name) == tag for name, tag in self._tags.items()):
            return line + b"\n"
        # Through the standard library, which keeps integers of any size.
        return json.dumps(json.loads(line) | self._tags, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
