"""Random and hostile actions: what a broken model, or a broken caller, could hand to `env.step`."""

from __future__ import annotations

import math
import random
from typing import Any

from gym_llm.core.verifier_env import VerifierEnv

DEEP = 12_000
HUGE = 1_000_000


def deep(levels: int, kind: type = list) -> Any:
    """A value nested this many levels."""
    value: Any = kind()
    for _ in range(levels):
        value = [value] if kind is list else {"a": value}
    return value


_DEEP_ITEM, _DEEP_LIST, _DEEP_DICT = deep(2_000), deep(DEEP), deep(DEEP, dict)  # slow to build: shared
_FRAGMENTS = [
    "The answer is ",
    "\\boxed{",
    "}",
    "{",
    "\\text{",
    "\\frac{1}{2}",
    "\\sqrt[3]{x^2+1}",
    "$",
    "\\(",
    "\\)",
    "Answer: ",
    "**Answer:** ",
    "A or B",
    "B",
    "C)",
    "Ａ",
    "ب",
    "ক",
    "42",
    "-7",
    "1e999",
    "NaN",
    "inf",
    "0/0",
    "<think>",
    "</think>",
    "<tool_call>",
    '{"name": "verify", "arguments": {}}',
    "</tool_call>",
    "\n",
    "\x00",
    "\u202e",
    "\ud800",
    "\udfff",
    "🜁",
    "e\u0301",
    "()",
    "__import__('os')",
    "%s%n{0.__class__}",
]
_NON_TOOLS = [
    "verify", "__class__", "reset", "step", "setup", "generate", "respond", "close", "render", "__init__", "__del__",
    "_advance", "_score", "_task", "tool_schemas", "tasks", "np_random", "unwrapped", "__reduce__", "", " ", "\ud800",
    "a" * 10_000, "get_weather\x00", "self", "state", "../verify", "VerifierEnv.verify",
]  # fmt: skip
_BAD_ARGUMENTS = [
    "", "   ", "null", "true", "0", "1e999", "NaN", "-Infinity", '"text"', "[]", "[[]]", "{", "}", '{"a"}', "{'a': 1}",
    '{"a": 1,}', '{"a": NaN}', "{} {}", "\ud800", '{"\\ud800": "\\udfff"}', '{"a": 1, "a": 2}', "\x00", '{"a": "\x00"}',
    "[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "[" * DEEP, '{"a": ' + "[" * 500 + "]" * 500 + "}",
    '{"a": ' + "9" * 5_000 + "}", "\ufeff{}", '{"self": 1, "env": 2, "state": 3}', '{"__class__": "x"}',
]  # fmt: skip
_VALUES = [
    "3", '"3"', "3.0", "3.5", "true", "null", "-1", "1e400", "NaN", "Infinity", "9" * 400, "9" * 4_000,
    '"' + "9" * 4_000 + '"', "[]",
    "{}", "[1, 2]", '["1", 2.0, true]', "[null]",
    "[" * 300 + "]" * 300, '"Oslo"', '"\\ud800"', '"\\u0000"', '""', '" "',
]  # fmt: skip
_STATUSES = ["completed", "incomplete", "failed", "in_progress", "", None, 3, [], {}, "\ud800"]
_USAGES = [
    None,
    {},
    {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
    {"input_tokens": None, "output_tokens": "x", "total_tokens": math.nan},
    [],
    "many",
    7,
]


class _RaisingToDict:
    def to_dict(self) -> dict[str, Any]:
        raise RuntimeError("no dict today")


class _OddToDict:
    def to_dict(self) -> Any:
        return 3


class HostileActions:
    """Actions for one environment class.

    Args:
        env_class: Its tools are called too, well and badly.
        seed: The same seed gives the same actions.
    """

    def __init__(self, env_class: type[VerifierEnv], seed: int) -> None:
        self.rng = random.Random(seed)
        self._tools = {tool["name"]: list(tool["parameters"]["properties"]) for tool in env_class.tool_schemas()}
        self._non_tools = [*_NON_TOOLS, *(name for name in dir(env_class) if name not in self._tools)]

    def action(self) -> Any:
        """The next action; about one in eight is no Responses answer."""
        kind = self.rng.random()
        if kind < 0.1:
            return self._no_action()
        items = [self._item() for _ in range(self.rng.choice((0, 1, 1, 1, 2, 5)))]
        if kind < 0.6:
            return items
        if kind < 0.65:
            return tuple(items)
        response = {"output": items, "id": "resp_1", "model": "hostile"}
        if self.rng.random() < 0.5:
            response["status"] = self.rng.choice(_STATUSES)
        if self.rng.random() < 0.5:
            response["usage"] = self.rng.choice(_USAGES)
        return response

    def text(self) -> str:
        """Something a model could write."""
        size = self.rng.random()
        if size < 0.001:
            return self.rng.choice(("a", "\\boxed{", "{", "9", " ", "Answer: ", "<think>", "\ud800")) * (HUGE // 7)
        if size < 0.005:
            return self.rng.choice(("\\boxed{", "(", "\\text{", "^{", "$")) * 2_000 + self.rng.choice(("", "}" * 2_000))
        return "".join(self.rng.choices(_FRAGMENTS, k=self.rng.randrange(8)))

    def function_call(self) -> dict[str, Any]:
        """A call: of a tool, or of something that must not be called."""
        name = self.rng.choice(list(self._tools) if self._tools and self.rng.random() < 0.6 else self._non_tools)
        return {
            "type": "function_call",
            "name": name,
            "arguments": self._arguments(self._tools.get(name, [])),
            "call_id": self.rng.choice(("call_1", "", "\ud800")),
        }

    def _arguments(self, parameters: list[str]) -> str:
        if self.rng.random() < 0.3:
            return self.rng.choice(_BAD_ARGUMENTS)
        if self.rng.random() < 0.001:
            return '{"a": "' + "x" * HUGE + '"}'
        members = [f'"{name}": {self.rng.choice(_VALUES)}' for name in parameters if self.rng.random() < 0.95]
        if self.rng.random() < 0.2:
            members.append(
                self.rng.choice(('"extra": 1', '"state": null', '"self": {}', *(members[:1] or ('"a": 1',))))
            )
        return "{" + ", ".join(members) + "}"

    def _item(self) -> Any:
        kind = self.rng.random()
        if kind < 0.35:
            return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": self.text()}]}
        if kind < 0.4:
            return {"role": "assistant", "content": self.text()}
        if kind < 0.8:
            return self.function_call()
        return self.rng.choice(self._odd_items())

    def _odd_items(self) -> list[Any]:
        text = self.text()
        return [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]},
            {"type": "reasoning", "summary": 3, "content": "x"},
            {"type": "reasoning", "summary": ["x"], "content": [None]},
            {"type": "message", "role": "assistant", "content": []},
            {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": text}, {}]},
            {"type": "message", "role": "assistant", "content": [{"type": [], "text": 3}]},
            {"type": "web_search_call", "anything": _DEEP_ITEM, 3: math.nan},
            {"type": text or "x", "content": text},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": None}]},
            {"type": "message", "role": "assistant", "content": None},
            {"type": "message", "role": _DEEP_LIST, "content": text},
            {"type": "message", "role": "user", "content": text},
            {"type": "function_call", "name": None, "arguments": "{}", "call_id": "c"},
            {"type": "function_call", "name": "verify", "arguments": {}, "call_id": "c"},
            {"type": "function_call", "name": "verify", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": text},
            {"type": [], "role": "assistant", "content": text},
            {"type": 3},
            {},
            None,
            text,
            [],
        ]

    def _no_action(self) -> Any:
        text = self.text()
        return self.rng.choice(
            [
                None, True, 0, -1, 10**30, math.nan, math.inf, text, b"bytes", bytearray(b"x"), {}, set(), object(),
                VerifierEnv, _RaisingToDict(), _RaisingToDict, _OddToDict(), [_RaisingToDict()], [_OddToDict], range(3),
                {"output": None}, {"output": text}, {"output": {}}, {"output": 3}, iter([]), frozenset({1}), int,
                {"type": "message", "role": "assistant", "content": text}, [[]], [None], [text], [3],
                {"choices": [{"message": {"role": "assistant", "content": text}}]}, {text: text},
                {"output": [None]}, _DEEP_LIST, _DEEP_DICT, {"output": _DEEP_LIST}, {"output": _DEEP_DICT},
            ]
        )  # fmt: skip
