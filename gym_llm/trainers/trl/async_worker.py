"""RolloutWorker: episodes for TRL's AsyncGRPOTrainer, played while it trains."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from gym_llm.concurrency.loop_thread import LoopThread
from gym_llm.core.task_sampler import TaskSampler
from gym_llm.engines import Engine, WeightSync, make_engine
from gym_llm.engines.http import HTTPEngine
from gym_llm.engines.transformers import TransformersEngine
from gym_llm.engines.vllm import VLLMEngine
from gym_llm.engines.weights import UpdateMode, check_update, update_options
from gym_llm.protocols.chat.chat_messages import messages_of
from gym_llm.protocols.chat.requests import request_to_chat
from gym_llm.rollouts.factory import Wrap
from gym_llm.rollouts.groups import Group
from gym_llm.rollouts.plan import open_plan
from gym_llm.rollouts.settings import DEFAULT_WRAPPERS, RolloutSettings
from gym_llm.rollouts.staleness import oldest_version
from gym_llm.rollouts.stream import Stream
from gym_llm.rollouts.stream_jobs import ENDLESS
from gym_llm.trainers.shared.advantages import Rewards, group_advantages
from gym_llm.trainers.shared.batch_failures import BatchFailures
from gym_llm.trainers.shared.token_rows import token_rows
from gym_llm.trainers.shared.trainer_tasks import TrainedEnv
from gym_llm.trainers.trl.numbered_engine import NumberedEngine
from gym_llm.trainers.trl.sampling_options import episode_numbers, sampling_of
from gym_llm.trainers.trl.weight_transfer import WeightTransfer
from gym_llm.types import Rollout, Row
from gym_llm.wrappers import TokenIdTracking

if TYPE_CHECKING:
    from trl.experimental.async_grpo import AsyncGRPOConfig

Advantages: TypeAlias = Callable[[Rewards, int], NDArray[np.float64]]
"""One number for each reward of a group of this size; None among the rewards is a masked episode."""

_POLL_SECONDS = 0.05
_METRICS = 4096


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
    `completion_mask` (1 for sampled tokens) and `old_log_probs` are exactly the record's. A thread plays the groups, as
    a `gym_llm.stream`. The samples of a group enter the buffer together. Their version is that of the group's oldest
    sampled token.

    A masked episode gives no sample and is not in its group's baseline. See `BatchFailures` for when failures end the
    training; TRL calls `check_health` while it waits for samples.

    The worker follows these arguments of TRL:

    - `num_generations`, `temperature`, `top_p`, `top_k`, `min_p`, `repetition_penalty` and `chat_template_kwargs`.
    - `max_completion_length` (of a turn, as in TRL's own worker), `max_inflight_tasks` (episodes at once) and
      `request_timeout`.
    - `max_staleness`: the worker starts a new group only if TRL can use its samples before they are stale.

    A training that is resumed from a checkpoint starts with the same tasks again: TRL reports the position only to its
    own worker. A `sampler` goes on from its own state.

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
        sampler: Chooses the tasks by their rewards; None for all in turn, shuffled.
        mode: What an engine in this process does with the requests under way when it gets weights; see `WeightSync`.

    Attributes:
        train_dataset: The tasks; TRL counts epochs by their number.
        weight_transfer: The trainer's argument of this name; None to use TRL's own.
        rollout_buffer: The queue of samples for TRL.
        metrics_queue: The queue of figures for TRL's log.
        model_version: The version of the weights, as TRL counts.

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
        sampler: TaskSampler | None = None,
        mode: UpdateMode = "recompute",
    ) -> None:
        check_update(mode, None, 0)
        wrappers = DEFAULT_WRAPPERS if env_wrappers is None else tuple(env_wrappers)
        if TokenIdTracking not in wrappers:
            raise ValueError("env_wrappers needs a TokenIdTracking: it collects the token ids that TRL trains on.")
        self._env = TrainedEnv(env_id, tasks=tasks, env_kwargs=env_kwargs)
        plan = open_plan(self._env.factory, limit=limit, repeats=args.num_generations, seed=args.seed)
        self._plan, self._sampler, self._mode = replace(plan, length=ENDLESS), sampler, mode
        self._args = args
        self._engine = _made(engine, args, engine_options or {})
        is_server = isinstance(self._engine, HTTPEngine)
        _check(args, self._engine)
        sampling = sampling_of(args, name="AsyncGRPOConfig", with_vllm=not isinstance(self._engine, TransformersEngine))
        self._settings = RolloutSettings(
            wrappers=wrappers,
            seed=args.seed,
            sampling={**sampling, "max_output_tokens": args.max_completion_length},
        )
        self._advantages = advantages
        self._drop_equal = drop_equal
        self.train_dataset = self._env.dataset(limit, seed=args.seed)
        self.weight_transfer = None if is_server else WeightTransfer(self)
        self.rollout_buffer: queue.Queue[Any] = queue.Queue()
        self.metrics_queue: queue.Queue[dict[str, float | tuple[float, float]]] = queue.Queue(_METRICS)
        self._thread = LoopThread("gym_llm rollout worker")
        self.model_version = 0
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
        """Note that the engine has weights of this version now."""
        self.model_version = model_version

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
        """Give the engine the weights of a folder, whose version is the one that TRL counts to next."""
        options = update_options(self._mode, self.model_version + 1)
        self._thread.run(cast(WeightSync, self._engine).update_weights(folder, **options))

    # -- playing -------------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        args = self._args
        self._ahead = max(1, args.max_staleness) * _samples_per_step(args) * args.weight_sync_steps
        inflight = args.max_inflight_tasks  # TRL has put a number there if it was -1
        concurrency = inflight if inflight > 0 else self._ahead
        self._errors: list[str | None] = []
        self._checked_at_once = max(self._ahead, concurrency, args.num_generations)
        self._failures = BatchFailures("episode")
        self._beat = time.monotonic()
        # TRL gives other engines their weights itself: their tokens get the version that it reports.
        engine = (
            self._engine
            if self.weight_transfer and self.takes_weights
            else NumberedEngine(self._engine, lambda: self.model_version)
        )
        self._stream = Stream(
            self._plan,
            engine,
            replace(self._settings, concurrency=concurrency, on_waiting=self._note_waiting),
            sampler=self._sampler,
            max_failures=None,
            room=self._room,
        )
        self._task = asyncio.create_task(self._play())

    async def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._has_engine:
            await self._engine.aclose()

    async def _play(self) -> None:
        looking = asyncio.create_task(self._look())
        try:
            async for group in self._stream:
                self._hand_over(group)
        finally:
            looking.cancel()
            await self._stream.aclose()

    async def _look(self) -> None:
        """Have the stream begin groups when TRL has taken samples, which it does without a word."""
        while True:
            self._beat = time.monotonic()
            self._stream.look_again()
            await asyncio.sleep(_POLL_SECONDS)

    def _room(self) -> int:
        """Return how many groups TRL can use before they are stale, beside those in the buffer."""
        return -(-max(0, self._ahead - self.rollout_buffer.qsize()) // self._args.num_generations)

    def _hand_over(self, group: Group) -> None:
        self._errors.extend(map(_failure, group))
        if len(self._errors) >= self._checked_at_once:
            errors, self._errors = self._errors, []
            self._failures.check(errors)
        rewards = [record["reward"] for record in group]
        advantages = self._advantages(rewards, len(group))
        self._metric("episodes/failed", rewards.count(None), len(group))
        if self._drop_equal and not advantages.any():
            self._metric("rollout/dropped_groups_total", 1)
            return
        deviation = float(np.std([reward for reward in rewards if reward is not None] or [0.0]))
        version = min((oldest_version(record) for record in group if record["reward"] is not None), default=0)
        number = self._stream.counts["groups"] - 1
        for record, advantage in zip(group, advantages.tolist(), strict=True):
            if record["reward"] is not None:
                for sample in _samples(record, advantage, deviation, version=version, number=number):
                    self.rollout_buffer.put_nowait(sample)

    def _note_waiting(self, counts: dict[str, int]) -> None:
        self._metric("rollout/inflight", sum(counts.values()))

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


def _samples(record: Rollout, advantage: float, deviation: float, *, version: int, number: int) -> Iterator[Any]:
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
            model_version=version,
            group_id=number,
            metrics={"reward": reward, "reward_std": deviation, **numbers},
            enqueued_at=time.time(),
        )
