"""An environment as a task of Inspect: a sample per task, a solver that plays the episode, the reward as the score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import gymnasium as gym
from inspect_ai import Epochs, Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig, Model, get_model
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from gym_llm.concurrency import drive
from gym_llm.core.driver import Driver, Step
from gym_llm.core.tasks import PreparedTask
from gym_llm.errors import InfrastructureError
from gym_llm.evaluation.inspect_tasks import messages
from gym_llm.rollouts.plan import Job, Plan
from gym_llm.types import Request

_RESULT = "gym_llm"
_INDEX = "task_index"


class EpisodeMasked(InfrastructureError):
    """Raised where an episode has no reward, because the environment failed: the sample gets an error, not a score."""


class _Play:
    """An episode under way in a sample."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.env, self.driver = env, Driver(env)
        self.request: Request | None = None
        self.is_over = False
        self._reward = 0.0
        self.result: dict[str, Any] | None = None

    async def reset(self, seed: int, task_index: int) -> Request:
        try:
            self.request, _ = await self.driver.run(self.driver.reset, seed=seed, options={"task_index": task_index})
        except Exception as error:
            raise await self._masked(error) from error
        return cast(Request, self.request)

    async def step(self, response: Any) -> Request:
        return await self._advance(self.driver.step, response)

    async def truncate(self) -> None:
        """Score what there is: one of Inspect's limits has ended the sample."""
        await self._advance(self.driver.truncate, self.request)

    async def _advance(self, function: Callable[[Any], Step], argument: Any) -> Request:
        try:
            request, reward, terminated, truncated, info = await self.driver.run(function, argument)
        except Exception as error:
            raise await self._masked(error) from error
        self.request, self.is_over = request, terminated or truncated
        self._reward += float(reward)
        if self.is_over:
            self.result = {**info, "reward": self._reward, "outcome": "scored" if terminated else "truncated"}
        return cast(Request, request)

    async def give_up(self) -> None:
        """End an episode that is still under way."""
        await drive(self.driver.end)

    async def _masked(self, error: Exception) -> EpisodeMasked:
        self.is_over = True
        failure = self.driver.failure(error)
        await drive(self.driver.end, error)
        return EpisodeMasked(f"{failure.kind} in {failure.phase or 'the environment'}: {failure.reason}")


class _Plays:
    """The episodes of a task by their sample's id, and environments that play nothing at the moment."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._idle: list[gym.Env[Any, Any]] = []
        self.open: dict[str, _Play] = {}

    def begin(self, sample: str) -> _Play:
        env = self._idle.pop() if self._idle else self._plan.factory.make()
        self.open[sample] = play = _Play(env)
        return play

    async def end(self, state: TaskState) -> None:
        """Keep the sample's environment for the next one; if no sample is under way, close all."""
        play = self.open.pop(state.uuid, None)
        if play is None:
            return
        try:
            await play.give_up()
        finally:
            self._idle.append(play.env)
            if not self.open:
                idle, self._idle = self._idle, []
                for env in idle:
                    await drive(env.close)


def make_task(plan: Plan, *, sampling: dict[str, Any] | None = None, seed: int = 0) -> Task:
    """Make a task of Inspect.

    An epoch is a repeat. The score is the episode's reward, and its metadata are the verifier's details. A masked
    episode is a sample with an error; the other samples go on.

    Args:
        plan: Which tasks are played, and how often each.
        sampling: Request fields to set over the tasks' own.
        seed: Seeds the environments.

    Raises:
        UsageError: If a task's tools cannot be offered to Inspect's models.
    """
    tasks = plan.factory.tasks
    assert tasks is not None
    prepared = {index: tasks[index] for index in range(plan.first_task, plan.first_task + plan.num_tasks)}
    configs = [messages.sampling_config({**each.request, **(sampling or {})}) for each in prepared.values()]  # type: ignore[typeddict-item]
    shared = {name: value for name, value in configs[0].items() if all(each.get(name) == value for each in configs)}
    for each in prepared.values():
        messages.tool_infos(each.request)  # what Inspect cannot offer shows now
    plays = _Plays(plan)
    return Task(
        dataset=MemoryDataset(
            [_sample(index, each, plan.factory.env_id) for index, each in prepared.items()], name=plan.factory.env_id
        ),
        solver=_solver(plays, lambda name, value: shared.get(name) == value, sampling or {}, seed),
        scorer=_scorer(plays),
        cleanup=plays.end,
        config=GenerateConfig(**shared),  # what all rows have is the task's, so that `--temperature` replaces it
        epochs=Epochs(plan.repeats, "mean"),
        fail_on_error=False,
    )


def _sample(index: int, task: PreparedTask, env_id: str) -> Sample:
    target = task.row.get("expected_answer")
    return Sample(
        id=index,
        input=messages.first_messages(task.request) or f"{env_id}, task {index}",
        target=target if isinstance(target, str) else "",
        metadata={_INDEX: index},
    )


def _solver(plays: _Plays, is_shared: Callable[[str, Any], bool], sampling: dict[str, Any], seed: int) -> Solver:
    @solver(name="env_turns")
    def env_turns() -> Solver:
        """Play the environment's episode with Inspect's model."""

        async def solve(state: TaskState, generate: Generate) -> TaskState:
            play, model = plays.begin(state.uuid), get_model()
            job = Job(state.metadata[_INDEX], state.epoch - 1)
            request = await play.reset(job.env_seed(seed), job.task_index)
            state.messages = messages.first_messages(request)
            while True:
                output = await _ask(model, state, {**request, **sampling}, is_shared)  # type: ignore[typeddict-item]
                response = messages.response_of(output)
                state.output = output
                state.messages.append(output.message)
                before = request["input"]
                request = await play.step(response)
                said, known = request["input"], len(before) + len(response["output"])
                if said[: len(before)] == before:
                    state.messages.extend(messages.chat_messages(said[known:]))
                else:
                    state.messages = messages.first_messages(request)
                if play.is_over:
                    state.store.set(_RESULT, play.result)
                    state.completed = True
                    return state

        return solve

    return env_turns()


async def _ask(model: Model, state: TaskState, request: Request, is_shared: Callable[[str, Any], bool]) -> Any:
    own = {name: value for name, value in messages.sampling_config(request).items() if not is_shared(name, value)}
    output = await model.generate(
        state.messages,
        tools=messages.tool_infos(request),
        tool_choice=messages.tool_choice(request),
        config=GenerateConfig(**own),
    )
    if output.error or not output.choices:
        raise EpisodeMasked(f"The model failed: {output.error or 'it returned nothing'}")
    return output


def _scorer(plays: _Plays) -> Scorer:
    @scorer(metrics=[mean(), stderr()], name="reward")
    def reward() -> Scorer:
        """Return the reward of the environment's `verify`."""

        async def score(state: TaskState, target: Target) -> Score:
            result = state.store.get(_RESULT)
            if result is None:
                play = plays.open.get(state.uuid)
                if play is None or play.request is None or play.is_over:
                    raise EpisodeMasked("The sample has no episode: leave this task's own solver in its place.")
                await play.truncate()
                result = play.result
                state.store.set(_RESULT, result)
            return Score(value=result["reward"], answer=state.output.completion, metadata=result)

        return score

    return reward()
