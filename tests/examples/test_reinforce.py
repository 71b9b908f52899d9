"""The loop without a trainer: what it learns from is what was sampled, and it runs."""

import asyncio
from importlib import resources

import pytest
import torch
from testing import ROOT
from transformers import AutoModelForCausalLM

import gym_llm

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "examples")
    import reinforce

pytestmark = pytest.mark.slow


def test_the_loss_is_that_of_what_was_sampled():
    records = gym_llm.collect("gym_llm/Arithmetic-v0", limit=3, sampling={"temperature": 1.0})
    learned = [(segment, 2.0) for record in records for segment in record["trajectory"]]
    pocket = str(resources.files("gym_llm.engines.pocket") / "model")
    model = AutoModelForCausalLM.from_pretrained(pocket, dtype=torch.float32).eval()
    expected = -2.0 * sum(sum(segment["logprobs"]) for segment, _ in learned)
    assert reinforce.policy_loss(model, learned).item() == pytest.approx(expected, rel=1e-3)


def test_it_plays_and_learns(capsys):
    means, before, after = asyncio.run(reinforce.train(steps=2, learning_rate=1e-5, held_out=64, seed=0))
    said = capsys.readouterr().out.splitlines()
    assert [line.partition("  ")[0] for line in said if line.startswith("step")] == ["step 1/2", "step 2/2"]
    assert len(means) == 2
    # What the pocket model can do, give or take three standard deviations of 64 episodes.
    assert 0.6 < before < 0.95 and 0.6 < after < 0.95


def test_it_does_not_learn_from_held_out_sums(capsys, monkeypatch):
    monkeypatch.setattr(reinforce, "problem", lambda record: "the same")
    asyncio.run(reinforce.train(steps=1, learning_rate=1e-5, held_out=1, seed=0))
    assert "step 1/1  mean reward nan  learned from 0 episodes" in capsys.readouterr().out


def test_a_sum_is_the_same_in_other_words():
    def asked(words):
        return {"responses_create_params": {"input": [{"role": "user", "content": words}]}}

    sums = ["What is 85 - 51? Put the answer in \\boxed{}.", "Compute 85 - 51. Put the answer in \\boxed{}."]
    assert [reinforce.problem(asked(words)) for words in sums] == ["85 - 51", "85 - 51"]


def test_a_picture_is_drawn(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "sys.argv", ["reinforce.py", "--steps=1", "--held-out=8", f"--picture={tmp_path / 'curve.png'}"]
    )
    reinforce.main()
    assert "8 held-out sums: mean reward" in capsys.readouterr().out
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
