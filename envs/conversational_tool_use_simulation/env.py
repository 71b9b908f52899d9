"""ConversationalToolUse: a customer and the tools are played by models (`conversational_tool_use_simulation`)."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.concurrency import wait
from gym_llm.core.env_config import Count
from gym_llm.core.tools.calls import beyond_limits
from gym_llm.core.tools.tool import error_output
from gym_llm.core.verifier_env import was_cut_off
from gym_llm.envs.conversational_tool_use_simulation import conversation as faults
from gym_llm.envs.conversational_tool_use_simulation.conversation import (
    STOP,
    TRANSFER,
    Conversation,
    Step,
    ToolDefinition,
    text_of,
)
from gym_llm.envs.conversational_tool_use_simulation.scoring import Scoring
from gym_llm.envs.conversational_tool_use_simulation.shown import (
    Scenario,
    messages_to_customer,
    messages_to_tool,
    tools_text,
)
from gym_llm.errors import InfrastructureError, JudgeError
from gym_llm.judge import EngineArgument, auxiliary_engine, check_engine
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import Item, Row, is_said, message_text

_PREFIX = re.compile(r"^\s{0,99}Customer:\s{0,99}", re.IGNORECASE)
_ONE_CALL = "It was not made: a turn has one call."


class ConversationalToolUse(Scoring):
    """Serve a customer by a policy, with tools; models play the customer and the tools, and a judge grades all steps.

    Args:
        user: The engine that plays the customer; None for the judge's.
        tool_simulator: The engine that plays the tools; None for the judge's.
        user_responses_create_params: Fields of the requests to the customer's engine.
        tool_simulator_responses_create_params: Fields of the requests to the tools' engine.
        generation_attempts: How often a simulator is asked for a valid message or result.
        enable_llm_judge: Whether a judge grades conversations; else each that the customer ends is worth 1.0.
        verification_type: `"message"` judges every step and then the representative's work as a whole;
            `"complete_trajectory_combined_evaluation"` judges all in one call.
        enable_termination: Whether judging stops at the first party whose step failed.
        enforce_transfer_ground_truth: Whether a wrong transfer is worth 0.0 without asking the judge.
        conform: `"nemo"` ends and scores as NeMo Gym does; the README lists the differences.
        **kwargs: As for every `JudgedEnv`.

    Raises:
        ValueError: If an argument is invalid.
    """

    reverify_mode = "unsupported"
    default_max_turns = 50
    dry_run_kwargs = {
        "judge": 'constant:{"success": true, "explanation": "Fine."}',
        "user": f"constant:{STOP}",
        "tool_simulator": "constant:{}",
    }
    judge_params: ClassVar[dict[str, Any]] = {"temperature": 1.0, "top_p": 1.0, "max_output_tokens": 8192}
    metrics = {
        "transferred": Metric("rate", higher_is_better=None),
        "transfer_ground_truth_mismatch": Metric("rate", higher_is_better=False),
        "judge_skipped_for_transfer_mismatch": Metric("rate", higher_is_better=None),
        "num_agent_failures": Metric("rate", higher_is_better=False),
    }

    class Task(BaseTask):
        """The policy, its tools and the customer; NeMo Gym's fields."""

        domain_name: str = ""
        profile: Literal["general", "proactive"] | None = None
        policy: str
        tools: list[ToolDefinition] = Field(min_length=1)
        customer_scenario: Scenario
        initial_user_message: str | None = None

        @model_validator(mode="after")
        def _names_differ(self) -> ConversationalToolUse.Task:
            if len({tool.name for tool in self.tools}) < len(self.tools):
                raise ValueError("two tools have one name")
            return self

    class Config(Scoring.Config):
        """Arguments of the class."""

        user: EngineArgument | None = None
        tool_simulator: EngineArgument | None = None
        user_responses_create_params: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "max_output_tokens": 8192}
        tool_simulator_responses_create_params: dict[str, Any] = {
            "temperature": 1.0,
            "top_p": 1.0,
            "max_output_tokens": 8192,
        }
        generation_attempts: Count = 3

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        for name in ("user", "tool_simulator"):
            if kwargs.get(name) is not None:
                check_engine(name, kwargs[name])
        super().__init__(tasks, **kwargs)

    def setup(self, task: Task) -> Conversation:
        """Take over the row's conversation. A row without system message or tools gets those of its policy."""
        assert self.episode is not None
        request = self.episode.request
        talk = Conversation({tool.name: tool for tool in task.tools})
        talk.resume(request["input"])
        if not request.get("tools"):
            request = {**request, "tools": [tool.function for tool in task.tools]}
        if all(item.get("role") not in ("system", "developer") for item in request["input"]):
            calls = "make one or more tool calls" if request.get("parallel_tool_calls", True) else "make one tool call"
            system = self.prompt("representative").messages({"policy": task.policy, "calls": calls})[0]["content"]
            message = {"type": "message", "role": "system", "content": system}
            request = {**request, "input": [message, *request["input"]]}
        self.episode.request = request
        return talk

    async def opening(self, task: Task, state: Conversation) -> list[Item] | None:
        """Continue where the row's conversation stops: results of its last calls, or the customer's next message."""
        if calls := state.pending_calls():
            return [_output(call.call_id, await self._simulate(task, state, call)) for call in calls]
        if not state.steps and task.initial_user_message is not None:
            state.customer_says(task.initial_user_message)
        elif not state.steps or (state.steps[-1].source == "agent"):
            await self._customer(task, state)
        else:
            return None
        if state.terminal_state is not None:
            raise JudgeError("The simulated customer ended the conversation before the model's first turn.")
        return [{"type": "message", "role": "user", "content": state.steps[-1].content}]

    async def user_turn(self, task: Task, episode: Episode[Conversation]) -> str | None:
        """Let the customer answer; None when they end the conversation, or a fault has ended it."""
        talk = episode.state
        if talk.terminal_state is None and not episode.answer.strip():
            talk.fail(faults.MESSAGE_GENERATION_ERROR, faults.AGENT_FAILURE, "The model said nothing.")
        if talk.terminal_state is None:
            await self._customer(task, talk)
        return None if talk.terminal_state else talk.steps[-1].content

    def _advance(
        self, episode: Episode[Conversation], items: list[Item], response: dict[str, Any]
    ) -> tuple[bool, bool]:
        talk = episode.state
        calls = [item for item in items if item.get("type") == "function_call"]
        refused = beyond_limits(calls, talk.tools)
        outputs = {index: text for index, (text, _) in refused.items()}
        if not episode.request.get("parallel_tool_calls", True):
            for index, call in list(enumerate(calls))[1:]:
                unknown = None if call["name"] in talk.tools else talk.call_error(call)
                outputs.setdefault(index, error_output(unknown or _ONE_CALL))
        if was_cut_off(response):
            talk.fail(faults.MESSAGE_GENERATION_ERROR, faults.AGENT_FAILURE, "The model's answer was cut off.")
        elif self.conform and not calls and not episode.answer.strip():
            talk.fail(faults.MESSAGE_GENERATION_ERROR, faults.AGENT_FAILURE, "The model said nothing.")
            return True, False
        else:
            self._hear(talk, items, [call for index, call in enumerate(calls) if index not in outputs])
        if not calls or was_cut_off(response):
            return super()._advance(episode, items, response)
        if talk.terminal_state is not None:
            return True, False
        if episode.turn >= self.max_turns:
            return False, True  # a result that the model cannot read any more would change nothing
        self.phase = "tool"
        results = wait(self._answer(self._task, talk, calls, outputs))
        episode.items.extend(results)
        episode.tool_errors += len(outputs)
        self.phase = "env"
        return talk.terminal_state is not None, False

    def _hear(self, talk: Conversation, items: list[Item], calls: list[Item]) -> None:
        """Add a model's turn to the conversation; with `conform` a wrong call ends it."""
        known = {step.call_id for step in talk.steps if step.type == "tool_call"}
        for item in items:
            if is_said(item) and (text := text_of(item)).strip():
                talk.steps.append(Step("agent", "text", text))
            elif any(item is call for call in calls):
                talk.steps.append(Step("agent", "tool_call", "", item["call_id"], item["name"], item["arguments"]))
                error = talk.call_error(item)
                if self.conform and item["call_id"] in known:
                    error = f"The call's id {item['call_id'][:100]!r} is not unique."
                known.add(item["call_id"])
                if self.conform and error:
                    talk.fail(faults.INVALID_CALL, faults.AGENT_FAILURE, error)
                    return

    async def _answer(self, task: Task, talk: Conversation, calls: list[Item], outputs: dict[int, str]) -> list[Item]:
        """Return an output for each call; `outputs` has those of the calls that were not made, and gets more."""
        results = []
        for index, call in enumerate(calls):
            if index not in outputs and talk.terminal_state is None:
                made = Step("agent", "tool_call", "", call["call_id"], call["name"], call["arguments"])
                if error := talk.call_error(call):
                    outputs[index] = error_output(error)
                    talk.add_result(made, outputs[index], is_refused=True)
                else:
                    results.append(_output(call["call_id"], await self._simulate(task, talk, made)))
                    continue
            results.append(_output(call["call_id"], outputs.get(index, "")))
        return results

    # -- the simulators ------------------------------------------------------------------------------------------------

    async def _customer(self, task: Task, talk: Conversation) -> None:
        values = {"scenario": task.customer_scenario.text(with_domain=True), "stop": STOP, "transfer": TRANSFER}
        messages = [_system(self, "customer", values), *messages_to_customer(talk.steps)]
        config = self.config
        for _ in range(config.generation_attempts):
            said = await self._said("customer", config.user, messages, config.user_responses_create_params)
            text = _PREFIX.sub("", said, count=1)
            if talk.steps or not (STOP in text or TRANSFER in text):
                break
        talk.customer_says(text)
        if talk.failure_labels:
            self._invalid(talk)

    async def _simulate(self, task: Task, talk: Conversation, call: Step) -> str:
        scenario = task.customer_scenario.text()
        values = {"policy": task.policy, "scenario": scenario, "tools": tools_text(task.tools)}
        messages = [_system(self, "tool", values), *messages_to_tool(talk.steps, call)]
        config = self.config
        for _ in range(config.generation_attempts):
            params = config.tool_simulator_responses_create_params
            result = await self._said("tool simulator", config.tool_simulator, messages, params)
            if (error := talk.result_error(call.tool_name, result)) is None:
                break
        talk.add_result(call, result)
        if error is not None:
            talk.fail("invalid_environment_tool_execution", faults.TOOL_FAILURE, error)
            self._invalid(talk)
        return result

    async def _said(self, who: str, engine: EngineArgument | None, messages: list[Item], params: dict[str, Any]) -> str:
        argument = engine if engine is not None else self.config.judge
        assert argument is not None  # a judge is required
        player = await auxiliary_engine(self, argument)
        try:
            response = await player.respond({"input": messages, **params})  # type: ignore[typeddict-item]
        except (InfrastructureError, OSError) as error:
            raise JudgeError(f"The simulated {who} gave no answer: {error}") from error
        text = strip_thinking(message_text(response["output"]))
        if not text:
            raise JudgeError(f"The simulated {who} said nothing.")
        return text

    def _invalid(self, talk: Conversation) -> None:
        if not self.conform:
            raise JudgeError(f"A simulator failed {self.config.generation_attempts} times: {talk.error}")

    # -- the reward ----------------------------------------------------------------------------------------------------

    async def verify(self, task: Task, episode: Episode[Conversation]) -> Verdict:
        """Score a conversation that the customer ended; any other is worth 0.0."""
        talk = episode.state
        if talk.terminal_state is None and episode.turn >= self.max_turns:
            talk.fail("excessive_length", "trajectory_failure", f"The episode reached its {self.max_turns} turns.")
        elif talk.terminal_state is None:
            talk.fail(faults.MESSAGE_GENERATION_ERROR, "trajectory_failure", "The conversation did not come to an end.")
        return await self.score(task, talk)


def _system(env: ConversationalToolUse, name: str, values: dict[str, str]) -> Item:
    return {**env.prompt(name).messages(values)[0], "role": "system"}


def _output(call_id: str, text: str) -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": text}
