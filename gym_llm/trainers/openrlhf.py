"""OpenRLHF (0.11): its agent executor, which plays an episode of any environment for each sample."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from openrlhf.utils.agent import AgentExecutorBase

from gym_llm.rollouts.factory import Wrap
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.trainers.shared.batch_failures import BatchFailures
from gym_llm.trainers.shared.env_pool import EnvPool
from gym_llm.trainers.shared.text_format import for_vllm
from gym_llm.trainers.shared.token_rows import TokenRow, empty_row, token_rows
from gym_llm.trainers.shared.trainer_engine import Sampled, TrainerEngine
from gym_llm.trainers.shared.trainer_tasks import TrainedEnv
from gym_llm.types import Rollout, Row
from gym_llm.utils.secrets import redacted_logger

logger = redacted_logger(__name__)

_TRAINERS = ("temperature", "top_p", "top_k", "min_tokens", "skip_special_tokens", "logprobs")
"""What OpenRLHF sets in its `SamplingParams`, beside `max_tokens`."""
_CHECKED_AT_ONCE = 64


class EpisodeExecutor(AgentExecutorBase):  # type: ignore[misc]
    """An agent executor for OpenRLHF: it plays the episode of the task in a row's label on OpenRLHF's own vLLM.

    OpenRLHF makes it from the class `AgentExecutor` in the file `--train.agent_func_path`:

    ```python
    class AgentExecutor(EpisodeExecutor):
        def __init__(self):
            super().__init__("gym_llm/Weather-v0")
    ```

    Its dataset is `TrainedEnv("gym_llm/Weather-v0").dataset(2048).to_json("train.jsonl")`, read with `--data.input_key
    prompt --data.label_key task_index --data.apply_chat_template`. The executor builds prompts from ids.

    OpenRLHF chooses the sampling; `stop` and similar fields come from the environment. `--rollout.max_new_tokens`
    limits each turn, and `--data.max_len` the episode, which is truncated when its prompt reaches the limit. OpenRLHF
    takes one sequence and one reward per sample. The engine therefore appends to the history (`history="append"`), an
    episode in several segments is masked, and the rewards of turns are summed.

    OpenRLHF has no mask for a sample. A masked episode, or one without sampled tokens, is a row without actions. It is
    not in the loss, and has the mean reward of the others of its group. The group's mean does not change; only a scale
    (the deviation of `group_norm`, the n of `rloo`) counts the row.

    Two options do not work with such rows. OpenRLHF's metric `kl` is NaN for them, so the coefficient of
    `--algo.kl.target` would stay NaN. `--algo.advantage.is_correction_level seq` in the mode `clip` divides by the
    number of their actions.

    Args:
        env_id: A registered id, e.g. `"gym_llm/Arithmetic-v0"`.
        tasks: See `VerifierEnv`; None for the environment's own.
        env_kwargs: Further arguments of the environment.
        env_wrappers: Wrappers of each environment, innermost first; None for `DEFAULT_WRAPPERS`.
        stop_token_ids: Tokens that end a turn besides the tokenizer's end token, if the model's generation config has
            several.
    """

    def __init__(
        self,
        env_id: str,
        *,
        tasks: str | list[Row] | None = None,
        env_kwargs: dict[str, Any] | None = None,
        env_wrappers: Sequence[Wrap] | None = None,
        stop_token_ids: Collection[int] = (),
    ) -> None:
        env = TrainedEnv(env_id, tasks=tasks, env_kwargs=env_kwargs)
        self._pool = EnvPool(env.factory, env_wrappers)
        self._stop_token_ids = stop_token_ids
        self._numbers = itertools.count()
        self._groups: dict[int, _Group] = {}
        self._failures = BatchFailures("episode")
        self._errors: list[str | None] = []

    async def execute(
        self,
        prompt: str,
        label: Any,
        sampling_params: Any,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: Any,
        images: Any = None,
    ) -> dict[str, Any]:
        """Play the episode of a row; see OpenRLHF's `AgentExecutorBase.execute`.

        Raises:
            ValueError: If the label is not a task.
            RuntimeError: If all of the first episodes failed, or all of many in a row.
        """
        if type(label) is not int:
            raise ValueError(
                f"The label {label!r:.80} is not a task index: use TrainedEnv.dataset and --data.label_key task_index."
            )
        engine = self._engine(sampling_params, max_length, hf_tokenizer, llm_engine)
        sampling = {"temperature": sampling_params.temperature, "top_p": sampling_params.top_p}
        settings = RolloutSettings(sampling=sampling)
        group = self._groups.setdefault(label, _Group())
        group.playing += 1
        await asyncio.sleep(0)  # OpenRLHF starts a group at once: now all of it is counted
        reward = None
        try:
            record = await self._pool.play(Job(label, next(self._numbers)), engine, settings)
            rows = token_rows(record)
            failure = _failure(record, rows)
            if failure is None:
                reward = record["reward"]
        finally:
            group.end(reward)
            if not group.playing:
                self._groups.pop(label, None)
        self._note(failure)
        if reward is None:
            await group.ended.wait()
        row = empty_row(hf_tokenizer.pad_token_id) if reward is None else rows[0]
        score = group.mean() if reward is None else reward
        info = record["info"]
        return {
            "prompt": prompt,
            "label": label,
            "images": images,
            "mm_train_inputs": None,
            "reward": score,
            "scores": score,
            "observation_tokens": list(row.input_ids),
            "action_ranges": _ranges(row.loss_mask),
            "rollout_log_probs": None if sampling_params.logprobs is None else list(row.logprobs),
            "truncated": record["truncated"],
            "extra_logs": {  # the same for every sample, or OpenRLHF cannot make a batch of them
                "turns": float(info.get("turn", 0)),
                "tool_errors": float(info.get("tool_errors", 0)),
                "failed": float(reward is None),
            },
        }

    def _engine(self, sampling_params: Any, max_length: int, tokenizer: Any, llm_engine: Any) -> TrainerEngine:
        """OpenRLHF's actor as the engine of one episode."""

        async def generate(prompt: list[int], arguments: dict[str, Any], episode_id: str) -> Sampled:
            arguments = for_vllm(arguments)
            if (limit := sampling_params.max_tokens) is not None:
                arguments["max_tokens"] = min(limit, arguments["max_tokens"])
            arguments.update((name, getattr(sampling_params, name)) for name in _TRAINERS)
            arguments["min_tokens"] = min(arguments["min_tokens"], arguments["max_tokens"])
            output = (await llm_engine.generate(prompt, type(sampling_params)(**arguments))).outputs[0]
            token_ids, log_probs = list(output.token_ids), None
            if sampling_params.logprobs is not None:
                log_probs = [entry[token].logprob for token, entry in zip(token_ids, output.logprobs, strict=True)]
            reason = output.finish_reason
            return Sampled(token_ids, log_probs, aborted=reason == "abort", stopped=reason == "stop")

        return TrainerEngine(generate, tokenizer, context=max_length, stop_token_ids=self._stop_token_ids)

    def _note(self, failure: str | None) -> None:
        self._errors.append(failure)
        if len(self._errors) == _CHECKED_AT_ONCE:
            errors, self._errors = self._errors, []
            self._failures.check(errors)


@dataclass
class _Group:
    """The episodes of one task that are played at the same time, and what those that have ended earned."""

    playing: int = 0
    rewards: list[float] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, reward: float | None) -> None:
        """One has ended; with None, if it is masked."""
        self.playing -= 1
        if reward is not None:
            self.rewards.append(reward)
        if not self.playing:
            self.ended.set()

    def mean(self) -> float:
        return fmean(self.rewards) if self.rewards else 0.0


def _failure(record: Rollout, rows: list[TokenRow]) -> str | None:
    """Why nothing can be learned from an episode; None if something can."""
    if record["error"] is not None:
        return record["error"]
    if not rows:
        return "Nothing was sampled."
    if len(rows) > 1:
        return f"It came back in {len(rows)} segments, and OpenRLHF trains on one."
    return None


def _ranges(mask: list[int]) -> list[tuple[int, int]]:
    """Where sampled ids begin and end.

    >>> _ranges([0, 1, 1, 0, 1])
    [(1, 3), (4, 5)]
    """
    edges = [index for index, (before, after) in enumerate(itertools.pairwise([0, *mask, 0])) if before != after]
    return list(zip(edges[::2], edges[1::2], strict=True))
