"""RolloutFunc: episodes for TRL's GRPOTrainer, played by us on the weights being trained."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from gym_llm.engines import make_engine
from gym_llm.engines.base import Engine, EngineError
from gym_llm.engines.token_response import overflow_response
from gym_llm.trainers.batches import BatchPlayer
from gym_llm.trainers.trl_tasks import TrainedEnv, task_indices
from gym_llm.types import Item, Request, ResponseDict, Rollout, Row
from gym_llm.vector.factory import Wrap
from gym_llm.vector.plan import Job
from gym_llm.vector.rollout import DEFAULT_WRAPPERS
from gym_llm.wrappers import TokenIdTracking

if TYPE_CHECKING:
    from trl import GRPOTrainer

REWARD, INFO = "env_reward", "env_info"
"""Names under which an episode's reward and numbers reach the reward functions."""
_ONLY_VLLM = {"top_k": (None, 0, -1), "min_p": (None, 0, 0.0), "repetition_penalty": (None, 1, 1.0)}
"""Sampling arguments that the trainer's own model is not sampled with here, and the values that ask for nothing."""


class RolloutFunc(TrainedEnv):
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

    Of the trainer's arguments count `temperature`, `top_p` and `max_completion_length`, which is the length of a whole
    episode: it ends, truncated, when no more may be sampled. `logprobs` is None at another temperature than 1, because
    engines report the model's own and TRL compares them with those at its temperature.

    An episode that fails (or samples nothing) is a row without trained tokens whose reward is None, which TRL leaves
    out of its group's mean.

    Args:
        env_id: A registered id, e.g. `"gym_llm/Arithmetic-v0"`.
        tasks: See `VerifierEnv`; None for the environment's own.
        env_kwargs: Further arguments of the environment.
        env_wrappers: What each environment is wrapped with, innermost first; None for `DEFAULT_WRAPPERS`. There has to
            be a `TokenIdTracking`.
        engine: None samples the trainer's own model, in this process. `"vllm:MODEL"` starts vLLM and gives it the new
            weights after each optimizer step.
        engine_options: Its arguments; `threads=1` is best for tiny models on a CPU.
        concurrency: Episodes at once, at most.

    Attributes:
        reward: The reward function that hands the episodes' rewards to TRL; logs their turns, tool errors and so on.

    Raises:
        ValueError: If an argument makes no sense; when it is called, if the trainer's arguments cannot be followed.
        RuntimeError: When it is called, if every episode of a batch failed.
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
        if engine is not None and not engine.startswith("vllm:"):
            raise ValueError(
                f"engine is None (the trainer's own model) or 'vllm:MODEL', whose weights can be kept up to date; got "
                f"{engine!r}."
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
        self._engine: Engine | None = None
        self._model: Any = None
        self._weights_of: tuple[Any, int] | None = None
        self._numbers = itertools.count()

    def __call__(self, prompts: list[Any], trainer: GRPOTrainer) -> dict[str, Any]:
        """Play an episode for each prompt; see the class, and TRL's `RolloutFunc`.

        Args:
            prompts: Rows' prompts of `dataset`.
            trainer: The trainer that asks.

        Returns:
            `prompt_ids`, `completion_ids`, `env_mask` (lists of lists of int), `logprobs` (list of lists of float, or
            None), and for the reward functions `env_reward` and `env_info`.
        """
        seed = trainer.args.seed + trainer.accelerator.process_index
        jobs = [Job(task, next(self._numbers)) for task in task_indices(prompts)]
        sampling = self._sampling(trainer)
        with self._policy(trainer) as engine:
            if trainer.max_completion_length is not None:
                engine = _WithinBudget(engine, trainer.max_completion_length)
            records = self._player.play(jobs, engine, seed=seed, sampling=sampling)
        failures = [record["error"] for record in records if record["error"] is not None]
        if len(failures) == len(records):
            raise RuntimeError(f"Every episode of this batch failed, the first one so: {failures[0]}")
        rows = [_row(record, trainer) for record in records]
        output: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
        if trainer.temperature != 1:
            output["logprobs"] = None
        return output

    def close(self) -> None:
        """Stop the engine and close the environments. Safe to call twice."""
        self._stop_engine()
        self._player.close()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def _sampling(self, trainer: GRPOTrainer) -> dict[str, Any]:
        sampling: dict[str, Any] = {"temperature": trainer.temperature, "top_p": trainer.top_p}
        for name, nothing in _ONLY_VLLM.items():
            value = getattr(trainer, name)
            if value not in nothing:
                if self._spec is None:
                    raise ValueError(
                        f"GRPOConfig has {name}={value!r}, which the trainer's own model cannot be sampled with here: "
                        "leave it out, or use engine='vllm:MODEL'."
                    )
                sampling[name] = value
        arguments: Any = trainer.args
        if arguments.generation_kwargs:
            raise ValueError("GRPOConfig.generation_kwargs is for TRL's own generation: leave it out.")
        if trainer.chat_template_kwargs:
            sampling["chat_template_kwargs"] = trainer.chat_template_kwargs
        return sampling

    @contextmanager
    def _policy(self, trainer: GRPOTrainer) -> Iterator[Engine]:
        """The engine, with the trainer's current weights."""
        accelerator = trainer.accelerator
        if accelerator.distributed_type.value in ("FSDP", "DEEPSPEED", "MEGATRON_LM"):
            raise ValueError(f"Sharded weights ({accelerator.distributed_type.value}) cannot be sampled from here.")
        with _evaluating(trainer) as model:
            if self._engine is not None and self._spec is None and self._model is not model:
                self._stop_engine()  # another trainer's
            if self._engine is None:
                engine = self._make_engine(model, trainer)
                self._player.run(engine.start())
                self._engine, self._model = engine, model
            weights = (model, trainer.state.global_step)
            if self._spec is not None and self._weights_of != weights:
                self._player.run(self._engine.update_weights(model.state_dict().items()))  # type: ignore[attr-defined]
                self._weights_of = weights
            yield self._engine

    def _stop_engine(self) -> None:
        engine, self._engine = self._engine, None
        self._model = self._weights_of = None
        if engine is not None:
            self._player.run(engine.aclose())

    def _make_engine(self, model: Any, trainer: GRPOTrainer) -> Engine:
        if self._spec is not None:
            if hasattr(model, "peft_config"):
                raise ValueError("vLLM cannot be given an adapter's weights from here: use engine=None with PEFT.")
            return make_engine(self._spec, **self._options)
        from gym_llm.engines.transformers import TransformersEngine

        seed = trainer.args.seed + trainer.accelerator.process_index
        return TransformersEngine.of(
            model, _tokenizer(trainer), **{"seed": seed, "max_batch_size": 256, **self._options}
        )


class _WithinBudget(Engine):
    """Ends an episode, truncated, when it has as many tokens after its first prompt as there may be."""

    def __init__(self, engine: Engine, budget: int) -> None:
        self.model = engine.model
        self._engine = engine
        self._budget = budget

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer with what is left; see `Engine.respond`."""
        left = self._budget - _spent(request["input"])
        if left < 1:
            return overflow_response(self.model)
        limit = request.get("max_output_tokens")
        most = left if limit is None else min(limit, left)
        return await self._engine.respond({**request, "max_output_tokens": most}, episode_id=episode_id)


def _spent(items: list[Item]) -> int:
    """Tokens since the first prompt's end, as far as the last model turn's end."""
    turns = [item for item in items if item.get("generation_token_ids") is not None]
    if not turns:
        return 0
    last = turns[-1]
    return len(last["prompt_token_ids"]) + len(last["generation_token_ids"]) - len(turns[0]["prompt_token_ids"])


def _row(record: Rollout, trainer: GRPOTrainer) -> dict[str, Any]:
    """One episode as `rollout_func` returns it."""
    info = record["info"]
    numbers = {
        "turns": info.get("turn", 0),
        "tool_errors": info.get("tool_errors", 0),
        "truncated": int(record["truncated"]),
        "failed": int(record["error"] is not None),
        **{f"reward/{name}": value for name, value in info.get("reward_components", {}).items()},
    }
    trajectory = record["trajectory"]
    if record["error"] is not None or not trajectory:
        # TRL needs tokens in every row: one that nothing is learned from.
        padding = [_tokenizer(trainer).pad_token_id]
        return {
            "prompt_ids": padding,
            "completion_ids": padding,
            "env_mask": [0],
            "logprobs": [0.0],
            REWARD: None,
            INFO: numbers,
        }
    if len(trajectory) > 1:
        raise EngineError(f"An episode came back in {len(trajectory)} segments, and TRL trains on one.")
    ids, mask, log_probs = trajectory[0]["input_ids"], trajectory[0]["loss_mask"], trajectory[0]["logprobs"]
    start = mask.index(1)
    end = None if trainer.max_completion_length is None else start + trainer.max_completion_length
    return {
        "prompt_ids": ids[:start],
        "completion_ids": ids[start:end],
        "env_mask": mask[start:end],
        "logprobs": log_probs[start:end],
        REWARD: record["reward"],
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
    model = trainer.accelerator.unwrap_model(trainer.model_wrapped)
    training = model.training
    model.eval()
    try:
        yield model
    finally:
        model.train(training)
