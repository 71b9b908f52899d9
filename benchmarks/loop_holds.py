"""Measure how long an answer of 1 MB holds the event loop, for every environment in every usual stack.

    python benchmarks/loop_holds.py
    python benchmarks/loop_holds.py --only calls

`play_episode` plays each answer, and the record is written as in a run. The event loop counts the processor time of
each callback, so a busy machine gives the same figures. Server replies are read, and the next requests made, as in
`HTTPEngine`. Prints the longest holds, and one JSON line last; the exit code is 1 if one was longer than `--most`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.error import DependencyNotInstalled, InvalidAction

from gym_llm.concurrency.relaxed_gc import relaxed_gc
from gym_llm.core.registry.classes import known_arguments
from gym_llm.core.registry.env_files import dry_run_kwargs
from gym_llm.core.registry.ids import env_ids
from gym_llm.engines.engine import Engine
from gym_llm.engines.http import HTTPEngine
from gym_llm.engines.http_bodies import chat_body, responses_body
from gym_llm.errors import EngineError
from gym_llm.protocols.responses.actions import output_items
from gym_llm.records.rollout_file import RolloutFile
from gym_llm.rollouts.episode import play_episode
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.limits import ITEMS, LIMITS

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from growth import PATTERNS, hostile_text
from hostile_actions import stacks

SIZE = 1_000_000  # characters of JSON
_MOST_SECONDS = 0.05
_LISTED = 25
_DONE = [{"type": "message", "role": "assistant", "content": "Done."}]
_ARGUMENTS = {
    "lists": ("[", "[],", "0]"),
    "numbers": ("[", "1,", "0]"),
    "floats": ("[", "1e9,", "0]"),
    "texts": ("[", '"",', '""]'),
    "objects": ("[", "{},", "{}]"),
    "members": ("{", None, '"a":0}'),
    "same member": ("{", '"a":1,', '"a":0}'),
    "deep": ("", "[", ""),
    "text": ('"', "a", '"'),
    "escapes": ('"', "\\u00e9", '"'),
    "commas in a text": ('"', ",[{", '"'),
    "a number": ("", "9", ""),
    "spaces": ("", " ", ""),
}  # fmt: skip
"""JSON values by name: what one begins with, what is repeated, and what it ends with."""


def arguments(name: str, parameter: str, size: int) -> str:
    """A call's arguments of this size: one parameter with one of `_ARGUMENTS`."""
    start, unit, end = _ARGUMENTS[name]
    value = "".join(f'"{number}":1,' for number in range(size // 10)) if unit is None else unit * (size // len(unit))
    return f'{{"{parameter}": {start}{value}{end}}}'


def _first(ids: list[int], count: int) -> list[int]:
    return (ids * count)[:count]


def shapes(env: Any, size: int, every: int) -> Iterator[tuple[str, Callable[[], list[Any]]]]:
    """Answers of this size by name."""
    for pattern in list(PATTERNS)[::every]:
        yield f"text of {pattern!r}", partial(lambda pattern: [_message(hostile_text(pattern, size))], pattern)
    most = LIMITS[ITEMS].default
    parameters = {tool["name"]: list(tool["parameters"]["properties"]) for tool in env.unwrapped.tool_schemas()}
    tools = {**{name: names[0] if names else "a" for name, names in parameters.items()}, "no_tool": "a"}
    for tool, parameter in tools.items():
        for name in _ARGUMENTS:
            text = arguments(name, parameter, size)
            yield f"calls: {tool} with {name}", partial(lambda text, tool: [_call(tool, text)], text, tool)
            text = arguments(name, parameter, size // 100)
            yield f"calls: 100 of {tool} with {name}", partial(lambda text, tool: [_call(tool, text)] * 100, text, tool)
            body = json.dumps({"name": tool, "arguments": 0})[:-2]
            text = f"<tool_call>{body}{arguments(name, parameter, size)}}}</tool_call>"
            yield f"calls written: {tool} with {name}", partial(lambda text: [_message(text)], text)
            text = f"<tool_call>{body}{arguments(name, parameter, size // 250 - 60)}}}</tool_call>" * 250
            yield f"calls written: 250 of {tool} with {name}", partial(lambda text: [_message(text)], text)
            text = f'{{"name": "{tool}", "parameters": {arguments(name, parameter, size)}}}'
            yield f"calls written: Llama's {tool} with {name}", partial(lambda text: [_message(text)], text)
        for text in ("{}", "", "[]", '{"a": 1}', f'{{"{parameter}": 1}}', f'{{"{parameter}": "Oslo"}}'):
            number = min(size // (len(text) + len(tool) + 60), most)
            label = f"calls: {number} of {tool} with {text}"
            yield (
                label,
                partial(lambda text, tool, number: [_call(tool, text, i) for i in range(number)], text, tool, number),
            )
    yield "calls: too many", lambda: [_call("no_tool", "{}")] * (size // 80)
    many = most
    yield "items: messages", lambda: [_message("4")] * many
    yield "items: empty messages", lambda: [_message("")] * many
    yield "items: thoughts", lambda: [{"type": "reasoning", "summary": []}] * most
    yield "items: unknown", lambda: [{"type": f"x{number}"} for number in range(most)]
    yield "items: near misses", lambda: [{"type": f"message{number}"} for number in range(most)]
    yield "items: parts", lambda: [{**_message(""), "content": [{"type": "output_text", "text": "a" * 200}] * most}]
    yield "items: empty parts", lambda: [{**_message(""), "content": [{}] * (size // 3)}]
    yield "items: thought's parts", lambda: [{"type": "reasoning", "summary": [{"text": "a"}] * (size // 14)}]
    yield (
        "items: tagged parts",
        lambda: [{**_message(""), "content": [{"type": "output_text", "text": "<think>"}] * most}],
    )
    for name, ids in _token_ids().items():
        count = size // 30

        def with_ids(ids: Callable[[int], list[int]] = ids, count: int = count) -> list[Any]:
            return [{**_message("4"), **_tokens(list(range(count)), ids(count))}]

        yield f"tokens: {name}", with_ids
    few = most
    yield "tokens: items", lambda: [{**_message("4"), **_tokens([], [1])}] * few
    yield "tokens: segments", lambda: [{**_message("4"), **_tokens([n], [n])} for n in range(few)]
    yield "tokens: appended", lambda: _appended(size)
    yield (
        "tokens: spans",
        lambda: [
            {**_message("4"), **(_tokens([n], [n]) if n % 2 else {"trajectory_span": [0, 0, 1]})} for n in range(few)
        ],
    )
    yield "other: nested", lambda: [{"type": "x", "x": json.loads("[" * 240 + "]" * 240)}] * (size // 480)
    yield "reading: nested", lambda: [{"type": "x", "x": json.loads("[" * 400 + "]" * 400)}] * (size // 800)
    yield "other: values", lambda: [{"type": "x", "x": [[] for _ in range(size // 3)]}]
    yield "other: members", lambda: [{"type": "x", **{str(number): 0 for number in range(size // 10)}}]
    yield "other: halves", lambda: [{"type": "x", "x": ["\ud800"] * (size // 9)}]


def _token_ids() -> dict[str, Callable[[int], list[int]]]:
    named: dict[str, Callable[[int], list[int]]] = {"one": lambda count: [1] * count}
    try:
        from gym_llm.tokens.parsers.harmony import load_encoding

        encoding = load_encoding()
    except DependencyNotInstalled:
        return named
    for text in ("<|message|>", "<|channel|>", "<|end|>", "<|channel|>final<|message|>a<|end|><|start|>assistant"):
        ids = encoding.encode(text, allowed_special="all")
        named[f"Harmony's {text}"] = partial(_first, ids)
    return named


def _tokens(prompt: list[int], sampled: list[int]) -> dict[str, Any]:
    return {
        "prompt_token_ids": prompt,
        "generation_token_ids": sampled,
        "generation_log_probs": [-0.5] * len(sampled),
    }


def _appended(size: int) -> list[Any]:
    """Turns of which each goes on with the one before; together about `size` characters."""
    turns = int((size / 2) ** 0.5)
    return [{**_message("4"), **_tokens([1] * turn, [1])} for turn in range(min(turns, 3_000))]


def _message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": text}


def _call(name: str, text: str, number: int = 0) -> dict[str, Any]:
    return {"type": "function_call", "name": name, "arguments": text, "call_id": f"c{number}"}


class Answers(Engine):
    """Says one thing first, and then that it is done."""

    def __init__(self) -> None:
        self.first: Any = None

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        """The answer."""
        first, self.first = self.first, None
        return _DONE if first is None else first


class Holds:
    """The processor time of each callback of the event loop: `longest` and `total`, in seconds."""

    def __init__(self) -> None:
        self.longest = self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.longest = max(self.longest, seconds)
        self.total += seconds


@contextmanager
def counted(holds: Holds) -> Iterator[None]:
    """Count the callbacks that the running loop begins in the block."""
    run = asyncio.Handle._run  # type: ignore[attr-defined]

    def timed(handle: Any) -> None:
        start = time.thread_time()
        try:
            run(handle)
        finally:
            holds.add(time.thread_time() - start)

    asyncio.Handle._run = timed  # type: ignore
    try:
        yield
    finally:
        asyncio.Handle._run = run  # type: ignore


async def play(env: Any, action: Any, file: RolloutFile) -> dict[str, Holds]:
    """Play an answer and write its record; the holds of each."""
    engine, playing, writing = Answers(), Holds(), Holds()
    shown = env if getattr(env, "stack", "") != "text" else env.env
    engine.first = action
    with counted(playing):
        record = await asyncio.create_task(play_episode(shown, engine, Job(0, random.getrandbits(40)), _SETTINGS))
    start = time.thread_time()
    file.append(record)
    writing.add(time.thread_time() - start)
    return {"playing": playing, "writing": writing}


_SETTINGS = RolloutSettings()


def convert(action: list[Any]) -> dict[str, Holds]:
    """Read what a server said, and make the request after it, as `HTTPEngine` does."""
    reading, asking = Holds(), Holds()
    payload = json.dumps({"id": "resp_1", "status": "completed", "output": action}).encode()
    engine = HTTPEngine("http://localhost:1", model="m", api="responses", api_key="")
    items: Any = []
    start = time.thread_time()
    try:
        items = engine._read(payload, engine.router.servers[0], None, {"input": []})["output"]
        output_items(items)
    except (EngineError, InvalidAction):
        items = []
    reading.add(time.thread_time() - start)
    for body in (responses_body, chat_body):
        start = time.thread_time()
        try:
            dumps(body({"input": items}))
        except (EngineError, ValueError):
            pass
        asking.add(time.thread_time() - start)
    return {"reading": reading, "asking": asking}


def environments(only: str | None, stack: str | None) -> Iterator[Any]:
    """An environment of each id and stack."""
    for env_id in env_ids():
        if only and only.lower() not in env_id.lower():
            continue
        wanted = {"max_turns": 2, "deadline": 0.2}
        try:
            dry_run = dry_run_kwargs(env_id)
            cls = type(gym.make(env_id, disable_env_checker=True, **dry_run).unwrapped)
        except DependencyNotInstalled:
            continue
        known: dict[str, Any] = {name: value for name, value in wanted.items() if name in known_arguments(cls)}
        for name, wrappers in stacks().items():
            if name in ("text", "both", "named") or (stack or name) != name:  # what those add is in the others
                continue
            env = gym.make(env_id, disable_env_checker=True, **dry_run, **known)
            for wrap in wrappers:
                env = wrap(env)
            env.stack = name  # type: ignore[attr-defined]
            yield env


async def measure(options: argparse.Namespace) -> list[tuple[float, float, str]]:
    """The longest hold and the processor time of everything: (hold, total, what)."""
    results: list[tuple[float, float, str]] = []

    def note(what: str, holds: dict[str, Holds]) -> None:
        results.extend((hold.longest, hold.total, f"{doing}: {what}") for doing, hold in holds.items())

    logging.disable(logging.WARNING)  # of masked episodes
    with tempfile.TemporaryDirectory() as folder, RolloutFile(Path(folder, "rollouts.jsonl")) as file:
        for number, env in enumerate(environments(options.env, options.stack)):
            place = f"{env.unwrapped.spec.id.partition('/')[2]}, {env.stack}"
            for name, make in shapes(env, options.size, options.every):
                if options.only and not name.startswith(options.only):
                    continue
                action = make()
                if number == 0:
                    note(name, convert(action))
                if name.startswith("reading"):  # no engine takes it
                    continue
                note(f"{place}: {name}", await play(env, action, file))
            env.close()
            print(f"{place}: {max(results)[0] * 1000:.0f} ms so far", file=sys.stderr, flush=True)
    return sorted(results, reverse=True)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=SIZE, help=f"characters of an answer (default {SIZE})")
    parser.add_argument("--every", type=int, default=4, help="of the texts, one in so many (default 4)")
    parser.add_argument("--env", help="only environments with this in their id")
    parser.add_argument("--stack", help="only this stack: none, default, tokens or harmony")
    parser.add_argument("--only", help="only answers whose name begins so: text, calls, items, tokens or other")
    parser.add_argument("--most", type=float, default=_MOST_SECONDS, help="seconds of a hold (default 0.05)")
    options = parser.parse_args()
    started = time.perf_counter()
    with relaxed_gc():
        results = asyncio.run(measure(options))
    for hold, total, what in results[:_LISTED]:
        print(f"{hold * 1000:7.0f} ms at a time, {total * 1000:7.0f} in all: {what}", file=sys.stderr)
    figures = {
        "answers": len(results),
        "longest_hold_ms": round(results[0][0] * 1000, 1),
        "too_long": sum(hold > options.most for hold, _, _ in results),
        "most_cpu_ms": round(max(total for _, total, _ in results) * 1000),
        "seconds": round(time.perf_counter() - started, 1),
    }
    print(json.dumps({"benchmark": "loop_holds", **figures}))
    sys.exit(1 if figures["too_long"] else 0)


if __name__ == "__main__":
    main()
