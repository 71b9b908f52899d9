"""How the pocket model is made: its corpus and its training, on a small scale."""

import doctest
import itertools
import random
import re
import subprocess

import pytest
from testing import ROOT
from transformers import AutoTokenizer
from warm import bin_folder

import gym_llm

pytestmark = pytest.mark.slow

SCRIPTS = ROOT / "examples" / "pocket"
MODEL = ROOT / "gym_llm" / "engines" / "pocket" / "model"

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(SCRIPTS)
    import scratchpad
    from corpus import conversations
    from scratchpad import work_out
    from train import render


def test_the_example_in_the_docstring_runs():
    assert doctest.testmod(scratchpad) == (0, 1)


def test_scratchpads_without_slips_are_right_and_with_slips_sometimes_wrong():
    rng = random.Random(0)
    wrong = 0
    for _ in range(2000):
        numbers = [rng.randrange(10 ** rng.randint(1, 4)) for _ in range(3)]
        signs = [rng.choice("+-") for _ in range(2)]
        right = eval(f"{numbers[0]}{signs[0]}{numbers[1]}{signs[1]}{numbers[2]}")  # noqa: S307 - digits and signs only
        lines, value = work_out(numbers, signs, rng, slip=0.0)
        assert value == right and lines[-1] == f"={right}"
        wrong += work_out(numbers, signs, rng, slip=0.1)[1] != right
    assert 200 < wrong < 1800


def test_every_turn_of_the_corpus_that_is_learned_starts_with_thinking():
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    for conversation in itertools.islice(conversations(seed=5, slip=0.1), 300):
        ids, learned = render(tokenizer, conversation)
        text = "".join(tokenizer.decode([token]) if own else "\0" for token, own in zip(ids, learned, strict=True))
        turns = [turn for turn in text.split("\0") if turn]
        assert turns and all(re.match(r"<think>\n.+\n</think>\n\n.+<\|im_end\|>$", turn, re.DOTALL) for turn in turns)


def test_training_writes_a_model_that_answers_and_is_reproducible(tmp_path):
    command = [
        str(bin_folder() / "python"),
        str(SCRIPTS / "train.py"),
        "--steps",
        "3",
        "--hidden",
        "64",
        "--layers",
        "1",
    ]
    for name in ("a", "b"):
        subprocess.run([*command, "--threads", "1", "--output", str(tmp_path / name)], check=True, capture_output=True)
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name
    assert {file.name for file in MODEL.iterdir()} == {file.name for file in (tmp_path / "a").iterdir()}
    records = gym_llm.collect(
        "gym_llm/Weather-v0", f"transformers:{tmp_path / 'a'}", episodes=2, sampling={"max_output_tokens": 10}
    )
    assert [record["error"] for record in records] == [None, None]
