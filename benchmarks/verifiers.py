"""Measure the time of one verification, and how long it holds the event loop: a row for each verifier.

    python benchmarks/verifiers.py
    python benchmarks/verifiers.py --env gym_llm/Ruler-v0

A verifier's example rows get plausible answers, over and over. A row has the median times of `reset` and of the last
`step`, and how many of these a core makes per second. A verifier that never waits for a worker process, a judge or a
file is pure. Its times are processor times, which a busy machine does not change, and it must make `--least` per
second.

Then come answers of 1 MB, for at most `--hostile-seconds`. The event loop counts the processor time of each callback,
and no callback may take more than `--most`. Judges are those of the class's `dry_run_kwargs`. Prints one JSON line
last; the exit code is 1 if a verifier is too slow.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.error import DependencyNotInstalled

from gym_llm.concurrency.bridge import Waiting, run_until_wait
from gym_llm.concurrency.relaxed_gc import relaxed_gc
from gym_llm.core.registry.classes import env_class, known_arguments
from gym_llm.core.registry.ids import env_ids, parse_id

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from growth import PATTERNS, hostile_text
from loop_holds import Holds, counted
from testing import function_call, message

SIZE = 1_000_000
_LEAST_PER_SECOND = 20_000
_MOST_SECONDS = 0.05
_DEADLINE = 0.2
"""Seconds of a worker process, which is waited for: what it takes there is not the loop's."""

_PROSE = "First I look at what is asked, then at what is given; both say the same, so there is only one way on. " * 12
_EXPECTED = ("expected_answer", "answer", "target", "expected_label", "translation", "ground_truth", "outputs")

_REPEATED = (
    *("```", "```json\n", "```python\n", "```\n{}\n```\n", "<answer>", "</answer>", "<answer>B</answer>", "<solution>"),
    *("<solution>A</solution>", "<point>", "<point>[(1, 1)]</point>", "<a>", "<a b='c'>", "<!--", "<![CDATA[", "&amp;"),
    *("[[A=B]]", "Judgement: ", "Judgement: Yes\n", "correct: ", "[cite: 1]", "[1]", "[1], ", "(1)", "Final Answer: "),
    *("[[", "]]", "[[1, 2], [3, 4]]\n", "[1 2]\n", "{{", "}}", '{"a": [1, 2]}', '["a", "b"]', '"a", ', "'a', "),
    *("- a\n", "a: b\n", "a: &a [*a]\n", "? ", "a = 1\n", "[a]\n", "a,b,c\n", '"a""b",', "| a | b |\n", "# a\n"),
    *("word ", "word. ", "Word! ", "a\n\n", "***\n", "* a\n", "1. a\n", "A. ", "(A) ", "Paragraph 1\n", "P.S. "),
    *("12 ", "1.5e3 ", "-0.", "1,000 ", "%", "SELECT (", "SELECT a; ", "--\n", "/*", "import a\n", "def f():\n "),
    *("\r\n", "\u2028", "\u200b", "中", "你好。", "ΑΒΓ ", "🜁 ", "<|im_end|>", "\\n", "\\(", "\\[", "$$", "\\begin{a}"),
)  # fmt: skip
_ENCLOSED: dict[str, Callable[[int], str]] = {
    "one long word": lambda size: "a" * size,
    "a number": lambda size: "9" * size,
    "\\boxed{a number}": lambda size: f"\\boxed{{{'9' * size}}}",
    "\\boxed{words}": lambda size: f"\\boxed{{{'word ' * (size // 5)}}}",
    "\\boxed{{…}}": lambda size: "\\boxed{" + "{" * (size // 2) + "}" * (size // 2) + "}",
    "Answer: words": lambda size: "Answer: " + "word " * (size // 5),
    "<answer>words</answer>": lambda size: f"<answer>{'word ' * (size // 5)}</answer>",
    "deep list": lambda size: "[" * (size // 2) + "]" * (size // 2),
    "deep object": lambda size: '{"a":' * (size // 6) + "1" + "}" * (size // 6),
    "fenced deep list": lambda size: "```json\n" + "[" * (size // 2) + "]" * (size // 2) + "\n```",
    "deep tags": lambda size: "<a>" * (size // 7) + "</a>" * (size // 7),
    "list of numbers": lambda size: "[" + "1," * (size // 2) + "1]",
    "list of words": lambda size: "[" + '"word", ' * (size // 8) + '"word"]',
    "list of rows": lambda size: "[" + "[1, 2, 3], " * (size // 11) + "[1, 2, 3]]",
    "object of members": lambda size: "{" + ", ".join(f'"{n}": {n}' for n in range(size // 15)) + "}",
    "different words": lambda size: " ".join(f"w{n}" for n in range(size // 7)),
    "different lines": lambda size: "\n".join(f"line {n}." for n in range(size // 12)),
    "deep indents": lambda size: "\n".join(" " * n + "a:" for n in range(int((2 * size) ** 0.5))),
    "<think>words": lambda size: "<think>" + "word " * (size // 5),
    "words</think>a": lambda size: "word " * (size // 5) + "</think>a",
}  # fmt: skip


@dataclass
class Cost:
    """A verifier's figures.

    Attributes:
        name: Its id without namespace.
        reset_us: Median time of `reset`, in microseconds.
        step_us: The same of the `step` that is verified.
        pure: Whether it never waited.
        hold_ms: The longest hold of the event loop, in milliseconds.
        held_by: The answer that took it.
        answers: How many there was time for.
    """

    name: str
    reset_us: float
    step_us: float
    pure: bool
    hold_ms: float = 0.0
    held_by: str = ""
    answers: int = 0

    @property
    def per_second(self) -> float:
        """Verifications that a core makes in a second."""
        return 1e6 / self.step_us


def plausible(env: Any, row: dict[str, Any]) -> list[dict[str, Any]]:
    """What a model could answer: prose and what the row expects, or the call that it expects."""
    if not env.executes_tools and (call := _expected_call(row)):
        return [function_call(call["name"], call["arguments"])]
    value = next((value for value in _values(row) if value not in (None, "", [], {})), "B")
    text = value if isinstance(value, str) else json.dumps(value)
    return message(f"{_PROSE}\n\nSo the answer is \\boxed{{{text}}}.\n\nAnswer: {text}")


def _values(row: dict[str, Any]) -> Iterator[Any]:
    inner = row.get("verifier_metadata")
    for fields in (row, inner if isinstance(inner, dict) else {}):
        yield from (fields.get(name) for name in _EXPECTED)


def _expected_call(value: Any) -> dict[str, Any] | None:
    """The first call that a row's fields name."""
    if isinstance(value, dict):
        if isinstance(value.get("name"), str) and "arguments" in value:
            return value
        value = [inner for name, inner in value.items() if name != "responses_create_params"]
    if isinstance(value, list):
        return next(filter(None, map(_expected_call, value)), None)
    return None


def hostile(env: Any, row: dict[str, Any], size: int, every: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Answers of this size by name; of the texts one in `every`."""
    texts: dict[str, Callable[[], str]] = {
        **{f"{unit!r} again and again": partial(_repeat, unit, size) for unit in _REPEATED},
        **{name: partial(make, size) for name, make in _ENCLOSED.items()},
        **{f"text of {pattern!r}": partial(hostile_text, pattern, size) for pattern in PATTERNS},
    }
    for name, make in itertools.islice(texts.items(), 0, None, every):
        yield name, partial(_say, make)
    declared = row["responses_create_params"].get("tools") or env.tool_schemas()
    for tool in declared[:3]:
        tool_name, parameters = tool["name"], list((tool.get("parameters") or {}).get("properties") or {"a": {}})
        for name, enclosed in itertools.islice(_ENCLOSED.items(), 0, None, every):
            values = {parameter: partial(enclosed, size // len(parameters)) for parameter in parameters}
            yield f"call of {tool_name} with {name}", partial(_call, tool_name, values)
            yield f"call of {tool_name} with arguments of {name}", partial(_call, tool_name, partial(enclosed, size))


def _repeat(unit: str, size: int) -> str:
    return unit * (size // len(unit))


def _say(make: Callable[[], str]) -> list[dict[str, Any]]:
    return message(make())


def _call(name: str, make: Callable[[], str] | Mapping[str, Callable[[], str]]) -> list[dict[str, Any]]:
    arguments = {parameter: value() for parameter, value in make.items()} if isinstance(make, Mapping) else make()
    return [function_call(name, arguments)]


class Player:
    """Plays episodes of an environment on the running loop, and notes whether it ever waits."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.waited = False

    async def call(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the environment."""
        outcome = run_until_wait(method, *args, **kwargs)
        if isinstance(outcome, Waiting):
            self.waited = True
            outcome = await outcome.resume()
        return outcome

    async def episode(self, task_index: int, action: Any) -> tuple[float, float]:
        """Play one of a single answer, twice if it goes on; the seconds of `reset` and of the last `step`."""
        clock = time.perf_counter if self.waited else time.thread_time
        start = clock()
        await self.call(self.env.reset, seed=0, options={"task_index": task_index})
        reset = clock() - start
        for _ in range(self.env.max_turns):
            start = clock()
            _, _, terminated, truncated, _ = await self.call(self.env.step, action)
            if terminated or truncated:
                break
            action = message("Done.")
        return reset, clock() - start


async def cost(env: Any, name: str, seconds: float) -> Cost:
    """Time one verifier's plausible answers."""
    player = Player(env)
    count = min(env.num_tasks or 5, 5)
    rows = [env.tasks[index].row for index in range(count)]
    actions = [plausible(env, row) for row in rows]
    for index, action in enumerate(actions):  # what is made once is not counted
        await player.episode(index, action)
    resets: list[float] = []
    steps: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(steps) < 10 * count:
        for index, action in enumerate(actions):
            reset, step = await player.episode(index, action)
            resets.append(reset)
            steps.append(step)
    return Cost(name, statistics.median(resets) * 1e6, statistics.median(steps) * 1e6, not player.waited)


async def hold(env: Any, of: Cost, options: argparse.Namespace) -> None:
    """Find the longest hold of the event loop."""
    player = Player(env)
    answers = list(hostile(env, env.tasks[0].row, options.size, options.every))
    random.Random(0).shuffle(answers)
    end = time.perf_counter() + options.hostile_seconds
    for name, make in answers:
        if time.perf_counter() > end:
            break
        of.answers += 1
        action, longest = make(), math.inf
        for _ in range(3):  # other programs share the memory's bus: the shortest of some is the answer's own
            holds = Holds()
            with counted(holds):
                await asyncio.gather(asyncio.create_task(player.episode(0, action)), return_exceptions=True)
            longest = min(longest, holds.longest * 1000)
            if longest <= of.hold_ms:
                break
        if longest > of.hold_ms:
            of.hold_ms, of.held_by = longest, name


async def measure(options: argparse.Namespace) -> list[Cost]:
    """The figures of all verifiers; a line of each is printed."""
    costs = []
    for env_id in env_ids():
        if options.env and options.env.lower() not in env_id.lower():
            continue
        cls = env_class(env_id)
        try:
            kwargs = cls.dry_run_kwargs | ({"deadline": _DEADLINE} if "deadline" in known_arguments(cls) else {})
            env: Any = gym.make(env_id, disable_env_checker=True, **kwargs).unwrapped
        except DependencyNotInstalled as error:
            print(f"{env_id}: {error}", file=sys.stderr)
            continue
        if env.tasks is None:
            continue
        of = await cost(env, parse_id(env_id)[1], options.seconds)
        env.max_turns = 2
        if options.every:
            await hold(env, of, options)
        env.close()
        costs.append(of)
        kind = "pure" if of.pure else "waits"
        print(
            f"{of.name:<34} {of.reset_us:8.0f} {of.step_us:9.0f} {of.per_second:9,.0f} {kind:<5} {of.hold_ms:7.1f}  "
            f"{of.answers:>5}  {of.held_by[:60]}",
            flush=True,
        )
    return costs


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", help="only environments with this in their id")
    parser.add_argument("--seconds", type=float, default=0.3, help="of plausible answers of each (default 0.3)")
    parser.add_argument("--hostile-seconds", type=float, default=10.0, help="of hostile answers of each (default 10)")
    parser.add_argument("--size", type=int, default=SIZE, help=f"characters of a hostile answer (default {SIZE})")
    parser.add_argument("--every", type=int, default=1, help="of these, one in so many (default 1); 0 for none")
    parser.add_argument("--most", type=float, default=_MOST_SECONDS, help="seconds of a hold (default 0.05)")
    parser.add_argument("--least", type=float, default=_LEAST_PER_SECOND, help="verifications per second of pure ones")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    started = time.perf_counter()
    print(
        f"{'verifier':<34} {'reset µs':>8} {'verify µs':>9} {'per s':>9} {'':<5} {'hold ms':>7}  {'of':>5}  longest of"
    )
    with relaxed_gc():
        costs = asyncio.run(measure(options))
    slow = [of.name for of in costs if of.pure and of.per_second < options.least]
    holding = [of.name for of in costs if of.hold_ms > options.most * 1000]
    figures = {
        "verifiers": len(costs),
        "pure": sum(of.pure for of in costs),
        "median_per_second": round(statistics.median(of.per_second for of in costs)) if costs else None,
        "slow": slow,
        "longest_hold_ms": round(max((of.hold_ms for of in costs), default=0.0), 1),
        "holding": holding,
        "seconds": round(time.perf_counter() - started, 1),
    }
    print(json.dumps(figures))
    sys.exit(1 if slow or holding else 0)


if __name__ == "__main__":
    main()
