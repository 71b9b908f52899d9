"""AReaL (1.0): a workflow that plays an episode of any environment for each row of its data."""

from __future__ import annotations

import asyncio
import itertools
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import torch
from areal.api.io_struct import ModelRequest
from areal.api.workflow_api import RolloutWorkflow
from areal.infra import workflow_context
from areal.utils import stats_tracker
from areal.utils.data import concat_padded_tensors

from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.tokens.prompt_tokens import History
from gym_llm.trainers.shared.env_pool import EnvPool
from gym_llm.trainers.shared.text_format import refuse_constraint
from gym_llm.trainers.shared.token_rows import TokenRow, token_rows
from gym_llm.trainers.shared.trainer_engine import Sampled, TrainerEngine
from gym_llm.trainers.shared.trainer_tasks import TASK_INDEX, TrainedEnv
from gym_llm.types import Row
from gym_llm.utils.secrets import redacted_logger

if TYPE_CHECKING:
    from areal.api.cli_args import GenerationHyperparameters
    from areal.api.engine_api import InferenceEngine
    from datasets import Dataset

logger = redacted_logger(__name__)

_ENVS: dict[str, TrainedEnv] = {}
_POOLS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, EnvPool]] = WeakKeyDictionary()
_EPISODES = itertools.count()


class EpisodeWorkflow(RolloutWorkflow):  # type: ignore[misc]
    """AReaL's `RolloutWorkflow`: plays the episode of a row of `dataset` on AReaL's engine.

    ```python
    workflow = "gym_llm.trainers.areal.EpisodeWorkflow"
    arguments = {"env_id": "gym_llm/Arithmetic-v0", "gconfig": config.gconfig, "tokenizer": config.tokenizer_path}
    trainer.train(workflow=workflow, workflow_kwargs=arguments)
    ```

    An episode is a dict of `input_ids`, `loss_mask`, `logprobs`, `versions`, `attention_mask` and `rewards`, with a row
    per segment. `versions` has the version of the weights for each sampled id, and -1 for other ids. Each row has the
    whole reward, because AReaL has one number per row. A masked episode, or one without sampled tokens, is None, which
    AReaL rejects.

    AReaL may make a workflow for each row: those of a process that were given the same share their environments.

    AReaL's group norms take every `n_samples` rows as one group. Use `history="append"` with them, and reject
    incomplete
    groups: `dynamic_filter_fn=` is the importable name of a function that checks
    `len(group["input_ids"]) == n_samples` (`examples/areal` has one).

    Args:
        env_id: A registered id.
        gconfig: How to sample; `max_new_tokens` limits a turn, `max_tokens` the prompt and answer of one.
        tokenizer: The model's, or its name or folder.
        tasks: See `VerifierEnv`; None for the environment's own.
        env_kwargs: Further arguments of the environment.
        history: See `PromptTokens`; `"template"` may make several segments.

    Raises:
        ValueError: When an episode is asked for, if the row is not from `dataset`.
    """

    def __init__(
        self,
        env_id: str,
        gconfig: GenerationHyperparameters,
        tokenizer: Any,
        *,
        tasks: str | list[Row] | None = None,
        env_kwargs: dict[str, Any] | None = None,
        history: History = "append",
    ) -> None:
        self._key = json.dumps([env_id, tasks, env_kwargs], default=id)  # what is no JSON is kept, with its id
        if self._key not in _ENVS:
            _ENVS[self._key] = TrainedEnv(env_id, tasks=tasks, env_kwargs=env_kwargs)
        self._env = _ENVS[self._key]
        if isinstance(tokenizer, str):
            tokenizer = _tokenizer(tokenizer)
        self._gconfig = gconfig.new_with_stop_and_pad_token_ids(tokenizer)
        self._tokenizer = tokenizer
        self._history: History = history

    def dataset(self, limit: int | None = None, *, seed: int = 0) -> Dataset:
        """The rows; see `TrainedEnv.dataset`."""
        return self._env.dataset(limit, seed=seed)

    async def arun_episode(self, engine: InferenceEngine, data: dict[str, Any]) -> dict[str, torch.Tensor] | None:
        """Play the episode of a row; see `RolloutWorkflow.arun_episode`.

        Returns:
            Tensors of shape `(segments, T)`, `rewards` of shape `(segments,)`; None if it is masked.
        """
        if TASK_INDEX not in data:
            raise ValueError("This row does not say which task it is: train on EpisodeWorkflow(...).dataset().")
        job = Job(int(data[TASK_INDEX]), next(_EPISODES))
        sampling = {"temperature": self._gconfig.temperature, "top_p": self._gconfig.top_p}
        pool = _pool(self._key, self._env)
        record = await pool.play(job, self._engine(engine), RolloutSettings(sampling=sampling))
        if record["reward"] is None:
            logger.warning("An episode of %s is masked: %s", self._env.env_id, record["error"])
            return None
        numbers = {"reward": record["reward"], "num_turns": record["info"].get("turn", 0)}
        stats_tracker.get(workflow_context.stat_scope()).scalar(**numbers)
        rows = [_tensors(row, record["reward"]) for row in token_rows(record)]
        return concat_padded_tensors(rows) or None

    def _engine(self, engine: InferenceEngine) -> TrainerEngine:
        """AReaL's engine as that of one episode."""
        request_id = uuid4().hex

        async def generate(prompt: list[int], arguments: dict[str, Any], episode_id: str) -> Sampled:
            refuse_constraint(arguments)
            gconfig, stop = self._gconfig, arguments.get("stop")
            longest = min(arguments["max_tokens"], gconfig.max_new_tokens)
            asked = {} if stop is None else {"stop": [stop] if isinstance(stop, str) else stop}
            gconfig = gconfig.new(n_samples=1, max_new_tokens=longest, **asked)
            request = ModelRequest(rid=request_id, input_ids=prompt, gconfig=gconfig, tokenizer=self._tokenizer)
            response = await engine.agenerate(request)
            reason = response.stop_reason
            return Sampled(
                response.output_tokens,
                response.output_logprobs,
                aborted=reason == "abort",
                stopped=reason == "stop",
                versions=response.output_versions,
            )

        return TrainerEngine(
            generate,
            self._tokenizer,
            history=self._history,
            context=self._gconfig.max_tokens,
            stop_token_ids=self._gconfig.stop_token_ids,
        )


@lru_cache(maxsize=8)
def _tokenizer(name: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(name)


def _pool(key: str, env: TrainedEnv) -> EnvPool:
    """The environments of this process and event loop, which outlive the workflows."""
    pools = _POOLS.setdefault(asyncio.get_running_loop(), {})
    if key not in pools:
        pools[key] = EnvPool(env.factory)
    return pools[key]


def _tensors(row: TokenRow, reward: float) -> dict[str, torch.Tensor]:
    """A row as AReaL has it, shape `(1, T)`."""
    versions = row.weight_versions or [0] * len(row.input_ids)
    tensors = {
        "input_ids": torch.tensor(row.input_ids, dtype=torch.int32),
        "loss_mask": torch.tensor(row.loss_mask, dtype=torch.int32),
        "logprobs": torch.tensor(row.logprobs, dtype=torch.float32),
        "versions": torch.tensor(
            [version if used else -1 for version, used in zip(versions, row.loss_mask, strict=True)], dtype=torch.int32
        ),
        "attention_mask": torch.ones(len(row.input_ids), dtype=torch.bool),
        "rewards": torch.tensor(reward, dtype=torch.float32),
    }
    for name, scores in (("ref_logp", row.ref_logprobs), ("teacher_logp", row.teacher_logprobs)):
        if scores is not None:  # at the place of the id before, as AReaL's `compute_logp` gives them
            tensors[name] = torch.tensor([*scores[1:], 0.0], dtype=torch.float32)
    return {name: tensor.unsqueeze(0) for name, tensor in tensors.items()}
