"""EnvironmentFactory: our tools for TRL's own generation loop."""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import json
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym

from gym_llm.concurrency import drive, wait
from gym_llm.core.driver import Driver, Step
from gym_llm.core.tools import error_output
from gym_llm.records.failures import reason
from gym_llm.rollouts.settings import DEFAULT_WRAPPERS
from gym_llm.trainers.shared.batch_failures import BatchFailures
from gym_llm.trainers.shared.equal_rewards import EqualRewards
from gym_llm.trainers.shared.trainer_tasks import TASK_INDEX, TrainedEnv
from gym_llm.trainers.trl.completion_messages import turn_items
from gym_llm.types import Row

if TYPE_CHECKING:
    from datasets import Dataset

_RESERVED = ("reset", "get_reward")
"""Methods that TRL does not take for tools; nor does it those whose names begin with an underscore."""
_TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "object": dict, "array": list}


class EnvironmentFactory(TrainedEnv):
    """An `environment_factory` for TRL: TRL samples the turns, and calls the environment's tools.

    ```python
    weather = EnvironmentFactory("gym_llm/Weather-v0")
    trainer = GRPOTrainer(
        model, train_dataset=weather.dataset(), environment_factory=weather, reward_funcs=weather.reward
    )
    ```

    Each environment that TRL makes has one method for each `@tool` of the verifier's class. TRL passes only the calls
    to an environment. So the verifier does not see the text before the answer, and every call counts as a turn. The
    answer reaches the verifier through `reward`, which must be among `reward_funcs`. A failed episode's reward is None,
    which TRL leaves out.

    Args:
        env_id: A registered id whose environment has tools; `tasks` and `env_kwargs` are `TrainedEnv`'s.

    Attributes:
        reward: The reward function that passes the answers to the verifiers.

    Raises:
        ValueError: If the environment has no tools, a tool with a name that TRL reserves, or turns of a user, which TRL
            does not support. In `dataset`, if a task brings its own tools.
    """

    def __init__(
        self, env_id: str, *, tasks: str | list[Row] | None = None, env_kwargs: dict[str, Any] | None = None
    ) -> None:
        super().__init__(env_id, tasks=tasks, env_kwargs=env_kwargs)
        schemas = self.verifier.tool_schemas()
        if not schemas:
            raise ValueError(f"{env_id} has no tools for TRL to call: use RewardFunc or RolloutFunc.")
        if self.verifier.speaks_for_user():
            raise ValueError(f"{env_id} answers as the user, which TRL's own loop cannot do: use RolloutFunc.")
        for schema in schemas:
            if schema["name"] in _RESERVED or schema["name"].startswith("_"):
                raise ValueError(f"{env_id} has a tool {schema['name']}, a name that is TRL's own: use RolloutFunc.")
        methods = {schema["name"]: _method(schema) for schema in schemas}
        self._class: type[_Environment] = type(self.name, (_Environment,), methods)
        self.reward = _reward_function(self.name)

    def __call__(self) -> _Environment:
        """Make one environment."""
        return self._class(self.factory.make(DEFAULT_WRAPPERS))

    def dataset(self, limit: int | None = None, *, seed: int = 0) -> Dataset:
        """The tasks; see `TrainedEnv.dataset`."""
        tasks = super().dataset(limit, seed=seed)
        names = {schema["name"] for schema in self.verifier.tool_schemas()}
        for index in tasks[TASK_INDEX]:
            row_names = {tool.get("name") for tool in self.factory.tasks[index].request.get("tools", ())}  # type: ignore[index]
            if row_names != names:
                tools = sorted(map(str, row_names))
                raise ValueError(
                    f"Task {index} of {self.env_id} has its own tools {tools}, but TRL shows {sorted(names)} for all "
                    "tasks: use RolloutFunc."
                )
        return tasks


class _Environment:
    """One environment as TRL drives it. TRL takes every public method but `reset` for a tool."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._driver = Driver(env)
        weakref.finalize(self, env.close)  # TRL closes nothing
        self._reward: float | None = None
        self._so_far = 0.0
        self._error: str | None = None

    def reset(self, **columns: Any) -> None:
        """Begin the episode of a dataset's row."""
        if TASK_INDEX not in columns:
            raise ValueError("These rows do not say which tasks they are: make them with EnvironmentFactory.dataset.")
        self._reward = self._error = None
        self._so_far = 0.0
        self._numbers = itertools.count(1)
        try:
            self._driver.reset(options={"task_index": columns[TASK_INDEX]})
        except Exception as failure:  # one episode's, as in RolloutFunc; the reward function tells
            self._fail(failure)

    def _call(self, name: str, arguments: dict[str, Any]) -> str:
        if self._reward is not None or self._error is not None:
            return error_output("The episode is over.")
        number = next(self._numbers)
        call = {"type": "function_call", "call_id": f"call_{number}", "name": name, "arguments": json.dumps(arguments)}
        try:
            observation, _, terminated, truncated, _ = self._step([call])
        except Exception as failure:
            self._fail(failure)
            return error_output("The episode is over.")
        if terminated or truncated:
            self._reward = self._so_far
        output: str = observation["input"][-1]["output"]
        return output

    def _step(self, action: Any) -> Step:
        outcome = self._driver.step(action)
        self._so_far += float(outcome[1])
        return outcome

    async def _answer(self, messages: Sequence[dict[str, Any]]) -> tuple[float | None, str | None]:
        """Show the verifier how the conversation ended; its reward, or how the episode failed."""
        if self._reward is None and self._error is None:
            try:
                self._reward = await self._finish(messages)
            except Exception as failure:
                await drive(self._fail, failure)
        return self._reward, self._error

    def _fail(self, failure: Exception) -> None:
        self._error = reason(failure)
        self._driver.end(failure)

    async def _finish(self, messages: Sequence[dict[str, Any]]) -> float:
        last = messages[-1] if messages else {}
        by_model, calls = last.get("role") == "assistant", last.get("tool_calls")
        message = {name: value for name, value in last.items() if name != "tool_calls"}
        answer = {
            # The message came to its end, though its calls were not made.
            "output": [{"status": "completed", **item} for item in turn_items(message)] if by_model else [],
            "status": "completed" if by_model and not calls else "incomplete",
        }
        is_over = False
        while not is_over:
            *_, terminated, truncated, _ = await drive(self._step, answer)
            is_over = terminated or truncated
            # A call that only our parsers could read is a turn more, for which TRL has sampled nothing.
            answer = {"output": [], "status": "incomplete"}
        return self._so_far


def _reward_function(name: str) -> Callable[..., list[float | None]]:
    failures, equal_rewards = BatchFailures("episode"), EqualRewards()

    def reward(
        completions: list[Any], environments: list[_Environment] | None = None, **columns: Any
    ) -> list[float | None]:
        """The verifiers' rewards for finished conversations; TRL calls it."""
        if environments is None:
            raise ValueError(f"The reward of {name}'s EnvironmentFactory works with environment_factory= that factory.")

        async def answer_all() -> list[tuple[float | None, str | None]]:
            pairs = zip(environments, completions, strict=True)
            return list(await asyncio.gather(*(environment._answer(messages) for environment, messages in pairs)))

        answers = wait(answer_all())
        failures.check([error for _, error in answers])
        reward.rewards = [value for value, _ in answers]  # type: ignore[attr-defined]
        equal_rewards.add_batch(zip(columns.get(TASK_INDEX, ()), reward.rewards))  # type: ignore[attr-defined] # noqa: B905
        return reward.rewards  # type: ignore[attr-defined,no-any-return]

    reward.__name__ = name
    return reward


def _method(schema: dict[str, Any]) -> Callable[..., str]:
    """A method from whose signature and docstring transformers makes the tool's schema again."""
    name, properties = schema["name"], schema["parameters"]["properties"]

    def call(self: _Environment, **arguments: Any) -> str:
        return self._call(name, arguments)

    required = schema["parameters"].get("required", ())
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    descriptions = []
    for argument, property_schema in properties.items():
        default = inspect.Parameter.empty if argument in required else property_schema.get("default")
        hint = _hint(property_schema)
        parameters.append(inspect.Parameter(argument, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))
        descriptions.append(f"\n    {argument}: {property_schema.get('description') or argument}")
    call.__name__ = call.__qualname__ = name
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters[1:]}
    call.__doc__ = (schema["description"] or name) + ("\n\nArgs:" + "".join(descriptions) if properties else "")
    return call


def _hint(schema: dict[str, Any]) -> Any:
    """The type that transformers writes as this JSON schema; `dict` for what it has no type for."""
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if "anyOf" in schema:
        return functools.reduce(operator.or_, map(_hint, schema["anyOf"]))
    kind = schema.get("type", "object")
    if kind == "null":
        return type(None)
    if kind == "array" and "items" in schema:
        return list[_hint(schema["items"])]  # type: ignore[misc]
    return _TYPES[kind]
