"""Taking structured output out of an answer, and finding paths in it: NeMo Gym's `structeval` rules, written anew."""

from __future__ import annotations

import codecs
import re
import warnings
from typing import Any, NamedTuple, get_args

from gym_llm.grading.document_formats import Format, csv_header, is_quick, parse
from gym_llm.grading.extraction import fences
from gym_llm.tokens.parsers.thinking import strip_thinking

_BEGIN = re.compile(r"<\|BEGIN_CODE\|>[ \t]*+\n?", re.IGNORECASE)
_END = re.compile(r"<\|END_CODE\|>", re.IGNORECASE)
_FENCE = "```"
_STEP = re.compile(r"\[[^\]]*\]|(?:`[^`]*`?|[^.\[`])+")
_SHOWN = 200


class Question(NamedTuple):
    """The requirements on an answer."""

    output_type: str
    """The format, in small letters."""
    paths: tuple[tuple[str, ...], ...]
    """Which paths have to be there, step by step."""
    conform: bool
    """Whether all is as in NeMo Gym."""


class Scores(NamedTuple):
    """The scores of an answer."""

    render_score: float = 0.0
    key_validation_score: float = 0.0
    error_type: str | None = None
    error_message: str | None = None


def scores_of(question_and_text: tuple[Question, str]) -> Scores:
    """Score an answer: whether its output parses, and how many of the paths are in it.

    A long text takes long: call this in a worker process unless `is_quick_for` holds.
    """
    question, text = question_and_text
    kind: Any = question.output_type
    if kind not in get_args(Format):
        return Scores(error_type="unsupported_type", error_message=f"Unsupported output type: {kind}"[:_SHOWN])
    code = code_as_nemo_gym(text) if question.conform else code_of(text)
    try:
        parsed: Any = parse(code, kind, iso_dates=not question.conform, by_pyyaml=question.conform)
        if kind == "csv":
            parsed = {"csv_headers": csv_header(code), "csv_rows": parsed}
    except ValueError as error:
        name = type(error.__cause__ or error).__name__
        return Scores(error_type="parse_error", error_message=f"{name}: {str(error)[:_SHOWN]}")
    if not parsed:
        return Scores(error_type="parse_error", error_message="Parsed result is empty")
    found = sum(has_path(parsed, path) for path in question.paths)
    return Scores(1.0, found / len(question.paths) if question.paths else 0.0)


def is_quick_for(question: Question, text: str) -> bool:
    """Whether scoring a text takes some milliseconds, whatever it says."""
    return is_quick(text, question.output_type, by_pyyaml=question.conform) or question.output_type not in get_args(
        Format
    )


def code_of(text: str) -> str:
    r"""The output in an answer: what `<|BEGIN_CODE|>` begins, else the first fence, else all of it.

    >>> code_of("<|BEGIN_CODE|>a: 1<|END_CODE|> as you see"), code_of("So: ```json\n{}")
    ('a: 1', '{}')
    """
    text = strip_thinking(text)
    if begin := _BEGIN.search(text):
        text = _marked(text, begin)
        if not text.startswith((_FENCE, "~~~")):
            return text
    return next((body for fence in fences(text) if (body := fence.body.strip())), text)


def code_as_nemo_gym(text: str) -> str:
    r"""The output as NeMo Gym takes it out: escapes like `\n` are decoded, and every fence goes before other marks.

    >>> code_as_nemo_gym("<|BEGIN_CODE|>é<|END_CODE|>")
    'Ã©'
    """
    text = text.replace("&lt;", "<").replace("&gt;", ">").replace("<think>\n\n</think>\n\n", "")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that there are not, such as `\d`
            text = codecs.decode(text.encode(), "unicode_escape")
    except ValueError:
        pass
    if (fenced := _fenced(text)) is not None:
        return fenced
    begin = _BEGIN.search(text)
    return _marked(text, begin) if begin else text.strip()


def steps_of(path: str) -> tuple[str, ...]:
    """The steps of a path: keys, `[0]` for an element, `*` for any element, `csv::name` for a column.

    Raises:
        ValueError: If a bracket is not closed.

    >>> steps_of("a.`b.c`[0].*")
    ('a', 'b.c', '[0]', '*')
    """
    if path.startswith("csv::"):
        return (path,)
    steps, position = [], 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            if path[position] == "[":
                raise ValueError(f"the path {path!r} has a bracket that is not closed")
            position += 1
            continue
        steps.append(step[0] if step[0][0] == "[" else step[0].replace("`", ""))
        position = step.end()
    return tuple(filter(None, steps))


def has_path(value: Any, steps: tuple[str, ...]) -> bool:
    """Whether a path leads somewhere in a parsed value.

    >>> has_path({"a": [{"b": 1}, {"c": None}]}, ("a", "*", "c")), has_path({"a": [1]}, ("a", "[1]"))
    (True, False)
    """
    places = [value]
    for number, step in enumerate(steps):
        reached: list[Any] = []
        for place in places:
            if step.startswith("csv::") and isinstance(place, dict) and "csv_headers" in place:
                return number == len(steps) - 1 and step.removeprefix("csv::") in place["csv_headers"]
            if step == "*":
                reached += place if isinstance(place, list) else ()
            elif step.startswith("[") and step.endswith("]"):
                index = step[1:-1].strip()
                if isinstance(place, list) and index.isdecimal() and int(index[:18]) < len(place):
                    reached.append(place[int(index)])
            elif isinstance(place, dict):
                key = step if step in place else step.removeprefix("@")
                if key in place:
                    reached.append(place[key])
        places = reached
    return bool(places)


def _marked(text: str, begin: re.Match[str]) -> str:
    end = _END.search(text, begin.end())
    return text[begin.end() : end.start() if end else len(text)].strip()


def _fenced(text: str) -> str | None:
    """What is in the first fence, as NeMo Gym reads it; None if there is none."""
    start = text.find(_FENCE)
    line_end = text.find("\n", start + len(_FENCE)) if start >= 0 else -1
    if line_end < 0:
        return None
    end = text.find(_FENCE, line_end)
    return text[line_end + 1 : end if end >= 0 else len(text)].strip()
