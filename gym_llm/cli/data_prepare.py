"""`gym-llm data prepare`: check the rows, compute their statistics, collate them into training files."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gym_llm.cli.config import ConfigFiles, Settings, read_config
from gym_llm.cli.help import Command
from gym_llm.cli.refusals import printable
from gym_llm.errors import UsageError
from gym_llm.types import HubName
from gym_llm.utils.extras import install

if TYPE_CHECKING:
    from gym_llm.data.files.datasets import DatasetConfig
    from gym_llm.data.prepare import Preparation
    from gym_llm.data.recipes.overlap import Excluder
    from gym_llm.rollouts.config import Config

_EXAMPLES = """\
examples:
  gym-llm data prepare --config envs/multiple_choice/config.yaml --output-dir prepared --mode example_validation
  gym-llm data prepare --config a.yaml --config b.yaml --output-dir data/blend --mode train_preparation --download
  gym-llm data prepare --config a.yaml --output-dir data/a --mode train_preparation --exclude-overlap aime25,gpqa
  gym-llm data prepare --config a.yaml --output-dir data/a --mode train_preparation --tokenizer Qwen/Qwen3-4B

Every row is checked against the Responses schema and the schema of its verifier. Statistics are written beside each
file as STEM_metrics.json; existing statistics must agree. The rows go to OUTPUT_DIR/train.jsonl and validation.jsonl
(or example.jsonl), each repeated num_repeats times and marked with `agent_ref` and `env_id`.

Input tokens are counted with tiktoken's o200k_base unless --tokenizer names another tokenizer: a tiktoken encoding, a
folder or file with a tokenizer.json, a model on the hub, or none. Without a network, tiktoken reads its vocabulary from
the folder TIKTOKEN_CACHE_DIR; without that folder only words are counted.

exit codes: 0 done; 1 bad rows, or statistics that disagree; 2 wrong arguments, configuration or files; 130 interrupted.
"""
_FIGURES = {
    "tools": "Number of tools",
    "turns": "Number of turns",
    "words": "Json-dumped number of words (proxy for token count)",
    "tokens": "Input length in tokens",
    "temperature": "Temperature",
}
app = typer.Typer()


@app.command(cls=Command, epilog=_EXAMPLES)
def prepare(
    *,
    files: ConfigFiles,
    output_dir: Annotated[str, typer.Option(metavar="DIR", help="folder for the collated files")],
    mode: Annotated[
        Literal["example_validation", "train_preparation"],
        typer.Option(help="prepare the example datasets, or those of type train and validation"),
    ],
    download: Annotated[bool, typer.Option("--download", help="download datasets whose files are missing")] = False,
    source: Annotated[HubName, typer.Option(help="hub for datasets that are on both")] = "huggingface",
    overwrite_metrics: Annotated[
        bool, typer.Option("--overwrite-metrics", help="replace statistics that disagree")
    ] = False,
    tokenizer: Annotated[str, typer.Option(metavar="NAME", help="tokenizer for the input tokens")] = "o200k_base",
    exclude_overlap: Annotated[
        str | None, typer.Option(metavar="NAMES", help="leave out training rows that overlap with these benchmarks")
    ] = None,
    settings: Settings,
) -> int:
    """Check every row of a configuration's datasets, compute their statistics, and collate them."""
    from gym_llm.cli.bars import show_bars
    from gym_llm.data.prepare import EnvDataset, prepare_data
    from gym_llm.errors import PreparationFailed

    if not files:
        raise UsageError("No configuration is given: add --config FILE.")
    config = read_config(files, settings, warn=True)
    datasets = [
        EnvDataset(name, section.env, dataset, section.kwargs)
        for name, section in config.environments.items()
        for dataset in section.datasets
    ]
    excluder = _excluder(exclude_overlap)
    began = time.monotonic()
    try:
        with show_bars() as draw:
            prepared = prepare_data(
                datasets,
                output_dir,
                mode=mode,
                tokenizer=tokenizer,
                overwrite_metrics=overwrite_metrics,
                download=_downloader(config, source) if download else None,
                exclude=excluder,
                show=lambda path, rows, done, total: draw(
                    path, done, total, lambda: f"{rows:,} rows, {time.monotonic() - began:.0f} s"
                ),
            )
    except PreparationFailed as failure:
        print("\n".join(printable(line) for line in str(failure).split("\n")), file=sys.stderr)
        return 1
    if excluder is not None:
        prepared.notes.append(f"{excluder.count:,} training rows overlap with {exclude_overlap} and are left out.")
    _report(prepared)
    return 0


def _excluder(names: str | None) -> Excluder | None:
    if names is None:
        return None
    from gym_llm.data.recipes.overlap import Excluder, index_of

    return Excluder(index_of(name.strip() for name in names.split(",") if name.strip()))


def _downloader(config: Config, preferred: HubName) -> Callable[[DatasetConfig], None]:
    try:
        from gym_llm.data.hubs.huggingface import download
    except ModuleNotFoundError as error:
        raise UsageError(
            f"Datasets cannot be downloaded here ({error.name} is not installed): fetch the files yourself, or "
            f"{install('data')}."
        ) from None

    def fetch(dataset: DatasetConfig) -> None:
        only: HubName = "huggingface" if dataset.huggingface_identifier else "gitlab"
        on_both = dataset.huggingface_identifier and dataset.gitlab_identifier
        download(dataset, source=preferred if on_both else only, variables=config.variables)

    return fetch


def _report(prepared: Preparation) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from gym_llm.cli.bars import table_console

    console = table_console()
    files = [*prepared.datasets, *prepared.collated]
    columns = {
        "dataset": [printable(file.label) + (".jsonl" if file.collated else "") for file in files],
        "examples": [f"{file.metrics['Number of examples']:,}" for file in files],
        **{heading: [_figures(file.metrics.get(key)) for file in files] for heading, key in _FIGURES.items()},
        "unique prompts": [f"{file.metrics['Number of unique create params']:,}" for file in files],
    }
    columns = {heading: cells for heading, cells in columns.items() if set(cells) != {"-"}}
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", caption="average, and smallest to largest", title_style="")
    for heading in columns:
        is_name = heading == "dataset"
        table.add_column(heading, justify="left" if is_name else "right", no_wrap=is_name, overflow="fold")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*map(Text, cells))
    console.print(table)
    for note in prepared.notes:
        console.print(Text(printable(note)), soft_wrap=True)
    for file in prepared.collated:
        console.print(Text(f"rows: {file.collated}\nstatistics: {file.metrics_path}"), soft_wrap=True)


def _figures(figures: dict[str, Any] | None) -> str:
    if not figures or not figures["Total # non-null values"]:
        return "-"
    return f"{figures['Average']:g} ({figures['Min']:g} to {figures['Max']:g})"
