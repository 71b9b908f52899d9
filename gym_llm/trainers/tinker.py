"""Our environments for the Tinker cookbook's reinforcement learning: its `Env`, groups and datasets.

The cookbook's rollout loop samples, while our episodes call an engine. So each episode is an asyncio task. Its engine
sends each prompt to `TinkerEnv` and waits. `TinkerEnv` returns the prompt to the loop as an observation, and the
sampled tokens come back the same way. Each prompt continues the token ids that were sampled
(`gym_llm.tokens.prompt_tokens`). Parsers and tools are those of any other rollout.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import chz
import tinker
from tinker_cookbook.completers import StopCondition, TokensWithLogprobs
from tinker_cookbook.rl.types import (
    ActionExtra,
    Env,
    EnvGroupBuilder,
    InitialObservationOverflow,
    Metrics,
    RLDataset,
    RLDatasetBuilder,
    RolloutError,
    StepResult,
    StopReason,
    Trajectory,
    TrajectoryGroup,
    Transition,
)
from tinker_cookbook.tokenizer_utils import get_tokenizer

from gym_llm.errors import EngineError
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.rollouts.plan import Job, open_plan
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.tokens.prompt_tokens import History
from gym_llm.trainers.shared.env_pool import EnvPool
from gym_llm.trainers.shared.masked import masking_error
from gym_llm.trainers.shared.text_format import refuse_constraint
from gym_llm.trainers.shared.token_rows import token_rows
from gym_llm.trainers.shared.trainer_engine import Sampled, TrainerEngine
from gym_llm.types import Rollout

_SETTINGS = RolloutSettings(retries=0)  # the loop has noted the turns of the first try; its own strategies retry


class TinkerEnv(Env):
    """An episode for the cookbook's `do_single_rollout`; `TinkerGroup` makes it.

    Observations are the prompts' token ids. The reward comes with the last step; its metrics are the numbers of the
    episode's info, `turns` and the stop reason. A masked episode raises `EpisodeMasked`, which the trainer's
    `rollout_error_tolerance` handles.

    Attributes:
        record: The episode's record after its end, without log probabilities, which the loop does not report.
    """

    def __init__(self, pool: EnvPool, tokenizer: Any, job: Job, history: History, longest_prompt: int | None):
        self.record: Rollout | None = None
        self._pool = pool
        self._job = job
        context = None if longest_prompt is None else longest_prompt + 1
        self._engine = TrainerEngine(self._generate, tokenizer, history=history, context=context)
        self._stop: StopCondition = sorted(self._engine.stop_token_ids)
        self._episode: asyncio.Task[Rollout] | None = None
        self._asked: asyncio.Future[list[int]]
        self._said: asyncio.Future[Sampled]

    async def initial_observation(self) -> tuple[tinker.ModelInput, StopCondition] | InitialObservationOverflow:
        """Begin the episode.

        Returns:
            Its first prompt and the tokens that end a turn; or that the first prompt is too long already.

        Raises:
            EpisodeMasked: If it cannot begin.
        """
        self._asked = asyncio.get_running_loop().create_future()
        self._episode = asyncio.create_task(self._pool.play(self._job, self._engine, _SETTINGS))
        prompt = await self._next_prompt(self._episode)
        if prompt is None:
            reward, metrics = self._outcome()
            return InitialObservationOverflow(reward, metrics)
        return tinker.ModelInput.from_ints(prompt), self._stop

    async def step(self, action: list[int], *, extra: ActionExtra | None = None) -> StepResult:
        """Take a turn with these sampled ids.

        Raises:
            EpisodeMasked: If the episode cannot go on or be scored.
        """
        episode = cast("asyncio.Task[Rollout]", self._episode)
        self._asked = asyncio.get_running_loop().create_future()
        self._said.set_result(Sampled(action, None))
        prompt = await self._next_prompt(episode)
        if prompt is None:
            reward, metrics = self._outcome()
            return StepResult(reward, True, tinker.ModelInput.empty(), self._stop, metrics)
        return StepResult(0.0, False, tinker.ModelInput.from_ints(prompt), self._stop)

    async def aclose(self) -> None:
        """End the episode if it is not over. Safe to call at any time."""
        if self._episode is not None and not self._episode.done():
            self._episode.cancel()
            await asyncio.wait([self._episode])

    async def _generate(self, prompt: list[int], arguments: dict[str, Any], episode_id: str) -> Sampled:
        """The engine's side: hand over the prompt and wait for what is sampled."""
        refuse_constraint(arguments)
        if arguments.get("stop"):
            raise EngineError("Tinker's policy stops at token ids: it cannot be given a request's own `stop`, too.")
        self._said = asyncio.get_running_loop().create_future()
        self._asked.set_result(prompt)
        return await self._said

    async def _next_prompt(self, episode: asyncio.Task[Rollout]) -> list[int] | None:
        """The loop's side: what the episode asks next; None if it is over."""
        waiting: list[asyncio.Future[Any]] = [self._asked, episode]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if self._asked.done():
            return self._asked.result()
        self.record = episode.result()
        return None

    def _outcome(self) -> tuple[float, Metrics]:
        record = cast(Rollout, self.record)
        reward = record["reward"]
        if reward is None:
            raise masking_error(record)
        return reward, _metrics(record)


class TinkerGroup(EnvGroupBuilder):
    """A task's group of environments. Can be pickled; the environments are made where they are played.

    Args:
        env_id: A registered id, e.g. `"gym_llm/Arithmetic-v0"`.
        task_index: The task's index.
        group_size: Number of its episodes.
        model_name: The model of the tokenizer, a name for `tinker_cookbook.tokenizer_utils.get_tokenizer`.
        tasks: A file of tasks; None for the environment's own.
        env_kwargs: Further arguments of the environment.
        history: See `gym_llm.tokens.prompt_tokens.PromptTokens`. With `"template"`, an episode whose template rewrites
            history becomes several `Datum`s.
        longest_prompt: An episode whose next prompt has more tokens is truncated; None for no limit.
    """

    def __init__(
        self,
        env_id: str,
        task_index: int,
        group_size: int,
        model_name: str,
        *,
        tasks: str | None = None,
        env_kwargs: dict[str, Any] | None = None,
        history: History = "template",
        longest_prompt: int | None = None,
    ) -> None:
        self.env_id = env_id
        self.task_index = task_index
        self.group_size = group_size
        self.model_name = model_name
        self.tasks = tasks
        self.env_kwargs = env_kwargs
        self.history: History = history
        self.longest_prompt = longest_prompt
        self._envs: list[TinkerEnv] = []
        self._pool: EnvPool | None = None
        self._made = 0

    async def make_envs(self) -> Sequence[TinkerEnv]:
        """The group's environments. Called again, as strategies that retry do, it makes others beside the first."""
        if self._pool is None:
            self._pool = EnvPool(_factory(self.env_id, self.tasks, json.dumps(self.env_kwargs)))
        tokenizer = get_tokenizer(self.model_name)
        jobs = [Job(self.task_index, self._made + number) for number in range(self.group_size)]
        envs = [TinkerEnv(self._pool, tokenizer, job, self.history, self.longest_prompt) for job in jobs]
        self._made += self.group_size
        self._envs += envs
        return envs

    async def cleanup(self) -> None:
        """End what is still being played and close the environments."""
        envs, self._envs = self._envs, []
        pool, self._pool = self._pool, None
        for env in envs:
            await env.aclose()
        if pool is not None:
            await pool.aclose()

    def logging_tags(self) -> list[str]:
        """The environment's name, for metrics."""
        return [self.env_id.rpartition("/")[2]]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_envs": [], "_pool": None}  # what is being played stays where it is


class TinkerDataset(RLDataset):
    """Batches of groups, a task each, in the order of the tasks; every epoch the same, its last batch maybe smaller."""

    def __init__(self, groups: Sequence[TinkerGroup], groups_per_batch: int, epochs: int = 1) -> None:
        self._batches = [groups[start : start + groups_per_batch] for start in range(0, len(groups), groups_per_batch)]
        self._epochs = epochs

    def get_batch(self, index: int) -> Sequence[TinkerGroup]:
        """The groups of one batch: others in each epoch, for batches that are played at once are cleaned up apart."""
        epoch, batch = divmod(index, len(self._batches))
        groups = [copy.copy(group) for group in self._batches[batch]]
        for group in groups:
            group._made = epoch * group.group_size  # seeds of an epoch's own
        return groups

    def __len__(self) -> int:
        """Number of batches, of all epochs."""
        return len(self._batches) * self._epochs


@chz.chz
class TinkerDatasetBuilder(RLDatasetBuilder):
    """An environment's tasks for `tinker_cookbook.rl.train.Config`.

    ```python
    Config(
        model_name="Qwen/Qwen3-8B",
        dataset_builder=TinkerDatasetBuilder(env_id="gym_llm/Weather-v0", model_name="Qwen/Qwen3-8B"),
        rollout_error_tolerance=MinViableGroup(),
        ...
    )
    ```

    With `MinViableGroup` a masked episode leaves its group, and the group's baseline. Without any tolerance, which is
    the cookbook's default for most models, the first masked episode ends the training.

    Attributes:
        env_id: A registered id.
        model_name: Whose tokenizer.
        group_size: Episodes of each task.
        groups_per_batch: Tasks in each batch.
        epochs: How often each task is played.
        limit: Only the first tasks, this many; where they are generated without end, 64 if it is None.
        test_limit: Tasks held out for evaluation: the next ones after those. 0 for none.
        tasks: A file of tasks; None for the environment's own.
        env_kwargs: Further arguments of the environment, as JSON.
        history: See `TinkerGroup`.
        longest_prompt: See `TinkerGroup`.
    """

    env_id: str
    model_name: str
    group_size: int = 8
    groups_per_batch: int = 32
    epochs: int = 1
    limit: int | None = None
    test_limit: int = 0
    tasks: str | None = None
    env_kwargs: str = "{}"
    history: str = "template"
    longest_prompt: int | None = None

    async def __call__(self) -> tuple[TinkerDataset, TinkerDataset | None]:
        """The data to train on, and those to test on.

        Raises:
            ValueError: If there are fewer tasks than asked for, or a number makes no sense.
            gymnasium.error.Error: If the id is unknown.
            DataError: If the tasks are wrong.
        """
        kwargs = json.loads(self.env_kwargs)
        factory = _factory(self.env_id, self.tasks, json.dumps(kwargs))
        plan = open_plan(factory, limit=None if self.limit is None else self.limit + self.test_limit)
        train = plan.num_tasks - self.test_limit
        if train < 1:
            raise ValueError(
                f"{self.env_id} has {plan.num_tasks} tasks: with test_limit={self.test_limit} none is left."
            )
        groups = [
            TinkerGroup(
                self.env_id,
                plan.first_task + number,
                self.group_size if number < train else 1,
                self.model_name,
                tasks=self.tasks,
                env_kwargs=kwargs,
                history=cast(History, self.history),
                longest_prompt=self.longest_prompt,
            )
            for number in range(plan.num_tasks)
        ]
        test = TinkerDataset(groups[train:], self.groups_per_batch) if self.test_limit else None
        return TinkerDataset(groups[:train], self.groups_per_batch, self.epochs), test


def trajectory(record: Rollout) -> Trajectory:
    """A record as the cookbook has an episode: what was read and sampled, turn by turn.

    `tinker_cookbook.rl.data_processing.trajectory_to_data` makes a `Datum` of each segment, exactly.

    Raises:
        EpisodeMasked: If the episode is masked.
        ValueError: If nothing was sampled, or the record has no token ids.
    """
    if record["reward"] is None:
        raise masking_error(record)
    turns = []
    for row in token_rows(record):
        for start, end in row.turns:
            said = TokensWithLogprobs(row.input_ids[start:end], row.logprobs[start:end])
            turns.append((row.input_ids[:start], said, sum(row.rewards[start:end])))
    if not turns:
        raise ValueError("The record has no sampled token ids: use an engine that reports them.")
    transitions = [
        Transition(
            ob=tinker.ModelInput.from_ints(prompt),
            ac=said,
            reward=reward,
            episode_done=number == len(turns),
            metrics=_metrics(record) if number == len(turns) else {},
        )
        for number, (prompt, said, reward) in enumerate(turns, 1)
    ]
    return Trajectory(transitions, tinker.ModelInput.empty(), _stop_reason(record))


def trajectory_group(records: Sequence[Rollout]) -> TrajectoryGroup:
    """A task's records as the cookbook has a group: masked ones are its `rollout_errors`, and in no baseline.

    Raises:
        ValueError: As `trajectory`.
    """
    scored = [trajectory(record) for record in records if record["reward"] is not None]
    errors = [masking_error(record) for record in records if record["reward"] is None]
    return TrajectoryGroup(
        scored,
        [0.0] * len(scored),
        [{} for _ in scored],
        [RolloutError(type(error).__name__, str(error)) for error in errors],
    )


@lru_cache(maxsize=8)
def _factory(env_id: str, tasks: str | None, env_kwargs: str) -> EnvFactory:
    """One for all groups of this process, so that a file of tasks is read once."""
    return EnvFactory(env_id, tasks=tasks, env_kwargs=json.loads(env_kwargs))


def _metrics(record: Rollout) -> Metrics:
    info = record["info"]
    numbers = {name: float(value) for name, value in info.items() if isinstance(value, int | float)}
    numbers.pop("task_index", None)
    return {**numbers, f"stop/{_stop_reason(record)}": 1.0}


def _stop_reason(record: Rollout) -> StopReason:
    if not record["truncated"]:
        return StopReason.COMPLETED
    details = record["response"].get("incomplete_details") or {}
    overflow = details.get("reason") == "context_length_exceeded"
    return StopReason.CONTEXT_OVERFLOW if overflow else StopReason.MAX_TURNS
