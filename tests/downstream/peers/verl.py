"""A thousand random episodes through verl 0.9.1's own workers, TransferQueue and DataProto, with examples/verl.

Run by verl's own Python; prints what was seen. Where vLLM would answer there is a client of verl's servers that says
random things.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import tempfile
from collections import Counter
from pathlib import Path

import gymnasium
import numpy as np
import random_talk
import ray
import torch
import transfer_queue
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf, open_dict
from torch.utils.data import DataLoader
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.protocol import DataProto
from verl.trainer.ppo.core_algos import AdvantageEstimator
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories
from verl.utils import tensordict_utils
from verl.utils.config import validate_config
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import TokenOutput

from gym_llm.trainers.shared.advantages import group_advantages
from gym_llm.trainers.shared.token_rows import TokenRow, token_rows
from gym_llm.trainers.verl import write_dataset

TASKS, SESSIONS = 500, 2
FEW = 80
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "verl"
FIELDS = ("prompts", "responses", "input_ids", "response_mask", "loss_mask", "rollout_log_probs", "rm_scores")
TEMPLATES = {"template": "strips_thinking", "append": "pocket"}
ENV = f"random_talk:{random_talk.ENV_ID}"


class TurnTalk(random_talk.RandomTalk):
    """Rewards turns, too."""

    def user_turn(self, task, episode):
        episode.step_reward += 0.25
        return super().user_turn(task, episode)


gymnasium.registry[random_talk.ENV_ID].entry_point = TurnTalk


class RandomClient(LLMServerClient):
    """verl's client; its servers say random things, and are down for every 50th episode."""

    def __init__(self, tokenizer, fails=0):
        self.model = random_talk.RandomModel(tokenizer)
        self.fails = fails
        self.episodes = {}
        self.down = set()

    async def generate(self, request_id, *, prompt_ids, sampling_params, **others):
        assert sampling_params["temperature"] == 1.0 and sampling_params["max_tokens"] > 0
        number = self.episodes.setdefault(request_id, len(self.episodes))
        if self.fails and number % self.fails == 0:
            self.down.add(request_id)
            raise RuntimeError("The server is down.")
        await asyncio.sleep(0)
        token_ids, log_probs = self.model.sample(prompt_ids)
        steps = {"min_global_steps": 3, "max_global_steps": 3 + len(prompt_ids) % 2}
        return TokenOutput(token_ids=token_ids, log_probs=log_probs, stop_reason="completed", extra_fields=steps)


async def told(tasks: int, history: str) -> list[list[TokenRow]]:
    """The rows of the episodes' records, by task; in another thread, which has an event loop of its own."""
    records = await asyncio.to_thread(random_talk.play, tasks, template=TEMPLATES[history], history=history)
    return [token_rows(record) for record in records]


def example_config(data: str, **rollout) -> OmegaConf:
    """The example's config, with the pocket model and other data; where its paths are relative, they lie there."""
    with initialize_config_dir(str(EXAMPLE), version_base=None):
        config = compose("grpo")
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    config.data.train_files = data
    config.actor_rollout_ref.model.path = random_talk.POCKET
    OmegaConf.update(config.actor_rollout_ref.rollout, "n", SESSIONS)
    for name, value in rollout.items():
        OmegaConf.update(config.actor_rollout_ref.rollout, name, value)
    return config


def first_batch(config, size):
    """The first batch of verl's dataset, as its trainers load it."""
    dataset = RLHFDataset([config.data.train_files], random_talk.tokenizer(), config.data)
    return next(iter(DataLoader(dataset, batch_size=size, collate_fn=collate_fn)))


async def data_proto(config, seen: Counter) -> None:
    """Episodes in one segment through `AgentLoopWorker`, up to its `DataProto`."""
    client = RandomClient(random_talk.tokenizer())
    worker = AgentLoopWorker(config, client)
    truth = await told(FEW, "append")
    batch = DataProto.from_single_dict(first_batch(config, FEW))
    scored = np.array([index % 7 != 6 for index in batch.non_tensor_batch["index"]])
    try:
        await worker.generate_sequences(batch.select_idxs(np.flatnonzero(~scored)[:1]))
    except RuntimeError as error:
        assert "was masked" in str(error)
    else:
        raise AssertionError("A masked episode became a row.")
    output = await worker.generate_sequences(batch.select_idxs(scored))
    length = config.actor_rollout_ref.rollout.prompt_length
    for number, index in enumerate(output.non_tensor_batch["index"]):
        (row,) = truth[index]
        kept = output.batch["attention_mask"][number].bool()
        assert output.batch["input_ids"][number][kept].tolist() == row.input_ids
        kept = kept[length:]
        assert output.batch["prompts"][number][-len(row.prompt_ids) :].tolist() == row.prompt_ids
        assert output.batch["responses"][number][kept].tolist() == row.completion_ids
        assert output.batch["response_mask"][number][kept].tolist() == row.completion_mask
        assert not output.batch["response_mask"][number][~kept].any()
        assert output.batch["rollout_log_probs"][number][kept].tolist() == row.completion_logprobs
        scores = output.batch["rm_scores"][number]
        assert scores.sum().item() == row.reward == scores[kept][-1].item()
        seen["data_proto"] += 1


async def transferred(config, tasks: int, history: str, seen: Counter) -> None:
    """Groups of episodes through `AgentLoopWorkerTQ`, TransferQueue and `ReplayBuffer`, up to their advantages."""
    client = RandomClient(random_talk.tokenizer(), fails=50)
    worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class(config, client)
    worker.tokenizer.chat_template = random_talk.tokenizer(TEMPLATES[history]).chat_template
    truth = await told(tasks, history)
    batch_dict = first_batch(config, tasks)
    uids = [f"{history}{index}" for index in batch_dict["index"]]
    batch_dict["uid"] = np.array(uids, dtype=object)
    batch = tensordict_utils.get_tensordict(batch_dict)
    tensordict_utils.assign_non_tensor_data(batch, "global_steps", 5)
    pending = [{"is_prompt": True, "status": "pending", "global_steps": 5} for _ in uids]
    await transfer_queue.async_kv_batch_put(keys=uids, partition_id="train", tags=pending)
    await worker.generate_sequences(batch)
    await asyncio.gather(*worker.background_tasks)
    sampler = config.trainer.v1.sampler
    buffer = ReplayBuffer("sync", config, sampler.max_off_policy_threshold, "drop", sampler.sampler_kwargs)
    sampled, _ = await asyncio.to_thread(buffer.sample, 5, "train", tasks)
    data = await asyncio.to_thread(
        transfer_queue.kv_batch_get, keys=sampled.keys, partition_id="train", select_fields=["uid", *FIELDS]
    )
    columns = {name: [tensor.tolist() for tensor in data[name].unbind()] for name in FIELDS}
    episodes: dict[tuple[int, int], list[int]] = {}
    for number, (key, tag) in enumerate(zip(sampled.keys, sampled.tags, strict=True)):
        uid, session, position = key.rsplit("_", 2)
        task = int(uid.removeprefix(history))
        rows = truth[task]
        row = rows[int(position)]
        assert columns["prompts"][number] == row.prompt_ids
        assert columns["responses"][number] == row.completion_ids
        assert columns["input_ids"][number] == row.input_ids
        assert columns["response_mask"][number] == columns["loss_mask"][number] == row.completion_mask
        assert columns["rollout_log_probs"][number] == row.completion_logprobs
        scores = columns["rm_scores"][number]
        assert sum(scores) == row.reward
        assert scores == row.completion_rewards if len(rows) == 1 else scores[-1] == row.reward
        seen["rewarded_turns"] += len(rows) == 1 and sum(score != 0 for score in scores) > 1
        assert tag["min_global_steps"] == 3 and tag["max_global_steps"] in (3, 4)
        episodes.setdefault((task, int(session)), []).append(int(position))
    for (task, _), positions in episodes.items():
        assert sorted(positions) == list(range(len(truth[task])))
    masked = sum(rows[0].is_masked for rows in truth if rows) * SESSIONS
    missing = tasks * SESSIONS - len(episodes)
    assert masked < missing <= masked + len(client.down), (masked, missing, len(client.down))
    assert len(client.episodes) == tasks * SESSIONS
    seen.update({f"{history}_episodes": len(client.episodes), f"{history}_masked": missing})
    seen[f"{history}_rows"] = len(sampled.keys)
    _advantages(data, sampled.keys, episodes, truth, history)


def _advantages(data, keys, episodes, truth, history: str) -> None:
    """verl's GRPO, with groups of eight tasks, is that of the scored episodes alone."""
    group = 8
    whole = len(truth) // group * group
    scored = {episode: truth[episode[0]][0].reward for episode in episodes}
    rewards = [scored.get((task, session)) for task in range(whole) for session in range(SESSIONS)]
    expected = group_advantages(rewards, group * SESSIONS, epsilon=1e-6)
    proto = DataProto(batch=data.to_padded_tensor())
    tasks = [int(key.rsplit("_", 2)[0].removeprefix(history)) for key in keys]
    proto.non_tensor_batch["uid"] = np.array([f"group{task // group}" for task in tasks], dtype=object)
    proto.batch.pop("uid")
    proto.batch["token_level_rewards"] = proto.batch["rm_scores"]
    advantages = compute_advantage_for_multi_trajectories(proto, keys, AdvantageEstimator.GRPO).batch["advantages"]
    for number, (key, task) in enumerate(zip(keys, tasks, strict=True)):
        if task < whole:
            mask = proto.batch["response_mask"][number].bool()
            trained = advantages[number][mask]
            wanted = torch.full_like(trained, expected[task * SESSIONS + int(key.rsplit("_", 2)[1])])
            torch.testing.assert_close(trained, wanted, atol=1e-5, rtol=0)
            assert not advantages[number][~mask].any()


def import_torch() -> None:
    """Run in each of Ray's processes before anything else."""
    importlib.import_module("torch")


async def main() -> None:
    """All of it; the last line is what was seen."""
    seen: Counter = Counter()
    with tempfile.TemporaryDirectory() as folder:
        tasks, data = Path(folder) / "tasks.jsonl", Path(folder) / "train.parquet"
        tasks.write_text("".join(f"{json.dumps(row)}\n" for row in random_talk.tasks(TASKS)), "utf-8")
        assert write_dataset(data, ENV, tasks=str(tasks)) == TASKS
        os.chdir(EXAMPLE)
        config = example_config(str(data), response_length=2048)
        await data_proto(config, seen)
        with open_dict(config):
            config.transfer_queue.enable = True
            config.transfer_queue.backend.SimpleStorage.num_data_storage_units = 1
        # Ray's threads read several messages at once, and torch does not bear to be imported by two of them.
        ray.init(num_cpus=2, include_dashboard=False, runtime_env={"worker_process_setup_hook": import_torch})
        transfer_queue.init(config.transfer_queue)
        try:
            for history, count in (("template", TASKS), ("append", FEW)):
                agent_loops = OmegaConf.load("agent_loops.yaml")
                agent_loops[0].history = history
                config.actor_rollout_ref.rollout.agent.agent_loop_config_path = f"{folder}/{history}.yaml"
                OmegaConf.save(agent_loops, f"{folder}/{history}.yaml")
                await transferred(config, count, history, seen)
        finally:
            transfer_queue.close()
            ray.shutdown()
    print(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(main())
