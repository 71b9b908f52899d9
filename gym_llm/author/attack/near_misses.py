"""Checks around the right answer: forms that mean the same, near misses, look-alikes, and more than is right."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from string import ascii_uppercase
from typing import Any

from gym_llm.author.attack.attack_play import Turn, message, reasoning, says
from gym_llm.author.attack.context import Context, NotApplicable
from gym_llm.author.attack.gold import PLAIN, Form, Gold, prompt_text, stated_tolerance
from gym_llm.author.attack.near_math import near_expressions, near_programs, other_units

_TOLERANT = re.compile(r"tol|eps|dist|margin|precision|threshold|delta", re.IGNORECASE)
_IN_ORDER = re.compile(r"\b(order(ed)?|sort(ed)?|sequence|rank(ed|ing)?|alphabetical|chronological)\b", re.IGNORECASE)
_CYRILLIC = str.maketrans("aceopxyABCEHKMOPTX", "асеорхуАВСЕНКМОРТХ")
_BOASTS = {"reward": 9, "score": 9, "correct": True}
_MUCH = 0.2
_LITTLE = 0.05
_ARABIC = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")
_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def check_near_misses(context: Context) -> None:
    """Play answers that are nearly right, by what kind of answer it is, or those that the verifier itself names."""
    tried = False
    for index, gold in context.known():
        own = context.player.env.near_misses(context.tasks[index].task)
        misses = (
            [("its own", says(text)) for text in own]
            if own is not None
            else [(name, gold.say(text, form)) for name, text, form in _near(gold, context, index)]
        )
        misses += _wrong_calls(gold, _other_calls(context, gold)) if gold.kind == "call" else []
        misses += _cut_short(context, index, gold)
        for name, turns in misses:
            tried = True
            played = context.play(index, turns)
            paid = context.pays(index, played) == "high"
            context.form(name, "near miss", paid)
            if paid:
                context.find("near miss", name, "high", index, turns, context.less(index), played)
    if not tried:
        raise NotApplicable("no right answer has a kind of which near misses are known")


def _cut_short(context: Context, index: int, gold: Gold) -> list[tuple[str, list[Turn]]]:
    """Return the first turn of a right answer of several turns, followed by an empty one."""
    if gold.kind == "call" or context.play(index, gold.turns).taken < 2:
        return []
    if gold.pays(context.play(index, [gold.turns[0], says("I do not know.")[0]]).reward):
        return []  # being right once is all that is asked
    return [("cut off after the first turn", [gold.turns[0], {"output": [message("")], "status": "incomplete"}])]


def _near(gold: Gold, context: Context, index: int) -> Iterator[tuple[str, str, Any]]:
    text = gold.text
    if text is None:
        return
    if gold.kind == "whole" or "\n" in text:
        yield from ((name, miss, gold.form) for name, miss in near_programs(text, prompt_text(context.tasks[index])))
    if gold.kind == "whole":
        return
    row, prompt = context.tasks[index].row, prompt_text(context.tasks[index])
    pairs = list(_near_lists(gold, prompt)) if gold.kind == "list" else []
    if gold.kind == "json":
        pairs = list(_near_json(text))
    if gold.kind == "number" and not any(_TOLERANT.search(name) for name in row):
        least = abs(float(text)) * stated_tolerance(prompt)
        pairs = [pair for pair in _near_numbers(text) if not _is_within(pair[1], float(text), least)]
    elif gold.kind == "text":
        pairs = list(_near_texts(text, gold.wrong))
    elif gold.kind == "math":
        pairs = [*near_expressions(text, prompt), *(("another case of its unit", unit) for unit in other_units(text))]
    if gold.kind in ("text", "number", "letter", "boolean") and gold.wrong:
        pairs.append(("another answer", gold.wrong))
        pairs += [("another task's answer", other) for other in _others(context, gold)]
    if gold.kind in ("text", "number") and 1 < len(text) < 30 and " " not in text:
        pairs.append(("a letter within", f"{text[:1]}ж{text[1:]}"))
    yield from ((name, miss, gold.form) for name, miss in pairs)
    if gold.kind == "number":
        for after in other_units(gold.form.after):
            yield "another case of its unit", text, Form(gold.form.before, after)


def _is_within(text: str, number: float, least: float) -> bool:
    try:
        return least > 0 and abs(float(text) - number) <= least
    except ValueError:
        return False


def _other_calls(context: Context, gold: Gold) -> list[Any]:
    """The calls of other tasks' right answers that are not among this one's."""
    if context.player.env.executes_tools:
        return []
    own = _calls_of(gold)
    said = {(item["name"], item["arguments"]) for item in own}
    others = [item for _, other in context.known("call") for item in _calls_of(other)]
    return [item for item in others if (item["name"], item["arguments"]) not in said][:12]


def _calls_of(gold: Gold) -> list[Any]:
    return [item for turn in gold.turns if isinstance(turn, list) for item in turn if "arguments" in item]


def _others(context: Context, gold: Gold) -> list[str]:
    texts = {other.text for _, other in context.known(gold.kind) if other.text and other.source == gold.source}
    return sorted(text for text in texts if not _contains(text, gold.text or ""))[:2]


def _contains(one: str, other: str) -> bool:
    one, other = one.casefold(), other.casefold()
    return one in other or other in one


def _near_numbers(text: str) -> Iterator[tuple[str, str]]:
    """Numbers that are another one.

    >>> [text for _, text in _near_numbers("42")][:4]
    ['43', '41', '142', '421']
    """
    number = float(text)
    if re.fullmatch(r"[-+]?\d+", text):
        whole = int(text)
        if abs(whole) < 10_000 or abs(whole) > 1 << 53:
            yield "one more", str(whole + 1)
            yield "one less", str(whole - 1)
        sign, digits = ("-", text.lstrip("-+")) if whole < 0 else ("", text.lstrip("+"))
        yield "a digit before", f"{sign}1{digits}"
        yield "a digit after", f"{text}1"
        if abs(whole) < 1_000_000:
            yield "a sum that makes it", f"{whole - 1}+1"
    else:
        yield "a digit before", f"-1{text[1:]}" if text.startswith("-") else f"1{text}"
    if number:
        yield "the other sign", text[1:] if text.startswith("-") else f"-{text.lstrip('+')}"
        yield "three percent more", f"{number * 1.03:.10g}"
        yield "ten times it", f"{number * 10:.10g}"


def _near_texts(text: str, wrong: str) -> Iterator[tuple[str, str]]:
    yield "letters before", f"zeb{text}"
    yield "letters after", f"{text}zeb"
    yield "two answers", f"{text} or {wrong}"
    if len(text) > 3:
        yield from (("a single letter", letter) for letter in ascii_uppercase)
        yield "its beginning", text[: max(2, len(text) // 2)].rstrip()


def _near_lists(gold: Gold, prompt: str) -> Iterator[tuple[str, str]]:
    """Lists in the form that the right one has: too long, too short, one thing again and again."""
    value = gold.value
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:  # a list as Python writes it
            return
    if not isinstance(value, list):
        return
    texts = [each if isinstance(each, str) else json.dumps(each) for each in value]
    joiner = next((each for each in (", ", "\n", "; ", " ") if each.join(texts) == gold.text), None)

    def say(values: list[Any]) -> str:
        if joiner is not None:
            return joiner.join(each if isinstance(each, str) else json.dumps(each) for each in values)
        return json.dumps(values)

    if not value:
        return
    distinct = list(dict.fromkeys(texts))
    other = [each + 17 if isinstance(each, int) else f"zebra{number}" for number, each in enumerate(value[:1] * 12)]
    yield "a list with more in it", say([*value, *other])
    if len(distinct) > 1:
        yield "a list without its last", say(value[:-1])
        yield "its first thing only, repeated", say(value[:1] * len(value))
        if _IN_ORDER.search(prompt) and value != value[::-1]:
            yield "the list from its end", say(value[::-1])
    if len(distinct) < len(texts):
        yield "a list without its repeats", say(list(dict.fromkeys(map(_hashable, value))))


def _hashable(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def _wrong_calls(gold: Gold, others: list[Any]) -> list[tuple[str, list[Turn]]]:
    """The right calls with something else in one of them, without one, or among those of other tasks."""
    misses: list[tuple[str, list[Turn]]] = []

    def add(name: str, place: int, items: list[Any]) -> None:
        misses.append((name, [*gold.turns[:place], items, *gold.turns[place + 1 :]]))

    for place, items in enumerate(gold.turns):
        calls = [item for item in items if "arguments" in item] if isinstance(items, list) else []
        for number, item in enumerate(calls):
            for name, changed in _wrong_call(item):
                add(name, place, [*calls[:number], changed, *calls[number + 1 :]])
        if len(calls) > 1:
            again = [{**calls[0], "call_id": f"again_{number}"} for number in range(24)]
            add("its first call again and again", place, again)
            add("without its last call", place, calls[:-1])
        if calls and others:  # where calls are the answer: tools that are run may be tried
            more = [{**item, "call_id": f"more_{number}"} for number, item in enumerate(others)]
            add("with the calls of other tasks", place, [*more, *calls])
    return misses


def _wrong_call(item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "another function", {**item, "name": f"{item['name']}_2"}
    yield "other arguments", {**item, "arguments": json.dumps({"zebra": 1})}
    yield "arguments that are no JSON", {**item, "arguments": '{"zebra": '}
    yield "no arguments", {**item, "arguments": ""}
    try:
        arguments = json.loads(item["arguments"])
    except ValueError:
        return
    for key, value in arguments.items() if isinstance(arguments, dict) else ():
        if isinstance(value, bool):
            yield "the opposite in a call", {**item, "arguments": json.dumps({**arguments, key: not value})}
        elif isinstance(value, int | float):
            yield "another number in a call", {**item, "arguments": json.dumps({**arguments, key: value + 17})}
        elif isinstance(value, str) and len(value) < 30:
            yield "another word in a call", {**item, "arguments": json.dumps({**arguments, key: "zebra"})}


def _near_json(text: str) -> Iterator[tuple[str, str]]:
    """Objects of the same keys that say something else, or less."""
    try:
        value = json.loads(text)
    except ValueError:
        return
    if not isinstance(value, dict) or not value:
        return
    first = next(iter(value))
    for name, other in (("another value in it", _other(value[first])), ("an empty value in it", type(value[first])())):
        if other != value[first]:
            yield name, json.dumps({**value, first: other})
    if len(value) > 1:
        yield "without a key", json.dumps({key: each for key, each in value.items() if key != first})
    yield "only null in it", json.dumps(dict.fromkeys(value))
    if (spoilt := _without_numbers(value)) != value:
        yield "NaN for its numbers", json.dumps(spoilt)


def _without_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_numbers(each) for each in value]
    return float("nan") if isinstance(value, int | float) and not isinstance(value, bool) else value


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 17
    return ["zebra"] if isinstance(value, list) else {"zebra": 1} if isinstance(value, dict) else "zebra"


def check_equivalents(context: Context) -> None:
    """Play the right answer in forms that mean the same in every domain: they have to be paid alike."""
    texts = [(index, gold, text) for index, gold, text in context.texts()]
    if not texts:
        raise NotApplicable("no right answer is a text")
    for index, gold, text in texts:
        right = gold.form(text)
        halves = [
            {"type": "output_text", "text": part} for part in (right[: len(right) // 2], right[len(right) // 2 :])
        ]
        forms: dict[str, list[Turn]] = {
            "space around": says(f"\n  {right} \n"),
            "after reasoning": [[reasoning("Let me think."), message(right)]],
            "as a text of no parts": [[{"type": "message", "role": "assistant", "content": right}]],
            "in a response": [{"output": [message(right)], "status": "completed", "usage": {"output_tokens": 9}}],
            "in two parts": [[{**message(right), "content": halves}]],
        }
        if unicodedata.normalize("NFD", right) != right:
            forms["decomposed Unicode"] = says(unicodedata.normalize("NFD", right))
        for name, turns in forms.items():
            played = context.play(index, turns)
            paid = played.reward is not None and played.reward >= gold.reward - 1e-6
            context.form(name, "equivalent", paid)
            if not paid and name not in ("in two parts", "decomposed Unicode") and gold.kind != "whole":
                context.find("equivalent form", name, "low", index, turns, f"reward {gold.reward:g}", played)


def check_look_alikes(context: Context) -> None:
    """Play the right answer in letters and digits that look like its own, and are others."""
    tried = False
    for index, gold, text in context.texts():
        looks = {}
        if gold.kind in ("text", "letter") and (other := text.translate(_CYRILLIC)) != text:
            looks["Cyrillic letters"] = other
        if gold.kind == "number" and len(text) > 1 and text[-1].isdigit() and text[-2].isdigit():
            looks["digits of another script"] = text.translate(_ARABIC)
            looks["a superscript"] = text[:-1] + text[-1].translate(_SUPERSCRIPT)
        for name, look in looks.items():
            tried = True
            turns = gold.say(look)
            played = context.play(index, turns)
            paid = context.pays(index, played) == "high"
            context.form(name, "near miss", paid)
            if paid:
                context.find("look-alike", name, "medium", index, turns, context.less(index), played)
    if not tried:
        raise NotApplicable("no right answer has letters or digits that others look like")


def check_more(context: Context) -> None:
    """Add things without merit to the right answer and to a wrong one: length, praise, turns, token counts."""
    known = context.known()
    if not known:
        raise NotApplicable("no right answer is known")
    for index, gold in known:
        wrong = gold.say(gold.wrong) if gold.text is not None else says("I do not know.")
        base = context.play(index, wrong).reward
        _check_brevity(context, index, gold, base)
        for name, turns in _more(gold.turns, gold).items():
            played = context.play(index, turns)
            if played.reward is not None and played.reward > gold.reward + 1e-6:
                expected = f"at most {gold.reward:g}, as the right answer"
                context.find("more than the right answer", name, "high", index, turns, expected, played)
        for name, turns in _more(wrong, gold).items():
            played = context.play(index, turns)
            if base is None or played.reward is None:
                continue
            if played.reward > base + max(_MUCH * (gold.reward - gold.floor), 1e-6):
                severity = context.pays(index, played) or "medium"
                context.find("farming", name, severity, index, turns, f"reward {base:g}, as without it", played)


def _check_brevity(context: Context, index: int, gold: Gold, base: float | None) -> None:
    """Say nothing: that must not earn what a wrong answer of many words does not."""
    silent = context.play(index, says("")).reward
    long = context.play(index, says("zebra lantern. " * 300)).reward
    if silent is None or long is None or base is None or silent <= 0:
        return
    if silent > min(base, long) + _LITTLE * (gold.reward - min(0.0, gold.floor)):
        expected = f"reward {min(base, long):g}, as a wrong answer of many words"
        context.find("farming", "silence", "medium", index, says(""), expected, f"reward {silent:g}")


def _more(turns: list[Turn], gold: Gold) -> dict[str, list[Turn]]:
    last = turns[-1]
    items: list[Any] = last if isinstance(last, list) else last["output"]
    before = turns[:-1]
    text = items[-1]["content"][0]["text"] if isinstance(items[-1].get("content"), list) else None
    more: dict[str, list[Turn]] = {
        "much reasoning": [*before, [reasoning("Therefore we consider. " * 3_000), *items]],
        "many tokens": [*before, {"output": items, "usage": {"input_tokens": 1, "output_tokens": 10**6}}],
        "no tokens": [*before, {"output": items, "usage": {"output_tokens": 0}}],
        "turns of reasoning": [*([reasoning("Hm.")] for _ in range(6)), *turns],
        "a reward of its own": [*before, {"output": [{**item, **_BOASTS} for item in items], **_BOASTS}],
        "a cut": [*before, {"output": items, "status": "incomplete"}],
    }  # fmt: skip
    if text is not None and gold.form == PLAIN and gold.kind == "whole":
        return more
    if text is not None:
        filler = "We consider this with great care and many words. " * 400
        more["length"] = [*before, [*items[:-1], message(f"{filler}\n{text}")]]
        more["praise"] = [*before, [*items[:-1], message(f"This is certain, correct, and well explained.\n{text}")]]
        more["repetition"] = [*before, [*items[:-1], message("\n".join([text] * 60))]]
        more["many messages"] = [*before, [message(text) for _ in range(60)]]
    return more
