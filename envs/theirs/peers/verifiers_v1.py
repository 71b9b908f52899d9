"""Tasks of verifiers' second API (`Taskset`) that take one answer and no tools: their reward hooks pay."""

from __future__ import annotations

import functools
import json
from typing import Any

ENV_ID = "gym_llm/VerifiersV1-v0"
PACKAGES = ("verifiers==0.4.0",)
MODULE = "verifiers"
FRAMEWORKS = ("verifiers 0.4.0",)
APART = True


class Peer:
    """A task of a taskset of verifiers.

    Args:
        taskset: Its id: the module `NAME` must have one `Taskset`.
        taskset_config: Its settings.
        index: Which task; None for each of the first `most` in turn.
        most: How many tasks are loaded at most.
    """

    recording = False

    def __init__(
        self, taskset: str, taskset_config: dict[str, Any] | None = None, index: int | None = None, most: int = 10_000
    ) -> None:
        self._tasks = _tasks(json.dumps([taskset, taskset_config or {}]), most if index is None else index + 1)
        self._index = index

    async def reset(self, seed: int | None) -> dict[str, Any]:
        """Begin with the system prompt and the prompt."""
        from verifiers.v1.types import UserMessage

        self._task = self._tasks[(seed or 0) % len(self._tasks) if self._index is None else self._index]
        data = self._task.data
        if type(self._task).toolsets(self._task.config):
            raise NotImplementedError("The task has tools, which need a runtime of verifiers.")
        self._prompt = [UserMessage(content=data.prompt)] if isinstance(data.prompt, str) else list(data.prompt or [])
        said = [{"role": "system", "content": data.system_prompt}] if data.system_prompt else []
        turn: dict[str, Any] = {"say": said + [_item(message) for message in self._prompt]}
        return {**turn, "observation": data.model_dump(mode="json")} if self.recording else turn

    async def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Score the answer."""
        import verifiers.v1 as vf

        task = self._task
        about = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        agent = vf.AgentInfo(config=vf.AgentConfig())
        trace = vf.Trace[type(task.data), vf.State, vf.AgentConfig](task=about, agent=agent)
        for parent, message in enumerate(self._prompt):
            trace.nodes.append(vf.MessageNode(parent=parent - 1 if parent else None, message=message))
        answer = vf.AssistantMessage(content=action["text"])
        trace.nodes.append(
            vf.MessageNode(parent=len(self._prompt) - 1 if self._prompt else None, sampled=True, message=answer)
        )
        _check_hooks(task)
        await task.score(trace)
        rewards = {name: reward.model_dump(mode="json") for name, reward in trace.rewards.items()}
        return {
            "reward": trace.reward,
            "terminated": True,
            "info": {"rewards": rewards, "metrics": dict(trace.metrics)},
        }


def _check_hooks(task: Any) -> None:
    """Refuse rewards that are skipped without a runtime.

    Raises:
        NotImplementedError: If a reward needs one.
    """
    import inspect

    for hook in task.hooks("reward"):
        runtime = inspect.signature(hook).parameters.get("runtime")
        if runtime is not None and runtime.default is inspect.Parameter.empty:
            raise NotImplementedError(f"The reward {hook.__name__} needs a runtime of verifiers.")


def _item(message: Any) -> dict[str, Any]:
    found = message.model_dump(exclude_none=True, mode="json")
    if not isinstance(found.get("content"), str):
        raise NotImplementedError("A message has parts that cannot be shown.")
    return {"role": found["role"], "content": found["content"]}


def samples(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the index of each task."""
    if arguments["index"] is not None:
        return [{}]
    key = json.dumps([arguments["taskset"], arguments["taskset_config"] or {}])
    return [{"index": index} for index in range(len(_tasks(key, arguments["most"])))]


@functools.lru_cache(maxsize=64)
def _tasks(arguments: str, most: int) -> Any:
    """Return the first tasks of a taskset."""
    import itertools

    import verifiers.v1 as vf

    name, config = json.loads(arguments)
    taskset = vf.load_taskset(vf.taskset_config_type(name)(id=name, **config))
    tasks = list(itertools.islice(taskset.load(), most))
    if not tasks:
        raise ValueError(f"The taskset {name!r} has no tasks.")
    return tasks


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode; its taskset must be importable."""
    return {"taskset": episode["env"].partition("(")[0], "index": episode["kwargs"]["idx"]}, episode["seed"]
