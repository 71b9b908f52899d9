"""Congestion control of a 5G network: NeMo Gym's `openair_congestion`, run from your checkout of NeMo Gym."""

from __future__ import annotations

import ast
import json
import math
import sys
from pathlib import Path
from typing import Any

ENV_ID = "gym_llm/OpenAirCongestion-v0"
PACKAGES = ("numpy>=1.26", "pydantic>=2.7", "jsonschema>=4.25,<5")
MODULE = "jsonschema"
FRAMEWORKS = ("openair_congestion",)
APART = True  # it is imported from a folder of the user's
_DOMAIN = "resources_servers/openair_congestion"
_OF_VALUES = {"const", "enum", "pattern", "multipleOf"} | {
    f"{bound}{what}" for bound in ("max", "min") for what in ("imum", "Items", "Length", "Properties")
}
_OF_VALUES |= {"exclusiveMaximum", "exclusiveMinimum"}
"""Keywords of schemas that the simulator checks itself, which answers with a reward of its own."""
_SOURCES: set[str] = set()


class Peer:
    """A simulated 5G network, which the model controls with one call a turn: seven actuators and `noop`.

    The reward of a turn is the simulator's. A turn without exactly one valid call is a `noop` with a penalty.

    Args:
        source: The folder of a checkout of NeMo Gym, or of its `resources_servers/openair_congestion`.
        difficulty: Load, from 0 to 1.
        regime_mix: The kinds of congestion and their shares; None for the simulator's own.
        scenario_id: The name of a scenario.
        tier: The size of the network; NeMo Gym has `replay`.
        max_steps: After how many turns the episode is over at the latest.
        agent_max_steps: NeMo Gym's own limit of turns; the lower one counts.
        protocol_violation_penalty: What a turn without exactly one valid call costs.
    """

    recording = False

    def __init__(
        self,
        source: str = "",
        difficulty: float = 0.5,
        regime_mix: dict[str, float] | None = None,
        scenario_id: str | None = None,
        tier: str = "replay",
        max_steps: int | None = None,
        agent_max_steps: int = 16,
        protocol_violation_penalty: float = -1.0,
    ) -> None:
        if not math.isfinite(protocol_violation_penalty) or protocol_violation_penalty >= 0:
            raise ValueError("protocol_violation_penalty is a finite number below 0.")
        self._no_call = _no_call(_import_from(source) / "app.py")
        self._steps = min(60 if max_steps is None else max_steps, agent_max_steps)
        if self._steps < 1:
            raise ValueError("max_steps is 1 or more.")
        self._penalty, self._taken = protocol_violation_penalty, 0
        self._task = {
            "difficulty": float(difficulty),
            "regime_mix": regime_mix,
            "scenario_id": scenario_id,
            "tier": tier,
            "max_steps": self._steps,
        }

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Begin with the seed's trajectory."""
        from jsonschema import Draft202012Validator
        from openair_congestion.render import to_policy_text
        from openair_congestion.replay_env import ReplayEnv
        from openair_congestion.tools import TOOLS

        functions = [each["function"] for each in TOOLS]
        self._schemas = {each["name"]: Draft202012Validator(_shape(each["parameters"])) for each in functions}
        self._env = ReplayEnv(pool_size=1, max_steps_default=60)
        observation, meta = self._env.reset(seed=0 if seed is None else seed, **self._task)
        self._episode = meta.episode_id
        said = to_policy_text(observation)
        tools = [{"type": "function", "strict": False, **each} for each in functions]
        return {"say": said, "observation": said, "tools": tools}

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Make the call, or a `noop` with a penalty."""
        from openair_congestion.schemas import ToolCall

        calls = action["calls"]
        if len(calls) != 1:
            number = "Exactly one tool call is required; applied penalized noop."
            message = number if calls else self._no_call
            return self._violation([{"accepted": False, "error": message} for _ in calls], calls, message)
        try:
            arguments = calls[0]["arguments"] or {}
            if not isinstance(arguments, dict):
                raise ValueError("arguments must be a JSON object")
            call = ToolCall(name=calls[0]["name"], arguments=arguments)
            problem = next(self._schemas[call.name].iter_errors(arguments), None)
            if problem is not None:
                raise ValueError(problem.message)
        except ValueError as error:
            said = {"accepted": False, "error": str(error)[:2_000]}
            return self._violation([said], calls, "Invalid tool call rejected; applied penalized noop.")
        observation, reward, done, info = self._env.step(self._episode, call)
        answer = {name: info.get(name) for name in ("rejection_reason", "step_idx")}
        accepted = bool(info.get("guardrail_accepted", True))
        return self._turn(observation, float(reward), done, info, [{"accepted": accepted, **answer}], calls)

    def close(self) -> None:
        """End the episode."""
        if hasattr(self, "_env"):
            self._env.close(self._episode)

    def _violation(self, answers: list[Any], calls: list[Any], message: str) -> dict[str, Any]:
        from openair_congestion.schemas import AgentAux, LastActionEcho, ToolCall

        observation, base, done, info = self._env.step(self._episode, ToolCall(name="noop", arguments={}))
        reward = float(base) + self._penalty
        aux = AgentAux(
            last_action=LastActionEcho(name="noop", arguments={}),
            last_reward=reward,
            last_rejection=message,
            step_idx=info.get("step_idx", self._taken + 1),
        )
        observation = observation.model_copy(update={"agent_aux": aux})
        return self._turn(observation, reward, done, {**info, "protocol_violation": True}, answers, calls)

    def _turn(
        self, observation: Any, reward: float, done: bool, info: dict[str, Any], answers: list[Any], calls: list[Any]
    ) -> dict[str, Any]:
        from openair_congestion.render import to_policy_text

        self._taken += 1
        said = to_policy_text(observation)
        items: list[dict[str, Any]] = [
            {"type": "function_call_output", "call_id": call["call_id"], "output": json.dumps(answer, default=str)}
            for call, answer in zip(calls, answers, strict=True)
        ]
        items.append({"type": "message", "role": "user", "content": said})
        kept = ("guardrail_accepted", "rejection_reason", "step_idx", "reward_terms", "protocol_violation")
        return {
            "say": items,
            "observation": said,
            "reward": reward,
            "terminated": bool(done),
            "truncated": not done and self._taken >= self._steps,
            "info": json.loads(json.dumps({name: info[name] for name in kept if name in info}, default=str)),
        }


def _import_from(source: str) -> Path:
    """Let Python find the simulator in a checkout; return its folder.

    Raises:
        ValueError: If there is none, or another one is in use.
    """
    root = Path(source).expanduser() if source else None
    found = [] if root is None else [each for each in (root / _DOMAIN, root) if (each / "openair_congestion").is_dir()]
    if not found:
        raise ValueError(f"source is a checkout of NeMo Gym with {_DOMAIN}; got {source[:60]!r}.")
    path = str(found[0].resolve())
    if _SOURCES - {path}:
        raise ValueError("This process plays another checkout already: play each in a run of its own.")
    if path not in _SOURCES:
        _SOURCES.add(path)
        sys.path.insert(0, path)
    return Path(path)


def _no_call(server: Path) -> str:
    """Return the sentence that NeMo Gym's server says of a turn without a call; it is in the server's file."""
    for node in ast.parse(server.read_text("utf-8")).body if server.is_file() else []:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_NO_TOOL_CALL_MSG":
            return str(ast.literal_eval(node.value))
    return "No tool call detected; applied penalized noop."


def _shape(schema: Any) -> Any:
    """Return a schema without what it says of values."""
    if isinstance(schema, dict):
        return {key: _shape(value) for key, value in schema.items() if key not in _OF_VALUES}
    return [_shape(value) for value in schema] if isinstance(schema, list) else schema


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode."""
    return episode["kwargs"], episode["seed"]


def utter(action: Any) -> dict[str, Any]:
    """Return the model's output for a recorded list of calls."""
    calls = [{"call_id": f"call_{place}", **call} for place, call in enumerate(action)]
    return {"text": "", "calls": calls}
