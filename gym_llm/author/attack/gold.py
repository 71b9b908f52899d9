"""The right answer of a task, and finding it where the verifier names none: by trying what the row expects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gym_llm.author.attack.attack_play import Player, Turn, call, message, says
from gym_llm.core.tasks import PreparedTask
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.types import Row

EXPECTED = re.compile(
    r"^(expected|exp_|gold|ground_?truth|answer|solution|correct|reference|target|label|truth|outputs?$|secret|key$)|"
    r"(_answer|_answers|_label|_gold|_target|_solution)$",
    re.IGNORECASE,
)
"""The names of a row's fields that may say what is right."""

_FIRST = ("expected_answer", "expected", "answer", "gold", "ground_truth", "solution", "correct", "target", "label")
_MOST_VALUES = 14
_MOST_FORMS = 48
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")
_PLAIN_NUMBER = re.compile(r"-?(0|[1-9]\d{0,15})(\.\d+)?")
_EPSILON = 1e-6
_LEAST = 0.25
"""What more a right answer has to be paid than "I do not know.": less is a share of it at most."""


class Form(NamedTuple):
    """What stands around an answer."""

    before: str
    after: str
    quoted: bool = False
    """Whether the answer is inside of a JSON string."""

    def __call__(self, text: str) -> str:
        """The answer in this form."""
        inside = json.dumps(text, ensure_ascii=False)[1:-1] if self.quoted else text
        return f"{self.before}{inside}{self.after}"


PLAIN = Form("", "")
FORMS = (
    PLAIN,
    Form("\\boxed{", "}"),
    Form("Answer: ", ""),
    Form("<answer>", "</answer>"),
    Form("#### ", ""),
    Form("The answer is ", "."),
    Form("Final answer: ", ""),
    Form("[[", "]]"),
    Form("**", "**"),
    Form("(", ")"),
    Form("[", "]"),
    Form("$", "$"),
    Form("`", "`"),
    Form("```\n", "\n```"),
    Form("```json\n", "\n```"),
    Form('{"answer": "', '"}', True),
    Form('{"answer": ', "}"),
)


@dataclass(slots=True)
class Gold:
    """A task's right answer.

    Attributes:
        turns: What a model would have to do.
        reward: What that pays.
        floor: What a wrong answer, or "I do not know.", pays.
        text: The answer alone, where it is a text.
        forms: What may stand around it: the first is the one used.
        kind: What the text is.
        value: As the row has it.
        source: `oracle`, or the name of the row's field.
        wrong: A wrong answer of the same kind.
        tool: The tool that takes the answer, its parameter, and that one's type.
    """

    turns: list[Turn]
    reward: float
    floor: float
    text: str | None = None
    forms: list[Form] = field(default_factory=lambda: [PLAIN])
    kind: str = "other"
    value: Any = None
    source: str = "oracle"
    wrong: str = ""
    tool: tuple[str, str, str] | None = None

    def pays(self, reward: float | None) -> bool:
        """Whether a reward is that of the right answer, or more."""
        return reward is not None and self.reward > self.floor and reward >= self.reward - _EPSILON

    def say(self, text: str, form: Form | None = None) -> list[Turn]:
        """Turns that give this answer as the right one is given."""
        if self.tool is not None:
            name, parameter, kind = self.tool
            value = json.loads(text) if kind in ("integer", "number") and _PLAIN_NUMBER.fullmatch(text) else text
            return [[call(name, {parameter: value})], [message("Done.")]]
        return says((form or self.forms[0])(text))


def kind_of(text: str) -> str:
    """What an answer is: `number`, `letter`, `boolean`, `list`, `math` or `text`.

    >>> [kind_of(text) for text in ("-4.5", "B", "yes", "Oslo", "24 m/s", "[1, 2]")]
    ['number', 'letter', 'boolean', 'text', 'math', 'list']
    """
    if _NUMBER.fullmatch(text.strip()):
        return "number"
    if text.startswith(("[", "{")) and text.endswith(("]", "}")):
        return "list" if text.startswith("[") else "json"
    if re.search(r"[\d\\^_=]", text) and not re.search(r"(?<![\\A-Za-z])[A-Za-z]{4,}", text):
        return "math"
    if len(text.strip()) == 1 and text.strip().isalpha():
        return "letter"
    return "boolean" if text.strip().lower() in ("yes", "no", "true", "false") else "text"


def wrong_for(text: str, kind: str) -> str:
    """An answer of the same kind that is wrong for certain."""
    if kind == "number":
        value = float(text)
        other = 2 * value + 17
        return str(int(other)) if re.fullmatch(r"[-+]?\d+", text.strip()) else f"{other:.4f}"
    if kind == "letter":
        return "B" if text.strip().upper() == "A" else "A"
    if kind == "boolean":
        opposite = {"yes": "no", "no": "yes", "true": "false", "false": "true"}[text.strip().lower()]
        return opposite.capitalize() if text.strip()[0].isupper() else opposite
    if kind == "list":
        return '["zebra"]' if text.startswith("[") else "zebra"
    return "-999" if kind == "math" else "zebra"


def expected_fields(row: Row) -> list[tuple[tuple[str, ...], Any]]:
    """Where a row says what is right, the likeliest first: the path of a field, and its value."""
    fields: list[tuple[tuple[str, ...], Any]] = []
    for name, value in row.items():
        if name == "responses_create_params":
            continue
        if EXPECTED.search(name):
            fields.append(((name,), value))
        if isinstance(value, dict):
            fields += [((name, inner), each) for inner, each in value.items() if EXPECTED.search(inner)]
    return sorted(fields, key=lambda each: (len(each[0]), _FIRST.index(each[0][-1]) if each[0][-1] in _FIRST else 99))


def contrast(golds: dict[int, Gold | None]) -> None:
    """Take another task's right answer for a wrong one, where that is a text: it looks like an answer."""
    known = [gold for gold in golds.values() if gold is not None and gold.text is not None]
    for gold in known:
        others = [each for each in known if each.source == gold.source and each.kind == gold.kind in ("text", "math")]
        for other in others:
            one, two = (gold.text or "").casefold(), (other.text or "").casefold()
            if one not in two and two not in one:
                gold.wrong = other.text or ""
                break


def guess_gold(player: Player, index: int, task: PreparedTask, floor: float, known: Gold | None = None) -> Gold | None:
    """A task's right answer, guessed from what its row expects; None where nothing is paid as one.

    Args:
        player: Tries them.
        index: The task's.
        task: The task.
        floor: What "I do not know." is paid.
        known: That of another task, whose form is tried first.
    """
    best: Gold | None = None
    for gold in _candidates(player.env, task, known):
        played = player.play(index, task, gold.turns)
        if played.reward is None or played.reward < floor + _LEAST:
            continue
        if best is None or played.reward > best.reward + _EPSILON:
            wrong = player.play(index, task, gold.say(gold.wrong)).reward if gold.text is not None else None
            if wrong is not None and wrong >= played.reward - _EPSILON:
                continue  # whatever stands in this form is paid: that says nothing about the answer
            gold.reward, gold.floor = played.reward, max(floor, floor if wrong is None else wrong)
            best = gold
            if best.reward >= 1.0 - _EPSILON:
                break
    if best is not None and best.text is not None and best.tool is None:
        _find_forms(player, index, task, best)
    return best


def _find_forms(player: Player, index: int, task: PreparedTask, gold: Gold) -> None:
    """Add a form that has an end, such as a box, where a plain answer is read, too."""
    assert gold.text is not None
    for form in _forms(task):
        if (
            form.after
            and form not in gold.forms
            and gold.pays(player.play(index, task, gold.say(gold.text, form)).reward)
        ):
            gold.forms.append(form)
            return


def _candidates(env: VerifierEnv, task: PreparedTask, known: Gold | None) -> Iterator[Gold]:
    values = [
        (path, value, rendered, text)
        for path, value in expected_fields(task.row)
        for rendered, text in renderings(value, task.row)
    ][: 4 * _MOST_VALUES]
    calls = [(path, value) for path, value in expected_fields(task.row) if _calls(value)]
    for path, value in calls:
        yield Gold([_calls(value)], 0.0, 0.0, kind="call", value=value, source=path[-1])
    forms = _forms(task)
    if known is not None and known.text is not None:
        forms = [*known.forms, *(form for form in forms if form not in known.forms)]
        values.sort(key=lambda each: each[0][-1] != known.source)
    tools = [known.tool] if known is not None and known.tool else _answer_tools(env, task)
    for path, value, rendered, text in values[:_MOST_VALUES]:
        kind = "list" if rendered == "list" else kind_of(text)
        for form in forms[:_MOST_FORMS]:
            yield Gold(says(form(text)), 0.0, 0.0, text, [form], kind, value, path[-1], wrong=wrong_for(text, kind))
        for tool in tools:
            gold = Gold([], 0.0, 0.0, text, [PLAIN], kind, value, path[-1], wrong=wrong_for(text, kind), tool=tool)
            gold.turns = gold.say(text)
            yield gold


def renderings(value: Any, row: Row) -> Iterator[tuple[str, str]]:
    """Texts that say a value: (how, text).

    >>> [text for _, text in renderings([1, 2], {})][:2]
    ['[1, 2]', '1, 2']
    """
    if isinstance(value, bool):
        yield from (
            ("boolean", text)
            for text in (("yes", "Yes", "true", "True", "1") if value else ("no", "No", "false", "False", "0"))
        )
    elif isinstance(value, int | float):
        yield "number", repr(value)
        yield from (("letter", letter) for letter in _letters(value, row))
    elif isinstance(value, str):
        if value.strip():
            yield "text", value.strip()
        try:
            inner = json.loads(value)
        except ValueError:
            return
        if isinstance(inner, list | dict):
            yield from renderings(inner, row)
    elif isinstance(value, list) and value:
        texts = [each if isinstance(each, str) else json.dumps(each) for each in value]
        yield from (("list", text) for text in (json.dumps(value), ", ".join(texts), "\n".join(texts), " ".join(texts)))
        yield "list", "; ".join(texts)
        if len(texts) == 1 or all(isinstance(each, str) for each in value):
            yield "text", texts[0]
    elif isinstance(value, dict) and value:
        yield "json", json.dumps(value)
        for inner in list(value.values())[:3]:
            if isinstance(inner, str | int | float):
                yield "text", str(inner)


def _letters(value: float, row: Row) -> list[str]:
    """What an index may stand for, where a row has options."""
    options = row.get("options") or row.get("choices")
    if isinstance(options, list) and isinstance(value, int) and 0 <= value < len(options):
        text = options[value]
        return [chr(65 + value), *([text] if isinstance(text, str) else [])]
    return []


def _calls(value: Any) -> list[dict[str, Any]]:
    """The function calls that a value describes, as items."""
    if isinstance(value, str) and value[:1] in "{[":
        try:
            value = json.loads(value)
        except ValueError:
            return []
    calls = value if isinstance(value, list) else [value]
    if not calls or not all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in calls):
        return []
    return [
        call(each["name"], each.get("arguments", each.get("parameters", {})), f"call_{number}")
        for number, each in enumerate(calls, 1)
    ]


def _answer_tools(env: VerifierEnv, task: PreparedTask) -> list[tuple[str, str, str]]:
    """Tools that take one text or number, as a `submit(answer)` does."""
    tools = []
    for tool in task.request.get("tools") or ():
        properties = (tool.get("parameters") or {}).get("properties") or {}
        if tool.get("name") and len(properties) == 1 and env.executes_tools:
            (name, schema), *_ = properties.items()
            tools.append((tool["name"], name, str(schema.get("type"))))
    return tools[:6]


def prompt_text(task: PreparedTask) -> str:
    """All that a task's first request says."""
    texts = [str(task.request.get("instructions") or "")]
    for item in task.request["input"]:
        content = item.get("content")
        parts = content if isinstance(content, list) else [{"text": content}]
        texts += [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return "\n".join(filter(None, texts))


_TOLERANCE = re.compile(
    r"(?:within|tolerance(?: of)?|accurate to|estimate to|error of|±|\+/-)\s*(\d{1,3}(?:\.\d{1,6})?)\s*(?:%|percent)",
    re.IGNORECASE,
)


def stated_tolerance(prompt: str) -> float:
    """How far from the right number a prompt says that an answer may be, as a share of it; 0.0 if it does not.

    >>> stated_tolerance("Estimate to 5 %: ..."), stated_tolerance("What is 5 % of 80?")
    (0.05, 0.0)
    """
    return max((float(share) / 100 for share in _TOLERANCE.findall(prompt)), default=0.0)


def _forms(task: PreparedTask) -> list[Form]:
    """The forms to try: those that the prompt speaks of, then the usual ones."""
    prompt = prompt_text(task)[:20_000]
    forms = [PLAIN]
    if "boxed" in prompt:
        forms.append(FORMS[1])
    forms += [Form(f"<{tag}>", f"</{tag}>") for tag in re.findall(r"<([A-Za-z_][\w-]{0,30})>", prompt)[:6]]
    for label in re.findall(r"([A-Za-z][\w ]{0,24}\s?[:=])", prompt)[-12:]:
        words = label.split()
        forms += [Form(f"{' '.join(words[-count:])} ", "") for count in (1, 2, 3) if count <= len(words)]
    for mark in re.findall(r"(####?|>>>|==>|->)\s", prompt)[:2]:
        forms.append(Form(f"{mark} ", ""))
    for key in re.findall(r"[\"'](\w{1,30})[\"']\s*:", prompt)[:4]:
        forms += [Form(f'{{"{key}": "', '"}', True), Form(f'{{"{key}": ', "}")]
    return list(dict.fromkeys([*forms, *FORMS]))


def with_value(task: PreparedTask, path: tuple[str, ...], value: Any) -> Row:
    """The task's row with another value in one field."""
    if len(path) == 1:
        return {**task.row, path[0]: value}
    return {**task.row, path[0]: {**task.row[path[0]], path[1]: value}}
