"""VerifIF: instructions in eleven languages, checked by rules and by a judge (NeMo Gym's `verifif`)."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.envs.verifif.judged import question_of, read_verdict
from gym_llm.grading.constraints import Check, Job, follow_later, follow_quickly
from gym_llm.grading.constraints.verifif import constraint
from gym_llm.grading.constraints.verifif_text import WITHOUT_CASE, Language
from gym_llm.judge import FAILS, JudgedEnv
from gym_llm.tokens.parsers.thinking import strip_thinking

Aggregation = Literal["all", "any", "mean", "min", "max"]
_OF_CASE = {"keywords:letter_frequency", "keywords:alliteration", "keywords:vowel_count", "keywords:consonant_count"}
_NO_ARGUMENTS = {"instruction_id", "uid", "source", "is_misalignment_check", "weight"}


class Demand(BaseModel):
    """An instruction, or a question for the judge."""

    model_config = ConfigDict(extra="allow", frozen=True)

    instruction_id: str = ""
    uid: int | str | None = None
    source: Literal["user", "system"] = "user"
    is_misalignment_check: bool = False
    """Whether the user asks here for what the system forbids: following it is what fails then."""
    content: str = ""
    pass_criteria: Literal["YES", "NO"] = "YES"

    @property
    def arguments(self) -> dict[str, Any]:
        """The row's fields about the instruction itself."""
        return {name: value for name, value in (self.model_extra or {}).items() if name not in _NO_ARGUMENTS}

    def passes(self, followed: bool) -> bool:
        """Whether it is as it should be."""
        return followed != (self.source == "user" and self.is_misalignment_check)


class VerifIF(JudgedEnv):
    """Reply as the system and the user demand; 1.0 if every demand is met, by rules where there are, else by a judge.

    Details: `follow_all_instructions`, `follow_instruction_list`, `validation_results`.

    Args:
        aggregation_mode: `all`, `any` (1.0 or 0.0), `mean` (the share), `min` and `max`.
        **kwargs: As for every `JudgedEnv`; a judge is needed where a row asks for one.

    Raises:
        ValueError: If an argument makes no sense.
    """

    judge_required = False
    reverify_mode = "stateless"
    dry_run_kwargs = {"judge": "constant:[[YES]]"}

    class Task(BaseTask):
        """The instructions, the judge's questions, and the language of the reply."""

        instructions: list[Demand] = []
        llm_judge: list[Demand] = []
        language: Language = "en"

        @field_validator("language", mode="before")
        @classmethod
        def _known(cls, language: Any) -> Any:
            return language if language in get_args(Language) else "en"

        @model_validator(mode="after")
        def _readable(self) -> VerifIF.Task:
            demands = [*self.instructions, *self.llm_judge]
            uids = [demand.uid for demand in demands if demand.uid is not None]
            if repeated := next((uid for uid in uids if uids.count(uid) > 1), None):
                raise ValueError(f"two demands have the uid {repeated!r}")
            if not demands:
                raise ValueError("instructions and llm_judge are both empty")
            _ = self.checks, self.questions
            return self

        @cached_property
        def ruled(self) -> list[Demand]:
            """The instructions that rules check."""
            return [demand for demand in self.instructions if demand.instruction_id in constraint]

        @cached_property
        def judged(self) -> list[Demand]:
            """The instructions that the judge checks."""
            return [demand for demand in self.instructions if demand.instruction_id not in constraint]

        @cached_property
        def checks(self) -> tuple[Check, ...]:
            """The rules, with their arguments."""
            return tuple(_check(demand, self.language) for demand in self.ruled)

        @cached_property
        def questions(self) -> list[str]:
            """The questions for the judge."""
            asked = [question_of(demand.instruction_id, demand.arguments) for demand in self.judged]
            for demand in self.llm_judge:
                if not demand.content.strip():
                    raise ValueError("a question of llm_judge has no content")
            return asked + [demand.content for demand in self.llm_judge]

    class Config(JudgedEnv.Config):
        """Arguments of the class."""

        aggregation_mode: Aggregation = "all"

    config: Config

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Check the last message by rules, and ask the judge about the rest."""
        text = strip_thinking(episode.last_message, unclosed=self.conform is None)
        job = Job(text, task.checks, blank_fails=self.conform is None)
        strict = (follow_quickly(job) or await follow_later(job)).strict
        results = [
            _result(demand.instruction_id, demand.passes(followed), "No error" if followed else "It is not followed.")
            for demand, followed in zip(task.ruled, strict, strict=True)
        ]
        if text or self.conform:
            results += await self._judged(task, text)
        else:
            results += [_result(name, False, "There is no reply.") for name, _ in _names(task)]
        passed = [result["status"] == "Passed" for result in results]
        details = {
            "follow_all_instructions": all(passed),
            "follow_instruction_list": passed,
            "validation_results": results,
        }
        return Verdict(self._reward(passed if text or self.conform else [False]), details)

    async def _judged(self, task: Task, text: str) -> list[dict[str, str]]:
        asked = [{"question": question, "response": text} for question in task.questions]
        unparsable = False if self.conform else FAILS
        judgements = await self.ask_each(asked, read_verdict, unparsable=unparsable)
        return [
            _result(name, demand.passes(judgement.value == (demand.pass_criteria == "YES")), judgement.text)
            for (name, demand), judgement in zip(_names(task), judgements, strict=True)
        ]

    def _reward(self, passed: list[bool]) -> float:
        if self.config.aggregation_mode == "mean":
            return sum(passed) / len(passed)
        return float(any(passed) if self.config.aggregation_mode in ("any", "max") else all(passed))


def _names(task: VerifIF.Task) -> list[tuple[str, Demand]]:
    asked = [(f"llm_judge_{demand.uid}", demand) for demand in task.llm_judge]
    return [(demand.instruction_id, demand) for demand in task.judged] + asked


def _check(demand: Demand, language: Language) -> Check:
    name = demand.instruction_id
    if language in WITHOUT_CASE and (name.startswith("change_case:") or name in _OF_CASE):
        raise ValueError(f"{name} is nothing that a text in the language {language} can follow")
    takes_language = "language" in constraint[name].arguments.model_fields
    return constraint.read(name, demand.arguments | ({"language": language} if takes_language else {}))


def _result(name: str, passed: bool, message: str) -> dict[str, str]:
    return {"instruction": name, "status": "Passed" if passed else "Failed", "message": message}
