"""tau2-bench: customers with tasks in airline, retail, telecom and mock; its own orchestrator and evaluators."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

ENV_ID = "gym_llm/Tau2-v0"
PACKAGES = ("tau2 @ git+https://github.com/sierra-research/tau2-bench", "greenlet")  # the index has another tau2
OPTIONS = ("--editable",)  # the first package, whose data are beside its code
PYTHONS = ("3.12", "3.13")
MODULE = "tau2"
FRAMEWORKS = ("tau2",)
APART = True
MAX_TURNS = 200
ENGINES = {"user": 1, "judge": 2}
_NOT_RUN = "Not run: the arguments of each call of a turn must be a JSON object."


class Peer:
    """A task of tau2-bench: the model is the agent, and its evaluators pay at the end.

    A turn makes calls, or writes to the user. The user says when it is over. Then the database, and what was said and
    done, are compared with the task's.

    Args:
        domain: `mock`, `airline`, `retail`, `telecom`, or one of its sets of tasks (`telecom_small`); `DOMAIN:TASK` for
            one task.
        task: Its id, or the task itself as an object; None for each in turn.
        split: Which of the domain's splits is played; None for its default.
        source: A folder with a checkout of tau2-bench, whose data are read; it is installed from there.
        user: An engine that plays the user, or a list of what the user says, which ends the conversation.
        judge: An engine for tasks that assert something in words.
        solo: Whether the model has a ticket and the user's tools, and cannot write to the user. It calls `done` at the
            end.
        max_steps: After how many messages the episode is truncated.
        max_errors: After how many failed calls it ends.
    """

    recording = False

    def __init__(
        self,
        domain: str = "mock",
        task: str | dict[str, Any] | None = None,
        split: str | None = None,
        source: str = "",
        user: Any = None,
        judge: Any = None,
        solo: bool = False,
        max_steps: int = 200,
        max_errors: int = 10,
    ) -> None:
        self._domain, _, named = domain.partition(":")
        self._id, self._split, self._source = task or named or None, split, source
        self._user, self._judge, self._solo = user, judge, solo
        self._limits = {"max_steps": max_steps, "max_errors": max_errors}
        self._said = 0
        self._shown = {0: 0, 1: 0, 2: 0}
        self._seen: dict[int, Any] = {}
        self._loop: Any = None

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Begin. The user speaks first; alone, the model has a ticket."""
        _prepare(self._source)
        import greenlet

        self._make(seed or 0)
        self._loop = greenlet.greenlet(self._play)
        return self._next()

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Give a seat's message: the agent's, the user's, or the judge's."""
        from tau2.data_model.message import AssistantMessage, ToolCall

        if self._loop.dead:  # their Gymnasium environment, where an episode cannot begin
            return {"reward": 0.0, "terminated": True, "observation": ""}
        if self.recording and not action["calls"]:
            from tau2.utils.tools import parse_action_string

            try:
                return self._next(parse_action_string(action["text"]))
            except ValueError as error:
                return {"seat": 0, "observation": f"Invalid action with error: {error}"}
        if self._seat == 2:
            action = {"text": action["text"].strip().removeprefix("```json").strip("`"), "calls": []}
        if not all(isinstance(call["arguments"], dict) for call in action["calls"]):
            if self._seat:
                raise ValueError("The user's arguments of a call are not a JSON object.")
            said = [_output(call["call_id"], _NOT_RUN) for call in action["calls"]]
            return {"say": said, "seat": 0, "info": {"invalid_arguments": True}}
        calls = [
            ToolCall(id=call["call_id"], name=call["name"], arguments=call["arguments"]) for call in action["calls"]
        ]
        if self._seat == 0 and not calls and not action["text"].strip():  # no message: theirs raises
            return {"reward": 0.0, "terminated": True, "info": {"termination_reason": "agent_error"}}
        return self._next(AssistantMessage(role="assistant", content=action["text"] or None, tool_calls=calls or None))

    def close(self) -> None:
        """End the conversation."""
        if self._loop is not None and not self._loop.dead:
            import greenlet

            self._loop.parent = greenlet.getcurrent()
            self._loop.throw(greenlet.GreenletExit)

    def _next(self, *given: Any) -> dict[str, Any]:
        """Go on until somebody is asked."""
        import greenlet

        while True:
            self._loop.parent = greenlet.getcurrent()
            asked = self._loop.switch(*given)
            if self._loop.dead:
                return dict(asked)
            self._seat, messages, tools = asked
            if self._seat != 1 or not isinstance(self._user, list):
                return self._turn(messages, tools)
            given = (self._scripted(),)

    def _scripted(self) -> Any:
        from tau2.data_model.message import AssistantMessage
        from tau2.user.user_simulator_base import STOP

        text = str(self._user[self._said]) if self._said < len(self._user) else STOP
        self._said += 1
        return AssistantMessage(role="assistant", content=text)

    def _turn(self, messages: list[Any], tools: list[Any] | None) -> dict[str, Any]:
        """Show a seat what is new since its last message."""
        seat, shown = self._seat, self._shown[self._seat]
        turn: dict[str, Any] = {"seat": seat, "say": [item for each in messages[shown:] for item in _items(each)]}
        self._shown[seat] = len(messages) + 1
        schemas = [_schema(tool) for tool in tools or []]
        if schemas != self._seen.get(seat):
            self._seen[seat] = turn["tools"] = schemas
        if self.recording:
            turn["observation"] = _observed(messages[shown:], self._judge is not True)
        return turn

    def _make(self, seed: int) -> None:
        """Make the task's environment, agent and user.

        Raises:
            ValueError: If an engine is missing for the user, or for the judge.
        """
        from tau2.agent.llm_agent import AGENT_INSTRUCTION, AGENT_SOLO_INSTRUCTION, SYSTEM_PROMPT, SYSTEM_PROMPT_SOLO
        from tau2.data_model.tasks import RewardType
        from tau2.orchestrator.orchestrator import Orchestrator
        from tau2.registry import registry
        from tau2.runner.build import build_environment
        from tau2.user.user_simulator import DummyUser, UserSimulator

        task = self._task = _task(self._domain, self._split, self._id, seed)
        criteria = task.evaluation_criteria
        wants_judge = criteria is not None and RewardType.NL_ASSERTION in criteria.reward_basis
        if wants_judge and criteria.nl_assertions and not self._judge:
            raise ValueError(f"Task {task.id} asserts something in words: give an engine as `judge`.")
        if not self._solo and not (self._user is True or isinstance(self._user, list)):
            raise ValueError("The task has a user: give an engine, or a list of texts, as `user`.")
        self._domain = self._domain if self._domain in registry.get_domains() else self._domain.rpartition("_")[0]
        env = build_environment(self._domain, solo_mode=self._solo)
        tools, policy = env.get_tools(), env.get_policy()
        try:
            of_user = env.get_user_tools(include=task.user_tools) or None
        except ValueError:
            of_user = None  # the domain has none
        if self._solo:
            rules = AGENT_SOLO_INSTRUCTION.format(stop_function_name="done", stop_token="")
            prompt = SYSTEM_PROMPT_SOLO.format(agent_instruction=rules, domain_policy=policy, ticket=task.ticket)
            user, tools = DummyUser(), [*tools, *(of_user or [])]
        else:
            prompt = SYSTEM_PROMPT.format(agent_instruction=AGENT_INSTRUCTION, domain_policy=policy)
            user = UserSimulator(llm="user", instructions=str(task.user_scenario), tools=of_user)
        agent = self._agent = _agent_class()(tools, policy, prompt, self._solo)
        self._run = Orchestrator(self._domain, agent, user, env, task, solo_mode=self._solo, **self._limits)

    def _play(self) -> dict[str, Any]:
        from tau2.data_model.simulation import TerminationReason
        from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation

        try:
            run = self._run.run()
        except Exception:
            if not self.recording:
                raise
            return {"reward": 0.0, "terminated": True, "observation": ""}  # as their Gymnasium environment does
        found = evaluate_simulation(run, self._task, EvaluationType.ALL, solo_mode=self._solo, domain=self._domain)
        is_cut = run.termination_reason == TerminationReason.MAX_STEPS
        parts = {getattr(kind, "value", kind): value for kind, value in (found.reward_breakdown or {}).items()}
        about = {"termination_reason": getattr(run.termination_reason, "value", run.termination_reason)}
        turn = {"reward": found.reward, "terminated": not is_cut, "truncated": is_cut}
        shown = _observed(self._agent.last, True) if self.recording else ""
        return {**turn, "info": {**about, "reward_breakdown": parts}, "observation": shown}


def packages(arguments: dict[str, Any]) -> tuple[str, ...]:
    """Return what pip installs: the checkout, since the index has another package of this name.

    Raises:
        ValueError: If there is no such folder.
    """
    source = arguments["source"] or os.environ.get("TAU2_SOURCE", "")
    if not source:
        raise ValueError("tau2-bench is not on the index: give the folder of a checkout as `source`.")
    folder = Path(source).expanduser().resolve()
    if not (folder / "src" / "tau2").is_dir():
        raise ValueError(f"{folder} is not a checkout of tau2-bench.")
    return (str(folder), "greenlet")


def samples(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the id of each task of the domain's split."""
    domain, _, named = arguments["domain"].partition(":")
    if arguments["task"] or named:
        return [{}]
    _prepare(arguments["source"])
    return [{"task": task.id} for task in _tasks(domain, arguments["split"])]


def of_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return what a row of NeMo Gym's agent `tau2` says: it has the whole task."""
    config, task = row.get("config"), row.get("task")
    if not isinstance(config, dict) or not isinstance(task, dict) or not isinstance(config.get("domain"), str):
        return {}
    return {"domain": config["domain"], "task": task, "max_errors": config.get("max_errors", 10)}


def check(arguments: dict[str, Any]) -> None:
    """Check the folder, if one is given.

    Raises:
        ValueError: If it is not a checkout.
    """
    if arguments["source"]:
        packages(arguments)


@functools.cache
def _prepare(source: str) -> None:
    """Import it, once: its models are the seats of the episode that asks."""
    if source:
        os.environ["TAU2_DATA_DIR"] = str(Path(source).expanduser().resolve() / "data")
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it asks the network when it is imported
    from loguru import logger

    logger.disable("tau2")
    from tau2.registry import registry

    assert registry  # the domains come first: the other modules import each other
    import tau2.evaluator.evaluator_nl_assertions as judging
    import tau2.user.user_simulator as simulating

    judging.generate = simulating.generate = _ask


def _ask(model: str, messages: Any, tools: Any = None, call_name: str | None = None, **_: Any) -> Any:
    """Ask a seat for the next message: their function `generate`."""
    import greenlet

    seat = {"agent": 0, "user": 1}.get(model, 2)
    return greenlet.getcurrent().parent.switch((seat, messages, tools))


@functools.cache
def _agent_class() -> Any:
    from tau2.agent.base_agent import HalfDuplexAgent
    from tau2.agent.llm_agent import LLMAgentState
    from tau2.data_model.message import MultiToolMessage, SystemMessage
    from tau2.environment.tool import as_tool

    stop = "###STOP###"

    def done() -> str:
        """Call this function when you are done with the task."""
        return stop

    class GymAgent(HalfDuplexAgent[Any]):  # the orchestrator asks for this name in solo mode
        def __init__(self, tools: list[Any], policy: str, prompt: str, solo: bool) -> None:
            super().__init__([*tools, as_tool(done)] if solo else tools, policy)
            self._prompt, self._solo = prompt, solo
            self.last: list[Any] = []

        def stop(self, message: Any = None, state: Any = None) -> None:
            super().stop(message, state)
            self.last = [*(state.messages if state else ()), message] if message else []

        def get_init_state(self, message_history: Any = None) -> Any:
            system = [SystemMessage(role="system", content=self._prompt)]
            return LLMAgentState(system_messages=system, messages=list(message_history or []))

        def generate_next_message(self, message: Any, state: Any) -> Any:
            if message is not None:
                state.messages.extend(message.tool_messages if isinstance(message, MultiToolMessage) else [message])
            said = _ask("agent", state.system_messages + state.messages, self.tools)
            if self._solo and any(call.name == "done" for call in said.tool_calls or ()):
                said.content, said.tool_calls = stop, None
            state.messages.append(said)
            return said, state

        def is_stop(self, message: Any) -> bool:
            return self._solo and stop in (message.content or "")

    return GymAgent


def _task(domain: str, split: str | None, wanted: Any, seed: int) -> Any:
    """Return a task by its id, or that of the seed."""
    from tau2.data_model.tasks import Task

    if isinstance(wanted, dict):
        return Task.model_validate(wanted)
    tasks = _tasks(domain, split)
    if wanted is None:
        return tasks[seed % len(tasks)].model_copy(deep=True)
    found = next((task for task in tasks if task.id == wanted), None)
    if found is None:
        raise ValueError(f"{domain} has no task {wanted!r}; it has {', '.join(task.id for task in tasks[:20])}, …")
    return found.model_copy(deep=True)


@functools.cache
def _tasks(domain: str, split: str | None) -> Any:
    from tau2.registry import registry

    return registry.get_tasks_loader(domain)(*([split] if split else []))


def _items(message: Any) -> list[dict[str, Any]]:
    """Return a message of theirs as items."""
    if message.role == "tool":
        return [_output(message.id, message.content or "")]
    said = [{"role": message.role, "content": message.content}] if message.content else []
    return said + [
        {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": json.dumps(call.arguments),
        }
        for call in getattr(message, "tool_calls", None) or ()
    ]


def _output(number: str, text: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": number, "output": text}


def _schema(tool: Any) -> dict[str, Any]:
    return {"type": "function", **tool.openai_schema["function"], "strict": False}


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments of a recorded episode: TAU2_SOURCE names a checkout of tau2-bench.

    Some were recorded from their Gymnasium environment, alone; others from a domain's tools.
    """
    if not (source := os.environ.get("TAU2_SOURCE")):
        raise FileNotFoundError("the variable TAU2_SOURCE with the folder of a checkout of tau2-bench")
    domain, _, only = episode["env"].partition("(")
    played = (
        {"user": ["I have a request."], "judge": True}
        if only
        else {"solo": episode["kwargs"]["solo_mode"], "max_steps": 100, "user": episode["kwargs"].get("user")}
    )
    return {"domain": domain, "task": episode["kwargs"]["task_id"], "source": source, **played}, episode["seed"]


def utter(action: Any) -> str | dict[str, Any]:
    """Return the output for a recorded action: a text, which they parse, or a call as a pair."""
    if isinstance(action, str):
        return action
    return {"text": "", "calls": [{"call_id": "c", "name": action[0], "arguments": action[1]}]}


def as_recorded(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the turns as the recorder wrote them."""
    observations = [turn["observation"] for turn in turns if turn.get("observation") is not None]
    if any(isinstance(each, dict) for each in observations):
        return {"observations": observations, "rewards": [], "done": False}
    rewards = [turn.get("reward", 0.0) for turn in turns[1:]]
    return {"observations": observations, "rewards": rewards, "done": turns[-1].get("terminated") is True}


def _observed(messages: list[Any], as_text: bool) -> Any:
    """Return what the recorders saw: their environment's text of what follows the agent's message, or a tool's."""
    said = [message for message in messages if message.role != "system"]
    if as_text:
        last = max((place for place, message in enumerate(said) if message.role == "assistant"), default=-1)
        return "\n".join(f"{message.role}: {message.content}" for message in said[last + 1 :])
    tool = next((message for message in said if message.role == "tool"), None)
    return None if tool is None else {"content": tool.content, "error": tool.error}
