"""1,000 random episodes through OpenRLHF's rollout actor, samples generator and experience maker.

vLLM, DeepSpeed and what holds models are not here: modules of their names stand in for what the imports ask for.
"""

import asyncio
import dataclasses
import importlib.util
import itertools
import json
import random
import re
import runpy
import sys
import tempfile
import types
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import gymnasium
import torch
from random_talk import ENV_ID, RandomModel, RandomTalk, tasks, tokenizer

from gym_llm.errors import JudgeError

GROUP, MAX_LEN = 4, 8192
NUMBERS = itertools.count()
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "openrlhf"


@dataclasses.dataclass
class SamplingParams:
    """vLLM's, as far as OpenRLHF and the executor use it."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    max_tokens: int | None = 16
    min_tokens: int = 0
    skip_special_tokens: bool = True
    logprobs: int | None = None


def stand_in(name, **contents):
    module = types.ModuleType(name)
    module.__dict__.update(contents)
    sys.modules[name] = module
    return module


def stand_in_for_gpus():
    vllm = stand_in("vllm", SamplingParams=SamplingParams, __version__="0.20.0")
    vllm.inputs = stand_in("vllm.inputs", TokensPrompt=dict)
    vllm.utils = stand_in("vllm.utils", random_uuid=lambda: "0")
    stand_in("deepspeed")
    package = importlib.util.find_spec("openrlhf").submodule_search_locations[0]
    for name in ("models", "trainer.ppo_utils", "utils"):  # their __init__ imports much more
        stand_in(f"openrlhf.{name}", __path__=[f"{package}/{name.replace('.', '/')}"])
    stand_in("openrlhf.trainer.ray.launcher", RayActorGroup=object)
    return package


class FakeVLLM:
    """As vLLM's engine streams, of a model that says anything."""

    def __init__(self, model):
        self.model = model

    async def generate(self, prompt, params, request_id):
        await asyncio.sleep(0)
        assert params.temperature == 0.5 and params.max_tokens >= params.min_tokens == 1
        ids, log_probs = self.model.sample(list(prompt["prompt_token_ids"]))
        ended = len(ids) <= params.max_tokens
        ids, log_probs = ids[: params.max_tokens], log_probs[: params.max_tokens]
        entries = None
        if params.logprobs is not None:
            pairs = zip(ids, log_probs, strict=True)
            entries = [{token: types.SimpleNamespace(logprob=each), -1: None} for token, each in pairs]
        output = types.SimpleNamespace(
            token_ids=ids, text="", logprobs=entries, finish_reason="stop" if ended else "length"
        )
        yield types.SimpleNamespace(outputs=[output])


def rollout_actor(executor, model):
    """OpenRLHF's actor, as Ray has it inside; without vLLM."""
    from openrlhf.trainer.ray.vllm_engine import RolloutRayActor

    cls = RolloutRayActor.__ray_metadata__.modified_class
    actor = object.__new__(cls)
    actor.executor, actor.llm, actor._mm_pad_token_ids = executor, FakeVLLM(model), None
    return actor


async def respond(actor, prompts, labels, loaded, max_len=MAX_LEN, logprobs=1):
    params = SamplingParams(0.5, 1.0, -1, 512, 1, False, logprobs)
    groups = await asyncio.gather(
        *(
            actor.generate_responses(prompt, label, params, max_len, loaded, num_samples=GROUP)
            for prompt, label in zip(prompts, labels, strict=True)
        )
    )
    return [response for group in groups for response in group]


def experiences_of(responses, max_len):
    from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

    generator = object.__new__(SamplesGenerator)
    return [generator._process_response_into_experience(response, max_len=max_len) for response in responses]


def with_advantages(samples, pad):
    """OpenRLHF's own batches, group baselines and returns; the models' part of it is zeros."""
    from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker

    names = types.SimpleNamespace
    args = names(
        algo=names(advantage=names(estimator="dr_grpo", gamma=1.0, lambd=1.0, no_std_norm=True)),
        rollout=names(n_samples_per_prompt=GROUP, micro_batch_size=8),
        train=names(dynamic_batch_enable=False),
        reward=names(clip_range=None, overlong_buffer_len=None, stop_properly_penalty_coef=None),
    )
    maker = RemoteExperienceMaker(None, None, None, None, names(value=0.0), names(args=args), names(pad_token_id=pad))
    batches = maker.split_rollout_samples(samples)
    for batch in batches:
        batch.kl = torch.zeros_like(batch.action_mask, dtype=torch.float32)
    return maker.compute_advantages_and_returns(batches)


class Groups(RandomTalk):
    """No two episodes of a task are the same, and one of six is masked: it fails twice."""

    def setup(self, task, episode=None):
        return random.Random(next(NUMBERS))

    def verify(self, task, episode):
        if episode.state.random() < 0.4:
            raise JudgeError("The judge is down.")
        return episode.state.randrange(5) / 4


def recorded(executor):
    """The executor, and the records of what it plays."""
    play, records = executor._pool.play, []

    async def noted(*arguments):
        records.append(await play(*arguments))
        return records[-1]

    executor._pool.play = noted
    return executor, records


async def thousand(loaded):
    from openrlhf.trainer.ppo_utils.experience import (
        make_experience_batch,
        remove_padding_in_sequences,
        split_experience_batch,
    )

    from gym_llm.trainers.openrlhf import EpisodeExecutor

    gymnasium.register(id="tests/Groups-v0", entry_point=Groups, kwargs={"max_turns": 6})
    number = 1000 // GROUP
    executor, records = recorded(EpisodeExecutor("tests/Groups-v0", tasks=tasks(number)))
    model = RandomModel(loaded)
    actor = rollout_actor(executor, model)
    responses = await respond(actor, [f"Go {index}" for index in range(number)], list(range(number)), loaded)
    said = {(tuple(prompt), tuple(ids)): log_probs for prompt, ids, log_probs in model.turns}
    assert all(len(record["trajectory"]) == 1 for record in records)
    truth = defaultdict(list)
    for record in records:
        if record["error"] is None:
            truth[tuple(record["trajectory"][0]["input_ids"]), record["reward"]].append(record)
    counts = {"episodes": len(responses), "masked": 0, "turns": 0, "mixed_groups": 0}
    samples = experiences_of(responses, MAX_LEN)
    advantages = []
    for start in range(0, len(responses), GROUP):
        group = responses[start : start + GROUP]
        scored = [response["reward"] for response in group if response["action_ranges"]]
        counts["mixed_groups"] += 0 < len(scored) < GROUP
        for response in group:
            advantages.append(response["reward"] - fmean(scored) if response["action_ranges"] else 0.0)
            if not response["action_ranges"]:
                assert response["reward"] == response["scores"] == (fmean(scored) if scored else 0.0)
    for response, sample in zip(responses, samples, strict=True):
        ids, ranges = response["observation_tokens"], response["action_ranges"]
        assert sample.sequences[0].tolist() == ids
        assert response["extra_logs"]["failed"] == (not ranges)
        if not ranges:
            counts["masked"] += 1
            assert not sample.action_mask.any()
            continue
        record = truth[tuple(ids), response["reward"]].pop()
        segment = record["trajectory"][0]
        assert sample.action_mask[0].tolist() == segment["loss_mask"][1:]
        assert sample.rollout_log_probs[0].tolist() == segment["logprobs"][1:]
        assert sample.rewards.item() == sample.scores.item() == response["reward"]
        for first, last in ranges:
            counts["turns"] += 1
            assert said[tuple(ids[:first]), tuple(ids[first:last])] == response["rollout_log_probs"][first:last]
    assert not any(truth.values())

    lengths = [len(response["observation_tokens"]) for response in responses]
    row = 0
    for batch in with_advantages(samples, loaded.pad_token_id):
        items = remove_padding_in_sequences(split_experience_batch(batch))
        trained = make_experience_batch(items)
        for index in range(len(items)):
            response, length = responses[row], lengths[row]
            assert trained.sequences[index][:length].tolist() == response["observation_tokens"]
            mask = trained.action_mask[index].bool()
            ranges = response["action_ranges"]
            assert mask.nonzero().flatten().tolist() == [place - 1 for pair in ranges for place in range(*pair)]
            wanted = torch.full((int(mask.sum()),), advantages[row])
            torch.testing.assert_close(trained.advantages[index][mask], wanted, rtol=0, atol=1e-6)
            assert not trained.advantages[index][~mask & (torch.cumsum(mask.flip(0), 0).flip(0) == 0)].any()
            row += 1
    assert row == len(responses)
    return counts


async def small_contexts(loaded):
    """Episodes end within max_len, and without log probabilities where OpenRLHF asks for none."""
    from gym_llm.trainers.openrlhf import EpisodeExecutor

    executor, records = recorded(EpisodeExecutor(ENV_ID, tasks=tasks(50)))
    actor = rollout_actor(executor, RandomModel(loaded))
    responses = await respond(actor, ["Go"] * 50, list(range(50)), loaded, max_len=200, logprobs=None)
    assert any(record["truncated"] for record in records)
    assert max(len(response["observation_tokens"]) for response in responses) <= 200
    for sample, response in zip(experiences_of(responses, 200), responses, strict=True):
        assert sample.rollout_log_probs is None
        assert sample.action_mask.sum() == sum(last - first for first, last in response["action_ranges"])
    try:
        await respond(actor, ["Go"], ["0"], loaded)
    except ValueError as error:
        assert "--data.label_key task_index" in str(error), error
    else:
        raise AssertionError("A label that is no task was taken.")
    return {"cut": sum(response["truncated"] for response in responses)}


async def example(loaded, folder):
    """The example's dataset as OpenRLHF reads it, and its agent as OpenRLHF loads it."""
    from datasets import load_dataset
    from openrlhf.datasets.prompts_dataset import PromptDataset
    from openrlhf.trainer.ray.vllm_engine import _load_agent_executor

    sys.argv = ["dataset.py", f"{folder}/train.jsonl", "--tasks", "16"]
    runpy.run_path(str(EXAMPLE / "dataset.py"), run_name="__main__")
    command = (EXAMPLE / "train.sh").read_text("utf-8")
    known = (Path(PACKAGE) / "cli" / "train_ppo_ray.py").read_text("utf-8").replace("{prefix}", "actor")
    options = dict(re.findall(r"--([a-z_.]+\.[a-z_]+)(?: ([^-\\\s]\S*))?", command))
    assert [name for name in options if f'"--{name}"' not in known] == []
    data = types.SimpleNamespace(
        input_key=options["data.input_key"], label_key=options["data.label_key"], apply_chat_template=True
    )
    strategy = types.SimpleNamespace(args=types.SimpleNamespace(data=data), is_rank_0=lambda: False)
    rows = load_dataset("json", data_files=sys.argv[1], cache_dir=folder)["train"]
    prompts = PromptDataset(rows, loaded, strategy)
    _, texts, labels, _ = prompts.collate_fn([prompts[index] for index in range(len(prompts))])
    executor, records = recorded(_load_agent_executor(str(EXAMPLE / "agent.py")))
    responses = await respond(rollout_actor(executor, RandomModel(loaded)), texts, labels, loaded)
    assert all(record["error"] is None for record in records)
    for response in responses:
        first = response["action_ranges"][0][0]
        assert loaded.decode(response["observation_tokens"][:first]) == response["prompt"]
    return {"example": len(responses)}


async def main():
    loaded = tokenizer()
    counts = await thousand(loaded) | await small_contexts(loaded)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(counts | await example(loaded, folder)))


PACKAGE = stand_in_for_gpus()
asyncio.run(main())
