"""RolloutFunc: episodes for TRL's GRPOTrainer, played by us on the weights being trained."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, cast

from gym_llm.engines import Engine, WeightSync, capabilities, make_engine
from gym_llm.errors import EngineError
from gym_llm.rollout.factory import Wrap
from gym_llm.rollout.plan import Job
from gym_llm.rollout.settings import DEFAULT_WRAPPERS, RolloutSettings
from gym_llm.trainers.batches import BatchPlayer, Failures
from gym_llm.trainers.budget import WithinBudget
from gym_llm.trainers.peft_weights import merged_weights
from gym_llm.trainers.rows import empty_row, token_rows
from gym_llm.trainers.tasks import TrainedEnv, task_indices
from gym_llm.trainers.trl_masks import REWARD, mask_others
from gym_llm.trainers.trl_sampling import episode_numbers, sampling_of
from gym_llm.types import Rollout, Row
from gym_llm.wrappers import TokenIdTracking

if TYPE_CHECKING:
    import torch
    from trl import GRPOTrainer

INFO = "env_info"
"""The column under which an episode's numbers reach the reward functions."""


class RolloutFunc(TrainedEnv, AbstractContextManager["RolloutFunc"]):
    """TRL's `rollout_func`: plays an episode for each prompt and returns its token ids, as they were read and sampled.

    ```python
    arithmetic = RolloutFunc("gym_llm/Arithmetic-v0")
    trainer = GRPOTrainer(
        model, train_dataset=arithmetic.dataset(2048), rollout_func=arithmetic, reward_funcs=arithmetic.reward
    )
    ```

    TRL repeats a prompt `num_generations` times; each time is an episode of its own, and there is exactly one row per
    prompt, in order. A row is the episode's one segment (`TokenIdTracking`, `history="append"`): `prompt_ids` up to the
    first sampled token, then `completion_ids` with everything after, `env_mask` (1 for sampled tokens, 0 for tool
    results and what users and templates say) and `logprobs` (0.0 where the mask is 0).

    The trainer's `temperature`, `top_p` and `max_completion_length` count. The last is the length of a whole episode,
    which ends, truncated, when no more may be sampled; None leaves the length of each turn to the engine. `logprobs` is
    None at another temperature than 1: engines report the model's own, and TRL compares them (for
    `off_policy_mask_threshold` alone) with those at its temperature.

    An episode that is masked (or samples nothing) is a row without trained tokens whose reward is None, also from the
    trainer's other reward functions: TRL leaves it out of its group's mean. See `Failures` for when the training ends.

    Args:
        env_id: A registered id, e.g. `"gym_llm/Arithmetic-v0"`.
        tasks: See `VerifierEnv`; None for the environment's own.
        env_kwargs: Further arguments of the environment.
        env_wrappers: What each environment is wrapped with, innermost first; None for `DEFAULT_WRAPPERS`. There has to
            be a `TokenIdTracking`.
        engine: None samples the trainer's own model, in this process. Any other is a `WeightSync` with an option
            `history`; it is given the weights whenever they have changed (PEFT's adapters merged into them), for
            training in one process. `"vllm:MODEL"` starts vLLM, in a script that does everything under
            `if __name__ == "__main__":`.
        engine_options: Its arguments; `threads=1` is best for tiny models on a CPU.
        concurrency: Episodes at once, at most.

    Attributes:
        reward: The reward function that hands the episodes' rewards to TRL; logs their turns, tool errors and so on.

    Raises:
        ValueError: If an argument makes no sense; when it is called, if the trainer's arguments cannot be followed.
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
    ) -> None:
        if engine is not None and not capabilities(engine).weights:
            raise ValueError(
                "engine is None (the trainer's own model) or one whose weights can be replaced, such as 'vllm:MODEL'; "
                f"got {engine!r}."
            )
        wrappers = DEFAULT_WRAPPERS if env_wrappers is None else tuple(env_wrappers)
        if TokenIdTracking not in wrappers:
            raise ValueError("env_wrappers needs a TokenIdTracking: it collects the token ids that TRL trains on.")
        super().__init__(env_id, tasks=tasks, env_kwargs=env_kwargs)
        self.reward = _reward_function(self.name)
        self._player = BatchPlayer(self.factory, env_wrappers=wrappers, concurrency=concurrency)
        self._spec = engine
        self._options = {"history": "append", **(engine_options or {})}
        if self._options["history"] != "append":
            raise ValueError("TRL trains on one segment per episode, which only history='append' gives.")
        make_engine(engine or "transformers:the trainer's", **self._options)  # what is wrong with them shows now
        self._engine: Engine | None = None
        self._model: Any = None
        self._weights: Any = None
        self._numbers = itertools.count()
        self._failures = Failures("episode")

    def __call__(self, prompts: list[Any], trainer: GRPOTrainer) -> dict[str, Any]:
        """Play an episode for each prompt of rows of `dataset`; see the class, and TRL's `RolloutFunc`.

        Returns:
            `prompt_ids`, `completion_ids`, `env_mask` (lists of lists of int), `logprobs` (list of lists of float, or
            None), and for the reward functions `env_reward` and `env_info`.
        """
        mask_others(trainer, self.reward)
        jobs = [Job(task, next(self._numbers)) for task in task_indices(prompts)]
        settings = RolloutSettings(seed=_seed(trainer), sampling=self._sampling(trainer))
        with self._policy(trainer) as engine:
            if trainer.max_completion_length is not None:
                engine = WithinBudget(engine, trainer.max_completion_length, _tokenizer(trainer))
            records = self._player.play(jobs, engine, settings)
        try:
            self._failures.check([_failure(record) for record in records])
        except RuntimeError:
            self._stop_engine()  # it may be to blame: whoever tries again gets another one
            raise
        rows = [_row(record, trainer) for record in records]
        output: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
        if trainer.temperature != 1:
            output["logprobs"] = None
        return output

    def close(self) -> None:
        """Stop the engine and close the environments. Safe to call twice."""
        self._stop_engine()
        self._player.close()

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def _sampling(self, trainer: GRPOTrainer) -> dict[str, Any]:
        if trainer.use_vllm:
            raise ValueError(
                "GRPOConfig has use_vllm=True, which is for TRL's own generation: leave it out, and use "
                "RolloutFunc(..., engine='vllm:MODEL')."
            )
        if trainer.tools:
            raise ValueError(
                "tools= and environment_factory= are for TRL's own generation: leave them out, the environment has "
                "its tools."
            )
        if trainer.args.generation_kwargs:  # type: ignore[attr-defined]
            raise ValueError("GRPOConfig.generation_kwargs is for TRL's own generation: leave it out.")
        return sampling_of(trainer, name="GRPOConfig", with_vllm=self._spec is not None)

    @contextmanager
    def _policy(self, trainer: GRPOTrainer) -> Iterator[Engine]:
        """The engine, with the trainer's current weights."""
        accelerator = trainer.accelerator
        if accelerator.distributed_type.value in ("FSDP", "DEEPSPEED", "MEGATRON_LM"):
            raise ValueError(f"Sharded weights ({accelerator.distributed_type.value}) cannot be sampled from here.")
        if self._spec is not None and accelerator.num_processes > 1:
            raise ValueError(
                f"Each of the {accelerator.num_processes} processes would start vLLM on the same GPU: use engine=None, "
                "or train in one process."
            )
        with _evaluating(trainer) as model:
            if self._engine is not None and self._spec is None and self._model is not model:
                self._stop_engine()  # another trainer's
            if self._engine is None:
                engine = self._make_engine(model, trainer)
                self._player.run(engine.start())
                self._engine, self._model = engine, model
            if self._engine.capabilities.weights:
                self._update_weights(cast(WeightSync, self._engine), model, trainer.state.global_step)
            yield self._engine

    def _update_weights(self, engine: WeightSync, model: Any, step: int) -> None:
        # Not by the step alone: a training that begins anew counts from 0 again, and the best checkpoint is loaded
        # without a step. Nor by the tensors alone: some optimizers write to their memory past torch's counter.
        adapters = [getattr(model, name, None) for name in ("active_adapter", "_adapters_disabled")]
        weights = (model, step, adapters, [(tensor.data_ptr(), tensor._version) for tensor in model.parameters()])
        if weights == self._weights:
            return
        try:
            self._player.run(engine.update_weights(_weights(model).items()))
        except EngineError:
            self._stop_engine()
            raise
        self._weights = weights

    def _stop_engine(self) -> None:
        engine, self._engine = self._engine, None
        self._model = self._weights = None
        if engine is not None:
            self._player.run(engine.aclose())

    def _make_engine(self, model: Any, trainer: GRPOTrainer) -> Engine:
        if self._spec is not None:
            _weights(model)  # what cannot be merged shows before the engine starts
            return make_engine(self._spec, **self._options)
        from gym_llm.engines.transformers import TransformersEngine

        options = {"seed": _seed(trainer), "max_batch_size": 256, **self._options}
        return TransformersEngine.of(model, _tokenizer(trainer), **options)


def _weights(model: Any) -> dict[str, torch.Tensor]:
    """The weights for a `WeightSync`: the model's, with PEFT's adapters merged into them."""
    if not hasattr(model, "peft_config"):
        return cast("dict[str, torch.Tensor]", model.state_dict())
    if not hasattr(model, "get_base_model"):
        raise ValueError(
            "vLLM can be given the weights of adapters from peft.get_peft_model or peft_config=, not others."
        )
    return merged_weights(model)


def _failure(record: Rollout) -> str | None:
    """Why nothing can be learned from an episode; None if something can, or if it just sampled nothing."""
    segments = len(record["trajectory"] or ())
    if record["error"] is None and segments > 1:
        return f"It came back in {segments} segments, and TRL trains on one: something changed what was said before."
    return record["error"]


def _row(record: Rollout, trainer: GRPOTrainer) -> dict[str, Any]:
    """One episode as `rollout_func` returns it."""
    failed = _failure(record) is not None
    numbers = {**episode_numbers(record), "failed": int(failed)}
    rows = [] if failed else token_rows(record)
    row = rows[0] if rows else empty_row(_tokenizer(trainer).pad_token_id)  # TRL needs tokens in every row
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


def _seed(trainer: GRPOTrainer) -> int:
    """Each process has its own seed."""
    return cast(int, trainer.args.seed + trainer.accelerator.process_index)


def _tokenizer(trainer: GRPOTrainer) -> Any:
    from transformers import PreTrainedTokenizerBase

    if not isinstance(trainer.processing_class, PreTrainedTokenizerBase):
        raise ValueError(
            f"Only text can be trained on from here, but the trainer has a {type(trainer.processing_class).__name__}."
        )
    return trainer.processing_class


@contextmanager
def _evaluating(trainer: GRPOTrainer) -> Iterator[Any]:
    """The model that is trained, bare and in evaluation mode (where gradient checkpointing is off, too)."""
    model = trainer.accelerator.unwrap_model(trainer.model_wrapped, keep_torch_compile=False)
    training = model.training
    model.eval()
    try:
        yield model
    finally:
        model.train(training)
