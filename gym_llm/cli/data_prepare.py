"""`gym-llm data prepare`: check the rows, compute their statistics, collate them into training files."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gym_llm.cli.config import add_config_arguments, read_config
from gym_llm.cli.report import printable
from gym_llm.errors import UsageError

if TYPE_CHECKING:
    from gym_llm.config import Config
    from gym_llm.data.files.datasets import DatasetConfig
    from gym_llm.data.prepare import Preparation, Show, Source

_EXAMPLES = """\
examples:
  gym-llm data prepare --config envs/multiple_choice/config.yaml --output-dir prepared --mode example_validation
  gym-llm data prepare --config a.yaml --config b.yaml --output-dir data/blend --mode train_preparation --download
  gym-llm data prepare --config a.yaml --output-dir data/a --mode train_preparation --tokenizer Qwen/Qwen3-4B

Every row is checked against the Responses schema and its verifier's own. Statistics are written beside each file as
STEM_metrics.json; those that are there already must agree. The rows go to OUTPUT_DIR/train.jsonl and validation.jsonl
(or example.jsonl), each repeated num_repeats times and marked with `agent_ref` and `env_id`.

Input tokens are counted with tiktoken's o200k_base unless --tokenizer names another: an encoding of tiktoken, a folder
or file with a tokenizer.json, a model on the hub, or none. Without network, tiktoken finds its vocabulary in the folder
that TIKTOKEN_CACHE_DIR names; without that, words are counted and tokens are not.

exit codes: 0 done; 1 bad rows, or statistics that disagree; 2 wrong arguments, configuration or files; 130 interrupted.
"""
_LINE_SECONDS = 10.0
_FIGURES = (
    ("tools", "Number of tools"),
    ("turns", "Number of turns"),
    ("words", "Json-dumped number of words (proxy for token count)"),
    ("tokens", "Input length in tokens"),
    ("temperature", "Temperature"),
)


def add_prepare_command(commands: Any) -> None:
    """Add `prepare` to the subcommands of `data`."""
    parser = commands.add_parser(
        "prepare",
        help="check rows, compute statistics, collate training files",
        description="Check every row of a configuration's datasets, compute their statistics, and collate them.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_config_arguments(parser)
    parser.add_argument("--output-dir", metavar="DIR", required=True, help="where the collated files go")
    parser.add_argument(
        "--mode",
        required=True,
        choices=("example_validation", "train_preparation"),
        help="prepare the example datasets, or those of type train and validation",
    )
    parser.add_argument("--download", action="store_true", help="download datasets whose files are missing")
    parser.add_argument(
        "--source",
        choices=("huggingface", "gitlab"),
        default="huggingface",
        help="where from, for datasets that are on both (default: huggingface)",
    )
    parser.add_argument("--overwrite-metrics", action="store_true", help="replace statistics that disagree")
    parser.add_argument("--tokenizer", metavar="NAME", default="o200k_base", help="counts tokens (default: o200k_base)")
    parser.set_defaults(run=run, command_parser=parser)


def run(args: argparse.Namespace) -> int:
    """Prepare."""
    from gym_llm.data.prepare import EnvDataset, prepare_data
    from gym_llm.errors import PreparationFailed

    if not args.config:
        raise UsageError("There is nothing to prepare: name a configuration with --config FILE.")
    config = read_config(args.config, args.settings)
    datasets = [
        EnvDataset(name, section.env, dataset, section.kwargs)
        for name, section in config.environments.items()
        for dataset in section.datasets
    ]
    try:
        with _progress() as show:
            prepared = prepare_data(
                datasets,
                args.output_dir,
                mode=args.mode,
                tokenizer=args.tokenizer,
                overwrite_metrics=args.overwrite_metrics,
                download=_downloader(config, args.source) if args.download else None,
                show=show,
            )
    except PreparationFailed as failure:
        print("\n".join(printable(line) for line in str(failure).split("\n")), file=sys.stderr)
        return 1
    _report(prepared)
    return 0


def _downloader(config: Config, preferred: Source) -> Callable[[DatasetConfig], None]:
    try:
        from gym_llm.data.hubs.huggingface import download  # type: ignore[import-not-found,unused-ignore]
    except ModuleNotFoundError as error:
        raise UsageError(
            f"Datasets cannot be downloaded here ({error.name} is not installed): fetch the files yourself, or "
            "pip install 'gym-llm[data]'."
        ) from None

    def fetch(dataset: DatasetConfig) -> None:
        on_both = dataset.huggingface_identifier and dataset.gitlab_identifier
        source: Source = preferred if on_both else "huggingface" if dataset.huggingface_identifier else "gitlab"
        download(dataset, source=source, variables=config.variables)

    return fetch


@contextmanager
def _progress() -> Iterator[Show]:
    """A bar on a terminal, elsewhere a line every ten seconds; on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    began = last = time.monotonic()
    if not console.is_terminal or console.is_dumb_terminal:

        def show_line(path: str, rows: int, done: int, total: int | None) -> None:
            nonlocal last
            if (now := time.monotonic()) - last >= _LINE_SECONDS:
                last = now
                console.out(f"{path}: {rows:,} rows, {now - began:.0f} s", highlight=False)

        yield show_line
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rows]}"))
    with Progress(*columns, TimeRemainingColumn(), console=console, refresh_per_second=5, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def show_bar(path: str, rows: int, done: int, total: int | None) -> None:
            if path not in tasks:
                tasks[path] = bar.add_task(printable(path), total=total, rows="")
            bar.update(tasks[path], completed=done, total=total, rows=f"{rows:,} rows")

        yield show_bar


def _report(prepared: Preparation) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=200)  # one line per dataset
    shown = [name for name in _FIGURES if any(_count(file.metrics, name[1]) for file in prepared.datasets)]
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", caption="average, and smallest to largest", title_style="")
    table.add_column("dataset", overflow="fold")
    for heading in ("examples", *(heading for heading, _ in shown), "unique prompts"):
        table.add_column(heading, justify="right")
    collated = [(f"{file.label}.jsonl", file.metrics) for file in prepared.collated]
    for label, metrics in [*((file.label, file.metrics) for file in prepared.datasets), *collated]:
        cells = [printable(label), f"{metrics['Number of examples']:,}"]
        cells += [_figures(metrics.get(key)) for _, key in shown]
        table.add_row(*(Text(cell) for cell in (*cells, f"{metrics['Number of unique create params']:,}")))
    console.print(table)
    for note in prepared.notes:
        console.print(Text(printable(note)), soft_wrap=True)
    for file in prepared.collated:
        console.print(Text(f"rows: {file.collated}\nstatistics: {file.metrics_path}"), soft_wrap=True)


def _count(metrics: dict[str, Any], key: str) -> int:
    return int(metrics.get(key, {}).get("Total # non-null values", 0))


def _figures(figures: dict[str, Any] | None) -> str:
    if not figures or not figures["Total # non-null values"]:
        return "-"
    return f"{figures['Average']:g} ({figures['Min']:g} to {figures['Max']:g})"
