"""Tasks of Inspect AI and inspect_evals: the task's solver asks the model, its scorer pays."""

from __future__ import annotations

import functools
import json
from typing import Any

ENV_ID = "gym_llm/Inspect-v0"
PACKAGES = ("inspect-ai==0.3.285", "inspect-evals==0.26.0")
MODULE = "inspect_ai"
FRAMEWORKS = ("inspect_ai",)
APART = True


class Peer:
    """A sample of a task of Inspect AI.

    Args:
        task: A registered task (`inspect_evals/gpqa_diamond`), or `module:function`.
        task_args: What it takes.
        index: Which sample; None for each in turn.
        samples: Samples without a task: objects with `input`, `target`, `choices`.
        solver: A solver that replaces that of the task: `multiple_choice`.
        solver_args: What it takes.
        scorer: A scorer that replaces that of the task: `match`.
        scorer_args: What it takes.
        metric: Which key of the score pays, where the scorer returns several values.
    """

    recording = False

    def __init__(
        self,
        task: str = "inspect_evals/gsm8k",
        task_args: dict[str, Any] | None = None,
        index: int | None = None,
        samples: list[Any] | None = None,
        solver: str | None = None,
        solver_args: dict[str, Any] | None = None,
        scorer: str | None = None,
        scorer_args: dict[str, Any] | None = None,
        metric: str | None = None,
    ) -> None:
        from _gym_llm_theirs_bridge import Bridge

        self._task = _task(_key_of(task, task_args, samples, (solver, solver_args), (scorer, scorer_args)))
        self._index, self._metric, self._bridge = index, metric, Bridge()
        self._seen: set[Any] = set()
        self._tools: list[Any] = []

    async def reset(self, seed: int | None) -> dict[str, Any]:
        """Begin with what the solver asks first."""
        from inspect_ai.model import ChatMessageUser, ModelName
        from inspect_ai.scorer import Target
        from inspect_ai.solver import TaskState

        index = (seed or 0) % len(self._task.dataset) if self._index is None else self._index
        sample = self._task.dataset[index]
        if self._task.sandbox or sample.sandbox:
            raise NotImplementedError("The task needs a sandbox of Inspect.")
        messages = [ChatMessageUser(content=sample.input)] if isinstance(sample.input, str) else list(sample.input)
        state = TaskState(
            model=ModelName("gym_llm/policy"),
            sample_id=index if sample.id is None else sample.id,
            epoch=1,
            input=sample.input,
            messages=messages,
            target=Target(sample.target),
            choices=sample.choices,
            message_limit=self._task.message_limit,
            metadata=dict(sample.metadata or {}),
        )
        turn = await self._bridge.start(self._play(state))
        return {**turn, "observation": state.input} if self.recording else turn

    async def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Answer the solver."""
        return await self._bridge.answer(action)

    async def close(self) -> None:
        """End the solver."""
        self._bridge.stop()

    async def _play(self, state: Any) -> dict[str, Any]:
        from inspect_ai.scorer import value_to_float
        from inspect_ai.solver._task_state import set_sample_state
        from inspect_ai.util._store import init_subtask_store

        set_sample_state(state)
        init_subtask_store(state.store)
        try:
            for solver in (self._task.setup, self._task.solver):
                if solver is not None and not state.completed:
                    state = await solver(state, self._generate)
            scores = [await scorer(state, state.target) for scorer in self._task.scorer or ()]
        finally:
            if self._task.cleanup is not None:
                await self._task.cleanup(state)
        if not scores or scores[0] is None:
            raise ValueError("The task's scorer returned no score.")
        value = scores[0].value if self._metric is None else scores[0].value[self._metric]
        if isinstance(value, (dict, list)):
            raise ValueError(f"The score has several values, and `metric` names none of them: {value}.")
        said = [None if score is None else score.model_dump(include={"value", "answer"}) for score in scores]
        return {"reward": value_to_float()(value), "terminated": True, "info": {"scores": said}}

    async def _generate(self, state: Any, tool_calls: str = "loop", **_: Any) -> Any:
        """Do what Inspect's `generate` does, with the model's next turn as the output."""
        from inspect_ai.model import ChatMessageAssistant, ModelOutput, execute_tools
        from inspect_ai.tool import ToolCall

        while True:
            action = await self._bridge.ask(self._turn(state))
            calls = []
            for call in action["calls"]:
                given = call["arguments"]
                wrong = None if isinstance(given, dict) else "The arguments are not a JSON object."
                call = ToolCall(call["call_id"], call["name"], {} if wrong else given, parse_error=wrong)
                calls.append(call)
            message = ChatMessageAssistant(content=action["text"], tool_calls=calls or None)
            state.output = ModelOutput.from_message(message, "tool_calls" if calls else "stop")
            state.messages.append(message)
            self._seen.add(_key(message))
            if state.completed or tool_calls == "none" or not calls:
                return state
            results, output = await execute_tools(state.messages, state.tools)
            state.messages.extend(results)
            state.output = state.output if output is None else output
            if state.completed or tool_calls == "single":
                return state

    def _turn(self, state: Any) -> dict[str, Any]:
        """What is new since the last turn."""
        from inspect_ai.model._call_tools import get_tools_info

        turn: dict[str, Any] = {"say": [_item(each) for each in state.messages if _key(each) not in self._seen]}
        self._seen.update(map(_key, state.messages))
        tools = [_schema(info) for info in get_tools_info(state.tools)]
        if tools != self._tools:
            self._tools = turn["tools"] = tools
        return turn


def samples(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the index of each sample."""
    if arguments["index"] is not None:
        return [{}]
    named = (arguments[name] for name in ("task", "task_args", "samples"))
    dataset = _task(_key_of(*named)).dataset
    return [{"index": index} for index in range(len(dataset))]


def _key_of(task: str, task_args: Any, samples: Any, solver: Any = (None, None), scorer: Any = (None, None)) -> str:
    return json.dumps([task, task_args or {}, samples, *((name, given or {}) for name, given in (solver, scorer))])


def _key(message: Any) -> Any:
    return message.id or id(message), message.text


def _item(message: Any) -> dict[str, Any]:
    if message.role == "tool":
        said = message.error.message if message.error else message.text
        return {"type": "function_call_output", "call_id": message.tool_call_id, "output": said}
    if isinstance(message.content, str) or message.role != "user":
        return {"role": message.role, "content": message.text}
    return {"role": "user", "content": [_part(part) for part in message.content]}


def _part(part: Any) -> dict[str, Any]:
    if part.type == "text":
        return {"type": "input_text", "text": part.text}
    if part.type == "image" and part.image.startswith(("data:", "http")):
        return {"type": "input_image", "image_url": part.image, "detail": part.detail}
    raise NotImplementedError(f"A sample has a part of type {part.type!r} that cannot be shown.")


def _schema(info: Any) -> dict[str, Any]:
    found = info.model_dump(exclude_none=True, mode="json", include={"name", "description", "parameters"})
    return {"type": "function", **found, "strict": False}


@functools.lru_cache(maxsize=64)
def _task(arguments: str) -> Any:
    """Return a task of Inspect: loading its data set once."""
    import importlib

    from inspect_ai import Task
    from inspect_ai._util.registry import registry_create
    from inspect_ai.dataset import MemoryDataset, Sample

    name, given, samples, (solver, solver_args), (scorer, scorer_args) = json.loads(arguments)
    module, _, function = name.partition(":")
    if samples is not None:
        task = Task(dataset=MemoryDataset([Sample(**sample) for sample in samples]))
    elif function:
        task = getattr(importlib.import_module(module), function)(**given)
    else:
        task = registry_create("task", name, **given)
    if solver:
        task.solver = registry_create("solver", solver, **solver_args)
    if scorer:
        task.scorer = [registry_create("scorer", scorer, **scorer_args)]
    return task


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode: its name begins with the scorer's."""
    kwargs = dict(episode["kwargs"])
    target, choices = kwargs.pop("target"), kwargs.pop("choices")
    sample = {"input": episode["observations"][0], "target": target, "choices": choices}
    arguments = {"samples": [sample], "index": 0, "scorer": episode["env"].partition("-")[0], "scorer_args": kwargs}
    if choices:
        several = episode["env"] == "choice-multi"
        arguments |= {"solver": "multiple_choice", "solver_args": {"multiple_correct": several}}
    return arguments, episode["seed"]
