"""Print an episode as a conversation. Control characters of models and servers are escaped."""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from gym_llm.cli.refusals import printable
from gym_llm.protocols.responses.transcript import transcript
from gym_llm.rollouts.recorded_task import row_of
from gym_llm.types import Item, Rollout

_SPEAKER = r"(?m)^(system|developer|user|assistant|thinking|call|tool):"
_TOOL_ERROR = r'(?m)^tool: \{"error".*$'
_AFTER_SPEAKER = re.compile(_SPEAKER + r"\s+")
_EMPTY_LINES = re.compile(r"\n(\s*\n)+")
_BEFORE_RESULT = re.compile(r"\n\n(?=tool: )")
_OF_EVERY_EPISODE = {"task_index", "turn", "tool_errors", "reward_components"}
_PARAMS = "responses_create_params"
_JUDGED = "judge_evaluations"
_LONGEST = 400


def print_conversation(console: Console, record: Rollout, *, details: bool = False) -> None:
    """Print one episode as a conversation in a frame headed by its task and reward.

    Args:
        console: The terminal.
        record: The episode.
        details: Whether to print the verifier's details, the task's fields and a failure's traceback below it.
    """
    items: list[Any] = []
    if "response" in record:  # not if the environment could not even be reset
        asked: Any = record["responses_create_params"]["input"]
        if isinstance(asked, str):
            asked = [{"role": "user", "content": asked}]
        items = [*asked, *_results_beside_calls(record["response"].get("output", []))]
    conversation = _EMPTY_LINES.sub("\n\n", printable(transcript(items)))  # reasoning models write many
    text = Text(_BEFORE_RESULT.sub("\n", _AFTER_SPEAKER.sub(r"\1: ", conversation)).rstrip())
    text.highlight_regex(_TOOL_ERROR, "red")
    text.highlight_regex(_SPEAKER, "bold cyan")
    number = record["rollout_id"]
    reward = record["reward"]
    outcome = "masked" if reward is None else f"reward {reward:g}"
    if record.get("truncated"):
        outcome += ", truncated"
    title = f"task {number['task_index']}, repeat {number['repeat_index']}: {outcome}"
    if error := record.get("error"):
        text.append(f"\n\nfailed: {printable(error)}", "bold red")
    console.print(Panel(text, title=Text(title, "bold"), title_align="left", box=box.ROUNDED))
    if details:
        _print_details(console, record)


def _results_beside_calls(items: list[Item]) -> Iterator[Item]:
    """The items, each tool's output right after its call: of several calls in a turn they come at its end."""
    outputs: dict[Any, deque[Item]] = defaultdict(deque)
    calls = [_call_id(item) for item in items if item.get("type") == "function_call"]
    for item in items:
        if item.get("type") == "function_call_output" and _call_id(item) in calls:
            outputs[_call_id(item)].append(item)
    for item in items:
        kind, call_id = item.get("type"), _call_id(item)
        if kind == "function_call_output" and call_id in calls:
            continue
        yield item
        if kind == "function_call" and outputs[call_id]:
            yield outputs[call_id].popleft()


def _call_id(item: Item) -> str:
    return str(item.get("call_id"))


def _print_details(console: Console, record: Rollout) -> None:
    info: dict[str, Any] = record.get("info", {})
    row = {name: value for name, value in row_of(record).items() if name != _PARAMS}
    about: dict[str, Any] = {"environment": record.get("env_id"), "dataset": record.get("dataset")}
    parts = {
        "episode": {**about, "turns": info.get("turn"), "tool errors": info.get("tool_errors")}
        | {"turn rewards": record.get("turn_rewards")},
        "task": row,
        "verifier": {name: value for name, value in info.items() if name not in {*_OF_EVERY_EPISODE, _JUDGED}},
        "judge": dict(_judged(info.get(_JUDGED))),
        "reward components": info.get("reward_components") or {},
        "failure": {"kind": record.get("failure_kind"), "phase": record.get("error_phase")},
    }
    text = Text()
    for heading, fields in parts.items():
        known = {name: value for name, value in fields.items() if value is not None or heading == "verifier"}
        if known:
            text.append(f"{heading}\n", "bold")
        for name, value in known.items():
            text.append(f"  {printable(str(name))}: ", "cyan").append(f"{_shown(value)}\n")
    if trace := record.get("traceback"):
        text.append(printable(trace), "red")
    text.rstrip()
    if text:
        console.print(text, soft_wrap=not console.is_terminal)


def _judged(calls: Any) -> Iterator[tuple[str, Any]]:
    """The verdict and the words of each of a judge's calls; its prompts are in the browser."""
    for number, call in enumerate(calls if isinstance(calls, list) else [], 1):
        if isinstance(call, dict):
            response = call.get("response")
            items = response.get("output", []) if isinstance(response, dict) else []
            said = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
            yield f"{number}, {_shown(call.get('verdict_label'))}", transcript(said)


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = printable(" ".join(text.split()))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
