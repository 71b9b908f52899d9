"""1,000 random episodes as prime-rl's TrainingSamples, encoded and decoded as msgspec has them.

The contract is written down here: `TrainingSample` and the fields of `MicroBatch` that are made of it, from
src/prime_rl/transports/rollouts/types.py of github.com/PrimeIntellect-ai/prime-rl at commit
559b44772e471d1538537b8805cc77f3824a5e64. With the path of a checkout's `src` as the argument its own types, its
`prepare_batch` and its filesystem transport are used instead.
"""

import asyncio
import json
import logging
import random
import sys
import tempfile
import types
from pathlib import Path

import msgspec
import numpy as np
from random_talk import play

from gym_llm.trainers.prime_rl import sample_fields, training_samples
from gym_llm.trainers.shared.advantages import group_advantages

GROUP, TEMPERATURE, WORKERS = 8, 0.5, 2


class RoutedExperts(msgspec.Struct, array_like=True, gc=False, omit_defaults=True):
    data: bytes
    shape: list[int]
    dtype: str


class TrainingSample(msgspec.Struct, array_like=True, gc=False, omit_defaults=True):
    token_ids: list[int]
    mask: list[bool]
    logprobs: list[float]
    temperatures: list[float]
    env_name: str
    ref_logprobs: list[float] | None = None
    mm_kwargs: dict[str, object] | None = None
    routed_experts: RoutedExperts | None = None
    mm_token_type_ids: list[int] | None = None
    rl_weights: list[float] | None = None
    ce_weights: list[float] | None = None
    ref_kl_weights: list[float] | None = None
    advantages: list[float] | None = None


def package(name, path=None, **contents):
    module = types.ModuleType(name)
    module.__path__ = [] if path is None else [str(path)]
    module.__dict__.update(contents)
    sys.modules[name] = module


def load_prime_rl(source):
    """The real modules, or those of the contract."""
    if source is None:
        for name in ("prime_rl", "prime_rl.transports", "prime_rl.transports.rollouts"):
            package(name)
        package("prime_rl.transports.rollouts.types", TrainingSample=TrainingSample, RoutedExperts=RoutedExperts)
        return TrainingSample
    for name in ("prime_rl", "prime_rl.transports", "prime_rl.transports.rollouts", "prime_rl.trainer"):
        package(name, Path(source, *name.split(".")))  # their __init__ import what is for GPUs
    package("prime_rl.utils", Path(source, "prime_rl", "utils"))
    package("prime_rl.utils.logger", get_logger=lambda: logging.getLogger("prime_rl"))
    from prime_rl.transports.rollouts.types import TrainingSample as Real

    assert Real.__struct_fields__ == TrainingSample.__struct_fields__
    assert Real.__struct_defaults__ == TrainingSample.__struct_defaults__
    assert Real.__struct_config__.array_like and Real.__struct_config__.omit_defaults
    return Real


def through_prime_rl(samples):
    """What its trainer reads, after its packing and its filesystem transport: a sample's fields by its ids."""
    from prime_rl.trainer.batch import build_bin_cost, prepare_batch
    from prime_rl.transports.rollouts.filesystem import FileSystemMicroBatchReceiver, FileSystemMicroBatchSender

    grid = prepare_batch(samples, seq_len=8192, num_train_workers=WORKERS, bin_cost=build_bin_cost(None))
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(FileSystemMicroBatchSender(Path(folder), WORKERS).send(grid))
        for rank in range(WORKERS):
            for batch in FileSystemMicroBatchReceiver(Path(folder), rank).receive():
                start = 0
                for length in batch.sequence_lengths:
                    part = slice(start, start + length)
                    start += length
                    if any(batch.loss_mask[part]):  # else it fills a rank up
                        found[tuple(batch.input_ids[part])] = (
                            batch.loss_mask[part],
                            batch.inference_logprobs[part],
                            batch.temperatures[part],
                            batch.advantages[part],
                        )
    return found


def main(source=None):
    cls = load_prime_rl(source)
    records = play(1000)
    random.Random(0).shuffle(records)
    for number, record in enumerate(records):
        record["rollout_id"] = {"task_index": number // GROUP, "repeat_index": number % GROUP}
    samples = training_samples(records, GROUP, temperature=TEMPERATURE)
    assert all(type(sample) is cls for sample in samples)
    wire = msgspec.msgpack.encode(samples)
    decoded = msgspec.msgpack.Decoder(type=list[cls]).decode(wire)
    assert decoded == samples
    if source is None:
        found = {
            tuple(each.token_ids): (each.mask, each.logprobs, each.temperatures, each.advantages) for each in decoded
        }
    else:
        found = through_prime_rl(decoded)

    expected = 0
    for start in range(0, len(records), GROUP):
        group = records[start : start + GROUP]
        scored = [record["reward"] for record in group if record["reward"] is not None]
        for record in group:
            for segment in record["trajectory"]:
                if record["reward"] is None or 1 not in segment["loss_mask"]:
                    assert tuple(segment["input_ids"]) not in found
                    continue
                expected += 1
                mask, logprobs, temperatures, advantages = found[tuple(segment["input_ids"])]
                assert mask == [one == 1 for one in segment["loss_mask"]]
                assert logprobs == segment["logprobs"]
                assert temperatures == [TEMPERATURE] * len(mask)
                wanted = np.array(segment["loss_mask"]) * (record["reward"] - np.mean(scored))
                np.testing.assert_allclose(advantages, wanted, rtol=0, atol=1e-12)
    assert expected == len(found) == len(samples)
    assert all(sample.env_name == "tests/RandomTalk-v0" for sample in samples)
    rewards = [record["reward"] for record in records]
    scaled = sample_fields(records, GROUP, advantages=group_advantages(rewards, GROUP).tolist())
    assert {max(map(abs, one["advantages"])) for one in scaled} != {max(map(abs, one.advantages)) for one in samples}
    masked = sum(reward is None for reward in rewards)
    print(json.dumps({"episodes": len(records), "segments": expected, "masked": masked, "bytes": len(wire)}))


main(*sys.argv[1:])
