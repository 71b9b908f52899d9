"""RandomPolicy: an engine without a model, which calls tools and answers at random."""

from __future__ import annotations

import json
import random
from typing import Any

from gym_llm.author.chaos.faults import Fault, choose
from gym_llm.engines.around import conversation_of
from gym_llm.engines.engine import Capabilities, Engine
from gym_llm.engines.http import HTTPEngine
from gym_llm.rollouts.plan import Job
from gym_llm.types import Request, ResponseDict

_TEXTS = ("4", "B", "Answer: C", r"It is \boxed{12}.", r"\boxed{A}", "I do not know.", "")
_CALLS, _MISTAKES = 0.6, 0.1


class RandomPolicy(Engine):
    """Calls the request's tools with arguments of the right types (now and then of wrong ones), or answers something.

    For trying environments without a model: `--engine random`. What it says depends on the seed, the episode and the
    turn alone.

    Args:
        seed: Of what it says, and the run's.
        fault_seed: Chooses the faults of `gym_llm.author.chaos`.
        share: The share of episodes that have a fault.
        server: The URL of a `FaultyServer`, for faults of servers: their episodes' answers come from there.
    """

    model = "random"
    capabilities = Capabilities(tools=True, seed="always", samples=False)

    def __init__(self, *, seed: int = 0, fault_seed: int = 0, share: float = 0.0, server: str | None = None) -> None:
        self._seed = seed
        self._fault_seed = fault_seed
        self._share = share
        self._failed: set[str] = set()
        self._http = None if server is None else HTTPEngine(server, model=self.model, api="responses", max_retries=0)

    async def start(self) -> None:
        """Open the connections to the server, if there is one."""
        if self._http is not None:
            await self._http.start()

    async def aclose(self) -> None:
        """Close them."""
        if self._http is not None:
            await self._http.aclose()

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer; see `Engine.respond`."""
        fault, strikes = self._fault(episode_id) if self._share else (None, False)
        if fault is not None and fault.place == "http" and self._http is not None:
            told = {"answer": json.dumps(self._answer(request, episode_id)), "fault": fault.kind if strikes else ""}
            return await self._http.respond({**request, "metadata": told}, episode_id=episode_id)
        if fault is not None and fault.place == "engine" and strikes:
            answer = fault.strike()
            return await answer if fault.later else answer  # type: ignore[no-any-return]
        return self._answer(request, episode_id)

    def _answer(self, request: Request, episode_id: str) -> ResponseDict:
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

    def _fault(self, episode_id: str) -> tuple[Fault | None, bool]:
        """The episode's fault, and whether it strikes now: each time that it is asked for, or only the first time."""
        episode = conversation_of(episode_id)
        task, _, repeat = episode.rpartition("-")
        fault = choose(Job(int(task), int(repeat)).env_seed(self._seed), self._fault_seed, self._share)
        if fault is None or fault.place not in ("engine", "http") or (fault.once and episode in self._failed):
            return fault, False
        self._failed.add(episode)
        return fault, True


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
