"""RolloutFunc: episodes for TRL's GRPOTrainer, played by us on the weights being trained."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from gym_llm.agents.agent_episode import AGENT_SECONDS, Agent
from gym_llm.core.task_sampler import TaskSampler
from gym_llm.engines import Engine, capabilities, make_engine
from gym_llm.rollouts.factory import Wrap
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.settings import DEFAULT_WRAPPERS, RolloutSettings
from gym_llm.trainers.shared.batch_failures import BatchFailures
from gym_llm.trainers.shared.budget import WithinBudget
from gym_llm.trainers.shared.env_pool import EnvPool
from gym_llm.trainers.shared.token_rows import empty_row, token_rows
from gym_llm.trainers.shared.trainer_tasks import TrainedEnv, task_indices
from gym_llm.trainers.trl.drawn_order import DrawnOrder
from gym_llm.trainers.trl.masks import REWARD, mask_others
from gym_llm.trainers.trl.policy import OneEngine, OwnModel, evaluating, of_all, process_seed, tokenizer_of
from gym_llm.trainers.trl.sampling_options import episode_numbers, sampling_of
from gym_llm.types import Rollout, Row
from gym_llm.wrappers import TokenIdTracking

if TYPE_CHECKING:
    from trl import GRPOTrainer

INFO = "env_info"
"""The column under which an episode's numbers reach the reward functions."""
_MOST_EPISODES = 1 << 20
"""Of one step, in one process."""


class RolloutFunc(TrainedEnv, AbstractContextManager["RolloutFunc"]):
    """A `rollout_func` for TRL: it plays an episode for each prompt and returns the exact token ids.

    ```python
    arithmetic = RolloutFunc("gym_llm/Arithmetic-v0")
    trainer = GRPOTrainer(
        model, train_dataset=arithmetic.dataset(2048), rollout_func=arithmetic, reward_funcs=arithmetic.reward
    )
    ```

    TRL repeats a prompt `num_generations` times. Each repeat is an episode, and the result has exactly one row per
    prompt, in order. A row is the episode's one segment (`TokenIdTracking`, `history="append"`):

    - `prompt_ids`: the ids before the first sampled token.
    - `completion_ids`: that token and all ids after it.
    - `env_mask`: 1 for sampled tokens, 0 for tool results and texts of users and templates.
    - `logprobs`: of the sampled tokens; 0.0 where the mask is 0. None if the temperature is not 1: engines report the
      model's own log probabilities, and TRL expects those at its temperature (`off_policy_mask_threshold`).

    The trainer's `temperature`, `top_p` and `max_completion_length` apply. The last limits a whole episode, which is
    then truncated; None leaves the length of each turn to the engine.

    A masked episode (and one without sampled tokens) is a row without trained tokens. Its reward is None, also from the
    trainer's other reward functions, so TRL leaves it out of its group's mean. `BatchFailures` says when the training
    ends.

    Args:
        env_id: A registered id, e.g. `"gym_llm/Arithmetic-v0"`.
        tasks: See `VerifierEnv`; None for the environment's own.
        env_kwargs: Further arguments of the environment.
        env_wrappers: Wrappers of each environment, innermost first; None for `DEFAULT_WRAPPERS`. One of them must be a
            `TokenIdTracking`.
        engine: None samples the trainer's own model in this process. Any other engine is a `WeightSync` with an option
            `history`. It gets the weights whenever they have changed: PEFT's adapters are merged, and shards of FSDP or
            DeepSpeed's ZeRO-3 are gathered. With several trainer processes the main one has the engine, and each plays
            its part of the batch with it. `"vllm:MODEL"` starts vLLM; the script must run everything under
            `if __name__ == "__main__":`.
        engine_options: Its arguments; `threads=1` is best for tiny models on a CPU.
        concurrency: Maximum number of episodes at once in each trainer process.
        workers: Number of Ray processes that play, for each trainer process; the engine runs in another one, which all
            share. 0 plays in this process. The workers start with the first batch and live until `close`.
        ray_address: A cluster's address; None to start Ray on this machine.
        agent: An agent that plays with the model behind it: an async function, or a program; see `RolloutSettings`. The
            trainer's sampling applies to all its calls, and `max_completion_length` limits each of its conversations.
            Agents that change their history, or have several, need `segments="last"`.
        agent_timeout: Seconds that the agent may take for an episode.
        segments: TRL takes one sequence for an episode. `"one"` masks an episode in several segments, whose history was
            changed. `"last"` trains on its last segment alone, with the whole reward. `episodes/untrained_tokens` in
            the log is the mean number of sampled tokens per episode that are in no row.
        sampler: Chooses the tasks by their rewards; call `choose_tasks(trainer)` before `trainer.train()`. Reward
            functions get the probability of each task's draw as the column `task_probability`.

    Attributes:
        reward: The reward function that returns the episodes' rewards to TRL; it logs turns, tool errors and so on.

    Raises:
        ValueError: If an argument is invalid; when it is called, if an argument of the trainer is not supported.
        EngineUnavailable: If vLLM is not installed.
        RuntimeError: When it is called, if every episode failed in the first batch or in several in a row.
    """

    def __init__(
        self,
        env_id: str,
        *,
        tasks: str | list[Row] | None = None,
        env_kwargs: dict[str, Any] | None = None,
        env_wrappers: Sequence[Wrap] | None = None,
        engine: str | None = None,
        engine_options: dict[str, Any] | None = None,
        concurrency: int = 1024,
        workers: int = 0,
        ray_address: str | None = None,
        agent: str | Agent | None = None,
        agent_timeout: float = AGENT_SECONDS,
        segments: Literal["one", "last"] = "one",
        sampler: TaskSampler | None = None,
    ) -> None:
        if engine is not None and not capabilities(engine).weights:
            raise ValueError(
                "engine is None (the trainer's own model) or one whose weights can be replaced, such as 'vllm:MODEL'; "
                f"got {engine!r}."
            )
        if workers and engine is None:
            raise ValueError(
                "The trainer's own model is sampled in its own process, which workers cannot ask: use "
                "engine='vllm:MODEL', or workers=0."
            )
        if segments not in ("one", "last"):
            raise ValueError(f"segments is 'one' or 'last', got {segments!r}.")
        wrappers = DEFAULT_WRAPPERS if env_wrappers is None else tuple(env_wrappers)
        if TokenIdTracking not in wrappers:
            raise ValueError("env_wrappers needs a TokenIdTracking: it collects the token ids that TRL trains on.")
        super().__init__(env_id, tasks=tasks, env_kwargs=env_kwargs)
        self.reward = _reward_function(self.name)
        self._segments = segments
        self._order = None if sampler is None else DrawnOrder(sampler, self.factory.tasks)
        self._how = RolloutSettings(agent=agent, agent_timeout=agent_timeout)
        self._spec = engine
        options = {"history": "append", **(engine_options or {})}
        if options["history"] != "append":
            raise ValueError("TRL trains on one segment per episode, which only history='append' gives.")
        make_engine(engine or "transformers:the trainer's", **options)  # what is wrong with them shows now
        self._pool = EnvPool(self.factory, wrappers, concurrency=concurrency, workers=workers, ray_address=ray_address)
        self._policy = (
            OwnModel(self._pool, options)
            if engine is None
            else OneEngine(self._pool, engine, options, ray_address=ray_address)
        )
        self._limited: tuple[Engine, int, Any, WithinBudget] | None = None
        self._phase = -1
        self._numbers = itertools.count()
        self._failures = BatchFailures("episode")

    def __call__(self, prompts: list[Any], trainer: GRPOTrainer) -> dict[str, Any]:
        """Play an episode for each prompt of rows of `dataset`; see the class, and TRL's `RolloutFunc`.

        Returns:
            `prompt_ids`, `completion_ids`, `env_mask` (lists of lists of int), `logprobs` (list of lists of float, or
            None), and for the reward functions `env_reward` and `env_info`.
        """
        mask_others(trainer, self.reward)
        tasks = task_indices(prompts)
        order = self._order if self._order is not None and trainer.model.training else None  # type: ignore[union-attr]
        odds = None if order is None else order.played(trainer, tasks)
        jobs = [Job(task, self._number(trainer)) for task in tasks]
        settings = replace(self._how, seed=process_seed(trainer), sampling=self._sampling(trainer))
        try:
            with evaluating(trainer):
                engine = self._within_budget(self._policy.current(trainer), trainer)
                records = self._pool.play_all(jobs, engine, settings)
            failures = [_failure(record, self._segments) for record in records]
            rewards = [(task, record["reward"]) for task, record in zip(tasks, records, strict=True)]
            everyones = of_all(trainer.accelerator, (failures, rewards))  # so that all processes go on, or none does
            self._failures.check([error for part, _ in everyones for error in part])
            if order is not None:
                order.learn(reward for _, part in everyones for reward in part)
        except RuntimeError:
            self._policy.stop()  # it may be to blame: whoever tries again gets another one
            raise
        if any(failures):
            self._policy.distrust()
        padding = tokenizer_of(trainer).pad_token_id
        rows = [_row(record, failed is not None, padding) for record, failed in zip(records, failures, strict=True)]
        output: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
        if trainer.temperature != 1:
            output["logprobs"] = None
        if odds is not None:
            output["task_probability"] = odds
        return output

    def choose_tasks(self, trainer: GRPOTrainer) -> None:
        """Let the `sampler` choose the task of each group of this trainer, in place of TRL's shuffled order.

        Raises:
            ValueError: If there is no sampler, or the trainer's dataset is not one of `dataset`.
        """
        if self._order is None:
            raise ValueError("There is no sampler to choose tasks: give RolloutFunc one.")
        self._order.follow(trainer)

    def close(self) -> None:
        """Stop the engine and close the environments. Safe to call twice."""
        try:
            self._policy.stop()
        finally:
            self._pool.close()

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def _number(self, trainer: GRPOTrainer) -> int:
        """Return the next episode's number, which seeds it: it follows from the step, so that a resumed run has it.

        An evaluation, which a resumed run may leave out, has numbers of its own. So has each process: an engine that
        they share knows an episode by its task and its number.
        """
        phase = 2 * trainer.state.global_step + (not trainer.model.training)  # type: ignore[union-attr]
        if phase != self._phase:
            self._phase, self._numbers = phase, itertools.count(phase * _MOST_EPISODES)
        process, processes = trainer.accelerator.process_index, trainer.accelerator.num_processes
        return next(self._numbers) * processes + process

    def _sampling(self, trainer: GRPOTrainer) -> dict[str, Any]:
        if trainer.use_vllm:
            raise ValueError(
                "use_vllm=True is for TRL's own generation: leave it out and use RolloutFunc(..., engine='vllm:MODEL')."
            )
        if trainer.tools:
            raise ValueError(
                "tools= and environment_factory= are for TRL's own generation: leave them out, the environment has "
                "its tools."
            )
        if trainer.args.generation_kwargs:  # type: ignore[attr-defined]
            raise ValueError("GRPOConfig.generation_kwargs is for TRL's own generation: leave it out.")
        return sampling_of(trainer, name="GRPOConfig", with_vllm=self._spec is not None)

    def _within_budget(self, engine: Engine, trainer: GRPOTrainer) -> Engine:
        """The engine for episodes of the trainer's length; the same object as before if nothing has changed."""
        if trainer.max_completion_length is None:
            return engine
        budget, tokenizer = trainer.max_completion_length, tokenizer_of(trainer)
        if self._limited is None or not (self._limited[0] is engine and self._limited[1:3] == (budget, tokenizer)):
            self._limited = engine, budget, tokenizer, WithinBudget(engine, budget, tokenizer)
        return self._limited[3]


def _failure(record: Rollout, segments: str) -> str | None:
    """Why nothing can be learned from an episode; None if something can, or if it just sampled nothing."""
    count = len(record["trajectory"] or ())
    if record["error"] is None and count > 1 and segments == "one":
        return (
            f"It came back in {count} segments, and TRL trains on one: something changed what was said before "
            "(segments='last' trains on the last one alone)."
        )
    return record["error"]


def _row(record: Rollout, failed: bool, padding: int) -> dict[str, Any]:
    """One episode as `rollout_func` returns it."""
    rows = token_rows(record)
    row = empty_row(padding) if failed or not rows else rows[-1]  # TRL needs tokens in every row
    untrained = sum(sum(each.loss_mask) for each in rows) - sum(row.loss_mask)
    numbers = {**episode_numbers(record), "failed": int(failed), "untrained_tokens": untrained}
    return {
        "prompt_ids": row.prompt_ids,
        "completion_ids": row.completion_ids,
        "env_mask": row.completion_mask,
        "logprobs": row.completion_logprobs,
        REWARD: row.reward,
        INFO: numbers,
    }


def _reward_function(name: str) -> Any:
    def reward(**columns: Any) -> list[float | None]:
        """The rewards that the environment gave; TRL calls it with what `RolloutFunc` returned."""
        if REWARD not in columns:
            raise ValueError(f"The reward function of {name}'s RolloutFunc works with rollout_func= that RolloutFunc.")
        for metric in sorted({metric for info in columns[INFO] for metric in info}):
            values = [info[metric] for info in columns[INFO] if metric in info]
            columns["log_metric"](f"episodes/{metric}", sum(values) / len(values))
        return list(columns[REWARD])

    reward.__name__ = name
    return reward
