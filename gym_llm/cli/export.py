"""`gym-llm export`: a rollout file in another tool's format."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from gym_llm.cli import shared_options as options
from gym_llm.cli.help import Command
from gym_llm.cli.refusals import printable

_EXAMPLES = """\
examples:
  gym-llm export sums.jsonl --to inspect                          sums.eval: `inspect view --log-dir .`
  gym-llm export sums.jsonl --to openai-chat --min-reward 1       only right episodes, for fine-tuning
  gym-llm export sums.jsonl --to openai-chat --reasoning          ... with the model's reasoning, for TRL's SFTTrainer
  gym-llm export sums.jsonl --to atif --output trajectories/      a file per episode
  gym-llm export sums.jsonl --to hf --output sums-hf              load_dataset("sums-hf"); `gym-llm data upload`

formats:
  openai-chat  chats for supervised fine-tuning (OpenAI, TRL's SFTTrainer) as JSON Lines, without masked episodes
  atif         ATIF v1.8 trajectories: a .jsonl file, or a folder with a file per episode
  inspect      a log (.eval) for Inspect AI's viewer
  atropos      scored_data for Atropos, one group (the episodes of a task) per line
  parquet      a table, token ids included
  hf           a folder of parquet files with a card, for the Hugging Face hub

exit codes: 0 written, 1 no episode is left, 2 wrong arguments or data.
"""
app = typer.Typer()

_TO = "the format: openai-chat, atif, inspect, atropos, parquet or hf"
_REASONING = "openai-chat: keep `reasoning_content`, which open models' templates read and OpenAI refuses"
_OUTPUT = "where to write (default: beside FILE, with the format's ending)"


@app.command("export", cls=Command, epilog=_EXAMPLES)
def export_rollouts(
    path: options.RunFile,
    *,
    to: Annotated[str, options.what("FORMAT", _TO)],
    output: Annotated[str | None, options.what("PATH", _OUTPUT)] = None,
    min_reward: Annotated[
        float | None, options.what("X", "only episodes with a reward of X or more", options.finite)
    ] = None,
    drop_masked: Annotated[bool, options.what(None, "leave masked episodes out", None, "--drop-masked")] = False,
    dataset: Annotated[str | None, options.what("NAME", "only episodes of this dataset")] = None,
    reasoning: Annotated[bool, options.what(None, _REASONING, None, "--reasoning")] = False,
    as_json: Annotated[bool, options.what(None, "print the numbers as JSON", None, "--json")] = False,
) -> int:
    """Write a rollout file in another tool's format: for Inspect, Harbor, fine-tuning, Atropos, Hugging Face."""
    from gym_llm.cli.progress import show_file
    from gym_llm.evaluation.export.formats import export

    with show_file(path, "exporting") as on_read:
        done = export(
            path,
            to,
            output,
            min_reward=min_reward,
            drop_masked=drop_masked,
            dataset=dataset,
            reasoning=reasoning,
            on_read=on_read,
        )
    if as_json:
        print(json.dumps({**asdict(done), "output": str(done.output)}))
    else:
        print(f"{done.episodes:,} episodes: {printable(str(done.output))}")
        left_out = {"masked": done.masked, f"reward below {min_reward}": done.below}
        left_out[f"not expressible in this format: {done.reason}"] = done.unsayable
        for reason, count in left_out.items():
            if count:
                print(f"left out: {count:,} ({printable(reason)})")
    return 0 if done.episodes else 1
