"""A task's right answer, found and taken apart: the answer itself, and the text around it."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from gym_llm.author.attack.attack_play import Player, Turn, message, says
from gym_llm.author.attack.gold import (
    FORMS,
    PLAIN,
    Form,
    Gold,
    expected_fields,
    kind_of,
    prompt_text,
    renderings,
    wrong_for,
)
from gym_llm.core.tasks import PreparedTask
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.types import Row

_LONGEST = 80
_MOST_RENDERINGS = 3
_LEAST = 0.25
"""A right answer is paid this much more than "I do not know."; less is a share of it at most."""
_MOST_AROUND = 240
_TAG = re.compile(r"</(\w[\w-]*)>")
_TAGGED = re.compile(r"(.*<(\w[\w-]*)>\s*)((?:(?!</?\2>).)*?)(\s*</\2>\W*)", re.DOTALL)
_AROUND = (
    re.compile(r"(.*\\boxed\{)(.*)(\}[^{}]*)", re.DOTALL),
    _TAGGED,
    re.compile(r"(.*(?:^|\n)\s*[\w ]{1,30}: ?)([^\n]*[^\n.])(\.?\s*)", re.DOTALL),
    re.compile(r"(.*#### ?)(.*)()", re.DOTALL),
)


class Parts(NamedTuple):
    """A right answer, taken apart."""

    text: str
    form: Form
    kind: str
    value: Any
    source: str


def oracle_turns(env: VerifierEnv, task: PreparedTask) -> list[Turn] | None:
    """Return the right answer of the verifier's `oracle` as turns; calls that are run are followed by "Done."."""
    answer = env.oracle(task.task)
    if answer is None:
        return None
    if isinstance(answer, str):
        return says(answer)
    turns: list[Any] = answer
    turns = turns if turns and isinstance(turns[0], list) else [turns]
    calls = bool(turns[-1]) and all(item.get("type") == "function_call" for item in turns[-1])
    return [*turns, [message("Done.")]] if calls and env.executes_tools else turns


def find_gold(player: Player, index: int, task: PreparedTask) -> Gold | None:
    """Return a task's right answer, by the verifier's `oracle` or else by a field of the row; None without one."""
    floor = player.play(index, task, says("I do not know.")).reward or 0.0
    turns = oracle_turns(player.env, task)
    if turns is None:
        return _gold_of_row(player, index, task, floor)
    return gold_of_oracle(player, index, task, turns, floor)


def _gold_of_row(player: Player, index: int, task: PreparedTask, floor: float) -> Gold | None:
    """Try the values that a row seems to expect, in a few forms: the first that is paid, where a wrong one is not."""
    for path, value in expected_fields(task.row):
        for how, text in list(renderings(value))[:_MOST_RENDERINGS]:
            kind = "list" if how == "list" else kind_of(text)
            for form in FORMS:
                gold = Gold(says(form(text)), 0.0, floor, text, form, kind, value, path[-1], wrong_for(text, kind))
                reward = player.play(index, task, gold.turns).reward
                if reward is None or reward < floor + _LEAST:
                    continue
                wrong = player.play(index, task, gold.say(gold.wrong)).reward
                if wrong is None or wrong < reward:
                    gold.reward, gold.floor = reward, max(floor, wrong or 0.0)
                    return gold
    return None


def gold_of_oracle(player: Player, index: int, task: PreparedTask, turns: list[Turn], floor: float) -> Gold | None:
    """Return the right answer that the verifier names, with the lowest reward of a wrong one."""
    played = player.play(index, task, turns)
    if played.reward is None or played.reward <= min(floor, 0.0):  # or a scripted judge does not know it
        return None
    gold = Gold(turns, played.reward, floor)
    first = turns[0] if len(turns) == 1 and isinstance(turns[0], list) else []
    if len(first) == 1 and first[0].get("type") == "message":
        content = first[0]["content"]
        whole = content if isinstance(content, str) else content[0]["text"]
        parts = taken_apart(whole, task.row)
        gold.text, gold.form, gold.kind, gold.value = parts[:4]
        gold.wrong = wrong_for(parts.text, parts.kind)
    elif any("arguments" in item for turn in turns if isinstance(turn, list) for item in turn):
        gold.kind = "call"
    others = [player.play(index, task, each).reward for each in _wrong(gold)]
    gold.floor = min([gold.reward, floor, *(reward for reward in others if reward is not None)])
    if gold.floor >= gold.reward and gold.kind not in ("whole", "other"):
        gold.floor = gold.reward - 1.0  # what is paid for nothing is what there is to find
    return gold


def _wrong(gold: Gold) -> list[list[Turn]]:
    if gold.text is None:
        return [says("zebra lantern")]
    return [says("zebra lantern"), gold.say(gold.wrong)]


def taken_apart(whole: str, row: Row) -> Parts:
    r"""Return the answer in a text and the text around it: a value of the row, or else the content of a usual form.

    >>> taken_apart("I know.\nAnswer: Lima", {"capital": "Lima"})[:3]
    ('Lima', Form(before='I know.\nAnswer: ', after=''), 'text')
    >>> taken_apart("It is \\boxed{17}.", {})[:1], taken_apart("Answer: iron", {"names": "iron|ferrum"})[:1]
    (('17',), ('iron',))
    """
    best: Parts | None = None
    for name, value in row.items():
        if name == "responses_create_params" or isinstance(value, bool):
            continue
        for kind, text in renderings(value) if value not in (None, "") else ():
            place = _last_place(whole, text)
            rest = len(whole) - len(text)
            if place < 0 or rest > _MOST_AROUND or (best is not None and len(text) <= len(best.text)):
                continue
            form = Form(whole[:place], whole[place + len(text) :])
            if isinstance(value, list) and len(value) > 1 and kind != "list":
                continue  # one of several may be right, and others as well
            best = Parts(text, form, "list" if kind == "list" else _kind(text), value, name)
    if best is not None:
        return best
    for pattern in _AROUND:
        if pattern is _TAGGED and len(set(_TAG.findall(whole)) - {"think", "thinking", "reasoning"}) > 1:
            continue  # a document: its last element is no more the answer than the others
        if match := pattern.fullmatch(whole):
            groups = match.groups()
            text, before, after = groups[-2], groups[0], groups[-1]
            if text.strip() and len(text) <= _LONGEST * 3:
                return _listed(text, Form(before, after))
    short = whole.strip()
    if short.startswith(("{", "[")) and short.endswith(("}", "]")):
        return Parts(short, PLAIN, "json", None, "oracle")
    sentence = len(short.split()) > 2 and short.endswith((".", "!", "?"))
    if len(short) <= _LONGEST and "\n" not in short and not sentence:
        return _listed(short, PLAIN)
    return Parts(whole, PLAIN, "whole", None, "oracle")


def _listed(text: str, form: Form) -> Parts:
    values = text.split(", ")
    if len(values) > 1 and all(0 < len(value) <= 30 for value in values):
        return Parts(text, form, "list", values, "oracle")
    return Parts(text, form, _kind(text), None, "oracle")


def _kind(text: str) -> str:
    return kind_of(text) if len(text) <= _LONGEST else "json" if text.startswith("{") else "whole"


def _last_place(whole: str, text: str) -> int:
    """Return the last place of a text in another, as whole words; -1 without one."""
    place = len(whole)
    while (place := whole.rfind(text, 0, place)) >= 0:
        end = place + len(text)
        glued = place > 0 and whole[place - 1].isalnum() and text[0].isalnum()
        if not glued and not (end < len(whole) and whole[end].isalnum() and text[-1].isalnum()):
            return place
        place = end - 1
    return -1


def expectations(task: PreparedTask, gold: Gold | None) -> list[tuple[tuple[str, ...], Any]]:
    """Return the fields of a row that hold the right answer: by their names, or by their values.

    Values that the prompt shows are left out.
    """
    fields = expected_fields(task.row)
    if gold is None:
        return fields
    answer, prompt = json.dumps(gold.turns, ensure_ascii=False), prompt_text(task)
    for name, value in task.row.items():
        if name == "responses_create_params" or isinstance(value, bool) or value in (None, "", [], {}):
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        texts = [text, *(str(each) for each in value)] if isinstance(value, list) else [text]
        spoken = any(json.dumps(each, ensure_ascii=False)[1:-1] in answer for each in texts)
        if spoken and len(text) > 2 and _last_place(prompt, text) < 0 and (name,) not in [path for path, _ in fields]:
            fields.append(((name,), value))
    return fields
