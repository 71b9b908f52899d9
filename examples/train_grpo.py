r"""GRPO with TRL: the pocket model learns not to slip in its sums.

The pocket model works sums out column by column and, sampled at temperature 1, gets about four in five right. TRL's
GRPOTrainer trains it on episodes that gym_llm plays with the weights being trained; sums that were not trained on show
what it learned. Two CPU cores are enough:

    pip install "torch==2.13.0"
    pip install -e ".[trl]"
    python examples/train_grpo.py

The folder it writes has `reward.png` (reward against step), `log.jsonl` (everything TRL logged, a line a step) and
`model/`, which `gym-llm rollout gym_llm/Arithmetic-v0 --engine transformers:runs/grpo/model` plays with. Ctrl-C
ends the training early and leaves what there is by then. The same arguments give the same run on the same machine and
library versions.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Threads that wait without spinning: on a busy machine this is several times faster. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from gym_llm.engines.pocket import MODEL_PATH
from gym_llm.trainers.trl import RolloutFunc

if TYPE_CHECKING:
    from datasets import Dataset

GENERATIONS = 8
"""Episodes of each sum in a step: those that are better than their group's mean are made more likely."""


def main() -> None:
    """Train, and write down what came of it."""
    arguments = parser().parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # about what TRL asks of it
    started = time.monotonic()
    arguments.output.mkdir(parents=True, exist_ok=True)
    pocket = MODEL_PATH
    tokenizer = AutoTokenizer.from_pretrained(pocket)
    model = AutoModelForCausalLM.from_pretrained(pocket, dtype=torch.float32, attn_implementation="sdpa")
    # For a model this small several threads cost more than they give while sampling.
    with RolloutFunc("gym_llm/Arithmetic-v0", engine_options={"threads": 1}) as arithmetic:
        sums = arithmetic.dataset(arguments.steps * arguments.batch // GENERATIONS, seed=arguments.seed)
        held_out = without(sums, arithmetic.dataset(4 * arguments.held_out, seed=arguments.seed + 1))
        held_out = held_out.select(range(min(arguments.held_out, len(held_out))))
        trainer = GRPOTrainer(
            model,
            args=config(arguments),
            train_dataset=sums,
            eval_dataset=held_out,
            processing_class=tokenizer,
            rollout_func=arithmetic,
            reward_funcs=arithmetic.reward,
            callbacks=[Progress()],
        )
        trainer.remove_callback(PrinterCallback)  # thirty numbers a step; log.jsonl has them
        try:
            trainer.train()
        except KeyboardInterrupt:
            print("\nInterrupted: writing down what there is.", flush=True)
    trainer.save_model(str(arguments.output / "model"))
    history = trainer.state.log_history
    with (arguments.output / "log.jsonl").open("w") as log:
        log.writelines(json.dumps(entry) + "\n" for entry in history)
    tested = points(history, "eval_reward")
    if tested:
        plot(points(history, "reward"), tested, arguments.output / "reward.png")
        (first, before), (last, after) = tested[0], tested[-1]
        print(
            f"{len(held_out)} held-out sums: mean reward {before:.3f} at step {first}, {after:.3f} at step {last} "
            f"({after - before:+.3f}). {arguments.output / 'reward.png'}, after {time.monotonic() - started:.0f} s."
        )


def config(arguments: argparse.Namespace) -> GRPOConfig:
    """TRL's arguments for a CPU and a model of a million parameters."""
    return GRPOConfig(
        output_dir=str(arguments.output),
        seed=arguments.seed,
        max_steps=arguments.steps,
        num_generations=GENERATIONS,
        per_device_train_batch_size=arguments.batch,
        max_completion_length=160,
        learning_rate=arguments.learning_rate,
        lr_scheduler_type="linear",
        eval_strategy="steps",
        eval_steps=max(1, arguments.steps // 10),
        eval_on_start=True,
        num_generations_eval=1,
        per_device_eval_batch_size=256,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
    )


class Progress(TrainerCallback):
    """Prints a line now and then: the step, the rewards, and how long it will take."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.rewards: list[float] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Called by the trainer with what it logs, after each step and each evaluation."""
        logs = logs or {}
        if "reward" in logs:
            self.rewards.append(logs["reward"])
        if "eval_reward" in logs:
            spent = time.monotonic() - self.started
            line = f"step {state.global_step}/{state.max_steps}  held out {logs['eval_reward']:.3f}"
            if self.rewards:
                left = spent / state.global_step * (state.max_steps - state.global_step)
                trained = sum(self.rewards) / len(self.rewards)
                line += f"  training {trained:.3f}  {spent:.0f} s, {left:.0f} s to go"
            print(line, flush=True)
            self.rewards.clear()


def without(trained: Dataset, others: Dataset) -> Dataset:
    """The rows of `others` whose sums are not among the trained ones, in whatever words."""

    def problem(row: dict[str, Any]) -> str:
        found = re.search(r"\d+ [+-] \d+", row["prompt"][0]["content"])
        return found[0] if found else ""

    seen = {problem(row) for row in trained}
    return others.select([number for number, row in enumerate(others) if problem(row) not in seen])


def points(history: list[dict[str, Any]], name: str) -> list[tuple[int, float]]:
    """(step, value) of what was logged under a name."""
    return [(entry["step"], entry[name]) for entry in history if name in entry]


def plot(trained: list[tuple[int, float]], tested: list[tuple[int, float]], file: Path) -> None:
    """Draw reward against step, of the episodes trained on and of the held-out ones."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    if trained:
        steps, rewards = zip(*trained, strict=True)
        axes.plot(steps, rewards, color="#9ecae1", linewidth=0.8, label="training batch")
        window = max(1, len(rewards) // 25)
        means = [sum(rewards[n - window : n]) / window for n in range(window, len(rewards) + 1)]
        label = f"mean of the last {window} batches"
        axes.plot(steps[window - 1 :], means, color="#3182bd", linewidth=1.8, label=label)
    label = f"held-out sums: {tested[0][1]:.3f} to {tested[-1][1]:.3f}"
    axes.plot(*zip(*tested, strict=True), "o-", color="#d95f02", linewidth=2, label=label)
    axes.set(
        xlabel="optimizer step", ylabel="mean reward, temperature 1", title="GRPO: the pocket model on Arithmetic-v0"
    )
    axes.set_ylim(top=1.0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    result.add_argument(
        "--output", type=Path, default=Path("runs/grpo"), help="folder to write to (default: runs/grpo)"
    )
    result.add_argument("--steps", type=int, default=250, help="optimizer steps (default: 250)")
    result.add_argument(
        "--batch", type=int, default=128, help=f"episodes in a step, a multiple of {GENERATIONS} (default: 128)"
    )
    result.add_argument(
        "--learning-rate", type=float, default=6e-4, help="at the first step, then falling to 0 (default: 6e-4)"
    )
    result.add_argument("--held-out", type=int, default=1024, help="sums to test with (default: 1024)")
    result.add_argument("--seed", type=int, default=0, help="of the tasks and all sampling (default: 0)")
    return result


if __name__ == "__main__":
    main()
