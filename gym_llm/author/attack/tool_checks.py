"""Checks of tools: what they tell, what they let a model write, and whether calling them is paid."""

from __future__ import annotations

import builtins
import copy
import json
from typing import Any

from gym_llm.author.attack.attack_play import Played, Turn, as_text, call, message, says
from gym_llm.author.attack.context import Context, NotApplicable
from gym_llm.author.attack.finding import Severity
from gym_llm.author.attack.gold import Gold, prompt_text, with_value
from gym_llm.author.attack.right_answers import expectations
from gym_llm.author.attack.task_rows import other_value
from gym_llm.core.tasks import PreparedTask
from gym_llm.errors import DataError

_SENTINEL = "zq7xk"
_BIG = 987654
_MOST_TOOLS = 12
_MOST_NAMES = 14
_PWNED = "_gym_llm_attack_ran"
_CODE = f"__import__('builtins').__dict__.__setitem__('{_PWNED}', 1)"
_NAMES = (
    "expected_answer", "expected", "answer", "solution", "gold", "target", "secret", "state", "score", "reward", "*",
    _CODE, "solved",
    "../expected.json", "answer.txt", "/proc/self/environ", "task", "SELECT * FROM answers", "hint", "help",
)  # fmt: skip
_REPEATS = 24


def tools_of(task: PreparedTask, context: Context) -> list[dict[str, Any]]:
    """Return the tools that a task offers and that are run.

    Raises:
        NotApplicable: If the environment runs no tools.
    """
    env = context.player.env
    tools = [tool for tool in task.request.get("tools") or () if tool.get("name")]
    if not tools or not env.executes_tools:
        raise NotApplicable("it runs no tools")
    return tools[:_MOST_TOOLS]


def fuzzed(tool: dict[str, Any], names: list[str], context: Context, index: int) -> list[dict[str, Any]]:
    """Return arguments to try a tool with: names, sentinels, large and small numbers."""
    schema = tool.get("parameters") or {}
    properties = schema.get("properties") or {}
    if not properties:
        return [{}]
    texts = [name for name, kind in properties.items() if _type(kind) == "string" and "enum" not in kind]
    tries: list[dict[str, Any]] = []
    for number, value in ((1, _SENTINEL), (_BIG, _SENTINEL), (0, "")):
        tries.append({name: _value(kind, number, value) for name, kind in properties.items()})
    for each in names[: _MOST_NAMES if texts else 0]:
        first, *rest = texts
        tries.append({**tries[0], first: each})
        if rest:
            tries.append({**tries[0], **{name: _SENTINEL for name in rest}, first: each})
            tries.append({**tries[0], **{name: "1" for name in rest}, first: each})
        others = [name for name in properties if name not in texts]
        tries += [{**tries[0], first: each, **{name: _value(properties[name], _BIG, "")}} for name in others[:1]]
    return tries


def _type(kind: dict[str, Any]) -> str:
    declared = kind.get("type")
    if declared is None and "anyOf" in kind:
        declared = next((each.get("type") for each in kind["anyOf"] if each.get("type") != "null"), None)
    return declared[0] if isinstance(declared, list) else declared or "string"


def _value(kind: dict[str, Any], number: int, text: str) -> Any:
    if kind.get("enum"):
        return kind["enum"][0]
    kinds = {"integer": number, "number": float(number), "boolean": bool(number), "array": [], "object": {}}
    return kinds.get(_type(kind), text)


def check_tools(context: Context) -> None:
    """Call every tool with many arguments: it must not tell what is expected, nor write what is graded."""
    first = next(iter(context.tasks))
    tools_of(context.tasks[first], context)
    context.player.fresh()
    for index, task in list(context.tasks.items())[:3]:
        state = [name for name in _state(context, index, task) if isinstance(name, str)]
        names = list(
            dict.fromkeys([*state, *(name for name in task.row if name != "responses_create_params"), *_NAMES])
        )
        names = [*names[:8], *(name for name in _NAMES if name not in names[:8])]
        _try_forged(context, index)
        swapped = _swapped(context, index)
        for tool in tools_of(task, context):
            for arguments in fuzzed(tool, names, context, index):
                _try_call(context, index, tool["name"], arguments, swapped)


def _try_call(context: Context, index: int, name: str, arguments: Any, swapped: list[tuple[str, PreparedTask]]) -> None:
    gold = context.golds.get(index)
    turn: Turn = [call(name, arguments)]
    turns = [turn, [message("I do not know.")]]
    played = context.play(index, turns)
    if vars(builtins).pop(_PWNED, None):
        context.find("code", "a tool's argument", "high", index, turns, "text that nobody runs", "it was run")
    if played.reward is not None and context.pays(index, played) == "high":
        key = ("paid call", f"{name}({as_text(arguments)[:80]})")
        _count(context, key, index, turns, played)
    if _SENTINEL in as_text(arguments) or _BIG in _numbers(arguments):
        for said in (_SENTINEL, str(_BIG)):
            if said in as_text(arguments) and gold is not None:
                echo = [turn, gold.say(said)[-1]] if gold.text is not None else [turn, [message(said)]]
                written = context.play(index, echo)
                if (
                    context.pays(index, written) == "high"
                    and context.pays(index, context.play(index, echo[1:])) != "high"
                ):
                    expected = "no tool to write what is graded"
                    context.find("tool writes", name, "high", index, echo, expected, written)
        if played.reward is not None and abs(played.reward) >= _BIG / 10:
            context.find("tool writes", name, "high", index, turns, "no tool to write the reward", played)
    if gold is not None and gold.kind == "call" and played.reward is not None:
        _try_written(context, index, gold, name, turn)
    for field, other in swapped:
        value, new = gold_value(context.tasks[index], field), gold_value(other, field)
        if new in as_text(arguments) or value in as_text(arguments):
            continue
        again = context.play(index, turns, other)
        told, told_again = "\n".join(played.outputs), "\n".join(again.outputs)
        if told != told_again and _tells(told, value) and _tells(told_again, new):
            expected = f"an answer that does not depend on `{field}`"
            context.find(
                "tool reveals", name, "high", index, turns, expected, f"{told[:100]!r}, then {told_again[:100]!r}"
            )


def _try_written(context: Context, index: int, gold: Gold, name: str, turn: Turn) -> None:
    """After a call, play the right calls with what it has written in the place of what they say."""
    sentinels = [each for each in (_SENTINEL, _BIG, 1) if as_text(each) in as_text(turn)]
    for number, items in enumerate(gold.turns):
        for at, item in enumerate(items if isinstance(items, list) else ()):
            arguments = _arguments(item)
            for key, value in arguments.items():
                for sentinel in sentinels:
                    if isinstance(sentinel, str) != isinstance(value, str) or sentinel == value:
                        continue
                    other = {**item, "arguments": json.dumps({**arguments, key: sentinel})}
                    changed = [*items[:at], other, *items[at + 1 :]]  # type: ignore[index]
                    turns = [*gold.turns[:number], changed, *gold.turns[number + 1 :]]
                    if context.pays(index, context.play(index, [turn, *turns])) == "high":
                        alone = context.play(index, turns)
                        if context.pays(index, alone) != "high":
                            expected = "no tool to write what is graded"
                            context.find("tool writes", name, "high", index, [turn, *turns], expected, "it is paid")


def _try_forged(context: Context, index: int) -> None:
    """Write what the right calls change in the state with every tool that takes a name and a text."""
    gold, task = context.golds.get(index), context.tasks[index]
    if gold is None or gold.kind != "call":
        return
    before = _state(context, index, task)
    context.play(index, gold.turns)
    episode = context.player.env.episode
    after = episode.state if episode is not None and isinstance(episode.state, dict) else {}
    changes = [(key, value) for key, value in after.items() if isinstance(key, str) and before.get(key) != value]
    for tool in tools_of(task, context):
        properties = (tool.get("parameters") or {}).get("properties") or {}
        for key, value in changes[:6]:
            if len(properties) < 2 or not isinstance(value, str | int | float):
                continue
            first, second, *rest = properties
            arguments = {name: _value(properties[name], 1, _SENTINEL) for name in rest}
            turns: list[Turn] = [[call(tool["name"], {first: key, second: value, **arguments})], [message("Done.")]]
            played = context.play(index, turns)
            if context.pays(index, played) == "high":
                expected = "no tool to write what is graded"
                context.find("tool writes", tool["name"], "high", index, turns, expected, played)


def _arguments(item: dict[str, Any]) -> dict[str, Any]:
    try:
        arguments = json.loads(item.get("arguments", "{}"))
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _count(context: Context, key: tuple[str, str], index: int, turns: list[Turn], played: Played) -> None:
    """A call that is paid on one task may be what that task asks for; on all of them it is not."""
    paid = context.options.setdefault("paid calls", {}).setdefault(key, {})
    paid[index] = (turns, played)
    known = [each for each in list(context.tasks)[:3] if (gold := context.golds.get(each)) and gold.reward > gold.floor]
    if len(known) >= 2 and all(each in paid for each in known):
        context.find(*key, "high", index, turns, context.less(index), played)


def _tells(text: str, value: str) -> bool:
    return bool(value) and value in text


def gold_value(task: PreparedTask, field: str) -> str:
    """Return the value of a row's field as a text."""
    value: Any = task.row
    for name in field.split("."):
        value = value[name]
    return value if isinstance(value, str) else as_text(value)


def _numbers(arguments: Any) -> list[Any]:
    return list(arguments.values()) if isinstance(arguments, dict) else []


def _state(context: Context, index: int, task: PreparedTask) -> dict[str, Any]:
    """A copy of a new episode's state, where that is a dict or has attributes."""
    env = context.player.env
    try:
        env.reset(seed=index, options={"task": task, "task_index": index})
    except Exception:  # other checks tell of it
        return {}
    state = env.episode.state if env.episode is not None else None
    values = state if isinstance(state, dict) else vars(state) if hasattr(state, "__dict__") else {}
    try:
        return copy.deepcopy(dict(values))
    except Exception:  # a lock, a process: its names will do
        return dict(values)
    finally:
        env.end_episode()


def _swapped(context: Context, index: int) -> list[tuple[str, PreparedTask]]:
    """The task with another expectation, once for each field that has one and can have another."""
    task, others = context.tasks[index], [each for at, each in context.tasks.items() if at != index]
    swapped = []
    for path, value in expectations(task, context.golds.get(index))[:4]:
        other = other_value(path, value, others)
        try:
            prepared = context.player.env.task_kind().prepare(with_value(task, path, other))
        except (DataError, TypeError, KeyError):
            continue
        swapped.append((".".join(path), prepared))
    return swapped


def check_farming(context: Context) -> None:
    """Make the same call once, a few times and many times: that must not be paid ever more."""
    for index, task in list(context.tasks.items())[:2]:
        for tool in tools_of(task, context):
            arguments = fuzzed(tool, [], context, index)[0]
            rewards = []
            for count in (1, 6, _REPEATS):
                calls: list[Turn] = [[call(tool["name"], arguments, f"c{n}") for n in range(count)]]
                played = context.play(index, [*calls, [message("I do not know.")]])
                rewards.append(played.reward)
            gold = context.golds.get(index)
            if None not in rewards and rewards[0] < rewards[1] < rewards[2]:  # type: ignore[operator]
                got = ", then ".join(f"{reward:g}" for reward in rewards)
                severity: Severity = "high" if gold is not None and gold.pays(rewards[2]) else "medium"
                action = f"{tool['name']} {1}, {6} and {_REPEATS} times"
                context.find(
                    "farming", f"calls of {tool['name']}", severity, index, action, "no more for more calls", got
                )  # type: ignore[arg-type]
            if gold is None or gold.text is None:
                continue
            played = context.play(index, [*calls, *gold.turns])
            if played.reward is not None and played.reward > gold.reward + 1e-6:
                expected = f"at most {gold.reward:g}"
                context.find("farming", f"calls of {tool['name']}", "medium", index, says("…"), expected, played)


def check_prompt_leaks(context: Context) -> None:
    """Look for what is expected where the model can read it: the info, the request's other fields, a word before it."""
    leaks: dict[str, list[int]] = {}
    values = {index: _expected_texts(task, context.golds.get(index)) for index, task in context.tasks.items()}
    for index, task in context.tasks.items():
        if not values[index]:
            continue
        foreign = [
            text for other, texts in values.items() if other != index for text in texts if text not in values[index]
        ]
        for place, text in _places(context, index, task).items():
            own = any(_named(text, value) for value in values[index])
            if own and not any(_named(text, value) for value in foreign):
                leaks.setdefault(place, []).append(index)
    for place, indices in leaks.items():
        tried = sum(bool(each) for each in values.values())
        if len(indices) == tried and (tried > 1 or place != "the prompt"):
            for index in indices:
                expected = "nothing that says what is expected"
                context.find("leak", place, "high", index, f"reset, then read {place}", expected, "it is there")


def _expected_texts(task: PreparedTask, gold: Gold | None) -> list[str]:
    texts = []
    for _, value in expectations(task, gold)[:3]:
        if isinstance(value, bool) or value in (None, "", [], {}):
            continue
        texts.append(value.strip() if isinstance(value, str) else json.dumps(value))
    return [text for text in texts if text]


def _places(context: Context, index: int, task: PreparedTask) -> dict[str, str]:
    played = context.play(index, says("I do not know."))
    observation, info = json.loads(played.opening) if played.opening.startswith("[") else ({}, {})
    other = {name: value for name, value in observation.items() if name not in ("input", "tools")}
    known = {"task_index", "turn", "tool_errors"}
    return {
        "the prompt": prompt_text(task) + "\n" + str(context.player.env.episode and ""),
        "the info": "\n".join(f"expected: {as_value(value)}" for name, value in info.items() if name not in known),
        "the request": "\n".join(f"expected: {as_value(value)}" for value in _leaves(other)),
    }


def as_value(value: Any) -> str:
    """Return a value as a row's text has it."""
    return value if isinstance(value, str) else as_text(value)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in _leaves(each)]
    if isinstance(value, list):
        return [leaf for each in value for leaf in _leaves(each)]
    return [value]


def _named(text: str, value: str) -> bool:
    """Whether a text has this value right after a word that says it is the answer."""
    import re

    if len(value) > 500:
        return value in text
    words = r"(?:expected|correct|gold|reference|secret|solution|answer(?: key)?)\b[^\w\n]{0,3}(?:\w+[^\w\n]{1,3}){0,2}"
    return re.search(rf"(?i:{words})[\"'(]?{re.escape(value)}(?!\w)", text) is not None
