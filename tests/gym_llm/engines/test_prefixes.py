"""Prompts that begin alike are read once, and nobody can tell from the answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from testing import POCKET
from transformers import AutoModelForCausalLM, AutoTokenizer

from gym_llm.engines import decoding
from gym_llm.engines.decoding import Decoder, TokenSequence
from gym_llm.engines.prefixes import BLOCK, PrefixIndex
from gym_llm.engines.transformers import TransformersEngine

pytestmark = pytest.mark.slow


def load() -> Any:
    return AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32, attn_implementation="sdpa").eval()


@pytest.fixture(scope="module")
def model() -> Any:
    return load()


def tokens(seed: int, count: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, 900, count).tolist()


def sequence(prompt: list[int], seed: int, new_tokens: int = 6) -> TokenSequence:
    return TokenSequence(prompt, new_tokens, 1.0, 1.0, np.random.default_rng(seed), seed)


def alone(model: Any, one: TokenSequence) -> TokenSequence:
    """The same sequence, generated with nobody beside it."""
    again = sequence(one.prompt, one.owner, one.max_new_tokens)
    decoder = Decoder(model, [])
    decoder.add([again])
    while decoder.sequences:
        decoder.step()
    return again


def check(model: Any, sequences: list[TokenSequence]) -> None:
    """Each has sampled what it samples alone."""
    for one in sequences:
        expected = alone(model, one)
        assert one.sampled == expected.sampled
        assert one.log_probs == pytest.approx(expected.log_probs, abs=2e-4)


@contextmanager
def counted(model: Any) -> Iterator[list[int]]:
    """How many tokens the model reads in each forward pass of several tokens, padding included."""
    sizes: list[int] = []

    def count(_module: Any, _args: Any, kwargs: Any) -> None:
        if kwargs["input_ids"].shape[1] > 1:
            sizes.append(kwargs["input_ids"].numel())

    handle = model.register_forward_pre_hook(count, with_kwargs=True)
    try:
        yield sizes
    finally:
        handle.remove()


def play(model: Any, *arrivals: list[TokenSequence]) -> list[int]:
    """Add the sequences of each arrival two steps after the one before; how many tokens were read in each pass."""
    decoder = Decoder(model, [])
    with counted(model) as sizes:
        for arriving in arrivals:
            decoder.add(arriving)
            for _ in range(2):
                decoder.step()
        while decoder.sequences:
            decoder.step()
    return sizes


def test_a_group_s_prompt_is_read_once(model: Any) -> None:
    prompt = tokens(0, 300)
    group = [sequence(prompt, seed) for seed in range(8)]
    assert play(model, group) == [299]
    assert len({tuple(one.sampled) for one in group}) > 1
    check(model, group)


def test_short_prompts_are_shared_too(model: Any) -> None:
    group = [sequence(prompt, seed) for prompt in (tokens(1, 20), tokens(2, 9)) for seed in range(3)]
    assert sum(play(model, group)) == 2 * 19  # the two in one pass, the shorter one padded
    check(model, group)


def test_a_member_that_comes_later_takes_it_from_one_that_is_under_way(model: Any) -> None:
    prompt = tokens(3, 200)
    first, later = sequence(prompt, 0), [sequence(prompt, seed) for seed in (1, 2)]
    assert play(model, [first], later) == [199]
    check(model, [first, *later])


def test_one_that_comes_when_the_others_have_finished_takes_it_from_them(model: Any) -> None:
    prompt = tokens(4, 100)
    early, late = sequence(prompt, 0, new_tokens=2), sequence(prompt, 1)
    beside = sequence(tokens(5, 30), 2, new_tokens=9)
    assert play(model, [early, beside], [late]) == [2 * 99]
    check(model, [early, beside, late])


def turns(model: Any, decoder: Decoder) -> list[int]:
    """Play two turns of one conversation; how many tokens were read in each pass."""
    first = sequence(tokens(20, 100), 0, new_tokens=50)
    with counted(model) as sizes:
        generate(decoder, first)
        second = sequence([*first.tokens, *tokens(21, 30)], 1)
        generate(decoder, second)
    check(model, [first, second])
    return sizes


def generate(decoder: Decoder, one: TokenSequence) -> None:
    decoder.add([one])
    while not one.finished:
        decoder.step()


def test_a_next_turn_reads_what_is_new_and_less_than_a_block_of_the_last_turn(model: Any) -> None:
    assert turns(model, Decoder(model, [], keeps=True)) == [99, 179 - 2 * BLOCK]
    beside = Decoder(model, [])
    beside.add([sequence(tokens(22, 10), 5, new_tokens=200)])
    assert turns(model, beside) == [99, 179 - 2 * BLOCK]


def test_nothing_is_kept_of_an_empty_batch_or_of_other_weights(model: Any) -> None:
    assert turns(model, Decoder(model, [])) == [99, 179]
    decoder = Decoder(model, [], keeps=True)
    one, again = sequence(tokens(23, 100), 0), sequence(tokens(23, 100), 0)
    with counted(model) as sizes:
        generate(decoder, one)
        decoder.change_weights(1, recompute=False)
        generate(decoder, again)
    assert sizes == [99, 99] and again.sampled == one.sampled


@pytest.mark.parametrize("is_under_way", [False, True])
def test_keys_and_values_of_old_weights_stay_with_their_sequence(model: Any, is_under_way: bool) -> None:
    decoder = Decoder(model, [], keeps=True)
    one, again = sequence(tokens(24, 100), 0), sequence(tokens(24, 100), 0)
    with counted(model) as sizes:
        decoder.add([one])
        decoder.step()
        decoder.change_weights(1, recompute=False)
        while not (is_under_way or one.finished):
            decoder.step()
        generate(decoder, again)
    assert sizes == [99, 99]


def test_a_sequence_larger_than_the_limit_drops_nothing(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "KEPT_BYTES", 150 * 2048)
    decoder = Decoder(model, [], keeps=True)
    with counted(model) as sizes:
        for seed, count in ((25, 100), (26, 300), (25, 100)):
            generate(decoder, sequence(tokens(seed, count), seed))
    assert sizes == [99, 299]


def test_what_is_kept_is_bounded_and_the_oldest_goes_first(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "KEPT_BYTES", 250 * 2048)  # the pocket model's keys and values of 250 tokens
    decoder, prompts = Decoder(model, [], keeps=True), [tokens(30 + n, 100) for n in range(3)]
    with counted(model) as sizes:
        for number in (0, 1, 0, 2, 0, 1):
            generate(decoder, sequence(prompts[number], number))
    # The second use of 0 makes 1 the oldest, and what is kept of 2 takes its place.
    assert sizes == [99, 99, 99, 99]


def test_different_prompts_share_the_blocks_that_they_begin_with(model: Any) -> None:
    system = tokens(6, 3 * BLOCK + 10)
    groups = [[sequence(system + tokens(task, 20), 10 * task + n) for n in range(3)] for task in range(7, 10)]
    sequences = [one for group in groups for one in group]
    whole, rest = len(system) + 20 - 1, 10 + 20 - 1
    assert play(model, sequences) == [whole, 2 * rest]
    check(model, sequences)


def test_a_next_turn_takes_over_what_another_member_has_of_it(model: Any) -> None:
    prompt = tokens(10, 2 * BLOCK + 1)
    first = sequence(prompt, 0)
    second_turn = sequence([*prompt, *tokens(11, 40)], 1)
    assert play(model, [first], [second_turn]) == [2 * BLOCK, 40]
    check(model, [first, second_turn])


def test_one_more_token_than_the_others_is_no_trap(model: Any) -> None:
    prompt = tokens(12, 2 * BLOCK + 2)
    lengths = (2 * BLOCK - 1, 2 * BLOCK, 2 * BLOCK + 1, 2 * BLOCK + 2, BLOCK, BLOCK + 1, 1, 2)
    sequences = [sequence(prompt[:length], length) for length in lengths]
    play(model, sequences)
    check(model, sequences)


def test_those_that_leave_take_nothing_from_the_others(model: Any) -> None:
    prompt = tokens(13, 150)
    group = [sequence(prompt, seed, new_tokens=12) for seed in range(5)]
    late = [sequence(prompt, seed, new_tokens=12) for seed in range(5, 8)]
    decoder = Decoder(model, [])
    decoder.add(group)
    decoder.step()
    decoder.drop([group[0], group[2]])  # the one that was read, and one whose slot another one takes
    decoder.add(late)
    decoder.step()
    decoder.drop([group[1], late[0]])
    while decoder.sequences:
        decoder.step()
    check(model, [group[3], group[4], late[1], late[2]])


def test_any_mixture_samples_what_each_samples_alone(model: Any) -> None:
    draw = random.Random(0)
    trunks = [tokens(seed, 400) for seed in range(20, 23)]
    arrivals = []
    for number in range(8):
        arriving = []
        for place in range(draw.randrange(1, 6)):
            prompt = trunks[draw.randrange(3)][: draw.choice((1, 2, 63, 64, 65, 66, 128, 129, 200, 400))]
            prompt = prompt + tokens(draw.randrange(4), draw.choice((0, 0, 1, 70)))
            arriving.append(sequence(prompt, 100 * number + place, draw.randrange(1, 9)))
        arrivals.append(arriving)
    read = sum(play(model, *arrivals))
    sequences = [one for arriving in arrivals for one in arriving]
    assert read < sum(len(one.prompt) for one in sequences)
    check(model, sequences)


def test_what_is_read_at_once_is_bounded(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "PREFILL_TOKENS", 500)
    system = tokens(30, 2 * BLOCK)
    sequences = [sequence(system + tokens(seed, 30 + seed % 3), seed) for seed in range(31, 41)]
    assert max(play(model, sequences)) <= 500
    check(model, sequences)


def test_prompts_whose_hashes_agree_are_compared() -> None:
    one, other = sequence(tokens(50, 100), 0), sequence(tokens(51, 100), 0)
    other.prefix_keys = one.prefix_keys
    assert PrefixIndex([one]).longest(other) == (None, 0)
    assert PrefixIndex([one]).longest(one) == (one, 99)


# A trainer's model ---------------------------------------------------------------------------------------------------


def change(model: Any) -> None:
    """A step of a trainer, in place."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)


@pytest.mark.parametrize("end", ["answered", "cancelled"])
def test_nothing_that_was_read_outlives_a_change_of_the_weights(end: str) -> None:
    trained, tokenizer = load(), AutoTokenizer.from_pretrained(POCKET)
    request = {"input": [{"role": "user", "content": "How much is 17 + 25? " * 20}]}

    async def ask(engine: TransformersEngine, count: int, new_tokens: int) -> list[Any]:
        asked = {**request, "max_output_tokens": new_tokens, "temperature": 2.0}
        answers = (engine.respond(asked, episode_id=f"{n}") for n in range(count))  # type: ignore[arg-type]
        return [response["output"][-1] for response in await asyncio.gather(*answers)]

    async def main() -> list[Any]:
        async with TransformersEngine.of(trained, tokenizer, threads=1) as engine:
            if end == "answered":
                await ask(engine, 4, 5)
            else:
                under_way = asyncio.create_task(ask(engine, 4, 2000))
                while not engine._decoder.sequences:
                    await asyncio.sleep(0.001)
                under_way.cancel()
                await asyncio.gather(under_way, return_exceptions=True)
            change(trained)
            return await ask(engine, 4, 8)

    for turn in asyncio.run(main()):
        prompt, sampled = turn["prompt_token_ids"], turn["generation_token_ids"]
        with torch.inference_mode():
            logits = trained(torch.tensor([prompt + sampled])).logits[0, len(prompt) - 1 : -1]
        expected = logits.log_softmax(-1).gather(1, torch.tensor(sampled)[:, None])[:, 0].tolist()
        assert turn["generation_log_probs"] == pytest.approx(expected, abs=2e-3)
