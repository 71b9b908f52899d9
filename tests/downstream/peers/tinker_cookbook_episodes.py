"""1,000 random episodes through the Tinker cookbook's own rollout loop, up to its data."""

import asyncio
import json
import pickle
import random
import runpy
import tempfile
from pathlib import Path

import gymnasium
import torch
from random_talk import ENV_ID, RandomModel, RandomTalk, play, tasks, tokenizer
from tinker_cookbook import tokenizer_utils
from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.exceptions import AllTrajectoriesFailedError
from tinker_cookbook.rl.data_processing import assemble_training_data, compute_advantages
from tinker_cookbook.rl.rollout_strategy import MinViableGroup, RetryOnFailure
from tinker_cookbook.rl.rollouts import do_group_rollout

from gym_llm.errors import EpisodeMasked, JudgeError
from gym_llm.trainers.shared.token_rows import token_rows
from gym_llm.trainers.tinker import TinkerDatasetBuilder, TinkerGroup, trajectory_group

ROOT = Path(__file__).resolve().parents[3]
TASKS, GROUP = 260, 4
LOADED = tokenizer("strips_thinking")
tokenizer_utils.register_tokenizer("random/pocket", lambda: LOADED)


class Policy(TokenCompleter):
    """The random model, as the cookbook asks it."""

    def __init__(self):
        self.model = RandomModel(LOADED)

    async def __call__(self, model_input, stop, *, max_tokens=None):
        assert stop == [LOADED.eos_token_id]
        await asyncio.sleep(0)
        sampled, log_probs = self.model.sample(model_input.to_ints())
        return TokensWithLogprobs(sampled, log_probs)


def tensors(datum):
    """Ids, mask, log probabilities and advantages of a datum, its first id put before them."""
    inputs = {name: data.to_torch() for name, data in datum.loss_fn_inputs.items()}
    ids = [datum.model_input.to_ints()[0], *inputs["target_tokens"].tolist()]
    assert datum.model_input.to_ints() == ids[:-1]
    return ids, *([0.0, *inputs[name].tolist()] for name in ("mask", "logprobs", "advantages"))


def check(data, metadata, expected, advantages):
    """Each datum is a segment of its episode, exactly."""
    data = iter(data)
    for group, episodes in enumerate(expected):
        for number, segments in enumerate(episodes):
            for ids, mask, log_probs in segments:
                datum, origin = next(data), metadata.pop(0)
                assert origin == {"group_idx": group, "traj_idx": number}
                theirs, their_mask, their_log_probs, their_advantages = tensors(datum)
                assert theirs == ids and their_mask == mask and their_log_probs == log_probs
                assert their_advantages == [one * float(advantages[group][number]) for one in mask]
    assert next(data, None) is None and not metadata


def segments_of(record):
    return [(row.input_ids, row.loss_mask, row.logprobs) for row in token_rows(record)]


def said_by(policy, segments):
    """The segments' log probabilities, which only the policy knows, from its notes of what it was asked."""
    notes = {tuple(prompt): (sampled, log_probs) for prompt, sampled, log_probs in policy.model.turns}
    complete = []
    for ids, mask, _ in segments:
        log_probs, index = [0.0] * len(ids), 0
        while index < len(ids):
            if not mask[index]:
                index += 1
                continue
            sampled, theirs = notes[tuple(ids[:index])]
            end = index + len(sampled)
            assert ids[index:end] == sampled and all(mask[index:end])
            log_probs[index:end] = theirs
            index = end
        complete.append((ids, mask, log_probs))
    return complete


class Differing(RandomTalk):
    """Talks that differ between the members of a group, which a seventh of the members' judges fail."""

    def setup(self, task):
        return random.Random(int(self.np_random.integers(2**31)))

    def verify(self, task, episode):
        if episode.state.random() < 1 / 7:
            raise JudgeError("The judge is down.")
        return episode.state.randrange(5) / 4


gymnasium.register(id="tests/Differing-v0", entry_point=Differing, kwargs={"max_turns": 6})


class Watched(TinkerGroup):
    """Remembers which environments its rewards are of, and all that were played."""

    async def make_envs(self):
        envs = await super().make_envs()
        self.made = [*getattr(self, "made", []), *envs]
        return envs

    async def compute_group_rewards(self, trajectory_group, env_group):
        self.scored = [env.record for env in env_group]
        return await super().compute_group_rewards(trajectory_group, env_group)


async def by_their_loop(file):
    """Their policy samples, our environments answer."""
    file.writelines(json.dumps(row) + "\n" for row in tasks(TASKS))
    file.flush()
    builder = TinkerDatasetBuilder(
        env_id="tests/Differing-v0",
        model_name="random/pocket",
        group_size=GROUP,
        groups_per_batch=50,
        limit=TASKS - 10,
        test_limit=10,
        tasks=file.name,
    )
    train, test = await builder()
    assert len(train) == 5 and len(test) == 1 and all(group.group_size == 1 for group in test.get_batch(0))
    policy, groups, watched, errors = Policy(), [], [], 0
    for made in [group for index in range(len(train)) for group in train.get_batch(index)]:
        group = pickle.loads(pickle.dumps(made))
        group.__class__ = Watched
        retries = group.task_index % 5 == 0
        strategy = RetryOnFailure(max_retries=50) if retries else MinViableGroup(min_successful=1, max_retries=0)
        try:
            groups.append(await do_group_rollout(group, policy, strategy=strategy))
        except AllTrajectoriesFailedError:
            errors += GROUP
            continue
        watched.append(group.scored)
        masked = [env.record for env in group.made if env.record is not None and env.record["reward"] is None]
        errors += len(masked)
        assert len(groups[-1].rollout_errors) == len(masked)
        assert all(error.error_type == "EpisodeMasked" for error in groups[-1].rollout_errors)
        assert len(group.scored) == (GROUP if retries else GROUP - len(masked))
        assert not any(record["reward"] is None for record in group.scored)
        assert groups[-1].get_total_rewards() == [record["reward"] for record in group.scored]
    advantages = compute_advantages(groups)
    for records, values in zip(watched, advantages, strict=True):
        rewards = torch.tensor([record["reward"] for record in records])
        assert torch.equal(values, rewards - rewards.mean())
    assert sum(bool(values.any()) for values in advantages) > TASKS / 2
    data, metadata = assemble_training_data(groups, advantages)
    segments = [[said_by(policy, segments_of(record)) for record in records] for records in watched]
    check(data, metadata, segments, advantages)
    return {"scored": sum(map(len, watched)), "data": len(data), "masked": errors}


async def too_long(file):
    """Prompts that are too long: the first, which is not asked, and later ones."""
    policy = Policy()
    first = TinkerGroup(ENV_ID, 0, 2, "random/pocket", tasks=file.name, longest_prompt=3)
    group = await do_group_rollout(first, policy)
    assert [episode.stop_reason for episode in group.trajectories_G] == ["context_overflow"] * 2
    assert not policy.model.turns and assemble_training_data([group], compute_advantages([group]))[0] == []
    later = TinkerGroup("tests/Differing-v0", 0, 40, "random/pocket", tasks=file.name, longest_prompt=200)
    group = await do_group_rollout(later, policy, strategy=MinViableGroup(min_successful=1, max_retries=0))
    reasons = {episode.stop_reason for episode in group.trajectories_G}
    assert "context_overflow" in reasons and "completed" in reasons
    assert max(len(prompt) for prompt, *_ in policy.model.turns) <= 200


async def left_alone(file):
    """Their policy fails: whatever was under way is ended."""

    class Broken(TokenCompleter):
        async def __call__(self, model_input, stop, *, max_tokens=None):
            raise OSError("no server")

    group = TinkerGroup(ENV_ID, 0, 4, "random/pocket", tasks=file.name)
    before = asyncio.all_tasks()
    try:
        await do_group_rollout(group, Broken())
    except OSError:
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def two_epochs_at_once():
    """The cookbook plays the batch of one epoch while it cleans up after that of another."""
    builder = TinkerDatasetBuilder(
        env_id="gym_llm/Arithmetic-v0", model_name="random/pocket", group_size=2, groups_per_batch=1, epochs=2, limit=1
    )
    train, _ = await builder()
    (first,), (second,) = train.get_batch(0), train.get_batch(1)
    (env, _), (other, _) = await first.make_envs(), await second.make_envs()
    assert env._job != other._job
    await env.initial_observation()
    await other.initial_observation()
    await first.cleanup()
    outcome = await other.step([LOADED.eos_token_id])
    assert outcome.episode_done and other.record["error"] is None
    await second.cleanup()


async def constrained():
    """A task's text.format, which the cookbook cannot follow, masks the episode."""
    (task,) = tasks(1)
    task["responses_create_params"]["text"] = {"format": {"type": "json_object"}}
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write(json.dumps(task) + "\n")
        file.flush()
        (env,) = await TinkerGroup(ENV_ID, 0, 1, "random/pocket", tasks=file.name).make_envs()
        try:
            await env.initial_observation()
        except EpisodeMasked as error:
            assert "cannot be constrained" in str(error)
        else:
            raise AssertionError("The constraint was left out.")


def from_records():
    """Records of ours, whoever sampled, in groups of which some members are masked."""
    records = play(TASKS * GROUP)
    random.Random(0).shuffle(records)
    chunks = [records[start : start + GROUP] for start in range(0, len(records), GROUP)]
    groups = [trajectory_group(chunk) for chunk in chunks]
    scored = [[record for record in chunk if record["reward"] is not None] for chunk in chunks]
    advantages = compute_advantages(groups)
    for group, members, values in zip(groups, scored, advantages, strict=True):
        rewards = torch.tensor([record["reward"] for record in members])
        assert torch.allclose(values, rewards - rewards.mean(), atol=1e-6, equal_nan=True)
        assert len(group.rollout_errors) == GROUP - len(members)
    data, metadata = assemble_training_data(groups, advantages)
    check(data, metadata, [[segments_of(record) for record in members] for members in scored], advantages)
    return len(data), sum(len(group.rollout_errors) for group in groups)


async def example():
    """The groups of examples/tinker, with another tokenizer; its model answers at random."""
    blueprint = runpy.run_path(str(ROOT / "examples" / "tinker" / "train_tinker.py"))["config_blueprint"]
    config = blueprint("random/pocket", "gym_llm/Arithmetic-v0").make()
    train, test = await config.dataset_builder()
    assert (len(train), len(test)) == (2048 // 32, 2) and config.max_tokens == 1024
    strategy = config.effective_rollout_strategy()
    groups = [await do_group_rollout(group, Policy(), strategy=strategy) for group in train.get_batch(0)]
    data, _ = assemble_training_data(groups, compute_advantages(groups))
    assert len(groups) == 32 and len(data) >= 32 * 8


async def main():
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        counts = await by_their_loop(file)
        await too_long(file)
        await left_alone(file)
    await two_epochs_at_once()
    await constrained()
    await example()
    return counts


counts = asyncio.run(main())
record_data, record_masked = from_records()
print(json.dumps({**counts, "record_data": record_data, "record_masked": record_masked}))
