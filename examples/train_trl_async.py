r"""Asynchronous GRPO with TRL: the pocket model learns not to slip in its sums, and plays while it is trained.

TRL's AsyncGRPOTrainer trains one step after the other. Meanwhile gym_llm's RolloutWorker plays on a copy of the
model, which gets the new weights after each step. An episode is trained on if its weights are no more
than `--max-staleness` steps old. On GPUs the copy is a vLLM server's; here, on two CPU cores, both are in one process:

    pip install "torch==2.13.0"
    pip install -e ".[trl]"
    python examples/train_trl_async.py

The folder it writes has `log.jsonl` (everything TRL logged, a line a step) and `model/`, which
`gym-llm rollout gym_llm/Arithmetic-v0 --engine transformers:runs/async/model` plays with. Ctrl-C ends the training
early and leaves what there is by then. Threads race here: two runs differ.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
import warnings
from pathlib import Path
from typing import Any

# Threads that wait without spinning: on a busy machine this is several times faster. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from transformers import PrinterCallback, TrainerCallback
from trl.experimental.async_grpo import AsyncGRPOConfig

import gym_llm
from gym_llm.engines.pocket import MODEL_PATH
from gym_llm.trainers.trl import RolloutWorker
from gym_llm.trainers.trl.async_cpu import cpu_trainer

ENV_ID = "gym_llm/Arithmetic-v0"
GENERATIONS = 8
"""Episodes of each sum: those that are better than their group's mean are made more likely."""


def main() -> None:
    """Train, and write down what came of it."""
    arguments = parser().parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # about what TRL asks of it
    arguments.output.mkdir(parents=True, exist_ok=True)
    pocket = MODEL_PATH
    args = config(arguments)
    worker = RolloutWorker(
        ENV_ID,
        args,
        engine=f"transformers:{pocket}",
        engine_options={"threads": 1, "max_batch_size": 256},
        limit=arguments.steps * arguments.batch // GENERATIONS,
    )
    trainer = cpu_trainer(
        pocket,
        args=args,
        train_dataset=worker.train_dataset,
        rollout_worker=worker,
        weight_transfer=worker.weight_transfer,
        callbacks=[Progress()],
    )
    trainer.remove_callback(PrinterCallback)  # forty numbers a step; log.jsonl has them
    trained_on = {problem(row["prompt"]) for row in worker.train_dataset}
    before = held_out_reward(pocket, trained_on, arguments)
    started = time.monotonic()
    try:
        trainer.train()
    except KeyboardInterrupt:
        print("\nInterrupted: writing down what there is.", flush=True)
    seconds = time.monotonic() - started
    trainer.save_model(str(arguments.output / "model"))
    with (arguments.output / "log.jsonl").open("w") as log:
        log.writelines(json.dumps(entry) + "\n" for entry in trainer.state.log_history)
    after = held_out_reward(str(arguments.output / "model"), trained_on, arguments)
    print(
        f"held-out sums: mean reward {before:.3f} before, {after:.3f} after {trainer.state.global_step} steps in "
        f"{seconds:.0f} s; {arguments.output / 'model'}"
    )


def config(arguments: argparse.Namespace) -> AsyncGRPOConfig:
    """TRL's arguments for a CPU and a model of a million parameters."""
    return AsyncGRPOConfig(
        output_dir=str(arguments.output),
        seed=arguments.seed,
        max_steps=arguments.steps,
        num_generations=GENERATIONS,
        per_device_train_batch_size=arguments.batch,
        token_budget=0,  # a step is `batch` samples
        max_staleness=arguments.max_staleness,
        max_completion_length=160,
        learning_rate=arguments.learning_rate,
        lr_scheduler_type="linear",
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
    )


class Progress(TrainerCallback):
    """Prints a line now and then."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.rewards: list[float] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Called by the trainer with what it logs, after each step."""
        logs = logs or {}
        if "reward" not in logs:
            return
        self.rewards.append(logs["reward"])
        if state.global_step % max(1, state.max_steps // 10) == 0:
            mean = sum(self.rewards) / len(self.rewards)
            print(
                f"step {state.global_step}/{state.max_steps}  training {mean:.3f}  "
                f"{logs['sample/staleness_mean']:.1f} steps old  {time.monotonic() - self.started:.0f} s",
                flush=True,
            )
            self.rewards.clear()


def held_out_reward(model: str, trained_on: set[str], arguments: argparse.Namespace) -> float:
    """The mean reward on sums that were not trained on, sampled at temperature 1."""
    records = gym_llm.collect(
        ENV_ID,
        f"transformers:{model}",
        limit=arguments.held_out,
        seed=arguments.seed + 1,
        sampling={"temperature": 1.0, "max_output_tokens": 160},
        engine_options={"threads": 1, "max_batch_size": 256},
        concurrency=256,
        progress=False,
    )
    rewards = [
        record["reward"]
        for record in records
        if record["reward"] is not None and problem(record["responses_create_params"]["input"]) not in trained_on
    ]
    return sum(rewards) / len(rewards)


def problem(messages: Any) -> str:
    """The sum that is asked for, in whatever words."""
    found = re.search(r"\d+ [+-] \d+", messages[0]["content"])
    return found[0] if found else ""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    result.add_argument(
        "--output", type=Path, default=Path("runs/async"), help="folder to write to (default: runs/async)"
    )
    result.add_argument("--steps", type=int, default=200, help="optimizer steps (default: 200)")
    result.add_argument(
        "--batch", type=int, default=128, help=f"episodes in a step, a multiple of {GENERATIONS} (default: 128)"
    )
    result.add_argument(
        "--learning-rate", type=float, default=6e-4, help="at the first step, then falling to 0 (default: 6e-4)"
    )
    result.add_argument(
        "--max-staleness", type=int, default=1, help="steps that an episode's weights may be old (default: 1)"
    )
    result.add_argument("--held-out", type=int, default=1024, help="sums to test with (default: 1024)")
    result.add_argument("--seed", type=int, default=0, help="of the tasks and the training (default: 0)")
    return result


if __name__ == "__main__":
    main()
