"""Cases for NeMo Gym's servers: answers in other forms and characters, damaged calls, and what is cut off."""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from testing import Item

from gym_llm.types import Row

_JUDGED = (
    *("[[A=B]]", "[[A!=B]]", "Could be [[A=B]], but finally [[A!=B]]", "[[A!=B]]? No: [[A=B]]", "hm", "A", "B", "C"),
    *("<think>[[A!=B]]</think>[[A=B]]", "CORRECT", "INCORRECT", "correct", "not INCORRECT: CORRECT", "**CORRECT**"),
    *("Judgement: Yes", "Judgement: No", "**Judgement**: yes", "Judgement: not sure", "[Correct]", "[Incorrect]"),
    *("\\boxed{Correct}", "\\boxed{Incorrect}", "<points>7 out of 7</points>", "<points>5 out of 7</points>"),
    *('{"result": "PASS"}', '{"result": "FAIL"}', '```json\n{"result": "PASS", "why": "x"}\n```', "[[YES]]", "[[NO]]"),
    *("[[YES]] [[NO]]", "[[COMPLIED]]", "[[REFUSED]]", "[[REFUSED]] no: [[COMPLIED]]", "Refusal: yes", "Refusal: no"),
    *("Refusal: yes. Refusal: no", "Response harm: harmful", "Response harm: unharmful", "Grade: A", "grade: b"),
    *("[[SAFE]]", "[[UNSAFE]]", "[[SAFE]] [[UNSAFE]]", "[[HAS_EXPLANATION]]", "[[NO_EXPLANATION]]", "VERDICT: 1"),
    *("[[PROPER_HARD_REFUSAL]]", "[[IMPROPER_RESPONSE]]", "\\boxed{1}", "\\boxed{0}", "\\boxed{0.5}", "\\boxed{1/2}"),
    *("## Equivalence Judgement\nTRUE", "## Equivalence Judgement\nFALSE", "TRUE", "[[A>B]]", "[[B>>A]]", "[[A=B]]."),
    *("Score: 1", "Score: 0", "score[7] / max_score[10]", "3/5", "yes", "no", "Yes.", "No.", "I say yes, not no", ""),
    *("Harmful request: yes\nResponse refusal: no\nHarmful response: no", "1", "0", "<score>1</score>", "VERDICT: 10"),
    *('{"verdict": "CORRECT"}', '{"score": 7}', "correct: yes\nconfidence: 90", "A: CORRECT", "B: INCORRECT", "4"),
)
_ANSWERED = tuple(
    json.dumps({"selected_answer": actor, "answer_class": verdict, "rationale": "It says so."})
    for actor in (None, "uncertain", "actor_a", "actor_b", "actor_c")
    for verdict in ("correct_answer", "incorrect_answer", "unsure")
)
_EXPLAINED = tuple(
    json.dumps(
        {"quality_class": quality, "uses_protected_rationale": trait, "uses_unsupported_proxy": proxy, "rationale": "Y"}
    )
    for quality in ("high", "low", "unacceptable")
    for trait in (False, True)
    for proxy in (False, True)
)
_GAMES = {
    "blackjack": ("<action>hit</action>", "<action>stand</action>"),
    "grl_sokoban": tuple(f"<action>{move}</action>" for move in ("Up", "Down", "Left", "Right", "1", "4")),
    "grl_tetris": tuple(
        f"<action>{move}</action>" for move in ("Left", "Right", "Down", "Down", "2", "Down</action><action>Down")
    ),
}
"""Games of several turns, and their moves."""
_TEXTS = (
    *(
        "",
        " ",
        "I do not know.",
        "\\boxed{}",
        "\\boxed{?}",
        "Answer:",
        "Answer: A or B",
        "neither A nor B",
        "Both",
        "b",
    ),
    *(
        "{}",
        "[]",
        "null",
        "```\n```",
        "<think>",
        "</think>",
        "\\boxed{\\boxed{1}}",
        "1e999",
        "NaN",
        "**A**",
        "(B)",
        "A",
    ),
    *("Final Answer: []", "Final Answer: [a]", "yes", "no", "Yes, because no.", "0", "1", "-1", "1,000", "\u200b"),
)
_BOXES = (
    *("\\boxed{@}", "So \\boxed{@}.", "$\\boxed{@}$", "\\boxed {@}", "\\fbox{@}", "\\boxed{\\text{@}}", "\\boxed{@"),
    *("\\boxed{\\textbf{@}}", "\\boxed{@} \\boxed{", "\\boxed{0} no: \\boxed{@}", "\\boxed{@} no: \\boxed{0}"),
    *("\\[\\boxed{@}\\]", "\\boxed{@} \\boxed{}", "\\boxed{@\\%}", "\\boxed{@ }", "\\\\boxed{@}", "\\boxed{(@)}"),
    *("\\boxed{@.}", "\\boxed{@: x}", "\\boxed{x = @}", "\\boxed{@} units", "\\boxed{\\boxed{@}}"),
)
_NAMED = (
    *("Answer: @", "**Answer: @**", "**Answer:** @", "answer is @", "ANSWER: @", "Answer: (@)", "Answer: @.", "@"),
    *("Answer: @ because", "Answer：@", "Answer: 0\nAnswer: @", "Answer: @\nAnswer: 0", "Answer:\n@", "[[@]]", "*@*"),
    *("Final Answer: @", "The final answer is @", "Final Answer: [@]", "<answer>@</answer>", "<final>@</final>", "# @"),
    *("Answer: \\text{@}", "Answer: $@$", "Answer: @%", '{"answer": "@"}', "(@)", "@)", "it is (@), surely", "@ or 0"),
)
_FENCES = (
    *(f"```{name}\n@\n```" for name in ("", "python", "sql", "SQL", "sqlite", "json", "xml", "text", "cpp")),
    *("~~~\n@\n~~~", "```sql\n-- x\n@ -- y\n```", "```sql\n**Query** @\n```", "```json\n@", "`@`", "```\n@\n```\n```"),
    *("```sql\nSELECT 1\n```\n```sql\n@\n```", "```sql\n@\n```\n```sql\nSELECT 1\n```"),
)
_AROUND = (
    *(
        "@\n",
        "  @  ",
        "@.",
        "@ @",
        "<think>@</think>",
        "<think>x</think>@",
        "x</think>@",
        "<think>@",
        "> @",
        "- @",
        "$@$",
    ),
    *("<thinking>no</thinking>\n@", "**@**", '"@"', "\u200b@", "\ufeff@", "| @ |", "@\n\nI hope that this helps!"),
    *("Wait. @ Hmm, or 7?", "@ units", "\x1f@", "@\u2028", "@@"),
)
_REPLACED = (
    *(
        ("\n", "\r\n"),
        (" ", "\u00a0"),
        (" ", ""),
        (" ", "  "),
        ('"', "'"),
        ("'", '"'),
        ("-", "−"),
        (",", ""),
        (".", ","),
    ),
    *(
        ("\\", "\\\\"),
        ("{", "{ "),
        ("(", ""),
        (":", "："),
        ("1", "１"),
        ("e", "é"),
        ("[", "【"),
        ("\n", " "),
        ("=", " = "),
    ),
)
_CHANGES: tuple[Callable[[str], str], ...] = (
    *(str.lower, str.upper, str.swapcase, str.strip, str.title, lambda text: text[::-1], lambda text: text[:-1]),
    *(lambda text: text[: len(text) // 2], lambda text: text[len(text) // 2 :], lambda text: text[1:]),
    lambda text: "".join(chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else each for each in text),
    lambda text: unicodedata.normalize("NFD", text),
    lambda text: re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), text, count=1),
    lambda text: "\n".join(reversed(text.split("\n"))),
)
_ARGUMENTS: tuple[Callable[[str], str], ...] = (
    *(str.lower, str.upper, json.dumps, lambda text: text[:-1], lambda text: f" {text} ", lambda text: f"{text}{text}"),
    *(partial(re.sub, r"\d+", new, count=1) for new in ("NaN", "1e999", r"\g<0>.0", r'"\g<0>"', "true", "-0")),
    *(partial(re.sub, r'": "', new, count=1) for new in ('":"', '": " ', '": "\\\\u00e9')),
    partial(re.sub, r'"(\w+)":', r'"x_\1":', count=1),
    lambda text: json.dumps(dict(list(json.loads(text).items())[1:])),
    lambda text: text.replace('"', "'"),
)
_WHOLE_ARGUMENTS = ("{}", "", "null", "[1]", "[@]", "not JSON", '"text"', "{", '{"zz": NaN}')
_MEMBERS = ("NaN", "-Infinity", "1e999", "null", '"\\u00e9"', "9" * 30, "{}")


def draw_case(
    server: str,
    number: int,
    row: Row,
    output: list[Item],
    rows: list[tuple[Row, list[Item]]],
    draw: random.Random,
    judged: bool,
) -> dict[str, Any]:
    """Draw a case from a row with an answer and those of other rows; a `judged` one has a judge's texts."""
    if server in _GAMES:
        return {"source": f"{server}/{number}", "task": row, "output": _played(_GAMES[server], row, draw)}
    items = output if draw.random() < 0.8 else draw.choice(rows)[1]
    calls = [item for item in items if item.get("type") == "function_call"]
    if calls and draw.random() < 0.85:
        items = _damaged_calls(items, draw)
    else:
        text = "\n".join(text_of(item) for item in items if item.get("type") == "message") or json.dumps(items)
        items = [said(_damaged_text(text, row, draw))]
        if draw.random() < 0.15:
            items = [said("I begin.") if draw.random() < 0.5 else _reasoning(text), *items]
    texts = [draw.choice(_JUDGED) for _ in range(3)] * 6 if judged else None
    if server == "bbq":
        texts = [draw.choice(_ANSWERED), draw.choice(_EXPLAINED)] * 6
    case = {"source": f"{server}/{number}", "task": row, "output": items}
    return case | ({"judge": [{"text": text} for text in texts]} if texts else {})


def _played(moves: tuple[str, ...], row: Row, draw: random.Random) -> list[Item]:
    """A model's turns, and between them what the environment says."""
    turns = [draw.choice(moves) for _ in range(draw.randint(1, 30))]
    texts = [_damaged_text(text, row, draw) if draw.random() < 0.1 else text for text in turns]
    return [item for text in texts for item in (said(text), {"role": "user", "content": "Go on."})][:-1]


def _damaged_text(text: str, row: Row, draw: random.Random) -> str:
    kind = draw.random()
    if kind < 0.1:
        return draw.choice(_TEXTS)
    if kind < 0.6:
        golds = [value for value in row.values() if isinstance(value, str) and 0 < len(value) < 300]
        gold = draw.choice([*golds, *map(str, _numbers(row)), text])
        text = draw.choice(draw.choice([_BOXES, _BOXES, _NAMED, _NAMED, _FENCES])).replace("@", gold)
    for _ in range(draw.choice([0, 1, 1, 2])):
        kind = draw.random()
        if kind < 0.4:
            text = draw.choice(_AROUND).replace("@", text)
        elif kind < 0.7:
            text = text.replace(*draw.choice(_REPLACED))
        else:
            text = draw.choice(_CHANGES)(text)
    return text


def _damaged_arguments(text: str, draw: random.Random) -> str:
    kind = draw.random()
    if kind < 0.25:
        between = ", " if len(text.strip()) > 2 else ""
        return f'{text.rstrip()[:-1]}{between}"zz": {draw.choice(_MEMBERS)}}}'
    if kind < 0.4:
        return draw.choice(_WHOLE_ARGUMENTS).replace("@", text)
    with suppress(ValueError, AttributeError):
        return draw.choice(_ARGUMENTS)(text)
    return text


def _numbers(row: Row) -> list[float]:
    return [value for value in row.values() if isinstance(value, int | float) and not isinstance(value, bool)]


def _damaged_calls(items: list[Item], draw: random.Random) -> list[Item]:
    items = [dict(item) for item in items]
    places = [place for place, item in enumerate(items) if item.get("type") == "function_call"]
    for place in draw.sample(places, min(len(places), draw.choice([0, 1, 1, 2]))):
        items[place]["arguments"] = _damaged_arguments(str(items[place]["arguments"]), draw)
        if draw.random() < 0.1:
            items[place]["name"] = draw.choice([f"{items[place]['name']}_x", str(items[place]["name"]).upper(), ""])
    kind = draw.random()
    if kind < 0.1:
        items = items[: draw.randrange(len(items) + 1)]
    elif kind < 0.2:
        items.append(said(draw.choice(_TEXTS)))
    elif kind < 0.25:
        items = [item for item in items if item.get("type") not in ("function_call", "function_call_output")]
    elif kind < 0.3:
        items = [*items, *items]
    return items


def said(text: str) -> Item:
    """A message."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}


def _reasoning(text: str) -> Item:
    return {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": text}]}


def text_of(item: Item) -> str:
    """What a message says."""
    content = item.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    return "".join(str(part.get("text") or "") for part in parts)
