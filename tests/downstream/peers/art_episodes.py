"""1,000 random episodes as ART has them, through its own tokenisation and packing."""

import asyncio
import copy
import json
import math
import os
import random
import runpy
from pathlib import Path

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network for prices

import art.trajectories
import torch
from art.preprocessing.pack import packed_tensors_from_tokenized_results
from art.preprocessing.tokenize import tokenize_trajectory_groups
from random_talk import POCKET, RandomModel, play, tokenizer

from gym_llm.trainers.art import InexactTokens, art_tokenizer, trajectory, trajectory_group
from gym_llm.trainers.shared.token_rows import token_rows
from gym_llm.trainers.shared.trainer_engine import TrainerEngine

ROOT = Path(__file__).resolve().parents[3]
EPISODES, GROUP = 1000, 4
TOKENIZER = art_tokenizer(POCKET)


def check(records):
    """Groups of these records, of which some are masked, are tokenised to the records' own ids."""
    random.Random(0).shuffle(records)
    chunks = [records[start : start + GROUP] for start in range(0, len(records), GROUP)]
    groups = [trajectory_group(chunk, TOKENIZER) for chunk in chunks]
    scored = [[record for record in chunk if record["reward"] is not None] for chunk in chunks]
    for group, chunk, members in zip(groups, chunks, scored, strict=True):
        assert [made.reward for made in group.trajectories] == [record["reward"] for record in members]
        assert [("EpisodeMasked" in each.type, "judge is down" in each.message) for each in group.exceptions] == [
            (True, True)
        ] * (len(chunk) - len(members))
    theirs = list(
        tokenize_trajectory_groups(
            TOKENIZER, groups, False, False, shuffle_group_trajectories=False, drop_zero_advantage_trajectories=False
        )
    )
    results = iter(theirs)
    for members in scored:
        mean = sum(record["reward"] for record in members) / len(members) if members else 0.0
        for record in members:
            rows = token_rows(record)
            for row in rows:
                result = next(results)
                assert result.token_ids == row.input_ids and result.assistant_mask == row.loss_mask
                pairs = zip(result.logprobs, row.logprobs, row.loss_mask, strict=True)
                assert all(their == ours if sampled else math.isnan(their) for their, ours, sampled in pairs)
                assert result.advantage == record["reward"] - mean
                assert math.isclose(result.weight, 1 / sum(sum(one.loss_mask) for one in rows), rel_tol=1e-4)
    assert next(results, None) is None
    packed = packed_tensors_from_tokenized_results(theirs, 8192, TOKENIZER.eos_token_id, verbosity=0)
    mask = packed["assistant_mask"].bool()
    rows = [row for members in scored for record in members for row in token_rows(record)]
    sampled = [pair for row in rows for pair in zip(row.input_ids, row.logprobs, row.loss_mask, strict=True) if pair[2]]
    pairs = zip(packed["tokens"][mask].tolist(), packed["logprobs"][mask].tolist(), strict=True)
    assert sorted(pairs) == sorted((token, log_prob) for token, log_prob, _ in sampled)
    assert packed["logprobs"].dtype == torch.float32
    return sum(map(len, scored)), len(rows), sum(len(group.exceptions) for group in groups)


def refused(record):
    """What ART would tokenise in another way is not handed over."""
    record = copy.deepcopy(record)
    segment = record["trajectory"][0]
    new_line = TOKENIZER.encode("user", add_special_tokens=False)
    where = next(index for index in range(len(segment["input_ids"])) if segment["input_ids"][index] == new_line[0])
    letters = [token for letter in "user" for token in TOKENIZER.encode(letter, add_special_tokens=False)]
    assert len(new_line) == 1 and len(letters) == 4
    for name, values in (
        ("input_ids", letters),
        ("loss_mask", [0] * 4),
        ("logprobs", [0.0] * 4),
        ("rewards", [0.0] * 4),
    ):
        if name in segment:
            segment[name][where : where + 1] = values
    try:
        trajectory(record, TOKENIZER)
    except InexactTokens as error:
        assert "segment 1 of" in str(error)
    else:
        raise AssertionError("other ids than the record's were taken")


def example():
    """The groups of examples/art; not played by the pocket model, because ART's patches of transformers break it."""
    script = runpy.run_path(str(ROOT / "examples" / "art" / "train_art.py"))
    model = script["trained_model"](POCKET)
    assert model._internal_config["chat_template"] == TOKENIZER.chat_template
    loaded = tokenizer()
    engine = TrainerEngine(RandomModel(loaded), loaded)
    groups = asyncio.run(script["play"]("gym_llm/Weather-v0", TOKENIZER, engine, seed=0, groups=4, group_size=4))
    theirs = list(tokenize_trajectory_groups(TOKENIZER, groups, False, True, drop_zero_advantage_trajectories=False))
    assert len(groups) == 4 and len(theirs) == 16 and not any(group.exceptions for group in groups)


example()
appended = play(EPISODES, template="pocket", history="append")
several = play(EPISODES)
if not hasattr(art.trajectories, "LegacyHistory"):  # later versions train on the ids that they are given
    refused(next(record for record in appended if record["reward"] is not None))
exact, segments, masked = check(several)
exact_appended, segments_appended, masked_appended = check(appended)
assert exact_appended == segments_appended and masked_appended == masked
print(json.dumps({"episodes": exact + masked, "exact": exact, "segments": segments, "masked": masked}))
