"""A trainer's sampling as an engine: it is asked for exactly what is in the record, and its doing is the record's."""

import asyncio

import pytest
import random_talk
from random_talk import ENV_ID, RandomModel, tasks, tokenizer

import gym_llm
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.rollouts.plan import Job
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.trainers.shared.env_pool import EnvPool
from gym_llm.trainers.shared.token_rows import token_rows
from gym_llm.trainers.shared.trainer_engine import Sampled, TrainerEngine

pytestmark = pytest.mark.slow


def played(generate, count=1, sampling=None, env_kwargs=None, **options):
    loaded = tokenizer()
    engine = TrainerEngine(generate, loaded, **options)
    rows = tasks(count)
    return gym_llm.collect(
        ENV_ID, engine, tasks=rows, env_kwargs=env_kwargs, retries=0, sampling=sampling, progress=False
    )


@pytest.mark.filterwarnings("ignore:.*masked")
@pytest.mark.parametrize(("template", "history"), [("strips_thinking", "template"), ("pocket", "append")])
def test_records_hold_what_was_asked_and_said(template, history):
    loaded = tokenizer(template)
    model = RandomModel(loaded)
    engine = TrainerEngine(model, loaded, history=history)
    records = gym_llm.collect(ENV_ID, engine, tasks=tasks(100), retries=0)
    told = {(tuple(prompt), tuple(sampled), tuple(log_probs)) for prompt, sampled, log_probs in model.turns}
    recorded = set()
    for record in records:
        for segment in record["trajectory"]:
            ids, mask, log_probs = segment["input_ids"], segment["loss_mask"], segment["logprobs"]
            starts = [n for n in range(len(ids)) if mask[n] and not mask[n - 1]]
            for start in starts:
                end = next((n for n in range(start, len(ids)) if not mask[n]), len(ids))
                recorded.add((tuple(ids[:start]), tuple(ids[start:end]), tuple(log_probs[start:end])))
    assert recorded == told


def test_it_is_given_the_sampling_and_what_is_left_of_the_context():
    asked = []

    async def generate(prompt, arguments, episode_id):
        asked.append((len(prompt), arguments, episode_id))
        return Sampled([5], [-0.5])

    (record,) = played(generate, sampling={"temperature": 0.5, "max_output_tokens": 9}, context=500)
    assert asked[0][1] == {"temperature": 0.5, "max_tokens": 9, "logprobs": 0} and asked[0][2] == "0-0"
    assert record["outcome"] == "truncated"  # its only token does not end the turn
    played(generate, context=asked[0][0] + 3)
    assert asked[1][1]["max_tokens"] == 3
    (full,) = played(generate, context=asked[0][0])
    assert len(asked) == 2 and full["outcome"] == "truncated" and not full["trajectory"]


def test_a_turn_that_ends_at_a_stop_text_is_complete_and_without_it():
    answer = tokenizer().encode("x 42</answer>")

    async def generate(prompt, arguments, episode_id):
        return Sampled(answer, [-0.5] * len(answer))

    async def says_so(prompt, arguments, episode_id):
        return Sampled(answer, [-0.5] * len(answer), stopped=True)

    def last(record):
        return record["response"]["output"][-1]["content"][0]["text"], record["outcome"]

    (record,) = played(generate, sampling={"stop": ["never", "</answer>"]}, env_kwargs={"max_turns": 1})
    assert record["response"]["status"] == "completed" and last(record)[0] == "x 42"
    assert record["trajectory"][0]["input_ids"][-len(answer) :] == answer
    assert played(says_so, env_kwargs={"max_turns": 1})[0]["response"]["status"] == "completed"
    assert played(generate, env_kwargs={"max_turns": 1})[0]["response"]["status"] == "incomplete"


def test_no_log_probabilities_are_zeros_and_too_few_are_a_fault():
    async def silent(prompt, arguments, episode_id):
        return Sampled([5], None)

    async def short(prompt, arguments, episode_id):
        return Sampled([5, 6], [-0.5])

    assert played(silent)[0]["trajectory"][0]["logprobs"][-1] == 0.0
    with pytest.raises(gym_llm.errors.TooManyFailures, match="sampled 2 tokens and reported 1 log prob"):
        played(short)


def test_single_episodes_are_played_side_by_side_and_their_environments_used_again():
    async def play():
        loaded = tokenizer()
        player = EnvPool(EnvFactory(ENV_ID, tasks=tasks(5)))
        engine = TrainerEngine(RandomModel(loaded), loaded)
        settings = RolloutSettings(retries=0)
        at_once = await asyncio.gather(*(player.play(Job(n % 5, n), engine, settings) for n in range(20)))
        made = player._made
        again = [await player.play(Job(n % 5, n), engine, settings) for n in range(20)]
        assert 1 <= made == player._made <= 20
        await player.aclose()
        return at_once, again

    at_once, again = asyncio.run(play())
    assert [one["trajectory"] for one in at_once] == [one["trajectory"] for one in again]
    assert [one["rollout_id"] for one in at_once] == [{"task_index": n % 5, "repeat_index": n} for n in range(20)]


def test_an_episode_that_is_cancelled_frees_its_environment():
    async def play():
        player = EnvPool(EnvFactory(random_talk.ENV_ID, tasks=tasks(1)))

        async def never(prompt, arguments, episode_id):
            await asyncio.Event().wait()

        running = asyncio.create_task(player.play(Job(0, 0), TrainerEngine(never, tokenizer())))
        await asyncio.sleep(0.05)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        loaded = tokenizer()
        record = await player.play(Job(0, 0), TrainerEngine(RandomModel(loaded), loaded))
        assert record["error"] is None and player._made == 1
        await player.aclose()

    asyncio.run(play())


def test_a_turn_under_a_format_says_so_and_its_row_marks_the_sampled_ids():
    async def generate(prompt, arguments, episode_id):
        return Sampled([5, 6], [-0.5, -0.25])

    (record,) = played(generate, sampling={"text": {"format": {"type": "json_object"}}})
    (row,) = token_rows(record)
    assert row.constrained == row.loss_mask and sum(row.constrained) == 2
    (free,) = played(generate)
    assert token_rows(free)[0].constrained is None
