"""RAGTruth: does an answer say what its sources do not? (NeMo Gym's `ragtruth`)."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal

from pydantic import Field

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.extraction import fences
from gym_llm.tokens.parsers.thinking import without_cut_thought, without_tagged
from gym_llm.types import Row

KEY = "hallucination list"
_JSON_MARK = re.compile(r"json", re.IGNORECASE)
_SHOWN = 500


class RAGTruth(NemoCompatible):
    """List the spans that the sources do not support; the reward is 1.0 if there are some where there should be.

    Details: `is_halu` and `pred_halu` (0 or 1), and `parse_fail` (1 if the answer has no list). `extracted` is the list
        as
    JSON, at most 500 characters.

    Args:
        think_tag: Text between `<tag>` and `</tag>` is reasoning and ignored.
        unparsed: The value of an answer without a list: `"wrong"`, or `"no"` hallucination. None for `"wrong"`, or
            `"no"` with `conform="nemo"`. In NeMo Gym silence earns the reward of every clean row.
        conform: `"nemo"` applies NeMo Gym's reading; the README lists the differences.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument is invalid.
    """

    reverify_mode = "stateless"
    accepted_findings = {"near miss/another value in it": "only whether there is a span counts, not which"}
    metrics = {
        "pred_halu": Metric("rate", higher_is_better=None),
        "parse_fail": Metric("rate", higher_is_better=False),
    }

    class Task(BaseTask):
        """A row: whether the answer in the prompt has such spans, and its kind of task."""

        is_halu: bool = False
        task_type: str = ""

    class Config(NemoCompatible.Config):
        """Arguments of the class."""

        think_tag: Annotated[str, Field(min_length=1)] = "think"
        unparsed: Literal["no", "wrong"] | None = None

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        self.unparsed = self.config.unparsed or ("no" if self.conform else "wrong")

    def oracle(self, task: Task) -> str:
        """A list with a span, whichever it is, or without any."""
        return json.dumps({KEY: ["all of it"] if task.is_halu else []})

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare whether the answer lists a span with whether there is one."""
        text = episode.text if self.conform else without_cut_thought(episode.text)
        text = without_tagged(text, self.config.think_tag)
        answer = parsed(unfenced(text)) if self.conform else listed_in(text)
        spans = answer.get(KEY) if answer is not None else None
        listed = spans if isinstance(spans, list) else None
        failed = answer is None if self.conform else listed is None
        found = any(self.conform or not _is_blank(span) for span in listed or ())
        correct = found == task.is_halu and not (failed and self.unparsed == "wrong")
        details = {"is_halu": int(task.is_halu), "pred_halu": int(found), "parse_fail": int(failed)}
        return Verdict(float(correct), details | {"extracted": _shown(listed)})


def unfenced(text: str) -> str:
    """Return the content of a fence of back-ticks as NeMo Gym does: the one around all of the text, else the first."""
    start = text.find("```")
    if start < 0:
        return text
    whole = start == 0 and text.endswith("```") and len(text) >= 6
    start += 3
    if mark := _JSON_MARK.match(text, start):
        start = mark.end()
    end = text.rfind("```") if whole else text.find("```", start)
    inside = text[start:end].strip() if end >= 0 else ""
    return inside if whole or inside else text


def listed_in(text: str) -> dict[str, Any] | None:
    r"""Return the last fenced JSON object with a list of spans, else the text if it is an object; None without.

    >>> listed_in('1. So:\n   ~~~json\n   {"hallucination list": []}\n   ~~~')
    {'hallucination list': []}
    """
    objects = [value for fence in fences(text) if (value := parsed(fence.body.strip())) is not None]
    return next((value for value in reversed(objects) if KEY in value), parsed(text.strip()))


def parsed(text: str) -> dict[str, Any] | None:
    """Parse the text as a JSON object; None if it is not one."""
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _is_blank(span: Any) -> bool:
    return span is None or span in ("", [], {}) or (isinstance(span, str) and span.isspace())


def _shown(spans: list[Any] | None) -> str:
    if spans is None:
        return ""
    try:
        return json.dumps(spans[:_SHOWN], ensure_ascii=False)[:_SHOWN]
    except RecursionError:
        return ""
