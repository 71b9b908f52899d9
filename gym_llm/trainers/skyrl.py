"""SkyRL 0.3: whole episodes by its `GeneratorInterface`, and our environments among those of skyrl-gym."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
from skyrl.backends.skyrl_train.inference_servers.base import InferenceEngineInput, InferenceEngineInterface
from skyrl.backends.skyrl_train.inference_servers.engine_utils import get_sampling_params_for_backend
from skyrl.train.generators.base import GeneratorInput, GeneratorInterface, GeneratorOutput, TrajectoryID
from skyrl.train.generators.utils import apply_overlong_filtering, get_rollout_metrics
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput
from skyrl_gym.envs.registration import register

from gym_llm.core.driver import Driver
from gym_llm.errors import EngineError
from gym_llm.rollouts.factory import Wrap
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.tokens.prompt_tokens import History
from gym_llm.tokens.routed_experts import experts_of_all, pack_experts, unpack_experts
from gym_llm.trainers.shared.batch_failures import BatchFailures
from gym_llm.trainers.shared.env_pool import EnvPool
from gym_llm.trainers.shared.masked_rewards import with_masked_rewards
from gym_llm.trainers.shared.text_format import refuse_constraint
from gym_llm.trainers.shared.text_messages import first_messages, next_messages
from gym_llm.trainers.shared.token_rows import TokenRow, empty_row, token_rows
from gym_llm.trainers.shared.trainer_engine import Sampled, TrainerEngine
from gym_llm.trainers.shared.trainer_tasks import TASK_INDEX, TrainedEnv, task_indices, task_of
from gym_llm.trainers.trl.sampling_options import episode_numbers
from gym_llm.types import Rollout
from gym_llm.wrappers import ReasoningParser, TextAction, ToolCallParser

try:  # SkyRL 0.4
    from skyrl.backends.skyrl_train.utils.routed_experts import compact_routed_expert_indices
except ImportError:
    compact_routed_expert_indices = None

_MUST_BE = {"batched": False, "use_conversation_multi_turn": True, "vision_language_generator": False}
"""Options of `generator` that are for SkyRL's own loop, and the only values that make sense here."""


class EpisodeGenerator(GeneratorInterface):
    """A generator that plays an episode for each prompt with SkyRL's inference engines, and returns the exact ids.

    ```python
    class Experiment(BasePPOExp):
        def get_generator(self, cfg, tokenizer, inference_engine_client):
            env = TrainedEnv("gym_llm/Weather-v0")  # env.dataset(2048).to_json("train.jsonl") is its data.train_data
            return EpisodeGenerator(env, cfg.generator, inference_engine_client, tokenizer)
    ```

    Without `generator.step_wise_trajectories` an episode is one row. The engine appends to the history
    (`history="append"`), and an episode in several segments is masked. With it, SkyRL takes a row per segment; the last
    row has the reward, and its advantage goes to all rows. Rewards of turns become SkyRL's token rewards in the first
    case; in the second SkyRL gets the episode's reward alone.

    A masked episode has no token in the loss, but SkyRL's baselines count it. It therefore gets the mean reward of the
    others of its group (of the batch, if its whole group is masked). The group's mean does not change; only the scale
    (GRPO's standard deviation, the n of RLOO) counts the masked episode.

    The trainer's sampling parameters override a task's; of two token limits the smaller one counts. A prompt and its
    answer have at most `generator.max_input_length` plus `max_generate_length` tokens: an episode whose prompts exceed
    this is truncated. `generator.max_turns` is ignored: the environment has its own limit. Use the generator from one
    event loop.

    Args:
        env: The environment and its tasks.
        generator_cfg: SkyRL's `cfg.generator`.
        inference_engine_client: The client that samples.
        tokenizer: The model's tokenizer.
        policy_model_name: See SkyRL's own generator.
        history: See `PromptTokens`; None for `"template"` with a row per segment, else `"append"`.
        env_wrappers: Wrappers of each environment, innermost first; None for `DEFAULT_WRAPPERS`.
        token_rewards: False returns one number per row, which `trainer.algorithm.zero_variance_filter` needs.

    Raises:
        ValueError: If an option of `generator_cfg` is not supported; in `generate`, if the prompts come from another
            dataset.
        RuntimeError: In `generate`, if every episode failed in the first batch or in several in a row.
    """

    def __init__(
        self,
        env: TrainedEnv,
        generator_cfg: Any,
        inference_engine_client: InferenceEngineInterface,
        tokenizer: Any,
        *,
        policy_model_name: str | None = None,
        history: History | None = None,
        env_wrappers: Sequence[Wrap] | None = None,
        token_rewards: bool = True,
    ) -> None:
        for name, value in _MUST_BE.items():
            if getattr(generator_cfg, name) != value:
                raise ValueError(f"generator.{name} is for SkyRL's own generator, which this one replaces: leave it.")
        if generator_cfg.chat_template.name_or_path is not None:
            raise ValueError("generator.chat_template is not followed here: set the tokenizer's own chat template.")
        self._with_experts = bool(generator_cfg.inference_engine.enable_return_routed_experts)
        if self._with_experts and generator_cfg.step_wise_trajectories:
            raise ValueError("SkyRL replays no experts (enable_return_routed_experts) with step_wise_trajectories.")
        self._cfg = generator_cfg
        self._client = inference_engine_client
        self._tokenizer = tokenizer
        self._model = policy_model_name
        self._history: History = history or ("template" if generator_cfg.step_wise_trajectories else "append")
        self._token_rewards = token_rewards
        self._pool = EnvPool(env.factory, env_wrappers)
        self._numbers = itertools.count()
        self._failures = BatchFailures("episode")

    async def generate(self, input_batch: GeneratorInput) -> GeneratorOutput:
        """Play an episode for each prompt of rows of `TrainedEnv.dataset`; see the class and SkyRL's interface."""
        cfg = self._cfg
        sampling = input_batch.get("sampling_params")
        if sampling is None:
            sampling = get_sampling_params_for_backend(cfg.inference_engine.backend, cfg.sampling_params)
        context = cfg.max_input_length and cfg.max_input_length + sampling["max_tokens"]
        salt = self._cache_salt()
        engine = TrainerEngine(
            partial(self._sample, sampling, salt), self._tokenizer, history=self._history, context=context
        )
        template = dict(cfg.chat_template_kwargs)
        settings = RolloutSettings(sampling={"chat_template_kwargs": template} if template else None)

        async def play(job: Job) -> Rollout:
            try:
                return await self._pool.play(job, engine, settings)
            finally:
                await self._client.finish_session(job.episode_id)

        jobs = [Job(task, next(self._numbers)) for task in task_indices(input_batch["prompts"])]
        records = await asyncio.gather(*(play(job) for job in jobs))
        self._failures.check([_failure(record, cfg.step_wise_trajectories) for record in records])
        output = generator_output(
            records,
            input_batch.get("trajectory_ids"),
            step_wise=cfg.step_wise_trajectories,
            token_rewards=self._token_rewards,
            log_probs=sampling.get("logprobs") is not None,
            zero_reward_on_non_stop=cfg.zero_reward_on_non_stop,
            padding=self._tokenizer.pad_token_id,
            experts=self._with_experts,
        )
        if cfg.apply_overlong_filtering:
            output["loss_masks"] = apply_overlong_filtering(output["loss_masks"], output["stop_reasons"])
        output["rollout_metrics"] = {
            **get_rollout_metrics(
                output["response_ids"],
                output["rewards"],
                loss_masks=output["loss_masks"],
                trajectory_completion_times=[record["timing"].get("total", 0.0) for record in records],
            ),
            **_means([_numbers(record, cfg.step_wise_trajectories) for record in records]),
        }
        return output

    async def aclose(self) -> None:
        """Close the environments, when no episode is under way."""
        await self._pool.aclose()

    async def _sample(
        self, sampling: dict[str, Any], salt: str | None, prompt: list[int], arguments: dict[str, Any], episode_id: str
    ) -> Sampled:
        refuse_constraint(arguments)
        limit = arguments.pop("max_tokens")
        asked = {name: value for name, value in arguments.items() if value is not None}
        given = {name: value for name, value in sampling.items() if value is not None}
        params = {**asked, **given, "logprobs": sampling.get("logprobs")}
        if limit is not None:
            params["max_tokens"] = min(limit, params["max_tokens"])
        answer = await self._client.generate(
            InferenceEngineInput(
                prompt_token_ids=[prompt], session_ids=[episode_id], sampling_params=params, cache_salt=salt
            ),
            model=self._model,
        )
        log_probs = answer.get("response_logprobs")
        if log_probs is None and params["logprobs"] is not None:
            raise EngineError(
                "SkyRL's inference engine reports no log probabilities: set generator.sampling_params.logprobs=null.",
                failure_kind="agent_run_error",
            )
        reason = answer["stop_reasons"][0]
        experts = _first(answer.get("rollout_expert_indices")) if self._with_experts else None
        return Sampled(
            answer["response_ids"][0],
            log_probs and log_probs[0],
            aborted=reason == "abort",
            stopped=reason == "stop",
            routed_experts=None if experts is None else pack_experts(experts),
        )

    def _cache_salt(self) -> str | None:
        """As SkyRL's own generator salts the engines' prefix cache: with the version of the weights, per batch."""
        version = getattr(self._client, "weight_version", None) if self._cfg.use_cache_salt else None
        return None if version is None else f"{self._model}@{version}" if self._model else str(version)


def generator_output(
    records: Sequence[Rollout],
    trajectory_ids: Sequence[TrajectoryID] | None,
    *,
    step_wise: bool,
    padding: int,
    token_rewards: bool = True,
    log_probs: bool = True,
    zero_reward_on_non_stop: bool = False,
    experts: bool = False,
) -> GeneratorOutput:
    """A batch's records as SkyRL has them, without metrics; see `EpisodeGenerator`.

    Args:
        records: In the order of the batch.
        trajectory_ids: Of the batch; has to be there if `step_wise`.
        step_wise: Whether each segment is a row.
        padding: A token that stands for the prompt and the response of an episode in which nothing was sampled.
        token_rewards: Whether rewards are lists, one number per token of the response.
        log_probs: Whether the records' are worth anything.
        experts: Whether there are indices of experts; none for rows whose engine gave none.
        zero_reward_on_non_stop: Whether an episode that was cut off is worth 0, as SkyRL's option of this name says.
    """
    if step_wise and trajectory_ids is None:
        raise ValueError("generator.step_wise_trajectories needs the trajectory_ids of the batch.")
    episodes = [_rows(record, step_wise, padding) for record in records]
    reasons = [_stop_reason(record) for record in records]
    scores = [rows[0].reward for rows in episodes]
    if zero_reward_on_non_stop:
        scores = [
            score if score is None or reason == "stop" else 0.0 for score, reason in zip(scores, reasons, strict=True)
        ]
    filled = with_masked_rewards(scores, [task_of(record) for record in records])
    output: dict[str, Any] = defaultdict(list)
    for index, (record, rows) in enumerate(zip(records, episodes, strict=True)):
        as_it_is = not step_wise and scores[index] is not None and scores[index] == rows[0].reward
        for row in rows:
            is_last = row is rows[-1]
            output["prompt_token_ids"].append(row.prompt_ids)
            output["response_ids"].append(row.completion_ids)
            output["loss_masks"].append(row.trained_mask)
            if experts:
                output["rollout_expert_indices"].append(row)
            output["rollout_logprobs"].append(row.completion_logprobs)
            output["stop_reasons"].append(reasons[index])
            output["is_last_step"].append(is_last)
            output["trajectory_generation_times"].append(record["timing"].get("total", 0.0))
            output["env_metrics"].append(_numbers(record, step_wise) if is_last else {})
            if step_wise:
                output["trajectory_ids"].append(trajectory_ids[index])  # type: ignore[index]
            if not token_rewards:
                reward: Any = filled[index]
            elif as_it_is:
                reward = row.completion_rewards
            else:
                reward = [0.0] * len(row.completion_ids)
                reward[-1] = filled[index] if is_last else 0.0
            output["rewards"].append(reward)
    if not step_wise:
        output.update(trajectory_ids=None, is_last_step=None)
    if not log_probs:
        output["rollout_logprobs"] = None
    output["rollout_expert_indices"] = _expert_indices(output["rollout_expert_indices"]) if experts else None
    return GeneratorOutput(**output, rollout_metrics=None)


def _first(values: Any) -> Any:
    return None if values is None or not len(values) else values[0]


def _expert_indices(rows: list[TokenRow]) -> list[Any] | None:
    """The experts of each row's ids, by layer.

    SkyRL 0.3 takes lists, as long as the row, and empty ones for rows without experts. 0.4 takes arrays for the ids
    that the engine has read, at least one of each row, and fills the others in itself.
    """
    if compact_routed_expert_indices is None:
        packed = [(row.routed_experts, len(row.input_ids)) for row in rows]
        return [[] if experts is None else experts_of_all(experts, count).tolist() for experts, count in packed]
    indices = [
        None if row.routed_experts is None else unpack_experts(row.routed_experts)[: len(row.input_ids)] for row in rows
    ]
    shape = next((each.shape[1:] for each in indices if each is not None), None)
    if shape is None:
        return None
    nothing = np.broadcast_to(np.arange(shape[1]), (1, *shape))
    return [compact_routed_expert_indices(nothing if each is None else each) for each in indices]


def _rows(record: Rollout, step_wise: bool, padding: int) -> list[TokenRow]:
    rows = token_rows(record)
    return rows if rows and (step_wise or len(rows) == 1) else [empty_row(padding)]


def _failure(record: Rollout, step_wise: bool) -> str | None:
    """Why nothing can be learned from an episode; None if something can, or if it just sampled nothing."""
    if record["error"] is None and not step_wise and (segments := len(record["trajectory"] or ())) > 1:
        return (
            f"It came back in {segments} segments, for which SkyRL needs generator.step_wise_trajectories: something "
            "changed what was said before."
        )
    return record["error"]


def _stop_reason(record: Rollout) -> str:
    """Why the episode ended, in vLLM's words; SkyRL asks whether it is `stop`."""
    if record["error"] is not None:
        return "abort"
    return "length" if record["truncated"] or record["response"]["status"] != "completed" else "stop"


def _numbers(record: Rollout, step_wise: bool) -> dict[str, float]:
    return {**episode_numbers(record), "failed": int(_failure(record, step_wise) is not None)}


def _means(episodes: list[dict[str, float]]) -> dict[str, float]:
    names = sorted({name for numbers in episodes for name in numbers})
    return {f"environment/{name}": fmean([each[name] for each in episodes if name in each]) for name in names}


class TextEnv(BaseTextEnv):
    """An environment for SkyRL's own generator, text in and text out; see `register_text_env`.

    SkyRL makes the ids. The first message describes the tools in the format of Hermes. Our parsers find calls and
    reasoning in the model's text. Tool outputs are user messages. `generator.max_turns` truncates an episode, which is
    then scored.

    A failure is raised and ends the training: SkyRL's generator has no masked episodes. `EpisodeGenerator` has them.

    Args:
        env_config: SkyRL's configuration; ignored.
        extras: The row's other columns, and `max_turns`.
    """

    trained: ClassVar[TrainedEnv]
    numbers: ClassVar[itertools.count[int]]

    def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.extras = extras or {}
        self.max_turns = self.extras.get("max_turns")
        self._driver = Driver(self.trained.factory.make((ToolCallParser, ReasoningParser, TextAction)))
        self._info: dict[str, Any] = {}
        self._said = 0

    def init(self, prompt: list[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """Begin the episode of the task that the row or its prompt names."""
        task = self.extras.get(TASK_INDEX)
        task = task_indices([prompt])[0] if task is None else int(task)
        seed = Job(task, next(self.numbers)).env_seed(0)
        request, self._info = self._driver.reset(seed=seed, options={TASK_INDEX: task})
        self.turns, self._said = 0, len(request["input"])
        return first_messages(request), {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Take a turn with what the model wrote."""
        self.turns += 1
        outcome = self._driver.step(action)
        if not (outcome[2] or outcome[3]) and self.max_turns is not None and self.turns >= self.max_turns:
            outcome = self._driver.score((*outcome[:3], True, outcome[4]))
        request, reward, terminated, truncated, self._info = outcome
        done = terminated or truncated
        observations = [] if done else next_messages(request["input"][self._said :])
        self._said = len(request["input"])
        return BaseTextEnvStepOutput(observations=observations, reward=float(reward), done=done, metadata={})

    def get_metrics(self) -> dict[str, Any]:
        """The episode's turns, tool errors and reward components."""
        components = self._info.get("reward_components", {})
        return {
            "turns": self.turns,
            "tool_errors": self._info.get("tool_errors", 0),
            **{f"reward/{name}": value for name, value in components.items()},
        }

    def close(self) -> None:
        """Close the environment."""
        self._driver.env.close()


def register_text_env(name: str, env: TrainedEnv) -> None:
    """Register an environment with skyrl-gym under the name that `environment.env_class` gives.

    ```python
    weather = TrainedEnv("gym_llm/Weather-v0")
    register_text_env("weather", weather)  # in the process that trains, before BasePPOExp(cfg).run()
    weather.dataset(2048).to_json("train.jsonl")
    ```

    Raises:
        skyrl_gym.error.RegistrationError: If the name is taken.
    """
    register(id=name, entry_point=type(env.name, (TextEnv,), {"trained": env, "numbers": itertools.count()}))
