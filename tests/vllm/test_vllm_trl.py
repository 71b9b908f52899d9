"""GRPO on vLLM: what it samples is what the trainer's weights say, step after step."""

import json
import os
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path

import pytest

pytest.importorskip("trl")
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import psutil
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from gym_llm.trainers.trl import RolloutFunc

POCKET = str(resources.files("gym_llm.engines.pocket") / "model")


@torch.no_grad()
def log_probs(model, prompt, completion):
    ids = torch.tensor([prompt + completion])
    scores = model(input_ids=ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    return scores.gather(1, ids[0, len(prompt) :, None])[:, 0].tolist()


@pytest.mark.parametrize(
    "adapters",
    [
        pytest.param(None, id="all weights"),
        pytest.param(LoraConfig(target_modules="all-linear"), id="adapters", marks=pytest.mark.nightly),
    ],
)
def test_vllm_samples_with_the_trainers_weights_of_every_step(tmp_path, adapters):
    weather = RolloutFunc("gym_llm/Weather-v0", engine="vllm:pocket", engine_options={"dtype": "float32"})
    calls = []

    def watched(prompts, trainer):
        output = weather(prompts, trainer)
        pairs = zip(output["prompt_ids"], output["completion_ids"], strict=True)
        calls.append((output, [log_probs(trainer.model, *pair) for pair in pairs]))
        return output

    args = GRPOConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=300,
        max_steps=3,
        learning_rate=2e-3,
        logging_steps=1,
        bf16=False,
        use_cpu=True,
        gradient_checkpointing=False,
        report_to="none",
        save_strategy="no",
    )
    model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32)
    trainer = GRPOTrainer(
        model,
        args=args,
        train_dataset=weather.dataset(6),
        processing_class=AutoTokenizer.from_pretrained(POCKET),
        rollout_func=watched,
        reward_funcs=weather.reward,
        peft_config=adapters,
    )
    with weather:
        trainer.train()
        watched(weather.dataset(2)["prompt"][:] * 4, trainer)
        # Weights that change without a step: the best checkpoint's, or those of a training that begins anew.
        with torch.no_grad():
            norm = trainer.model.get_decoder().norm if adapters is None else trainer.model.get_base_model().model.norm
            norm.weight.mul_(0.8)
        watched(weather.dataset(2)["prompt"][:] * 4, trainer)
    assert len(calls) == 5
    for output, recomputed in calls:
        assert len(output["env_mask"]) == 8 and any(0 in mask for mask in output["env_mask"])
        for mask, sampled, own in zip(output["env_mask"], output["logprobs"], recomputed, strict=True):
            kept = [n for n, trained in enumerate(mask) if trained]
            assert [sampled[n] for n in kept] == pytest.approx([own[n] for n in kept], abs=5e-3)
    # The weights have moved between the steps, or the comparison would show nothing.
    start = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32)
    output, recomputed = calls[-1]
    before = log_probs(start, output["prompt_ids"][0], output["completion_ids"][0])
    assert before != pytest.approx(recomputed[0], abs=5e-3)


@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.nightly), 1])
def test_processes_share_the_main_ones_vllm_and_it_has_the_weights_of_every_step(tmp_path, workers):
    script = Path(__file__).parent.parent / "importable" / "trl_process.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    command += [str(tmp_path), POCKET, "vllm:pocket", json.dumps({"dtype": "float32"}), str(workers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    first, second = (json.loads((tmp_path / rank).read_text()) for rank in "01")
    assert len(first["calls"]) == len(second["calls"]) == 3
    for calls in zip(first["calls"], second["calls"], strict=True):
        tasks, said, failed, difference = zip(*calls, strict=True)
        assert len({*tasks[0], *tasks[1]}) == 1 and failed == (0, 0)
        assert max(difference) < 5e-3 and said[0] != said[1]
    assert first["weights"] == second["weights"]


FORGETFUL = """
from trl import GRPOConfig, GRPOTrainer

from gym_llm.trainers.trl import RolloutFunc

if __name__ == "__main__":
    weather = RolloutFunc("gym_llm/Weather-v0", engine="vllm:pocket")
    args = GRPOConfig(
        {folder!r}, use_cpu=True, bf16=False, report_to="none", per_device_train_batch_size=2, num_generations=2
    )
    trainer = GRPOTrainer(
        {model!r}, args=args, train_dataset=weather.dataset(2), rollout_func=weather, reward_funcs=weather.reward
    )
    output = weather(weather.dataset(2)["prompt"][:], trainer)
    print(len(output["completion_ids"]), "played", flush=True)
"""


def alive(session):
    """The processes of a session that have not ended."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (OSError, psutil.NoSuchProcess):
            continue  # ended meanwhile
    return found


def test_a_script_that_forgets_to_close_vllm_ends_and_leaves_nothing_behind(tmp_path):
    script = tmp_path / "forgetful.py"
    script.write_text(FORGETFUL.format(folder=str(tmp_path / "runs"), model=POCKET))
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line == "2 played\n":
            break
    rest, _ = process.communicate(timeout=60)
    printed = "".join(lines) + rest
    assert process.returncode == 0, printed
    assert "played" in printed and "Traceback" not in printed and "ERROR" not in printed, printed
    deadline = time.monotonic() + 60
    while left := alive(process.pid):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)
