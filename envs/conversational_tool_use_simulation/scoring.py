"""Scoring: what the judge is asked of a conversation, and the reward that follows."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from gym_llm import Verdict
from gym_llm.envs.conversational_tool_use_simulation.conversation import (
    AGENT_FAILURE,
    MESSAGE_GENERATION_ERROR,
    STOP,
    TOOL_FAILURE,
    TRANSFER,
    USER_FAILURE,
    VERIFICATION_ERROR,
    Conversation,
    Step,
    unfenced,
)
from gym_llm.envs.conversational_tool_use_simulation.shown import step_text, steps_text, tools_text
from gym_llm.errors import JudgeError
from gym_llm.judge import FAILS, JudgedEnv, json_field

_T = TypeVar("_T")
_LABELS = {"user": USER_FAILURE, "agent": AGENT_FAILURE, "environment": TOOL_FAILURE}
_REASONS = {"user": "no_reward_user_message", "environment": "no_reward_environment_message"}
_PARTIES = ("customer", "representative", "tool_results")
_MASKED = {USER_FAILURE, TOOL_FAILURE, VERIFICATION_ERROR}


class _Evaluation(BaseModel):
    success: bool
    explanation: str


class _Combined(BaseModel):
    customer_success: bool
    customer_explanation: str
    representative_success: bool
    representative_explanation: str
    tool_results_success: bool
    tool_results_explanation: str


class Scoring(JudgedEnv):
    """The part of the verifier that asks the judge; see `ConversationalToolUse` for its arguments."""

    class Config(JudgedEnv.Config):
        """Arguments of the scoring."""

        judge_retries: int = 2
        enable_llm_judge: bool = True
        enable_termination: bool = True
        verification_type: Literal["message", "complete_trajectory_combined_evaluation"] = "message"
        enforce_transfer_ground_truth: bool = True

    config: Config

    async def score(self, task: Any, talk: Conversation) -> Verdict:
        """Return the reward, 1.0 or 0.0, with the details.

        Raises:
            JudgeError: If the judge fails, or finds fault with a simulator; not with `conform`.
        """
        wanted = bool(task.customer_scenario.outside_policy_scope)
        mismatch = self.config.enforce_transfer_ground_truth and talk.is_transferred != wanted
        is_skipped, reward = False, 0.0
        if talk.terminal_state == "complete" and not talk.invalid_reasons:
            if mismatch:
                talk.failure_labels.append(AGENT_FAILURE)
                is_skipped = True
            elif not self.config.enable_llm_judge:
                reward = 1.0
            elif self.config.verification_type == "message":
                reward = await self._judge_steps(task, talk)
            else:
                reward = await self._judge_at_once(task, talk)
        details = _details(talk)
        details.update(outside_policy_scope=wanted, transferred=talk.is_transferred)
        details.update(transfer_ground_truth_enforced=self.config.enforce_transfer_ground_truth)
        details.update(transfer_ground_truth_mismatch=mismatch, judge_skipped_for_transfer_mismatch=is_skipped)
        if self.conform:
            details["instance_config"] = {"mask_sample": _is_masked_by_nemo_gym(talk)}
        return Verdict(reward, details)

    async def _judge_steps(self, task: Any, talk: Conversation) -> float:
        stops = self.config.enable_termination
        judged = [step for step in talk.steps if not step.is_refused]
        simulated = [step for step in judged if step.source != "agent"]
        values = {**_values(task), "stop": STOP, "transfer": TRANSFER}
        reward = 1.0
        for party in (simulated, [step for step in judged if step.source == "agent"]):
            await _at_once([self._judge_step(values, talk, step) for step in party])
            failed = [step for step in party if step.reward != 1]
            for step in failed[:1] if stops else failed:
                if not self._find(talk, step):
                    reward = 0.0
            if failed and stops:
                return 0.0
        whole = {**_values(task), "transfer": _transfer(task), "steps": steps_text(talk.steps)}
        success, explanation = await self._evaluate("conversation", whole)
        work = Step("agent", "text", reward=success, explanation=explanation)
        talk.evaluations.append(work)
        if success != 1:
            self._find(talk, work)
            reward = 0.0
        return 0.0 if talk.invalid_reasons else reward

    async def _judge_step(self, values: dict[str, str], talk: Conversation, step: Step) -> None:
        place = next(index for index, each in enumerate(talk.steps) if each is step)
        shown = {"previous": steps_text(talk.steps[:place]), "current": step_text(step)}
        step.reward, step.explanation = await self._evaluate(f"{step.source}_step", {**values, **shown})

    def _find(self, talk: Conversation, step: Step) -> bool:
        """Note a step that failed; return whether it makes the conversation invalid, and not the model wrong."""
        if step.reward is None:
            _add(talk.invalid_reasons, VERIFICATION_ERROR)
            _add(talk.failure_labels, VERIFICATION_ERROR)
            return True
        _add(talk.failure_labels, _LABELS[step.source])
        if step.source == "agent":
            return False
        if not self.conform:
            who = "customer" if step.source == "user" else "tools"
            raise JudgeError(f"The judge finds fault with the simulated {who}: {step.explanation}"[:500])
        _add(talk.invalid_reasons, _REASONS[step.source])
        return True

    async def _judge_at_once(self, task: Any, talk: Conversation) -> float:
        shown = {**_values(task), "transfer": _transfer(task), "steps": steps_text(talk.steps)}
        asked = {**shown, "stop": STOP, "moved": TRANSFER}
        parsers = [json_field(f"{party}_success", (True, False)) for party in _PARTIES]

        def read(text: str) -> list[bool] | None:
            if self.conform:
                try:
                    found = _Combined.model_validate_json(unfenced(text))
                except ValidationError:
                    return None
                return [found.customer_success, found.representative_success, found.tool_results_success]
            values = [parse(text) for parse in parsers]
            return None if None in values else values

        value, text = await self._asked("combined", asked, read)
        for source, party, success in zip(("user", "agent", "environment"), _PARTIES, value or [None], strict=False):
            why = json_field(f"{party}_explanation")(text)
            step = Step(source, "text", reward=None if success is None else int(success), explanation=why)  # type: ignore[arg-type]
            talk.evaluations.append(step)
            if not success:
                self._find(talk, step)
        return 0.0 if talk.invalid_reasons or value is None else float(value[1])

    async def _evaluate(self, prompt: str, shown: dict[str, str]) -> tuple[int | None, str | None]:
        """Return the judge's 1 or 0, and the reason; None if, with `conform`, no answer could be read."""
        field = json_field("success", (True, False))

        def read(text: str) -> bool | None:
            if not self.conform:
                return field(text)  # type: ignore[no-any-return]
            try:
                return _Evaluation.model_validate_json(unfenced(text)).success
            except ValidationError:
                return None

        value, text = await self._asked(prompt, shown, read)
        why = json_field("explanation")(text)
        return None if value is None else int(value), why if isinstance(why, str) else None

    async def _asked(self, prompt: str, shown: dict[str, str], read: Any) -> tuple[Any, str]:
        attempts = 1 + self.config.judge_retries if self.conform else 1  # `ask` tries again only without `conform`
        for _ in range(attempts):
            judgement = await self.ask(shown, read, prompt=prompt, unparsable="" if self.conform else FAILS)
            if judgement.value != "":
                return judgement.value, judgement.text
        return None, judgement.text


async def _at_once(questions: list[Coroutine[Any, Any, None]]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for question in questions:
                group.create_task(question)
    except* JudgeError as failures:
        raise failures.exceptions[0] from None


def _values(task: Any) -> dict[str, str]:
    scenario = task.customer_scenario.text()
    return {"policy": task.policy, "scenario": scenario, "tools": tools_text(task.tools)}


def _transfer(task: Any) -> str:
    return "" if task.customer_scenario.outside_policy_scope else "not "


def _add(values: list[str], value: str) -> None:
    if value not in values:
        values.append(value)


def _details(talk: Conversation) -> dict[str, Any]:
    results = [step for step in talk.steps if step.type == "tool_execution"]
    is_invalid = "invalid_environment_tool_execution" in talk.invalid_reasons
    return {
        "terminal_state": talk.terminal_state,
        "terminal_error": talk.error,
        "trajectory_invalid_reasons": talk.invalid_reasons,
        "failure_labels": talk.failure_labels,
        "num_user_messages": sum(step.source == "user" for step in talk.steps),
        "num_agent_messages": sum(step.source == "agent" for step in talk.steps),
        "num_tool_calls": sum(step.type == "tool_call" for step in talk.steps),
        "num_tool_results": len(results),
        "num_tool_schema_failures": int(is_invalid),
        "num_user_failures": int(USER_FAILURE in talk.failure_labels),
        "num_agent_failures": int(AGENT_FAILURE in talk.failure_labels),
        "num_tool_failures": int(TOOL_FAILURE in talk.failure_labels),
        "step_evaluations": [_evaluation(step) for step in talk.steps],
        "evaluations": [_evaluation(step) for step in talk.evaluations],
    }


def _evaluation(step: Step) -> dict[str, Any]:
    about = {"type": step.type, "source": step.source, "tool_name": step.tool_name}
    return {**about, "reward": step.reward, "explanation": step.explanation}


def _is_masked_by_nemo_gym(talk: Conversation) -> bool:
    labels = set(talk.failure_labels)
    is_unfinished = "trajectory_failure" in labels and talk.invalid_reasons[-1:] == [MESSAGE_GENERATION_ERROR]
    return bool(labels & _MASKED) or is_unfinished
