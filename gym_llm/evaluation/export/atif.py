"""ATIF v1.8, the Agent Trajectory Interchange Format that Harbor and its viewer read.

Format: `harbor.models.trajectories` of Harbor 0.25 (https://github.com/harbor-framework/harbor).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gym_llm.data.files.atomic import replacing, replacing_folder
from gym_llm.evaluation.export.record_conversation import items_of_record
from gym_llm.protocols.chat.requests import request_to_chat
from gym_llm.types import TOKEN_FIELDS, Item, Rollout
from gym_llm.utils.json_codec import dumps, loads
from gym_llm.version import __version__

_PROMPT, _SAMPLED, _LOG_PROBS = TOKEN_FIELDS
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_OF_MODEL = ("reasoning", "function_call")
_ROOT = ("env_id", "rollout_id", "outcome", "reward", "turn_rewards", "failure_kind", "error", "info")


def write(records: Iterable[Rollout], output: Path) -> None:
    """Write trajectories: one a line of a file named `*.jsonl`, otherwise `[DATASET-]TASK-REPEAT.json` in a folder."""
    if output.suffix == ".jsonl":
        with replacing(output) as file:
            for record in records:
                file.write(dumps(trajectory(record)))
        return
    with replacing_folder(output) as folder:
        for record in records:
            document = trajectory(record)
            (folder / f"{document['trajectory_id']}.json").write_bytes(dumps(document, indent=True))


def trajectory(record: Rollout) -> dict[str, Any]:
    """Return an episode as an ATIF trajectory.

    What the model said in one turn is one step, with the tools' answers as its observation. Where the engine reported
    token ids, the step's metrics have them, and their log probabilities. A call without a JSON object as arguments has
    `{}` for them, and what the model wrote in its `extra`. Assistant messages that the task began with are marked as
    copied context. Reward, outcome and info are in the root's `extra`.
    """
    given, said = items_of_record(record)
    params = record.get("responses_create_params", {})
    chat = request_to_chat({**params, "input": []})
    steps = [_plain_step("system", message["content"]) for message in chat["messages"]]
    steps += _steps(given, copied=True) + _steps(said, copied=False)
    identity = record["rollout_id"]
    name = f"{identity['task_index']}-{identity['repeat_index']}"
    if dataset := record.get("dataset"):  # tasks are numbered within one
        name = f"{quote(dataset, safe='')}-{name}"
    agent: dict[str, Any] = {"name": "gym_llm", "version": __version__}
    response: dict[str, Any] = record.get("response", {})  # type: ignore[assignment]
    if response.get("model"):
        agent["model_name"] = response["model"]
    if chat.get("tools"):
        agent["tool_definitions"] = chat["tools"]
    usage = response.get("usage") or {}
    totals: dict[str, Any] = {"total_steps": len(steps)}
    for ours, theirs in (("input_tokens", "total_prompt_tokens"), ("output_tokens", "total_completion_tokens")):
        if usage.get(ours) is not None:
            totals[theirs] = usage[ours]
    return {
        "schema_version": "ATIF-v1.8",
        "session_id": f"{record.get('env_id', '')}/{name}",
        "trajectory_id": name,
        "agent": agent,
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)]
        or [{"step_id": 1, **_plain_step("system", record.get("error") or "")}],
        "final_metrics": totals,
        "extra": {field: record[field] for field in _ROOT if field in record},  # type: ignore[literal-required]
    }


def _steps(items: list[Item], *, copied: bool) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    turn: list[Item] = []
    for item in [*items, {"type": "end"}]:
        kind = item.get("type") or "message"
        if kind in _OF_MODEL or (kind == "message" and item.get("role") == "assistant"):
            turn.append(item)
            if item.get(_SAMPLED) is None:  # what was sampled at once ends with the item that has its tokens
                continue
        if turn:
            steps.append(_agent_step(turn, copied=copied))
            turn = []
        if kind == "message" and item.get("role") != "assistant":
            source = "user" if item.get("role") == "user" else "system"
            steps.append(_plain_step(source, item.get("content")))
        elif kind == "function_call_output":
            _observe(steps, item)
        elif kind not in (
            "message",
            "end",
            *_OF_MODEL,
        ):  # a server's own kind of item: kept, as it is, beside what is said
            steps.append({**_plain_step("system", ""), "extra": {"item": item}})
    return steps


def _plain_step(source: str, content: Any) -> dict[str, Any]:
    return {"source": source, "message": _content(content)}


def _agent_step(turn: list[Item], *, copied: bool) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    step: dict[str, Any] = {"source": "agent", "message": ""}
    for item in turn:
        kind = item.get("type") or "message"
        if kind == "reasoning":
            thoughts += [part["text"] for part in [*(item.get("content") or ()), *(item.get("summary") or ())]]
        elif kind == "function_call":
            calls.append(_call(item, len(calls)))
        else:
            content = _content(item.get("content"))
            parts += [{"type": "text", "text": content}] if isinstance(content, str) else content
        if item.get(_SAMPLED) is not None:
            step["metrics"] = {
                "prompt_tokens": len(item[_PROMPT]),
                "completion_tokens": len(item[_SAMPLED]),
                "prompt_token_ids": item[_PROMPT],
                "completion_token_ids": item[_SAMPLED],
                "logprobs": item[_LOG_PROBS],
            }
    step["message"] = _joined(parts)
    if thoughts:
        step["reasoning_content"] = "\n".join(thoughts)
    if calls:
        step["tool_calls"] = calls
    step.update({"is_copied_context": True} if copied else {"llm_call_count": 1})
    return step


def _call(item: Item, number: int) -> dict[str, Any]:
    written = item.get("arguments")
    try:
        arguments = loads(written.encode("utf-8", "surrogatepass")) if isinstance(written, str) else written
    except ValueError:
        arguments = None
    name = item.get("call_id") or item.get("id") or f"call_{number}"
    call = {"tool_call_id": str(name), "function_name": str(item.get("name") or "")}
    if isinstance(arguments, dict):
        return {**call, "arguments": arguments}
    return {**call, "arguments": {}, "extra": {"arguments": written}}


def _observe(steps: list[dict[str, Any]], item: Item) -> None:
    """Add a tool's output to the step that asked for it, or to the last one of the model's."""
    result: dict[str, Any] = {"content": _content(item.get("output"))}
    agents = [step for step in reversed(steps) if step["source"] == "agent"]
    for step in agents:
        if item.get("call_id") in [call["tool_call_id"] for call in step.get("tool_calls", ())]:
            result["source_call_id"] = item["call_id"]
            break
    else:
        if not agents:
            steps.append({**_plain_step("system", ""), "observation": {"results": [result]}})
            return
        step = agents[0]
    step.setdefault("observation", {"results": []})["results"].append(result)


def _content(content: Any) -> Any:
    """A text, or ATIF's parts where there are images."""
    if isinstance(content, str) or content is None:
        return content or ""
    if not isinstance(content, list):
        return dumps(content).decode().rstrip("\n")
    return _joined([_part(part) for part in content if isinstance(part, dict)])


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") == "input_image" and isinstance(url := part.get("image_url"), str):
        # ATIF wants to know the kind; a URL that does not say is mostly a JPEG.
        kind = next((image for image in _IMAGES if url.startswith(f"data:{image}")), None)
        kind = kind or next((image for image in _IMAGES if url.endswith(image.removeprefix("image/"))), _IMAGES[0])
        return {"type": "image", "source": {"media_type": kind, "path": url}}
    text = part.get("text", part.get("refusal"))
    return {"type": "text", "text": text if isinstance(text, str) else dumps(part).decode().rstrip("\n")}


def _joined(parts: list[dict[str, Any]]) -> Any:
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts
