"""AgentIF: constraints of agents' prompts, checked by a judge and by programs (NeMo Gym's `agentif`)."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.envs.agentif.checkers import FUNCTION, imports, program
from gym_llm.errors import DataError
from gym_llm.judge import FAILS, JudgedEnv, labels
from gym_llm.judge.judged_env import all_of
from gym_llm.sandbox.functions import Functions
from gym_llm.sandbox.sandboxed_env import SandboxedEnv
from gym_llm.tokens.parsers.thinking import strip_thinking, without_spans

Outcome = Literal["followed", "broken", "skipped", "error", "invalid"]
"""`invalid`: the row's program is not Python. `error`: it fails on the text."""
_SECONDS = 10.0  # of a program; NeMo Gym has no limit
_PLACE = "{response}"
_WORDS = re.compile(r"\b(YES|NO)\b")
_PAIR = re.compile(r"\b(?:YES|NO)[*_\s]{0,4}(?:or|/|或者?|and)[*_\s]{0,4}(?:YES|NO)\b")
_LAST_WORD = labels("YES", "NO")
_DIMENSIONS = ("unconditional", "conditional", "example_driven")
_TYPES = ("formatting", "semantic", "resource")


class Step(BaseModel):
    """A step of a check: a question for the judge, or a program."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: Literal["llm", "llm_conditional_check", "code"]
    exec: str

    def question(self, text: str) -> str:
        """Return the prompt with a text in it, at its end if the prompt has no place."""
        prompt = self.exec if _PLACE in self.exec else f"{self.exec}\n\nHere is model response: {_PLACE}"
        return prompt.replace(_PLACE, text)


class Constraint(BaseModel):
    """A constraint with the steps of its check; `dimension` and `type` are only counted."""

    model_config = ConfigDict(extra="allow", frozen=True)

    id: Any = None
    desc: str = ""
    dimension: str | None = None
    type: str | list[str] | None = None
    evaluation: list[Step] = Field(min_length=1)


class VerifierMetadata(BaseModel):
    """The constraints of a row."""

    model_config = ConfigDict(extra="allow", frozen=True)

    constraints: list[Constraint] = Field(min_length=1)
    query_id: int | None = None
    turn_id: int | None = None


class AgentIF(JudgedEnv, SandboxedEnv):
    """Reply as an agent's prompt demands; 1.0 if every constraint that applies is followed.

    Details: `n_true`, `n_false`, `n_skipped`, `n_error`, `n_invalid`, `n_null`, `isr_pass`, `isr_counted`,
    `csr` (the share of followed constraints), `by_dimension`, `by_type`, `constraints` (each outcome), `query_id`,
    `turn_id`.

    Args:
        **kwargs: As for every `JudgedEnv` and every `SandboxedEnv`.
    """

    judge_required = False
    judge_thinks = True
    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": "constant:YES"}
    judge_params = {"temperature": 0.0, "top_p": 1.0, "max_output_tokens": 1024}
    metrics = {
        "csr": Metric(),
        "n_skipped": Metric(higher_is_better=None),
        "n_error": Metric(higher_is_better=False),
        "n_invalid": Metric(higher_is_better=None),
    }

    class Task(BaseTask):
        """The constraints."""

        verifier_metadata: VerifierMetadata

    class Config(JudgedEnv.Config, SandboxedEnv.Config):
        """The judge and the sandbox."""

    config: Config

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Check each constraint."""
        metadata = task.verifier_metadata
        text = _without_thinking(episode.text) if self.conform else strip_thinking(episode.answer, unclosed=True)
        if self.conform:  # one after another
            outcomes = [await self._outcome(constraint, text) for constraint in metadata.constraints]
        elif not text:
            outcomes = ["broken"] * len(metadata.constraints)
        else:
            outcomes = await all_of(self._outcome(constraint, text) for constraint in metadata.constraints)
        return _verdict(metadata, outcomes)

    async def _outcome(self, constraint: Constraint, text: str) -> Outcome:
        """Run the steps of a check; each reads what the one before has returned."""
        value: Any = text
        for step in constraint.evaluation:
            if value is None:
                return "error"
            is_last = step is constraint.evaluation[-1]
            if step.type == "code":
                names = imports(step.exec, conform=self.conform is not None)
                if names is None:
                    return "error" if self.conform else "invalid"
                value = await self._check(step.exec, names, value)
            elif step.type == "llm":
                value = await self._said(step, value, is_last)
            elif (applies := await self._decided(step, value)) is not True:
                return "skipped" if applies is False else "error"
        if isinstance(value, str):
            value = self._read(value)
        return "error" if value is None else "followed" if value else "broken"

    async def _said(self, step: Step, text: Any, is_last: bool) -> Any:
        """Return what the judge says: its verdict in the last step, else its text."""
        if is_last:
            return await self._decided(step, text)
        return (await self._asked(step, text, lambda said: said or None)).value

    async def _decided(self, step: Step, text: Any) -> bool | None:
        verdict = (await self._asked(step, text, self._read)).value
        return verdict if isinstance(verdict, bool) else None

    async def _asked(self, step: Step, text: Any, parse: Any) -> Any:
        message = {"type": "message", "role": "user", "content": step.question(str(text))}
        return await self.ask([message], parse, unparsable=None if self.conform else FAILS)

    def _read(self, text: str) -> bool | None:
        return read_verdict_as_nemo_gym(text) if self.conform else read_verdict(text)

    async def _check(self, source: str, names: str, text: Any) -> Any:
        """Return what a program says of a text; None if it fails, or does not like the text.

        Raises:
            DataError: If the program cannot be loaded, but not with `conform`.
        """
        if not text:
            return None
        async with Functions(await self.started_sandbox(), self.limits(_SECONDS)) as functions:
            loaded = await functions.load(program(source), FUNCTION, False, "", names)
            if loaded.failed and self.conform is None:
                raise DataError(f"A program of evaluation must define check_following, got {loaded.error}"[:300])
            called = loaded if loaded.failed else await functions.call(json.dumps([text]))
        return None if called.failed else called.value


def _verdict(metadata: VerifierMetadata, outcomes: list[Outcome]) -> Verdict:
    followed, broken, skipped, errors, invalid = map(outcomes.count, get_args(Outcome))
    scored = [each for each in zip(metadata.constraints, outcomes, strict=True) if each[1] in ("followed", "broken")]
    passed = bool(scored) and not broken and not errors
    return Verdict(
        float(passed),
        {
            "n_true": followed,
            "n_false": broken,
            "n_null": skipped + errors + invalid,
            "n_skipped": skipped,
            "n_error": errors,
            "n_invalid": invalid,
            "isr_pass": int(passed),
            "isr_counted": int(bool(scored or errors)),
            "csr": followed / len(scored) if scored else 0.0,
            "by_dimension": _counts([([each.dimension], outcome) for each, outcome in scored], _DIMENSIONS),
            "by_type": _counts(
                [(each.type if isinstance(each.type, list) else [each.type], outcome) for each, outcome in scored],
                _TYPES,
            ),
            "constraints": [
                {"id": each.id, "desc": each.desc[:200], "outcome": outcome}
                for each, outcome in zip(metadata.constraints, outcomes, strict=True)
            ],
            "query_id": metadata.query_id,
            "turn_id": metadata.turn_id,
        },
    )


def _counts(scored: list[tuple[list[Any], Outcome]], names: tuple[str, ...]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for own, outcome in scored:
        for name in own:
            if name in names:
                counts.setdefault(name, {"n_true": 0, "n_false": 0})[
                    "n_true" if outcome == "followed" else "n_false"
                ] += 1
    return counts


def read_verdict(text: str) -> bool | None:
    r"""Return which of YES and NO a judge says last, or what its last line is in other letters.

    >>> read_verdict("It is not NO: YES"), read_verdict("So:\nno."), read_verdict("There is no print.")
    (True, False, None)
    """
    verdict: bool | None = _LAST_WORD(_PAIR.sub("", text))
    last = text.rstrip().rpartition("\n")[2].strip(" \t*_`.\"'。").upper()
    return last == "YES" if verdict is None and last in ("YES", "NO") else verdict


def read_verdict_as_nemo_gym(text: str) -> bool | None:
    """Return the word of the last line, or else of all, that has only one of YES and NO."""
    lines = [line for line in text.splitlines() if line.strip()]
    for part in [*lines[-1:], text]:
        words = set(_WORDS.findall(part))
        if len(words) == 1:
            return words == {"YES"}
    return None


def _without_thinking(text: str) -> str:
    """Remove closed thinking, or all before a closing tag that was never opened, as NeMo Gym does."""
    if "</think>" not in text:
        return text
    shown = without_spans(text, "<think>", "</think>")
    return (text.partition("</think>")[2] if shown == text else shown).strip()
