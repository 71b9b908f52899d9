"""1,000 episodes through SkyRL's own data set, trainer, validation and batch; run by its environment's Python."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import typing
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typing_extensions

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "importable"))
# SkyRL 0.3.0 cannot be imported by Python 3.11 otherwise: a pydantic model of its (skyrl/tinker/types.py) has a field
# of a `typing.TypedDict`.
typing.TypedDict = typing_extensions.TypedDict  # type: ignore[misc, assignment]

import numpy as np  # noqa: E402
import random_talk  # noqa: E402
import skyrl.train.trainer as skyrl_trainer  # noqa: E402
import torch  # noqa: E402
from skyrl.backends.skyrl_train.inference_servers.base import InferenceEngineInterface  # noqa: E402
from skyrl.backends.skyrl_train.inference_servers.engine_utils import get_sampling_params_for_backend  # noqa: E402
from skyrl.train.config import SkyRLTrainConfig  # noqa: E402
from skyrl.train.dataset import PromptDataset  # noqa: E402
from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator  # noqa: E402
from skyrl.train.generators.utils import prepare_generator_input  # noqa: E402
from skyrl.train.utils import validate_cfg  # noqa: E402
from skyrl.train.utils.trainer_utils import validate_generator_output  # noqa: E402

import gym_llm.trainers.skyrl as adapter  # noqa: E402
from gym_llm.records.record import lost_record  # noqa: E402
from gym_llm.trainers.shared.trainer_tasks import TrainedEnv  # noqa: E402

SAMPLES = 4
_spec = spec_from_file_location(
    "skyrl_example", Path(__file__).resolve().parents[3] / "examples" / "skyrl" / "train_skyrl.py"
)
assert _spec is not None and _spec.loader is not None
example = module_from_spec(_spec)
_spec.loader.exec_module(example)


class Client(InferenceEngineInterface):
    """SkyRL's interface to its engines, for the random model; in one episode of nine it breaks in the second turn."""

    model_name = "random"

    def __init__(self, tokenizer: Any) -> None:
        self.model = random_talk.RandomModel(tokenizer)
        self.tokenizer = tokenizer
        self.asked: dict[str, int] = {}
        self.finished: list[str] = []

    async def generate(self, input_batch: Any, model: str | None = None) -> Any:
        (session,), (prompt,) = input_batch["session_ids"], input_batch["prompt_token_ids"]
        params = input_batch["sampling_params"]
        assert params["temperature"] == 0.8 and params["logprobs"] == 1 and 1 <= params["max_tokens"] <= 512, params
        self.asked[session] = self.asked.get(session, 0) + 1
        if "-" in session and int(session.split("-")[1]) % 9 == 8 and self.asked[session] > 1:
            raise ValueError("The engine broke.")
        await asyncio.sleep(0)
        sampled, log_probs = self.model.sample(prompt)
        text = self.tokenizer.decode(sampled, skip_special_tokens=True)
        reason = "stop" if sampled[-1] == self.tokenizer.eos_token_id else "length"
        return {
            "responses": [text],
            "response_ids": [sampled],
            "stop_reasons": [reason],
            "response_logprobs": [log_probs],
        }

    async def finish_session(self, session_id: str) -> None:
        self.finished.append(session_id)


Client.__abstractmethods__ = frozenset()  # of its 15 methods, a generator calls these two


def config(folder: Path, step_wise: bool, prompts: int) -> Any:
    """The example's configuration, with a batch of this test's size."""
    cfg = SkyRLTrainConfig.from_cli_overrides(
        [
            *example.overrides(),
            f'data.train_data=["{folder}/train.jsonl"]',
            f"trainer.policy.model.path={random_talk.POCKET}",
            f"trainer.train_batch_size={prompts}",
            f"trainer.policy_mini_batch_size={prompts // 2}",
            f"trainer.ckpt_path={folder}",
            f"generator.n_samples_per_prompt={SAMPLES}",
            "generator.sampling_params.temperature=0.8",
            "generator.sampling_params.max_generate_length=512",
            f"generator.step_wise_trajectories={str(step_wise).lower()}",
            "generator.inference_engine.enable_ray_prometheus_stats=false",
        ]
    )
    validate_cfg(cfg)
    return cfg


def batch_of(cfg: Any, tokenizer: Any, env_class: str) -> tuple[Any, list[str]]:
    """The input of a generator, as SkyRL's training loop makes it of the file."""
    dataset = PromptDataset(cfg.data.train_data, tokenizer, cfg.trainer.max_prompt_length, num_workers=1)
    return prepare_generator_input(
        dataset.collate_fn([dataset[index] for index in range(len(dataset))]),
        SAMPLES,
        get_sampling_params_for_backend("vllm", cfg.generator.sampling_params),
        env_class,
        "train",
        1,
    )


def check(folder: Path, *, step_wise: bool, token_rewards: bool, prompts: int) -> dict[str, int]:
    """Play the episodes, and follow SkyRL's training loop up to the advantages."""
    tokenizer = random_talk.tokenizer("strips_thinking" if step_wise else "pocket")
    env = TrainedEnv(random_talk.ENV_ID, tasks=random_talk.tasks(prompts))
    env.dataset().to_json(str(folder / "train.jsonl"))
    cfg = config(folder, step_wise, prompts)
    cfg.trainer.algorithm.zero_variance_filter = not token_rewards
    client = Client(tokenizer)
    records: list[Any] = []

    def recording(played: Any, *args: Any, **kwargs: Any) -> Any:
        records.extend(played)
        return generator_output(played, *args, **kwargs)

    generator_output, adapter.generator_output = adapter.generator_output, recording
    generator = adapter.EpisodeGenerator(env, cfg.generator, client, tokenizer, token_rewards=token_rewards)
    trainer = skyrl_trainer.RayPPOTrainer.__new__(skyrl_trainer.RayPPOTrainer)  # its __init__ wants a cluster
    trainer.cfg, trainer.tokenizer, trainer.generator, trainer.all_metrics = cfg, tokenizer, generator, {}
    trainer.dispatch = SimpleNamespace(get_lcm_dp_size=lambda: 8)
    batch, uids = batch_of(cfg, tokenizer, "none")
    output = asyncio.run(trainer.generate(batch))
    adapter.generator_output = generator_output
    if step_wise:
        uids = [trajectory.instance_id for trajectory in output["trajectory_ids"]]
    output, uids = trainer.postprocess_generator_output(output, uids)
    data = trainer.convert_to_training_input(output, uids)
    data["values"] = None
    data = trainer.compute_advantages_and_returns(data)
    assert sorted(client.finished) == sorted({f"{task}-{n}" for n, task in enumerate(_tasks(batch))})

    said = {tuple(prompt): (ids, log_probs) for prompt, ids, log_probs in client.model.turns}
    baselines = _baselines(records)
    row, masked, segments = 0, 0, 0
    learned: set[tuple[int, ...]] = set()
    for record in records:
        failed = record["reward"] is None or not (record["trajectory"] or ())
        masked += failed
        for segment in record["trajectory"] or [None]:
            segments += 1
            length = int(data["attention_mask"][row].sum())
            answer = int(data["response_mask"][row].sum())
            ids = data["sequences"][row, -length:].tolist()
            mask = data["loss_mask"][row, -answer:].tolist()
            log_probs = data["rollout_logprobs"][row, -answer:]
            assert uids[row] == str(record["rollout_id"]["task_index"])
            if segment is not None:
                start = segment["loss_mask"].index(1)
                assert ids == segment["input_ids"] and answer == len(ids) - start
                assert torch.equal(log_probs, torch.tensor(segment["logprobs"][start:]))
            is_last = segment is (record["trajectory"] or [None])[-1]
            score = float(data["advantages"][row, -1])
            live = baselines[record["rollout_id"]["task_index"]]
            if failed:
                assert not any(mask)
            else:
                learned |= _turns(ids, segment["loss_mask"], segment["logprobs"], said)
                zeroed = not token_rewards and len(live) > 1 and max(live) == min(live)  # SkyRL's own filter
                assert mask == ([0] * answer if zeroed else segment["loss_mask"][start:])
                assert abs(score - (record["reward"] - np.mean(live))) < 1e-6, (score, record["reward"], live)
            reward = output["rewards"][row]
            assert len(reward) == answer and (
                failed or sum(reward) == record["reward"] * (is_last or not token_rewards)
            )
            row += 1
    broken = [record["trajectory"] for record in records if record["reward"] is None]
    for trajectory in broken:
        for segment in trajectory or ():
            learned |= _turns(segment["input_ids"], segment["loss_mask"], segment["logprobs"], said)
    assert row == len(uids) and (len(said) == len(learned))  # all that was said is in a row
    asyncio.run(generator.aclose())
    return {"episodes": len(records), "segments": segments, "masked": masked}


def _tasks(batch: Any) -> list[int]:
    return [prompt[0]["task_index"] for prompt in batch["prompts"]]


def _baselines(records: list[Any]) -> dict[int, list[float]]:
    """The rewards of each group's members that are not masked."""
    groups: dict[int, list[float]] = {}
    for record in records:
        members = groups.setdefault(record["rollout_id"]["task_index"], [])
        if record["reward"] is not None:
            members.append(record["reward"])
    return groups


def _turns(ids: list[int], mask: list[int], log_probs: list[float], said: Any) -> set[tuple[int, ...]]:
    """The prompts of a row's turns, each of which the model was asked with, and answered as the row has it."""
    prompts, start = set(), None
    for index, sampled in enumerate([*mask, 0]):
        if sampled and start is None:
            start = index
        elif not sampled and start is not None:
            assert said[tuple(ids[:start])] == (ids[start:index], log_probs[start:index])
            prompts.add(tuple(ids[:start]))
            start = None
    return prompts


def check_text(folder: Path) -> dict[str, int]:
    """An environment of ours in SkyRL's own generator: text in, text out."""
    tokenizer = random_talk.tokenizer()
    tasks = [task for task in random_talk.tasks(80) if task["number"] % 7 != 6]
    env = TrainedEnv(random_talk.ENV_ID, tasks=tasks)
    env.dataset().to_json(str(folder / "train.jsonl"))
    cfg = config(folder, False, 68)
    cfg.generator.max_turns = 4
    adapter.register_text_env("talk", env)
    generator = SkyRLGymGenerator(cfg.generator, cfg.environment.skyrl_gym, Client(tokenizer), tokenizer)
    batch, _ = batch_of(cfg, tokenizer, "talk")
    output = asyncio.run(generator.generate(batch))
    rewards = [sum(reward) for reward in output["rewards"]]
    assert rewards == [tasks[index]["number"] % 5 / 4 for index in _tasks(batch)]
    turns = [metrics["turns"] for metrics in output["env_metrics"]]
    assert max(turns) == 4 and min(turns) == 1
    texts = [tokenizer.decode(ids) for ids in output["response_ids"]]
    prompts = [tokenizer.decode(ids) for ids in output["prompt_token_ids"]]
    assert all('"name": "look"' in text for text in prompts)
    ended = zip(texts, turns, strict=True)
    return {
        "text_episodes": len(texts),
        "called": sum("<tool_response>" in text for text in texts),
        "was_answered": sum("<tool_response>" not in text and turn > 1 for text, turn in ended),
    }


def check_example(folder: Path) -> dict[str, int]:
    """The example's own files and generator, on its environment."""
    tokenizer = random_talk.tokenizer()
    cfg = config(folder, True, 16)
    cfg.data.val_data = [f"{folder}/held_out.jsonl"]
    example.write_tasks(cfg, 16, 4)
    generator = example.Experiment.get_generator(SimpleNamespace(), cfg, tokenizer, Client(tokenizer))
    batch, _ = batch_of(cfg, tokenizer, "none")
    output = asyncio.run(generator.generate(batch))
    validate_generator_output(len(batch["prompts"]), output, step_wise=True)
    return {"episodes": sum(output["is_last_step"])}


def check_lost() -> None:
    """A record of which nothing is left but why."""
    lost = lost_record(random_talk.ENV_ID, (0, 0), "The worker was killed.")
    output = adapter.generator_output([lost], None, step_wise=False, padding=0)
    assert output["loss_masks"] == [[0]] and output["stop_reasons"] == ["abort"] and output["rewards"] == [[0.0]]


def check_constrained(folder: Path) -> None:
    """A task's text.format, which SkyRL cannot follow: its episodes are masked."""
    tokenizer, rows = random_talk.tokenizer(), random_talk.tasks(4)
    for row in rows:
        row["responses_create_params"]["text"] = {"format": {"type": "json_object"}}
    env = TrainedEnv(random_talk.ENV_ID, tasks=rows)
    env.dataset().to_json(str(folder / "train.jsonl"))
    cfg, client = config(folder, True, 4), Client(tokenizer)
    batch, _ = batch_of(cfg, tokenizer, "none")
    try:
        asyncio.run(adapter.EpisodeGenerator(env, cfg.generator, client, tokenizer).generate(batch))
    except RuntimeError as error:
        assert "cannot be constrained" in str(error) and not client.model.turns
    else:
        raise AssertionError("The constraint was left out.")


def _experts(ids: list[int]) -> list[list[list[int]]]:
    """Two experts in each of three layers for each id."""
    return [[[(token + layer) % 60, 60 + place % 4] for layer in range(3)] for place, token in enumerate(ids)]


class ExpertClient(Client):
    """Gives experts for all ids but the last, as vLLM does, except in every third episode."""

    async def generate(self, input_batch: Any, model: str | None = None) -> Any:
        answer = await super().generate(input_batch, model)
        ids = input_batch["prompt_token_ids"][0] + answer["response_ids"][0]
        has_some = int(input_batch["session_ids"][0].split("-")[1]) % 3
        return {**answer, "rollout_expert_indices": [_experts(ids[:-1])] if has_some else None}


def check_experts(folder: Path) -> dict[str, int]:
    """The experts of every id reach SkyRL's batch, in their places."""
    tokenizer = random_talk.tokenizer("pocket")
    env = TrainedEnv(random_talk.ENV_ID, tasks=random_talk.tasks(20))
    env.dataset().to_json(str(folder / "train.jsonl"))
    cfg = config(folder, False, 20)
    cfg.generator.inference_engine.enable_return_routed_experts = True
    generator = adapter.EpisodeGenerator(env, cfg.generator, ExpertClient(tokenizer), tokenizer)
    trainer = skyrl_trainer.RayPPOTrainer.__new__(skyrl_trainer.RayPPOTrainer)
    trainer.cfg, trainer.tokenizer, trainer.generator, trainer.all_metrics = cfg, tokenizer, generator, {}
    trainer.dispatch = SimpleNamespace(get_lcm_dp_size=lambda: 8)
    batch, uids = batch_of(cfg, tokenizer, "none")
    output = asyncio.run(trainer.generate(batch))
    output, uids = trainer.postprocess_generator_output(output, uids)
    data = trainer.convert_to_training_input(output, uids)
    counts = {"with_experts": 0, "without": 0}
    for row, experts in enumerate(data["rollout_expert_indices"].long().tolist()):
        length = int(data["attention_mask"][row].sum())
        ids = data["sequences"][row, -length:].tolist()
        nothing = [[[0, 0]] * 3]
        if output["rollout_expert_indices"][row]:
            counts["with_experts"] += 1
            assert experts[-length:] == _experts(ids[:-1]) + nothing
        else:
            counts["without"] += 1
            assert experts[-length:] == nothing * length
    asyncio.run(generator.aclose())
    return counts


def main() -> None:
    check_lost()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        check_constrained(folder)
        counts = {
            "rows": check(folder, step_wise=True, token_rewards=True, prompts=250),
            "filtered": check(folder, step_wise=True, token_rewards=False, prompts=50),
            "one_row": check(folder, step_wise=False, token_rewards=True, prompts=250),
            "one_number": check(folder, step_wise=False, token_rewards=False, prompts=50),
            "text": check_text(folder),
            "example": check_example(folder),
            "experts": check_experts(folder),
        }
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
