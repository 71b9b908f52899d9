"""verl (0.9): an agent loop that plays an episode of any environment for each sample, and the dataset it reads."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import torch
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput, register

from gym_llm.engines import Engine
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.tokens.prompt_tokens import History
from gym_llm.trainers.shared.budget import WithinBudget
from gym_llm.trainers.shared.env_pool import EnvPool
from gym_llm.trainers.shared.text_format import for_vllm
from gym_llm.trainers.shared.token_rows import TokenRow, empty_row, token_rows
from gym_llm.trainers.shared.trainer_engine import Sampled, TrainerEngine
from gym_llm.trainers.shared.trainer_tasks import TASK_INDEX, TrainedEnv
from gym_llm.types import Rollout
from gym_llm.utils.secrets import redacted_logger

if TYPE_CHECKING:
    from verl.workers.rollout.replica import TokenOutput

logger = redacted_logger(__name__)

AGENT_NAME = "gym_llm"
"""The name under which the loop is registered, in the column `agent_name` and in the file of agent loops."""
_POOLS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, EnvPool]] = WeakKeyDictionary()
_EPISODES = itertools.count()
_NUMBERS_OF_ALL = ("turns", "tool_errors", "truncated")


def write_dataset(
    path: str | Path,
    env_id: str,
    *,
    tasks: str | None = None,
    env_kwargs: dict[str, Any] | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> int:
    """Write an environment's tasks as the parquet file that `data.train_files` and `data.val_files` name.

    Each row names its environment, so verl can read the files of several environments together. The columns are
    `prompt`, `agent_name`, `data_source`, `reward_model` and `extra_info`. `data_source` is the environment's id, under
    which verl logs its validation. `reward_model` is not used, because the environment gives the reward.

    Args:
        path: The file, which is replaced.
        env_id: A registered id; where verl's workers would not know it, with its module: `"my_package:mine/Quiz-v0"`.
        tasks: See `VerifierEnv`: a path or name that verl's workers find, too; None for the environment's own.
        env_kwargs: Further arguments of the environment, JSON values.
        limit: See `TrainedEnv.rows`.
        seed: See `TrainedEnv.rows`.

    Returns:
        The number of rows.

    Raises:
        ValueError: If the tasks are a list, which the workers would not have, or see `TrainedEnv.rows`.
    """
    if not isinstance(tasks, str | None):
        raise ValueError("tasks is a file or a name here: verl's workers have to find it, in processes of their own.")
    from datasets import Dataset

    arguments = json.dumps({"env_id": env_id, "tasks": tasks, "env_kwargs": env_kwargs})
    rows = []
    for row in TrainedEnv(env_id, tasks=tasks, env_kwargs=env_kwargs).rows(limit, seed=seed):
        index = row[TASK_INDEX]
        prompt = [{name: value for name, value in message.items() if name != TASK_INDEX} for message in row["prompt"]]
        rows.append(
            {
                "prompt": prompt,
                "agent_name": AGENT_NAME,
                "data_source": env_id,
                "reward_model": {"style": "rule", "ground_truth": ""},
                "extra_info": {"index": index, TASK_INDEX: index, "env": arguments},
            }
        )
    Dataset.from_list(rows).to_parquet(str(path))
    return len(rows)


@register(AGENT_NAME)
class GymAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """An agent loop for verl: it plays the episode of a row of `write_dataset` on verl's own servers.

    verl finds it in the file `actor_rollout_ref.rollout.agent.agent_loop_config_path`:

    ```yaml
    - name: gym_llm
      _target_: gym_llm.trainers.verl.GymAgentLoop
      history: append
    ```

    verl chooses the sampling: temperature, `top_p` and `top_k`, in validation those of `val_kwargs`; `stop` and similar
    fields come from the environment. `response_length` limits a whole episode, which is then truncated. With
    `history="template"`, a chat template may rewrite the history. An episode then has an output per segment, and
    `prompt_length` plus `response_length` limit each request. All of them get the GRPO advantage
    of the last one.

    Outputs have:

    - the exact ids that were read and sampled, and `response_mask` (1 for sampled ids);
    - log probabilities, if `rollout.calculate_log_probs` is set;
    - the reward as `reward_score`: per turn, at its last id, if the environment rewards turns and the episode has one
      output;
    - the episode's reward components and counts as `reward_extra_info`, for metrics of the validation and
      `algorithm.filter_groups.metric`;
    - the versions of the weights and, for mixtures of experts, the routed experts.

    A masked episode has no output: this is how verl leaves a sample out of its group. An episode without sampled tokens
    has no output either. Workers that make a `DataProto` take exactly one output per sample and have no mask. For them,
    masked episodes and several segments are errors. These are `trainer.use_v1=False` and the older asynchronous
    trainers.

    Args:
        *args: verl's arguments.
        history: See `PromptTokens`.
        stop_token_ids: Tokens that end a turn besides the tokenizer's end token, if the model's generation config has
            several.
        **kwargs: verl's keyword arguments.
    """

    def __init__(
        self, *args: Any, history: History = "append", stop_token_ids: Collection[int] = (), **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._history: History = history
        self._stop_token_ids = [int(token) for token in stop_token_ids]

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput | list[AgentLoopOutput]:
        """Play the episode of a row; see `AgentLoopBase.run`.

        Returns:
            The outputs in a list, none of a masked episode; to a worker that makes a `DataProto`, the only output.

        Raises:
            ValueError: If the row is of another dataset, or its prompt is longer than `rollout.prompt_length`.
            RuntimeError: If the worker has no place for what the episode came to.
        """
        job, env = _job(kwargs)
        turns: list[tuple[list[int], TokenOutput]] = []
        engine = self._engine(sampling_params, turns)
        settings = RolloutSettings(
            seed=max(0, int(kwargs.get("global_steps", 0))),
            sampling={name: sampling_params[name] for name in ("temperature", "top_p") if name in sampling_params},
        )
        record = await _pool(env).play(job, engine, settings)
        if record["error"] is not None:
            logger.warning("An episode of %s is masked: %s", record["env_id"], record["error"])
        rows = [] if record["reward"] is None else token_rows(record)
        if self._history == "append" and rows and len(rows[0].prompt_ids) > self.rollout_config.prompt_length:
            raise ValueError(
                f"The prompt of task {job.task_index} of {record['env_id']} has {len(rows[0].prompt_ids)} tokens; "
                f"rollout.prompt_length is {self.rollout_config.prompt_length}."
            )
        with_log_probs = bool(sampling_params.get("logprobs"))
        if "session_id" in kwargs:  # a worker that takes lists says which one of its group this is
            return [_output(row, record, turns, with_log_probs, alone=len(rows) == 1) for row in rows]
        if record["reward"] is None or len(rows) > 1:
            came_to = "was masked" if record["reward"] is None else f"has {len(rows)} segments"
            raise RuntimeError(
                f"An episode of {record['env_id']} {came_to}, but a DataProto has one output per sample: set "
                "trainer.use_v1=True."
            )
        row = rows[0] if rows else empty_row(self.tokenizer.pad_token_id)
        output = _output(row, record, turns, with_log_probs, alone=True)
        numbers = output.extra_fields["reward_extra_info"]  # of which every sample of a DataProto has to have the same
        output.extra_fields["reward_extra_info"] = {name: numbers[name] for name in _NUMBERS_OF_ALL}
        return output

    def _engine(self, sampling_params: dict[str, Any], turns: list[tuple[list[int], TokenOutput]]) -> Engine:
        """The servers as the engine of one episode; notes its turns."""
        config, request_id = self.rollout_config, uuid4().hex

        async def generate(prompt: list[int], arguments: dict[str, Any], episode_id: str) -> Sampled:
            asked = {name: value for name, value in for_vllm(arguments).items() if value is not None}
            output = await self.server_manager.generate(
                request_id, prompt_ids=prompt, sampling_params={**asked, **sampling_params}
            )
            turns.append((prompt, output))
            log_probs = output.log_probs if sampling_params.get("logprobs") else None
            return Sampled(output.token_ids, log_probs, aborted=output.stop_reason == "aborted")

        engine = TrainerEngine(
            generate,
            self.tokenizer,
            history=self._history,
            context=config.prompt_length + config.response_length,
            stop_token_ids=self._stop_token_ids,
        )
        if self._history == "append":
            return WithinBudget(engine, config.response_length, self.tokenizer)
        return engine


class _ByTurn(AgentLoopOutput):  # type: ignore[misc]
    """An output whose reward is spread over its ids, where verl's own has all of it at the last one."""

    token_rewards: list[float]

    def as_dict(self) -> dict[str, Any]:
        output: dict[str, Any] = super().as_dict()
        output["rm_scores"] = torch.tensor(output.pop("token_rewards"), dtype=torch.float32)
        return output


def _job(row: dict[str, Any]) -> tuple[Job, str]:
    """Which episode a row of the dataset is, and of which environment."""
    try:
        info = row["extra_info"]
        repeat = row["session_id"] if "session_id" in row else next(_EPISODES)
        return Job(int(info[TASK_INDEX]), int(repeat)), info["env"]
    except (LookupError, TypeError):
        raise ValueError(
            "The row names no task: write data.train_files and data.val_files with gym_llm.trainers.verl.write_dataset."
        ) from None


def _pool(env: str) -> EnvPool:
    """The environments of this process, which outlive the agent loops: verl makes one for each sample."""
    pools = _POOLS.setdefault(asyncio.get_running_loop(), {})
    if env not in pools:
        pools[env] = EnvPool(EnvFactory(**json.loads(env)))
    return pools[env]


def _output(
    row: TokenRow, record: Rollout, turns: list[tuple[list[int], TokenOutput]], with_log_probs: bool, *, alone: bool
) -> AgentLoopOutput:
    info = record["info"]
    versions = [output.extra_fields.get("min_global_steps") for _, output in turns]
    latest = [output.extra_fields.get("max_global_steps") for _, output in turns]
    preempted = [output.num_preempted for _, output in turns if output.num_preempted is not None]
    fields: dict[str, Any] = {
        "prompt_ids": row.prompt_ids,
        "response_ids": row.completion_ids,
        "response_mask": row.completion_mask,
        "reward_score": record["reward"],
        "num_turns": 2 * info.get("turn", 0),  # each of the model's has a user's or a tool's before it
        "metrics": AgentLoopMetrics(
            generate_sequences=record["timing"]["engine"],
            tool_calls=record["timing"]["total"] - record["timing"]["engine"],
            num_preempted=sum(preempted) if preempted else -1,
        ),
        "extra_fields": {
            "min_global_steps": min((each for each in versions if each is not None), default=None),
            "max_global_steps": max((each for each in latest if each is not None), default=None),
            "reward_extra_info": {
                "turns": info.get("turn", 0),
                "tool_errors": info.get("tool_errors", 0),
                "truncated": int(record["truncated"]),
                **{f"reward/{name}": value for name, value in info.get("reward_components", {}).items()},
            },
        },
    }
    if with_log_probs:
        fields["response_logprobs"] = row.completion_logprobs
    experts = [output.routed_experts for prompt, output in turns if _ends(row, prompt, output)]
    if experts and experts[-1] is not None:
        fields["routed_experts"] = experts[-1][: len(row.input_ids)]
    return _ByTurn(**fields, token_rewards=row.completion_rewards) if alone else AgentLoopOutput(**fields)


def _ends(row: TokenRow, prompt: list[int], output: TokenOutput) -> bool:
    """Whether this turn is the row's last."""
    length = len(row.input_ids)
    return len(prompt) < length and [*prompt, *output.token_ids][:length] == row.input_ids
