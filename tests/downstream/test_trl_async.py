"""Our episodes in TRL's real AsyncGRPOTrainer: what it takes from the worker, trains on, and is told when they fail."""

import asyncio
import itertools
import os
import random
import threading
import time
from collections import Counter
from types import SimpleNamespace

import gymnasium as gym
import pytest
import random_talk
import torch
from aiohttp import web
from random_talk import POCKET, RandomModel, RandomTalk, tokenizer

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

from transformers import TrainerCallback
from trl.experimental.async_grpo import AsyncGRPOConfig

from gym_llm.agents import AgentEngine
from gym_llm.core.task_sampler import TaskSampler
from gym_llm.engines.around import conversation_of
from gym_llm.engines.engine import EpisodeReport
from gym_llm.errors import EngineError
from gym_llm.rollouts import stream
from gym_llm.trainers.shared.advantages import group_advantages
from gym_llm.trainers.shared.trainer_engine import Sampled, TrainerEngine
from gym_llm.trainers.trl import RolloutWorker
from gym_llm.trainers.trl.async_cpu import cpu_trainer
from gym_llm.trainers.trl.numbered_engine import NumberedEngine

pytestmark = pytest.mark.slow

GROUP = 4
ARITHMETIC = "gym_llm/Arithmetic-v0"


class LongTalk(RandomTalk):
    """Its reward is by what was said."""

    def verify(self, task, episode):
        return len(episode.items) % 5 / 4


gym.register("trl_async_tests/LongTalk-v0", LongTalk, kwargs={"max_turns": 6})


class Talker(RandomModel):
    """Says other things in each episode, and fails in some turns."""

    def __init__(self, tokenizer, fails):
        super().__init__(tokenizer)
        self.fails, self.asked = fails, Counter()

    async def __call__(self, prompt, arguments, episode_id):
        task, repeat = map(int, conversation_of(episode_id).split("-"))
        self.asked[episode_id] += 1
        if self.fails(repeat, self.asked[episode_id]):
            raise EngineError("The model is away.", failure_kind="agent_run_error")
        await asyncio.sleep(random.random() / 1000)  # so that groups end in another order than they begin
        return Sampled(*self.sample([*prompt, task, repeat]))


def arguments(folder, **changed):
    fields = {
        "per_device_train_batch_size": 8,
        "num_generations": GROUP,
        "max_completion_length": 160,
        "token_budget": 0,
        "max_steps": 2,
        "learning_rate": 1e-4,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        **changed,
    }
    return AsyncGRPOConfig(str(folder), **fields)


def make_trainer(args, worker, **hooks):
    return cpu_trainer(
        POCKET,
        args=args,
        train_dataset=worker.train_dataset,
        rollout_worker=worker,
        weight_transfer=worker.weight_transfer,
        **hooks,
    )


def talker(fails=lambda repeat, turn: False):
    loaded = tokenizer("strips_thinking")
    return TrainerEngine(Talker(loaded, fails), loaded, history="template")


@pytest.fixture
def records(monkeypatch):
    """What is played from now on."""
    played, play = [], stream.iter_records

    async def noted(*args, **options):
        async for record in play(*args, **options):
            played.append(record)
            yield record

    monkeypatch.setattr(stream, "iter_records", noted)
    return played


@pytest.fixture
def stopping():
    """Workers to be stopped in the end, whatever happens."""
    workers = []
    yield workers
    for worker in workers:
        worker.stop()


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.01)


def key(ids, mask, log_probs, advantage):
    return tuple(ids), tuple(mask), tuple(log_probs), torch.tensor(advantage, dtype=torch.float32).item()


def key_of(sample):
    """That of one of TRL's samples."""
    arrays = (sample.input_ids, sample.completion_mask, sample.old_log_probs)
    return key(*(array.tolist() for array in arrays), sample.advantage)


def waiting(worker):
    """The samples that TRL has not taken."""
    with worker.rollout_buffer.mutex:
        return list(worker.rollout_buffer.queue)


def expected(records):
    """The samples of complete groups' episodes."""
    groups = {}
    for record in records:
        at = record["rollout_id"]
        groups.setdefault((at["task_index"], at["repeat_index"] // GROUP), []).append(record)
    samples = Counter()
    for group in groups.values():
        if len(group) < GROUP:
            continue
        group.sort(key=lambda record: record["rollout_id"]["repeat_index"])
        advantages = group_advantages([record["reward"] for record in group], GROUP)
        for record, advantage in zip(group, advantages.tolist(), strict=True):
            if record["reward"] is not None:
                for segment in record["trajectory"]:
                    values = (segment[name] for name in ("input_ids", "loss_mask", "logprobs"))
                    samples[key(*values, advantage)] += 1
    return samples


def unpacked(batch):
    """The samples of one of TRL's batches, whose common prefixes it has packed together."""
    flat = {name: batch[name][0] for name in batch}
    starts = flat["tree_cu_seqlens_k"].tolist()
    paths = [flat["tree_kv_index"][a:b].tolist() for a, b in itertools.pairwise(starts)]
    inner = {place for path in paths for place in path[:-1]}
    leaf = {path[-2]: path for path in paths if path[-1] not in inner}
    for sample in range(int(flat["segment_id"].max()) + 1):
        chosen = flat["segment_id"] == sample
        places = flat["token_index"][chosen].tolist()
        # Every sample ends with a sampled token, whose prediction is the last of its terms.
        path = leaf[max(places, key=lambda place: flat["position_ids"][place])]
        depths = [path.index(place) + 1 for place in places]
        mask, log_probs = [0] * len(path), [0.0] * len(path)
        for depth, log_prob in zip(depths, flat["old_log_probs"][chosen].tolist(), strict=True):
            mask[depth], log_probs[depth] = 1, log_prob
        (advantage,) = set(flat["advantages"][chosen].tolist())
        yield key(flat["input_ids"][path].tolist(), mask, log_probs, advantage)


def test_a_thousand_random_episodes_reach_the_trainers_batch_exactly(tmp_path, records, stopping):
    batch_size = 32
    args = arguments(tmp_path, per_device_train_batch_size=batch_size)
    engine = talker(fails=lambda repeat, turn: repeat % 5 == 1 and turn > 1)
    worker = RolloutWorker("trl_async_tests/LongTalk-v0", args, engine=engine, tasks=random_talk.tasks(100))
    stopping.append(worker)
    trainer = make_trainer(args, worker)
    trainer._sync_weight()
    worker.start()
    batches, received = iter(trainer.get_train_dataloader()), Counter()
    while len(trainer._trained_groups) < 1050 // GROUP:
        received.update(unpacked(next(batches)))
    worker.stop()
    samples = expected(records)
    assert not received - samples, "TRL has what is in no record"
    left = Counter(key_of(sample) for sample in waiting(worker))
    assert not left - samples
    # The data loader reads one batch ahead.
    assert (samples - received - left).total() <= 2 * batch_size, "samples were lost on the way to the batch"
    masked = [record for record in records if record["reward"] is None]
    assert len(masked) > 50 and any(record["trajectory"] for record in masked)
    scored = [record for record in records if record["reward"] is not None]
    assert sum(len(record["trajectory"]) > 1 for record in scored) > 300
    assert sum(record["info"]["turn"] for record in scored) > 2 * len(scored)
    assert len({sample[3] for sample in received}) > 10


def test_masked_members_change_nothing(tmp_path, stopping):
    def samples(size, fails):
        args = arguments(tmp_path, num_generations=size, max_staleness=30)
        tasks = random_talk.tasks(100)
        worker = RolloutWorker("trl_async_tests/LongTalk-v0", args, engine=talker(fails), tasks=tasks)
        stopping.append(worker)
        worker.start()
        until(lambda: {sample.group_id for sample in waiting(worker)} >= set(range(16)))
        worker.stop()
        by_task = {}
        for sample in waiting(worker):
            by_task.setdefault(sample.prompt[0]["content"], []).append(key_of(sample))
        return {task: sorted(keys) for task, keys in by_task.items()}

    with_masked = samples(4, lambda repeat, turn: repeat % 4 == 3)
    without = samples(3, lambda repeat, turn: False)
    both = with_masked.keys() & without.keys()
    assert len(both) >= 8
    assert all(with_masked[task] == without[task] for task in both)


class Watching(TrainerCallback):
    """Compares the engine's weights with the trainer's whenever a step begins."""

    def __init__(self, worker):
        self.worker, self.trainer = worker, None
        self.checked = 0

    def on_step_begin(self, args, state, control, model=None, **_):
        engines = dict(self.worker._engine._model.named_parameters())
        for name, parameter in model.named_parameters():
            assert torch.equal(engines[name], parameter.detach()), name
        self.checked += 1


def test_training_goes_on_from_samples_of_the_weights_that_are_trained(tmp_path):
    args = arguments(tmp_path, max_steps=4, max_staleness=1, per_device_train_batch_size=16)
    worker = RolloutWorker(ARITHMETIC, args, engine=f"transformers:{POCKET}", engine_options={"threads": 1})
    watching = Watching(worker)
    trainer = make_trainer(args, worker, callbacks=[watching])
    before = {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}
    trainer.train()
    assert watching.checked == 4
    assert any(not torch.equal(before[name], parameter) for name, parameter in trainer.model.named_parameters())
    steps = [entry for entry in trainer.state.log_history if "ratio" in entry]
    assert [entry["step"] for entry in steps] == [1, 2, 3, 4]
    # The engine's log probabilities are what TRL computes with the attention for CPUs, of samples that share prefixes.
    assert steps[0]["ratio"] == pytest.approx(1, abs=1e-4) and steps[0]["kl"] < 1e-6
    assert steps[0]["sample/staleness_max"] == 0
    assert all(entry["sample/staleness_max"] <= 1 for entry in steps)
    assert all(0 <= entry["reward"] <= 1 and entry["episodes/turns"] == 1 for entry in steps)
    assert all(entry["episodes/failed"] == 0 for entry in steps if "episodes/failed" in entry)
    assert not any(thread.name == "gym_llm rollout worker" for thread in threading.enumerate())
    with pytest.raises(RuntimeError, match="has stopped"):
        worker.check_health(300)


def test_training_ends_with_the_reason_if_every_episode_fails(tmp_path):
    args = arguments(tmp_path)
    engine = talker(fails=lambda repeat, turn: True)
    worker = RolloutWorker(random_talk.ENV_ID, args, engine=engine, tasks=random_talk.tasks(6))
    with pytest.raises(RuntimeError, match=r"rollout worker has ended: Every episode of this batch failed.*away"):
        make_trainer(args, worker).train()


def test_one_that_fails_first_ends_nothing(tmp_path, stopping):
    args = arguments(tmp_path, max_inflight_tasks=1)
    engine = talker(fails=lambda repeat, turn: repeat == 0)
    worker = RolloutWorker(random_talk.ENV_ID, args, engine=engine, tasks=random_talk.tasks(6))
    stopping.append(worker)
    worker.start()
    assert worker.rollout_buffer.get(timeout=60).group_id == 0
    worker.check_health(300)


class Never(TrainerEngine):
    """Does not answer: waits, or blocks whoever waits."""

    def __init__(self, blocks):
        loaded = tokenizer()
        self.blocks, self.asked, self.cancelled = blocks, threading.Event(), 0
        super().__init__(self.wait, loaded)

    async def wait(self, prompt, arguments, episode_id):
        self.asked.set()
        if self.blocks:
            time.sleep(1.5)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def test_a_blocked_event_loop_is_told_and_a_slow_engine_is_not(tmp_path, stopping):
    waiting, blocking = (
        RolloutWorker(ARITHMETIC, arguments(tmp_path, max_inflight_tasks=1), engine=Never(blocks=each))
        for each in (False, True)
    )
    stopping.extend([waiting, blocking])
    for worker in (waiting, blocking):
        worker.start()
        assert worker._engine.asked.wait(60)
    time.sleep(0.6)
    with pytest.raises(RuntimeError, match=r"stuck for .* blocks the event loop"):
        blocking.check_health(0.3)
    until(lambda: time.monotonic() - waiting._beat < 0.2)
    waiting.check_health(300)


def test_stopping_ends_the_episodes_that_are_under_way(tmp_path):
    engine = Never(blocks=False)
    worker = RolloutWorker(ARITHMETIC, arguments(tmp_path), engine=engine)
    worker.stop()  # nothing has begun
    worker.start()
    with pytest.raises(RuntimeError, match="plays already"):
        worker.start()
    assert engine.asked.wait(60)
    worker.stop()
    assert engine.cancelled
    worker.stop()
    assert not any(thread.name == "gym_llm rollout worker" for thread in threading.enumerate())


def test_no_more_is_played_than_trl_takes_before_it_is_stale(tmp_path, stopping):
    args = arguments(tmp_path, max_staleness=2, per_device_train_batch_size=8)
    worker = RolloutWorker(random_talk.ENV_ID, args, engine=talker(), tasks=random_talk.tasks(5))
    stopping.append(worker)
    worker.update_model_version(7)
    worker.start()
    until(lambda: worker.rollout_buffer.qsize() >= 16)
    time.sleep(0.5)
    begun = len(worker._engine._generate.asked)
    assert begun == GROUP * len({sample.group_id for sample in waiting(worker)}), "a group began without room for it"
    worker.update_model_version(8)
    taken = [worker.rollout_buffer.get() for _ in range(worker.rollout_buffer.qsize())]
    assert {sample.model_version for sample in taken} == {7}
    until(lambda: worker.rollout_buffer.qsize() >= 4)
    assert worker.rollout_buffer.get().model_version == 8


def test_trl_counts_the_version_of_a_groups_oldest_token(tmp_path, stopping):
    args = arguments(tmp_path, max_staleness=9, max_inflight_tasks=GROUP)
    worker = RolloutWorker("trl_async_tests/LongTalk-v0", args, engine=talker(), tasks=random_talk.tasks(5))
    stopping.append(worker)
    hand_over, handed = worker._hand_over, []
    worker._hand_over = lambda group: (handed.append(group), hand_over(group))
    worker.start()
    for version in range(1, 40):
        worker.update_model_version(version)
        time.sleep(0.01)
    until(lambda: worker.rollout_buffer.qsize() >= 60)
    worker.stop()
    mixed = 0
    samples = waiting(worker)
    for number, group in enumerate(handed):
        of_tokens = {
            version
            for record in group
            for segment in record["trajectory"]
            for version, mask in zip(segment["weight_versions"], segment["loss_mask"], strict=True)
            if mask
        }
        mixed += len(of_tokens) > 1
        assert {sample.model_version for sample in samples if sample.group_id == number} <= {min(of_tokens)}
    assert mixed and len({sample.model_version for sample in samples}) > 3


def test_one_slow_episode_holds_no_other_group_back(tmp_path, stopping):
    engine, slow = talker(), threading.Event()
    respond = engine.respond

    async def waits(request, *, episode_id=""):
        if not slow.is_set():
            slow.set()
            await asyncio.sleep(60)
        return await respond(request, episode_id=episode_id)

    engine.respond = waits
    args, tasks = arguments(tmp_path, max_staleness=1), random_talk.tasks(9)
    worker = RolloutWorker("trl_async_tests/LongTalk-v0", args, engine=engine, tasks=tasks)
    stopping.append(worker)
    worker.start()
    for _ in range(200):
        worker.rollout_buffer.get(timeout=20)
    assert slow.is_set()


def test_an_agents_samples_have_the_version_of_its_episodes_beginning(tmp_path, stopping):
    async def twice(episode):
        for _ in range(2):
            answer = await episode.respond({"input": episode.request["input"]})
        return {"output": answer["output"]}

    engine = AgentEngine(agent=twice, engine=talker())
    worker = RolloutWorker(random_talk.ENV_ID, arguments(tmp_path), engine=engine, tasks=random_talk.tasks(5))
    stopping.append(worker)
    worker.start()
    versions = set()
    for version in range(1, 20):
        worker.update_model_version(version)
        versions |= {worker.rollout_buffer.get(timeout=20).model_version for _ in range(100)}
    assert len(versions) > 3, versions


def test_each_seat_of_an_agents_episode_has_its_version():
    class Reports(TrainerEngine):
        async def respond(self, request, *, episode_id=""):
            return {"output": []}

        async def end_episode(self, episode_id, *, rewards=(), failed=False):
            return EpisodeReport([{"input_ids": [1, 2], "loss_mask": [0, 1], "logprobs": [0.0, -1.0]}], {})

    async def main():
        engine = NumberedEngine(Reports(None, tokenizer()), lambda: 7)
        found = []
        for name in ("3-0/white", "3-0/white~1", "3-0/black"):
            await engine.respond({"input": []}, episode_id=name)
        for name in ("3-0/white", "3-0/black"):
            found += [segment["weight_versions"] for segment in (await engine.end_episode(name)).trajectory]
        assert found == [[0, 7], [0, 7]] and not engine._begun

    asyncio.run(main())


def test_masked_episodes_do_not_age_their_group(tmp_path):
    worker = RolloutWorker(ARITHMETIC, arguments(tmp_path), engine=talker(), mode="keep")
    worker._errors, worker._checked_at_once, worker._stream = [], 99, SimpleNamespace(counts=Counter(groups=1))
    request = {"input": [{"role": "user", "content": "Hi"}]}
    group = [
        {
            "reward": reward,
            "error": None,
            "info": {},
            "truncated": False,
            "trajectory": [
                {"input_ids": [1, 2], "loss_mask": [0, 1], "logprobs": [0.0, -1.0], "weight_versions": [0, old]}
            ],
            "responses_create_params": request,
            "response": {"output": []},
        }
        for reward, old in ((1.0, 9), (0.0, 8), (None, 2))
    ]
    worker._hand_over(group)
    assert {sample.model_version for sample in waiting(worker)} == {8}


def test_a_sampler_draws_among_the_tasks_of_the_dataset(tmp_path, stopping):
    sampler = TaskSampler(share=0.01, discount=1, seed=1)
    args = arguments(tmp_path, max_staleness=100)
    options = {"tasks": random_talk.tasks(20), "limit": 5, "sampler": sampler}
    worker = RolloutWorker("trl_async_tests/LongTalk-v0", args, engine=talker(), **options)
    stopping.append(worker)
    hand_over, handed = worker._hand_over, []
    worker._hand_over = lambda group: (handed.extend(group), hand_over(group))
    worker.start()
    until(lambda: len(handed) > 200)
    worker.stop()
    assert len(worker.train_dataset) == 5
    assert {record["rollout_id"]["task_index"] for record in handed} == set(range(5))
    assert all(0 < record["info"]["task_probability"] < 1 for record in handed)
    assert len({tuple(record["rollout_id"].values()) for record in handed}) == len(handed)
    assert len({round(sampler.probability(task), 6) for task in range(5)}) > 1


def test_groups_that_are_scored_together_are_played_whole(tmp_path, stopping):
    options = {"engine": talker(), "env_kwargs": {"judge": "random"}}
    worker = RolloutWorker("gym_llm/GenRMCompare-v0", arguments(tmp_path), **options)
    stopping.append(worker)
    worker.start()
    until(lambda: {sample.group_id for sample in waiting(worker)} >= {0, 1})
    worker.check_health(300)


def test_groups_of_equal_rewards_can_be_left_out(tmp_path, stopping):
    worker = RolloutWorker(
        random_talk.ENV_ID, arguments(tmp_path), engine=talker(), tasks=random_talk.tasks(5), drop_equal=True
    )
    stopping.append(worker)
    worker.start()  # RandomTalk's reward depends on the task alone
    until(lambda: worker._stream.counts["groups"] > 20)
    worker.stop()
    assert worker.rollout_buffer.empty()
    counts = [worker.metrics_queue.get() for _ in range(worker.metrics_queue.qsize())]
    assert sum("rollout/dropped_groups_total" in count for count in counts) > 10


async def serve(model, bodies, port):
    """vLLM's completions with token ids, as far as they are asked for."""

    async def models(request):
        return web.json_response({"data": [{"id": POCKET, "max_model_len": 4096}]})

    async def completions(request):
        body = await request.json()
        bodies.append(body)
        ids, log_probs = model.sample(body["prompt"])
        text = model.tokenizer.decode(ids, skip_special_tokens=False)
        choice = {"text": text, "token_ids": ids, "logprobs": {"token_logprobs": log_probs}, "finish_reason": "stop"}
        return web.json_response({"choices": [choice]})

    app = web.Application()
    app.add_routes([web.get("/v1/models", models), web.post("/v1/completions", completions)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port.append(runner.addresses[0][1])
    await asyncio.Event().wait()


@pytest.fixture
def server():
    """The URL of a server, and the bodies of what it was asked."""
    bodies, port = [], []
    loop = asyncio.new_event_loop()
    task = loop.create_task(serve(RandomModel(tokenizer()), bodies, port))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    until(lambda: port)
    yield f"http://127.0.0.1:{port[0]}", bodies
    loop.call_soon_threadsafe(task.cancel)
    until(task.done)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_a_server_is_asked_for_token_ids_and_trl_gives_it_its_weights(tmp_path, server, stopping):
    url, bodies = server
    args = arguments(
        tmp_path, vllm_server_base_url=url, temperature=0.7, top_k=5, max_completion_length=50, token_budget=None
    )
    worker = RolloutWorker(random_talk.ENV_ID, args, tasks=random_talk.tasks(5))
    stopping.append(worker)
    assert worker.weight_transfer is None
    worker.start()
    sample = worker.rollout_buffer.get(timeout=60)
    assert sample.completion_mask.sum() > 0 and sample.prompt[0]["content"].startswith("Go ")
    fields = {"temperature": 0.7, "top_k": 5, "max_tokens": 50, "return_token_ids": True}
    assert bodies[0].items() >= fields.items()


@pytest.mark.parametrize(
    ("changed", "options", "message"),
    [
        ({"token_budget": None}, {}, "needs token_budget"),
        ({"temperature": 0.5}, {}, "temperature=0.5"),
        ({}, {"mode": "now"}, "mode is wait, keep or recompute"),
        ({"top_k": 5}, {}, "top_k=5"),
        ({"max_tool_calling_iterations": 3}, {}, "max_turns"),
        ({}, {"engine": "constant:hello"}, "or another with weights"),
        ({}, {"env_wrappers": []}, "TokenIdTracking"),
        ({}, {"engine": talker(), "engine_options": {"seed": 1}}, "made already"),
    ],
)
def test_what_cannot_be_followed_is_refused(tmp_path, changed, options, message):
    with pytest.raises(ValueError, match=message):
        RolloutWorker(ARITHMETIC, arguments(tmp_path, **changed), **{"engine": f"transformers:{POCKET}", **options})
