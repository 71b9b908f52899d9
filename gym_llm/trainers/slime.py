"""A custom generate function for slime, which plays an episode for each sample, and its rewards.

slime is not on a package index. The interface is that of commit 624b824 of github.com/THUDM/slime: `Sample` in
`slime/utils/types.py`, `generate_and_rm` in `slime/rollout/sglang_rollout.py`.
"""

from __future__ import annotations

import base64
import dataclasses
import itertools
import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from statistics import fmean
from typing import Any, Literal

import numpy as np

from gym_llm.engines import Engine
from gym_llm.errors import EngineError
from gym_llm.rollouts.factory import Wrap
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.tokens.prompt_tokens import History
from gym_llm.tokens.routed_experts import experts_of_all, pack_experts
from gym_llm.trainers.shared.advantages import group_advantages
from gym_llm.trainers.shared.budget import WithinBudget
from gym_llm.trainers.shared.env_pool import EnvPool
from gym_llm.trainers.shared.token_rows import TokenRow, empty_row, token_rows
from gym_llm.trainers.shared.trainer_engine import Sampled, TrainerEngine
from gym_llm.trainers.shared.trainer_tasks import TrainedEnv
from gym_llm.types import Rollout, Row
from gym_llm.utils.secrets import redacted_logger

logger = redacted_logger(__name__)

_SGLANG_NAMES = {
    **{"max_tokens": "max_new_tokens", "min_tokens": "min_new_tokens", "seed": "sampling_seed"},
    **{name: name for name in ("temperature", "top_p", "top_k", "min_p", "stop", "stop_token_ids", "ignore_eos")},
    **{name: name for name in ("frequency_penalty", "presence_penalty", "repetition_penalty")},
}
"""vLLM's names of sampling parameters, and SGLang's."""
_GROUP_ESTIMATORS = ("grpo", "gspo", "cispo", "reinforce_plus_plus_baseline")
"""`--advantage-estimator`s for which slime takes the group's mean off a reward, all but the last over its deviation."""


class EpisodeGenerate:
    """A custom generate function for slime: it plays the episode of the task in a sample's label on slime's SGLang.

    ```python
    generate = EpisodeGenerate("gym_llm/Weather-v0")  # in my_episodes.py
    ```

    With `--custom-generate-function-path my_episodes.generate`, `--custom-reward-post-process-path
    gym_llm.trainers.slime.post_process_rewards`, and as `--prompt-data` the file of
    `TrainedEnv("gym_llm/Weather-v0").dataset(2048).to_json("train.jsonl")`, with `--input-key prompt --label-key
    task_index --apply-chat-template`. The function builds prompts from ids.

    slime chooses the sampling; `stop` and similar fields come from the environment. With `history="append"` an episode
    is one sample, and is truncated at `--rollout-max-response-len` tokens. With `"template"` an episode is a list of
    samples, one per segment, with the same `rollout_id`; slime's loss takes one mean of them. Then
    `--rollout-max-response-len` limits each turn, and `--rollout-max-context-len` prompt and answer together.

    slime trains on no token of a masked episode, or of one without sampled tokens. Its sample has `remove_sample`, the
    status FAILED and the reason in `metadata["masked"]`; `post_process_rewards` leaves it out of its group. Its reward
    is NaN. So the mean of an evaluation with a masked episode is NaN, and slime's dynamic filters drop its group. An
    episode that slime aborts is returned unchanged, with the status ABORTED.

    Args:
        env_id: A registered id, e.g. `"gym_llm/Arithmetic-v0"`.
        tasks: See `VerifierEnv`; None for the environment's own.
        env_kwargs: Further arguments of the environment.
        env_wrappers: Wrappers of each environment, innermost first; None for `DEFAULT_WRAPPERS`.
        history: See `PromptTokens`.
        stop_token_ids: Tokens that end a turn besides the tokenizer's end token.
    """

    def __init__(
        self,
        env_id: str,
        *,
        tasks: str | list[Row] | None = None,
        env_kwargs: dict[str, Any] | None = None,
        env_wrappers: Sequence[Wrap] | None = None,
        history: History = "append",
        stop_token_ids: Collection[int] = (),
    ) -> None:
        self._env = TrainedEnv(env_id, tasks=tasks, env_kwargs=env_kwargs)
        self._pool = EnvPool(self._env.factory, env_wrappers)
        self._history: History = history
        self._stop_token_ids = stop_token_ids
        self._numbers = itertools.count()

    async def __call__(self, args: Any, sample: Any, sampling_params: dict[str, Any], evaluation: bool = False) -> Any:
        """Play the episode of a sample.

        Returns:
            A `Sample`, or with `history="template"` a list of them; in an evaluation the last segment's alone.

        Raises:
            ValueError: If the label is not a task, or an option of slime is not supported.
        """
        from slime.rollout.sglang_rollout import GenerateState

        if type(sample.label) is not int:
            raise ValueError(
                f"The label {sample.label!r:.80} is not a task index: use TrainedEnv.dataset and "
                "--label-key task_index."
            )
        if not evaluation:
            _check(args)
        state = GenerateState(args)
        turns = _Turns(args, sample, sampling_params, state)
        engine = self._engine(args, sampling_params, state.tokenizer, turns, evaluation)
        sampling: dict[str, Any] = {
            name: sampling_params[name] for name in ("temperature", "top_p") if name in sampling_params
        }
        job = Job(sample.label, next(self._numbers))
        record = await self._pool.play(job, engine, RolloutSettings(sampling=sampling))
        if turns.aborted:
            return dataclasses.replace(sample, status=type(sample).Status.ABORTED)
        if record["error"] is not None:
            logger.warning("An episode of %s is masked: %s", record["env_id"], record["error"])
        more: dict[str, Any] = {"weight_versions": turns.weight_versions, "expert_shape": _expert_shape(args)}
        made = to_samples(record, sample, state.tokenizer, **more)
        if self._history == "append" and len(made) > 1:
            raise ValueError(
                f"An episode of {record['env_id']} has {len(made)} segments, because its history changed. Use "
                'history="template".'
            )
        return made[-1] if evaluation or self._history == "append" else made

    def _engine(
        self, args: Any, sampling_params: dict[str, Any], tokenizer: Any, turns: _Turns, evaluation: bool
    ) -> Engine:
        context = args.eval_max_context_len if evaluation else args.rollout_max_context_len
        engine = TrainerEngine(
            turns.generate, tokenizer, history=self._history, context=context, stop_token_ids=self._stop_token_ids
        )
        if self._history == "append":
            return WithinBudget(engine, sampling_params["max_new_tokens"], tokenizer)
        return engine


class _Turns:
    """The turns of one episode, sampled by slime's router, and what slime is to know of them."""

    def __init__(self, args: Any, sample: Any, sampling_params: dict[str, Any], state: Any) -> None:
        self._url = f"http://{args.sglang_router_ip}:{args.sglang_router_port}/generate"
        self._experts = _expert_shape(args)
        self._headers = None
        if sample.session_id and getattr(args, "router_policy", None) == "consistent_hashing":
            self._headers = {"X-SMG-Routing-Key": sample.session_id}
        self._params = {name: value for name, value in sampling_params.items() if value is not None}
        self._state = state
        self.aborted = False
        self.weight_versions: list[str] = []

    async def generate(self, prompt: list[int], arguments: dict[str, Any], episode_id: str) -> Sampled:
        from slime.utils.http_utils import post

        if self._state.aborted:
            self.aborted = True
            raise EngineError("slime has aborted its rollout.", failure_kind="cancelled")
        params = {**_sglang(arguments), **self._params}
        if (limit := arguments["max_tokens"]) is not None:
            params["max_new_tokens"] = min(limit, params["max_new_tokens"])
        payload = {"input_ids": prompt, "sampling_params": params, "return_logprob": True}
        if self._experts is not None:
            payload["return_routed_experts"] = True
        meta = (await post(self._url, payload, headers=self._headers))["meta_info"]
        if meta["finish_reason"]["type"] == "abort":
            self.aborted = True
            raise EngineError("slime has aborted its rollout.", failure_kind="cancelled")
        if "weight_version" in meta:
            self.weight_versions.append(meta["weight_version"])
        entries = meta.get("output_token_logprobs", ())
        stopped = meta["finish_reason"]["type"] == "stop"
        return Sampled(
            [entry[1] for entry in entries],
            [entry[0] for entry in entries],
            stopped=stopped,
            routed_experts=None if self._experts is None else _packed(meta.get("routed_experts"), self._experts),
        )


def to_samples(
    record: Rollout,
    sample: Any,
    tokenizer: Any,
    *,
    weight_versions: Sequence[str] = (),
    expert_shape: tuple[int, int] | None = None,
) -> list[Any]:
    """An episode as slime's `Sample`s: one for each segment; one without trained tokens if nothing was sampled.

    Args:
        record: The episode's, with token ids.
        sample: What slime gave: its prompt, index, group and so on are kept.
        tokenizer: Decodes the response, which slime logs.
        weight_versions: Those of the turns.
        expert_shape: With `--use-rollout-routing-replay`: the number of layers, and of experts of a token.

    Returns:
        `tokens`, `response_length`, `loss_mask` and `rollout_log_probs` (of the response), `reward` (the episode's),
        `status`, `rollout_id`, `remove_sample` and `metadata` are the record's; see `EpisodeGenerate`. Where a record
        has them: `rollout_routed_experts` (of all ids but the last), and `teacher_log_probs` of `add_scores`.

    Raises:
        ValueError: If a record has `ref_logprobs`, or a `teacher_mask`: samples have no field for these.
    """
    status = type(sample).Status
    rows = token_rows(record) or [empty_row(tokenizer.pad_token_id)]
    made = []
    for row in rows:
        masked = row.reward is None
        metadata = {
            **(sample.metadata or {}),
            "turns": record["info"].get("turn", 0),
            "tool_errors": record["info"].get("tool_errors", 0),
        }
        if masked:
            metadata["masked"] = record["error"] or "Nothing was sampled."
        ended = status.TRUNCATED if record["truncated"] else status.COMPLETED
        made.append(
            dataclasses.replace(
                sample,
                tokens=list(row.input_ids),
                response=tokenizer.decode(row.completion_ids, skip_special_tokens=False),
                response_length=len(row.completion_ids),
                loss_mask=row.trained_mask,
                rollout_log_probs=row.completion_logprobs,
                reward=float("nan") if masked else row.reward,
                status=status.FAILED if masked else ended,
                remove_sample=masked,
                rollout_id=sample.index if sample.rollout_id is None else sample.rollout_id,
                weight_versions=list(weight_versions),
                metadata=metadata,
                **_more(row, expert_shape),
            )
        )
    return made


def _more(row: TokenRow, expert_shape: tuple[int, int] | None) -> dict[str, Any]:
    if row.ref_logprobs is not None:
        raise ValueError("slime's samples have no field for ref_logprobs: slime scores with --ref-load itself.")
    if row.teacher_mask is not None:
        raise ValueError("slime's samples have no field for teacher_mask: use a teacher with the same tokenizer.")
    fields: dict[str, Any] = {}
    if row.teacher_logprobs is not None:
        fields["teacher_log_probs"] = row.teacher_logprobs[row.start :]
    last = len(row.input_ids) - 1
    if row.routed_experts is not None:
        fields["rollout_routed_experts"] = experts_of_all(row.routed_experts, last).astype(np.int32)
    elif expert_shape is not None:  # slime wants them of all samples
        fields["rollout_routed_experts"] = np.zeros((last, *expert_shape), np.int32)
    return fields


def _expert_shape(args: Any) -> tuple[int, int] | None:
    is_replayed = getattr(args, "use_rollout_routing_replay", False)
    return (args.num_layers, args.moe_router_topk) if is_replayed else None


def _packed(experts: str | None, shape: tuple[int, int]) -> str:
    """SGLang's experts of prompt and answer, 32-bit integers in base64, as records have them."""
    try:
        indices = np.frombuffer(base64.b64decode(experts or "", validate=True), np.int32).reshape(-1, *shape)
    except ValueError as error:
        raise EngineError(f"SGLang sent experts that are not of shape (ids, {shape[0]}, {shape[1]}): {error}") from None
    if not len(indices):
        raise EngineError("SGLang sent no experts: start it with --enable-return-routed-experts.")
    return pack_experts(indices)


def post_process_rewards(args: Any, samples: Sequence[Any]) -> tuple[list[float], list[float]]:
    """Post-process rewards per episode, without masked ones: slime's `--custom-reward-post-process-path`.

    slime's own function counts each segment as a member of its group, and treats a batch with several groups as one. It
    cannot leave a sample out.

    Args:
        args: slime's arguments: `advantage_estimator`, `rewards_normalization`, `grpo_std_normalization`, `reward_key`.
        samples: A batch, in any order.

    Returns:
        Raw rewards for slime's log, and the rewards for the advantages. In the log, a masked sample has the mean of the
        others of its group, or 0.0. For the advantages it has 0.0.
    """
    groups: dict[Any, dict[Any, float | None]] = defaultdict(dict)
    for sample in samples:
        reward = None if sample.remove_sample else float(sample.get_reward_value(args))
        groups[sample.group_index][_episode(sample)] = reward
    scored = {name: [each for each in group.values() if each is not None] for name, group in groups.items()}
    means = {name: fmean(rewards) if rewards else 0.0 for name, rewards in scored.items()}
    estimator = args.advantage_estimator
    shaped: dict[tuple[Any, Any], float] = {}
    for name, group in groups.items():
        values: Sequence[float]
        if estimator in _GROUP_ESTIMATORS and args.rewards_normalization:
            by_deviation = estimator != _GROUP_ESTIMATORS[-1] and args.grpo_std_normalization
            scale: Literal["group", "none"] = "group" if by_deviation else "none"
            values = group_advantages(list(group.values()), len(group), scale=scale, epsilon=1e-6).tolist()
        else:
            values = [reward or 0.0 for reward in group.values()]
        shaped.update(((name, episode), value) for episode, value in zip(group, values, strict=True))
    raw = [
        means[sample.group_index] if (reward := groups[sample.group_index][_episode(sample)]) is None else reward
        for sample in samples
    ]
    return raw, [shaped[sample.group_index, _episode(sample)] for sample in samples]


def _episode(sample: Any) -> Any:
    return sample.index if sample.rollout_id is None else sample.rollout_id


def _check(args: Any) -> None:
    """Options of slime's with which an episode would be trained on wrongly."""
    if args.custom_reward_post_process_path is None:
        raise ValueError(
            "slime's rewards count masked episodes: set --custom-reward-post-process-path to post_process_rewards of "
            "this module."
        )
    if args.rollout_top_p != 1.0:
        raise ValueError("--rollout-top-p other than 1 needs the kept token ids of each step, which records lack.")
    if getattr(args, "group_rm", False):
        raise ValueError("--group-rm is not for environments, which give the rewards: leave it out.")


def _sglang(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `gym_llm.engines.sampling.sampling_arguments` as SGLang's `sampling_params`."""
    asked = {name: value for name, value in arguments.items() if value is not None and name != "logprobs"}
    constraint = asked.pop("structured_outputs", None)
    if unknown := [name for name in asked if name not in _SGLANG_NAMES]:
        raise EngineError(f"SGLang has no {', '.join(unknown)}: a task's request cannot be followed.")
    params = {_SGLANG_NAMES[name]: value for name, value in asked.items()}
    if constraint:
        params["json_schema"] = json.dumps(constraint.get("json", {"type": "object"}))
    return params
