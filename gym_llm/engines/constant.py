"""ConstantEngine: says the same to everything."""

from __future__ import annotations

import time

from gym_llm.engines.engine import Capabilities, Engine
from gym_llm.types import Request, ResponseDict


class ConstantEngine(Engine):
    """Answers every request with one text: the floor of a benchmark, or a judge for a dry run.

    Args:
        text: What it says.
    """

    capabilities = Capabilities(samples=False)

    def __init__(self, text: str) -> None:
        self.text = text
        self.model = "constant"

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """The text; see `Engine.respond`."""
        part = {"type": "output_text", "text": self.text, "annotations": []}
        return {
            "id": f"resp_{episode_id}",
            "object": "response",
            "created_at": time.time(),
            "model": self.model,
            "status": "completed",
            "output": [{"type": "message", "role": "assistant", "status": "completed", "content": [part]}],
        }
