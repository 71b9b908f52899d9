"""RandomPolicy: an engine without a model, which calls tools and answers at random."""

from __future__ import annotations

import json
import random
from typing import Any

from gym_llm.engines.engine import Capabilities, Engine
from gym_llm.types import Request, ResponseDict

_TEXTS = ("4", "B", "Answer: C", r"It is \boxed{12}.", r"\boxed{A}", "I do not know.", "")
_CALLS, _MISTAKES = 0.6, 0.1


class RandomPolicy(Engine):
    """Calls the request's tools with arguments of the right types (now and then of wrong ones), or answers something.

    For trying environments without a model: `--engine random`. What it says depends on the seed, the episode and the
    turn alone.

    Args:
        seed: Of what it says, and the run's.
    """

    model = "random"
    capabilities = Capabilities(tools=True, seed="always", samples=False)

    def __init__(self, *, seed: int = 0) -> None:
        self._seed = seed

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer; see `Engine.respond`."""
        turn = len(request["input"])
        rng = random.Random(f"{self._seed}/{episode_id}/{turn}")
        tools = request.get("tools") or []
        if tools and rng.random() < _CALLS:
            output = [_call(rng, rng.choice(tools), f"call_{turn}_{n}") for n in range(rng.choice((1, 1, 2)))]
        else:
            output = [_message(rng.choice(_TEXTS), f"msg_{turn}")]
        usage = {"input_tokens": turn, "output_tokens": 1, "total_tokens": turn + 1}
        return {
            "id": f"resp_{episode_id}_{turn}",
            "object": "response",
            "created_at": 0.0,
            "model": self.model,
            "status": "completed",
            "output": output,
            "usage": usage,  # type: ignore[typeddict-item]
        }


def _message(text: str, item_id: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": content}


def _call(rng: random.Random, tool: dict[str, Any], call_id: str) -> dict[str, Any]:
    schema = tool.get("parameters") or {}
    properties = schema.get("properties") or {}
    arguments = {name: _value(rng, kind) for name, kind in properties.items() if name in schema.get("required", ())}
    text = json.dumps(arguments) if rng.random() >= _MISTAKES else rng.choice(("{", "[]", '{"x": NaN}', ""))
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": tool.get("name", "") if rng.random() >= _MISTAKES / 2 else "no_such_tool",
        "arguments": text,
        "status": "completed",
    }


def _value(rng: random.Random, schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return rng.choice(schema["enum"])
    match schema.get("type"):
        case "integer":
            return rng.randrange(-3, 10)
        case "number":
            return rng.choice((0.5, 2.0, -1.25))
        case "boolean":
            return rng.random() < 0.5
        case "array":
            return [_value(rng, schema.get("items") or {}) for _ in range(rng.randrange(3))]
        case "object":
            return {name: _value(rng, one) for name, one in (schema.get("properties") or {}).items()}
    return rng.choice(("Oslo", "Fast", "a", ""))
