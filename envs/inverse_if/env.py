"""InverseIF: unusual instructions, checked criterion by criterion (NeMo Gym's `inverse_if`)."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.judge import json_field, json_objects
from gym_llm.judge.rubric import RubricEnv
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import Item
from gym_llm.utils.json_codec import loads

_PLACE = re.compile(r"\{(prompt|model_response|standard_response|criteria)\}")
_FENCED = re.compile(r"```(?:json)?\s{0,20}(\{(?:[^`]|`(?!``)){0,4000}?\})\s{0,20}```")
_FLAT = re.compile(r'(\{[^{}]{0,4000}?"result"\s{0,20}:\s{0,20}"(?:PASS|FAIL)"[^{}]{0,4000}?\})', re.IGNORECASE)
_RESULT = json_field("result", ("PASS", "FAIL"), ignore_case=True)


class Criterion(BaseModel):
    """A criterion that the reply has to meet."""

    id: str
    criteria: str


class InverseIF(RubricEnv):
    """Follow unusual instructions; a judge checks each criterion, and the reward is the share of criteria that are met.

    Details: `rubric_evaluations`, `num_passed`, `num_total`, `generated_response`, `aggregation_mode`.

    Args:
        judge_prompt_template: The judge's message for rows without one; None for ours.
        judge_system_prompt: The judge's system message for rows without one.
        **kwargs: As for every `RubricEnv`; `weighted` is the mean here.
    """

    dry_run_kwargs = {"judge": 'constant:{"result": "PASS"}'}
    judge_thinks = True

    class Task(BaseTask):
        """The criteria, the prompt, a reply that meets them, and optional messages to the judge."""

        rubric: list[Criterion] = []
        prompt: str = ""
        reference_response: str = ""
        judge_prompt_template: str | None = None
        judge_system_prompt: str | None = None
        metadata: dict[str, Any] | None = None

        def judge_text(self, name: Literal["judge_prompt_template", "judge_system_prompt"]) -> str | None:
            """Return the row's own message to the judge, if any."""
            return getattr(self, name) or (self.metadata or {}).get(name)

    class Config(RubricEnv.Config):
        """The messages to the judge."""

        judge_prompt_template: str | None = None
        judge_system_prompt: str | None = None

    config: Config

    def oracle(self, task: Task) -> str | None:
        """Return the reference reply, if the row has one."""
        return task.reference_response or None

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Ask the judge about each criterion."""
        reply = strip_thinking(episode.last_message, conform=self.conform is not None)
        shown = {"prompt": task.prompt, "model_response": reply, "standard_response": task.reference_response}
        asked = [self._messages(task, {**shown, "criteria": each.criteria}) for each in task.rubric]
        evaluations = await self.judge_items(asked, _nemo_passes if self.conform else passes, "FAIL")
        for criterion, evaluation in zip(task.rubric, evaluations, strict=True):
            is_met = float(evaluation["verdict"] == "PASS")
            evaluation |= {"criterion_id": criterion.id, "criteria": criterion.criteria, "score": is_met}
            said = evaluation["judge_response"]
            evaluation["explanation"] = nemo_verdict(said)[1] if self.conform else explanation(said)
        reward, details = self.report(reply, evaluations)
        return Verdict(reward, details)

    def _messages(self, task: Task, values: dict[str, str]) -> list[Item]:
        """Return the messages to the judge: the row's, the configuration's, or ours."""
        template = task.judge_text("judge_prompt_template") or self.config.judge_prompt_template
        if template is None:
            return self.prompt().messages(values)
        system = task.judge_text("judge_system_prompt") or self.config.judge_system_prompt
        user = {"role": "user", "content": filled(template, values), "type": "message"}
        return [{"role": "system", "content": system, "type": "message"}, user] if system else [user]


def filled(template: str, values: dict[str, str]) -> str:
    """Return a template with the values in their places; other braces stay, such as those of JSON.

    >>> filled('{prompt}: {"result": "PASS"}', {"prompt": "{x}"})
    '{x}: {"result": "PASS"}'
    """
    return _PLACE.sub(lambda match: values[match[1]], template.replace("{{", "{").replace("}}", "}"))


def passes(text: str) -> str | None:
    """Return `PASS` or `FAIL`, the `result` of the last JSON object that has one.

    >>> passes('First {"result": "FAIL"}; now {"why": {"a": "}"}, "result": "pass"}')
    'PASS'
    """
    verdict: str | None = _RESULT(text)
    return verdict


def nemo_verdict(text: str) -> tuple[str | None, str]:
    """Return the verdict of a fenced object, a flat one, or a word in the last five lines, and its explanation.

    NeMo Gym reads verdicts in this way.
    """
    for match in (_FENCED.search(text), _FLAT.search(text)):
        if match is None:
            continue
        try:
            value = loads(match[1].encode("utf-8", "replace"))
        except ValueError:
            continue
        result = value.get("result")
        if isinstance(result, str) and result.strip().upper() in ("PASS", "FAIL"):
            return result.strip().upper(), str(value.get("explanation", ""))
    for line in reversed(text.strip().split("\n")[-5:]):
        for word in ("PASS", "FAIL"):
            if word in line.upper():
                return word, ""
    return None, ""


def _nemo_passes(text: str) -> str | None:
    return nemo_verdict(text)[0]


def explanation(text: str) -> str:
    """Return the last `explanation` of the JSON objects."""
    values = [value["explanation"] for value in json_objects(text) if isinstance(value.get("explanation"), str)]
    return values[-1] if values else ""
