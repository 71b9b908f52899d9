"""NeMo RL: episodes as the `/run` results of its NeMo Gym integration, and an environment for its own loop.

NeMo RL is not on the package index (0.0.0 is a placeholder); this follows its repository, NVIDIA-NeMo/RL at commit
7ea279a (2026-08-22): `nemo_rl/environments/{interfaces,nemo_gym}.py`, `nemo_rl/experience/rollouts.py`,
`nemo_rl/data/interfaces.py`. Nothing of it is imported here: it takes apart what it is given by names and positions.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym

from gym_llm.concurrency import drive
from gym_llm.concurrency.loop_thread import LoopThread
from gym_llm.rollouts.plan import Job
from gym_llm.tokens.template import chat_prompt
from gym_llm.trainers.shared.masked_rewards import with_masked_rewards
from gym_llm.trainers.shared.text_messages import next_messages
from gym_llm.trainers.shared.trainer_tasks import TASK_INDEX, TrainedEnv, task_of
from gym_llm.types import Item, Rollout, Row
from gym_llm.wrappers import ReasoningParser, TextAction, ToolCallParser

if TYPE_CHECKING:
    import torch

EPISODE = "episode"
"""The key of NeMo RL's `extra_env_info` under which an environment knows its episode again."""
_TOKENS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
_MARK = "gymllmturn"


def nemo_gym_results(records: Sequence[Rollout], *, padding: int) -> list[dict[str, Any]]:
    """Return a batch's records as results of NeMo Gym's `/run`, for `nemo_rl.environments.nemo_gym.NemoGym`.

    NeMo RL builds a message log from the output items with token ids. Every prompt must continue the one before, so an
    episode needs one segment (`history="append"`). An episode with several segments is masked, and has its first
    segment. NeMo RL takes one reward per episode; `reward_components` has its parts if they add up to it.

    GRPO in NeMo RL reads `instance_config.mask_sample`: the sample is not in the loss, but it is in the baseline. A
    masked episode therefore gets the mean reward of the others of its group. The group's mean does not change; only the
    scale (the standard deviation, the n of the leave-one-out baseline) counts the masked episode.

    Args:
        records: Records with token ids.
        padding: The token for the prompt and the answer of an episode without sampled tokens; NeMo RL refuses empty
            results.
    """
    rewards = [None if _failure(record) else record["reward"] for record in records]
    filled = with_masked_rewards(rewards, [task_of(record) for record in records])
    return [
        nemo_gym_result(record, padding=padding, masked_reward=reward)
        for record, reward in zip(records, filled, strict=True)
    ]


def nemo_gym_result(record: Rollout, *, padding: int, masked_reward: float = 0.0) -> dict[str, Any]:
    """Return a record as a result of NeMo Gym's `/run`; see `nemo_gym_results`.

    Args:
        record: A record with token ids.
        padding: See `nemo_gym_results`.
        masked_reward: The reward of a masked episode.

    Returns:
        `responses_create_params`, `response`, `reward`, `mask_sample`, `failure_kind`, `failure_reason`,
        `instance_config` and perhaps `reward_components`. NeMo RL takes tokens out of the items: they are copies.
    """
    failure = _failure(record)
    response: Any = record.get("response", {})  # an episode that was lost, or never began, has none
    reward = record["reward"] if failure is None and record["reward"] is not None else masked_reward
    result: dict[str, Any] = {
        "responses_create_params": record.get("responses_create_params", {"input": []}),
        "response": {**response, "output": _one_segment(response.get("output", []), padding)},
        "reward": reward,
        "mask_sample": failure is not None,
        "failure_kind": record["failure_kind"],
        "failure_reason": failure,
        "instance_config": {"mask_sample": failure is not None},
    }
    parts = record["info"].get("reward_components") or {}
    if failure is None and parts and math.isclose(sum(parts.values()), reward, rel_tol=1e-5, abs_tol=1e-6):
        result["reward_components"] = dict(parts)
    return result


def _failure(record: Rollout) -> str | None:
    """Why nothing is to be learned from an episode; None if something is."""
    if record["error"] is not None:
        return record["error"]
    segments = len(record["trajectory"] or ())
    if segments > 1:
        return f"It came back in {segments} segments, and NeMo RL takes one: something changed what was said before."
    return None if segments else "Nothing was sampled."


def _one_segment(items: list[Item], padding: int) -> list[Item]:
    """The items, with tokens only on turns that go on from all turns before them; at least one has some."""
    seen: list[int] = []
    output: list[Item] = []
    is_whole, is_empty = True, True
    for item in items:
        if sampled := item.get("generation_token_ids"):
            prompt = item["prompt_token_ids"]
            is_whole = is_whole and prompt[: len(seen)] == seen
            if is_whole:
                seen = [*prompt, *sampled]
                is_empty = False
        output.append(item.copy() if is_whole else {k: v for k, v in item.items() if k not in _TOKENS})  # type: ignore[arg-type]
    if is_empty:
        tokens: Any = dict(zip(_TOKENS, ([padding], [padding], [0.0]), strict=True))
        output.append({"type": "message", "role": "assistant", "content": [], **tokens})
    return output


class TextReturn(NamedTuple):
    """The result of a step of `TextEnvironment`: the fields of NeMo RL's `EnvironmentReturn`, in its order.

    Attributes:
        observations: Per episode a message of the role `environment`. It has the text between the model's turn and its
            next turn; empty at the end.
        metadata: Per episode the metadata of the next turn; None at the end.
        next_stop_strings: None for each episode.
        rewards: Rewards of this turn, (episodes,) float32.
        terminateds: Whether the episode is over, (episodes,) bool.
        answers: None.
    """

    observations: list[dict[str, str]]
    metadata: list[dict[str, Any] | None]
    next_stop_strings: list[None]
    rewards: torch.Tensor
    terminateds: torch.Tensor
    answers: None


class TextEnvironment:
    """NeMo RL's `EnvironmentInterface` for its own multi-turn loop: text in and text out.

    ```python
    environment = ray.remote(TextEnvironment).remote("gym_llm/Weather-v0", tokenizer)
    task_to_env = {"weather": environment}  # for grpo_train
    dataset = nemo_rl_data(TrainedEnv("gym_llm/Weather-v0"), tokenizer, "weather", 2048)
    ```

    NeMo RL samples, and keeps the sampled ids. It tokenises the text of an observation unchanged, so the observation
    contains the markup of the chat template. Our parsers find calls and reasoning in the model's text; a tool's output
    is a user's message in the format of Hermes. An episode is one segment.

    A failure is raised and ends the training: this interface has no masked episodes. `nemo_gym_results` has them.

    Args:
        env_id: A registered id.
        tokenizer: The model's tokenizer; its chat template renders users' messages.
        tasks: See `VerifierEnv`; None for the environment's own.
        env_kwargs: Further arguments of the environment.
        most_open: Maximum number of open episodes. NeMo RL drops episodes that are too long and does not report them.
            Beyond this number, the environment closes the episode that was idle for the longest time.
    """

    def __init__(
        self,
        env_id: str,
        tokenizer: Any,
        *,
        tasks: str | list[Row] | None = None,
        env_kwargs: dict[str, Any] | None = None,
        most_open: int = 16384,
    ) -> None:
        self._factory = TrainedEnv(env_id, tasks=tasks, env_kwargs=env_kwargs).factory
        self._tokenizer = tokenizer
        self._most_open = most_open
        self._open: OrderedDict[int, gym.Env[Any, Any]] = OrderedDict()
        self._free: list[gym.Env[Any, Any]] = []
        self._numbers = itertools.count()
        self._loop = LoopThread("gym_llm text environments")

    def step(self, message_log_batch: list[list[dict[str, Any]]], metadata: list[dict[str, Any]]) -> TextReturn:
        """Take a turn in each episode with its last message.

        Args:
            message_log_batch: Per episode the messages so far (`role`, `content`), the model's last.
            metadata: Per episode the `extra_env_info` of `nemo_rl_data`, or what the last step returned.

        Raises:
            RuntimeError: If an episode was closed because more than `most_open` were open.
        """
        import torch

        turns = self._loop.run(self._turns([log[-1]["content"] for log in message_log_batch], metadata))
        return TextReturn(
            [{"role": "environment", "content": text} for text, _, _ in turns],
            [each for _, _, each in turns],
            [None] * len(turns),
            torch.tensor([reward for _, reward, _ in turns], dtype=torch.float32),
            torch.tensor([each is None for _, _, each in turns], dtype=torch.bool),
            None,
        )

    def global_post_process_and_metrics(self, batch: Any) -> tuple[Any, dict[str, float]]:
        """Return the batch unchanged, and the mean reward."""
        return batch, {"reward": float(batch["total_reward"].mean())} if "total_reward" in batch else {}

    def shutdown(self) -> None:
        """Close the environments."""
        for env in (*self._open.values(), *self._free):
            env.close()
        self._open.clear()
        self._free.clear()
        self._loop.close()

    async def _turns(
        self, texts: list[str], metadata: list[dict[str, Any]]
    ) -> list[tuple[str, float, dict[str, Any] | None]]:
        return await asyncio.gather(*map(self._turn, texts, metadata))

    async def _turn(self, text: str, info: dict[str, Any]) -> tuple[str, float, dict[str, Any] | None]:
        if EPISODE in info:
            number, seen = info[EPISODE]
            if number not in self._open:
                raise RuntimeError(f"More than {self._most_open} episodes were open, so this one was closed.")
            env = self._open[number]
            self._open.move_to_end(number)
        else:
            number, env = next(self._numbers), self._free.pop() if self._free else self._make()
            job = Job(int(info[TASK_INDEX]), number)
            self._open[number] = env
            request, _ = await drive(env.reset, seed=job.env_seed(0), options={TASK_INDEX: job.task_index})
            seen = len(request["input"])
            while len(self._open) > self._most_open:
                self._open.popitem(last=False)[1].close()
        request, reward, terminated, truncated, _ = await drive(env.step, text)
        if terminated or truncated:
            self._open.pop(number, None)
            self._free.append(env)
            return "", float(reward), None
        items = request["input"]
        return self._shown(items[seen:]), float(reward), {**info, EPISODE: (number, len(items))}

    def _make(self) -> gym.Env[Any, Any]:
        return self._factory.make((ToolCallParser, ReasoningParser, TextAction))

    def _shown(self, items: list[Item]) -> str:
        """What the chat template shows after a turn of the model that ended by itself, up to where its next begins."""
        turn = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": _MARK}]
        text: str = self._tokenizer.apply_chat_template(
            [*turn, *next_messages(items)], tokenize=False, add_generation_prompt=True
        )
        return text.partition(_MARK)[2].removeprefix(self._tokenizer.eos_token or "")


def nemo_rl_data(
    env: TrainedEnv, tokenizer: Any, task_name: str, limit: int | None = None, *, seed: int = 0
) -> list[dict[str, Any]]:
    """The tasks as NeMo RL's `DatumSpec`s, for its own loop with a `TextEnvironment`.

    Args:
        env: Its tasks.
        tokenizer: The model's; its chat template shows the first prompt, tools included.
        task_name: The environment's key in `task_to_env`.
        limit: See `TrainedEnv.rows`, as for `seed`.
        seed: Other seeds give other tasks, where they are generated.
    """
    import torch

    data = []
    for row in env.rows(limit, seed=seed):
        index = row[TASK_INDEX]
        text = chat_prompt(env.factory.tasks[index].request, tokenizer)  # type: ignore[index]
        ids = torch.tensor(tokenizer(text, add_special_tokens=False)["input_ids"], dtype=torch.int64)
        data.append(
            {
                "message_log": [{"role": "user", "content": text, "token_ids": ids}],
                "length": len(ids),
                "extra_env_info": {TASK_INDEX: index},
                "loss_multiplier": 1.0,
                "idx": index,
                "task_name": task_name,
            }
        )
    return data
