"""RolloutWorker: episodes for TRL's AsyncGRPOTrainer, played while it trains."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from gym_llm.concurrency.loop_thread import LoopThread
from gym_llm.engines import Engine, WeightSync, make_engine
from gym_llm.engines.http import HTTPEngine
from gym_llm.engines.transformers import TransformersEngine
from gym_llm.engines.vllm import VLLMEngine
from gym_llm.protocols.chat.chat_messages import messages_of
from gym_llm.protocols.chat.requests import request_to_chat
from gym_llm.rollouts.factory import Wrap
from gym_llm.rollouts.plan import Job, open_plan
from gym_llm.rollouts.settings import DEFAULT_WRAPPERS, RolloutSettings
from gym_llm.trainers.shared.advantages import Rewards, group_advantages
from gym_llm.trainers.shared.batch_failures import BatchFailures
from gym_llm.trainers.shared.env_pool import EnvPool
from gym_llm.trainers.shared.token_rows import token_rows
from gym_llm.trainers.shared.trainer_tasks import TrainedEnv
from gym_llm.trainers.trl.sampling_options import episode_numbers, sampling_of
from gym_llm.trainers.trl.weight_transfer import WeightTransfer
from gym_llm.types import Rollout, Row
from gym_llm.wrappers import TokenIdTracking

if TYPE_CHECKING:
    from trl.experimental.async_grpo import AsyncGRPOConfig

Advantages: TypeAlias = Callable[[Rewards, int], NDArray[np.float64]]
"""One number for each reward of a group of this size; None among the rewards is a masked episode."""

_POLL_SECONDS = 0.05
_STARTED_AT_ONCE = 64
_METRICS = 4096


@dataclass(slots=True)
class _Group:
    """Episodes of one task that were begun with the same weights.

    Attributes:
        number: Which group of the training it is: TRL's `group_id`.
        version: Which weights were the newest when its first episode began.
        records: The episodes that have finished.
    """

    number: int
    version: int
    records: list[Rollout] = field(default_factory=list)


class RolloutWorker:
    """A `RolloutWorkerProtocol` of TRL: it plays groups of episodes endlessly, and puts their tokens into TRL's buffer.

    ```python
    args = AsyncGRPOConfig("runs/weather", num_generations=8)
    weather = RolloutWorker("gym_llm/Weather-v0", args)
    trainer = AsyncGRPOTrainer(
        "Qwen/Qwen3-0.6B",
        args=args,
        train_dataset=weather.train_dataset,
        rollout_worker=weather,
        weight_transfer=weather.weight_transfer,
    )
    ```

    Each segment of an episode (see `TokenIdTracking`) is a sample with the episode's advantage. Its `input_ids`,
    `completion_mask` (1 for sampled tokens) and `old_log_probs` are exactly the record's. A thread plays the groups; a
    free slot takes the next episode of any group. The samples of a group enter the buffer together when its last
    episode has finished. Their version is that of the newest weights when the group's first episode began.

    A masked episode gives no sample and is not in its group's baseline. See `BatchFailures` for when failures end the
    training; TRL calls `check_health` while it waits for samples.

    The worker follows these arguments of TRL:

    - `num_generations`, `temperature`, `top_p`, `top_k`, `min_p`, `repetition_penalty` and `chat_template_kwargs`.
    - `max_completion_length` (of a turn, as in TRL's own worker), `max_inflight_tasks` (episodes at once) and
      `request_timeout`.
    - `max_staleness`: the worker starts a new group only if TRL can use its samples before they are stale.

    A training that is resumed from a checkpoint starts with the first task again: TRL reports the position only to its
    own worker.

    Args:
        env_id: A registered id, e.g. `"gym_llm/Arithmetic-v0"`.
        args: The trainer's arguments.
        engine: None for the vLLM server at `args.vllm_server_base_url`, or the URL of another such server; both return
            completions of token ids. TRL updates the server's weights itself: start it as TRL's documentation says,
            without `--enable-lora`, and with `--logprobs-mode processed_logprobs` if the temperature is not 1. Or a
            `WeightSync` in this process, which gets the weights: `"transformers:MODEL"` for small models,
            `"vllm:MODEL"`. Or an engine that is not started; without `WeightSync` it keeps its weights.
        engine_options: The arguments of the engine if it is a spec.
        tasks: See `VerifierEnv`; None for the environment's own.
        env_kwargs: Further arguments of the environment.
        env_wrappers: Wrappers of each environment, innermost first; None for `DEFAULT_WRAPPERS`. One of them must be a
            `TokenIdTracking`.
        limit: Number of tasks to play; None for all, or for 64 if the environment generates them.
        advantages: Computes a group's advantages from its rewards. TRL's own worker divides by the population standard
            deviation of the group; `group_advantages` by the sample standard deviation, as `GRPOTrainer` does.
        drop_equal: Leave groups whose advantages are all 0 out of the buffer.

    Attributes:
        train_dataset: The tasks in the order of their play, repeated endlessly; TRL counts epochs by it.
        weight_transfer: The trainer's argument of this name; None to use TRL's own.
        rollout_buffer: The queue of samples for TRL.
        metrics_queue: The queue of figures for TRL's log.

    Raises:
        ValueError: If an argument is invalid, or one of the trainer's arguments is not supported.
    """

    def __init__(
        self,
        env_id: str,
        args: AsyncGRPOConfig,
        *,
        engine: str | Engine | None = None,
        engine_options: dict[str, Any] | None = None,
        tasks: str | list[Row] | None = None,
        env_kwargs: dict[str, Any] | None = None,
        env_wrappers: Sequence[Wrap] | None = None,
        limit: int | None = None,
        advantages: Advantages = group_advantages,
        drop_equal: bool = False,
    ) -> None:
        self._wrappers = DEFAULT_WRAPPERS if env_wrappers is None else tuple(env_wrappers)
        if TokenIdTracking not in self._wrappers:
            raise ValueError("env_wrappers needs a TokenIdTracking: it collects the token ids that TRL trains on.")
        self._env = TrainedEnv(env_id, tasks=tasks, env_kwargs=env_kwargs)
        self._plan = open_plan(self._env.factory, limit=limit, seed=args.seed)
        self._args = args
        self._engine = _made(engine, args, engine_options or {})
        is_server = isinstance(self._engine, HTTPEngine)
        _check(args, self._engine)
        sampling = sampling_of(args, name="AsyncGRPOConfig", with_vllm=not isinstance(self._engine, TransformersEngine))
        self._settings = RolloutSettings(
            seed=args.seed, sampling={**sampling, "max_output_tokens": args.max_completion_length}
        )
        self._advantages = advantages
        self._drop_equal = drop_equal
        self.train_dataset = self._env.dataset(limit, seed=args.seed)
        self.weight_transfer = None if is_server else WeightTransfer(self)
        self.rollout_buffer: queue.Queue[Any] = queue.Queue()
        self.metrics_queue: queue.Queue[dict[str, float | tuple[float, float]]] = queue.Queue(_METRICS)
        self._thread = LoopThread("gym_llm rollout worker")
        self._version = 0
        self._has_engine = False
        self._task: asyncio.Task[None] | None = None

    # -- RolloutWorkerProtocol -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to play.

        Raises:
            RuntimeError: If it plays already.
            EngineUnavailable: If the engine cannot be used.
        """
        if self._task is not None:
            raise RuntimeError("This rollout worker plays already: make one for each trainer.")
        self.start_engine()
        while not self.rollout_buffer.empty():  # another training's
            self.rollout_buffer.get()
        self._thread.run(self._begin())

    def stop(self) -> None:
        """End all episodes, close the environments and the engine. Safe to call twice."""
        if self._thread.is_running:
            try:
                self._thread.run(self._end())
            finally:
                self._task, self._has_engine = None, False
                self._thread.close()

    def update_model_version(self, model_version: int) -> None:
        """Groups that are begun from now on have weights of this version."""
        self._version = model_version

    def check_health(self, stale_after_s: float) -> None:
        """Raise if the worker will deliver no more samples.

        Raises:
            RuntimeError: If no episode is being played, if every episode failed, or if the event loop has been blocked
                for too long.
        """
        if self._task is None:
            raise RuntimeError(
                "The rollout worker has stopped: AsyncGRPOTrainer starts it only in its first train(). Make a new "
                "trainer."
            )
        if self._task.done():
            cause = None if self._task.cancelled() else self._task.exception()
            raise RuntimeError(f"The rollout worker has ended: {cause}") from cause
        blocked = time.monotonic() - self._beat
        if blocked > stale_after_s:
            raise RuntimeError(
                f"The rollout worker has been stuck for {blocked:.0f} s: something in {self._env.env_id} or its engine "
                "blocks the event loop."
            )

    # -- weights -------------------------------------------------------------------------------------------------------

    def start_engine(self) -> None:
        """Start the engine, if it is not."""
        if not self._has_engine:
            self._thread.run(self._engine.start())
            self._has_engine = True

    @property
    def takes_weights(self) -> bool:
        """Whether the engine's weights can be replaced."""
        return self._engine.capabilities.weights

    def update_weights(self, folder: str) -> None:
        """Give the engine the weights of a folder; what is being sampled is finished with the old ones."""
        self._thread.run(cast(WeightSync, self._engine).update_weights(folder))

    # -- playing -------------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        a_version = _samples_per_step(self._args) * self._args.weight_sync_steps
        self._ahead = max(1, self._args.max_staleness) * a_version
        inflight = self._args.max_inflight_tasks  # TRL has put a number there if it was -1
        self._concurrency = inflight if inflight > 0 else self._ahead
        self._ready: Iterator[tuple[_Group, Job]] = iter(())
        self._begun = self._under_way = 0
        self._errors: list[str | None] = []
        self._failures = BatchFailures("episode")
        self._beat = time.monotonic()
        self._task = asyncio.create_task(self._play())

    async def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._has_engine:
            await self._engine.aclose()

    async def _play(self) -> None:
        pool = EnvPool(self._env.factory, self._wrappers)
        playing: set[asyncio.Task[None]] = set()
        failed: list[BaseException] = []
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def ended(task: asyncio.Task[None]) -> None:
            playing.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                failed.append(error)
            changed.set()

        try:
            while not failed:
                self._beat = time.monotonic()
                changed.clear()
                for _ in range(min(_STARTED_AT_ONCE, self._concurrency - len(playing))):
                    if (next_episode := self._next()) is None:
                        break
                    task = asyncio.create_task(self._episode(pool, *next_episode))
                    playing.add(task)
                    task.add_done_callback(ended)
                    self._metric("rollout/inflight", len(playing))
                # Room comes about without a word when TRL takes a sample. (Not `wait_for`: it can miss a cancellation.)
                look_again = loop.call_later(_POLL_SECONDS, changed.set)
                await changed.wait()
                look_again.cancel()
            raise failed[0]
        finally:
            for task in playing:
                task.cancel()
            await asyncio.gather(*playing, return_exceptions=True)
            await pool.aclose()

    def _next(self) -> tuple[_Group, Job] | None:
        """The next episode; None while there is no room for a group."""
        if (following := next(self._ready, None)) is not None:
            return following
        size = self._args.num_generations
        if self._under_way * size + self.rollout_buffer.qsize() >= self._ahead:
            return None
        group = _Group(self._begun, self._version)
        time_round, place = divmod(group.number, self._plan.num_tasks)
        task = self._plan.first_task + place
        self._ready = iter([(group, Job(task, time_round * size + member)) for member in range(size)])
        self._begun += 1
        self._under_way += 1
        return next(self._ready)

    async def _episode(self, pool: EnvPool, group: _Group, job: Job) -> None:
        record = await pool.play(job, self._engine, self._settings)
        group.records.append(record)
        self._errors.append(_failure(record))
        if len(self._errors) >= max(self._ahead, self._concurrency, self._args.num_generations):
            errors, self._errors = self._errors, []
            self._failures.check(errors)
        if len(group.records) == self._args.num_generations:
            self._under_way -= 1
            self._hand_over(group)

    def _hand_over(self, group: _Group) -> None:
        records = sorted(group.records, key=lambda record: record["rollout_id"]["repeat_index"])
        rewards = [record["reward"] for record in records]
        advantages = self._advantages(rewards, len(records))
        self._metric("episodes/failed", rewards.count(None), len(records))
        if self._drop_equal and not advantages.any():
            self._metric("rollout/dropped_groups_total", 1)
            return
        deviation = float(np.std([reward for reward in rewards if reward is not None] or [0.0]))
        for record, advantage in zip(records, advantages.tolist(), strict=True):
            if record["reward"] is not None:
                for sample in _samples(record, advantage, group, deviation):
                    self.rollout_buffer.put_nowait(sample)

    def _metric(self, name: str, value: float, of: float | None = None) -> None:
        try:
            self.metrics_queue.put_nowait({name: float(value) if of is None else (float(value), float(of))})
        except queue.Full:  # TRL does not log
            pass


def _made(engine: str | Engine | None, args: AsyncGRPOConfig, options: dict[str, Any]) -> Engine:
    if isinstance(engine, Engine):
        if options:
            raise ValueError("engine_options are for an engine that is named; this one is made already.")
        return engine
    spec = f"{args.vllm_server_base_url.rstrip('/')}/v1" if engine is None else engine
    if spec.startswith(("http://", "https://")):
        return make_engine(spec, **{"api": "completions", "timeout": float(args.request_timeout), **options})
    made = make_engine(spec, **options)
    if not made.capabilities.weights:
        raise ValueError(
            "engine must be a vLLM server's URL, 'vllm:MODEL', 'transformers:MODEL', or another with weights; got "
            f"{spec!r}."
        )
    return made


def _check(args: AsyncGRPOConfig, engine: Engine) -> None:
    if args.max_tool_calling_iterations is not None:
        raise ValueError(
            "AsyncGRPOConfig.max_tool_calling_iterations is for TRL's own worker: leave it out, the environment has "
            "`max_turns`."
        )
    if isinstance(engine, HTTPEngine):
        return
    if args.token_budget is None:
        raise ValueError(
            "Without a vLLM server, AsyncGRPOConfig needs token_budget: tokens, or 0 for "
            "per_device_train_batch_size samples."
        )
    mode = engine.engine_args.get("logprobs_mode") if isinstance(engine, VLLMEngine) else None
    if args.temperature != 1 and mode != "processed_logprobs":
        raise ValueError(
            f"Log probabilities at temperature={args.temperature} need 'vllm:MODEL' with "
            "logprobs_mode='processed_logprobs'; or use 1."
        )


def _samples_per_step(args: AsyncGRPOConfig) -> int:
    samples: int = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
    return samples


def _failure(record: Rollout) -> str | None:
    if record["error"] is not None:
        return record["error"]
    if record["trajectory"] is None:
        return "The engine reported no token ids."
    return None if token_rows(record) else "Nothing was sampled: its prompt does not fit the model."


def _samples(record: Rollout, advantage: float, group: _Group, deviation: float) -> Iterator[Any]:
    from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

    reward = cast(float, record["reward"])
    numbers = {f"episodes/{name}": float(value) for name, value in episode_numbers(record).items()}
    prompt = request_to_chat(record["responses_create_params"])["messages"]
    completion = messages_of(record["response"]["output"])
    for row in token_rows(record):
        yield RolloutSample(
            prompt=prompt,
            completion=completion,
            input_ids=np.array(row.input_ids, dtype=np.int64),
            completion_mask=np.array(row.loss_mask, dtype=np.int64),
            old_log_probs=np.array(row.logprobs, dtype=np.float32),
            advantage=advantage,
            model_version=group.version,
            group_id=group.number,
            metrics={"reward": reward, "reward_std": deviation, **numbers},
            enqueued_at=time.time(),
        )
