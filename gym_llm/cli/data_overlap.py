"""`gym-llm data overlap`: training rows that share their words with benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gym_llm.cli import shared_options as options
from gym_llm.cli.help import Command
from gym_llm.cli.refusals import complete_benchmark, printable

_EXAMPLES = """\
examples:
  gym-llm data overlap train.jsonl aime25 gpqa_diamond
  gym-llm data overlap train.jsonl mmlu_pro --ngram 8 --output hits.jsonl
  gym-llm data prepare --config a.yaml --output-dir out --mode train_preparation --exclude-overlap aime25,gpqa_diamond

Two texts overlap if they share 13 words in a row, in lower case and without punctuation. A text of 5 to 12 words
overlaps with an equal one.

exit codes: 0 done; 2 wrong arguments, or something cannot be read; 130 interrupted.
"""
_SHOWN = 20
app = typer.Typer()


@app.command(cls=Command, epilog=_EXAMPLES)
def overlap(
    *,
    train: Annotated[str, typer.Argument(metavar="TRAIN", help="training rows: JSON Lines, parquet, hf:ORG/NAME")],
    names: Annotated[
        list[str],
        typer.Argument(metavar="BENCHMARK", help="benchmarks, or files of tasks", autocompletion=complete_benchmark),
    ],
    ngram: Annotated[int, options.what("N", "words in a row (default: 13)", options.positive)] = 13,
    output: Annotated[str | None, options.output("FILE", "write every overlap as a JSON line")] = None,
) -> int:
    """Report the n-gram overlap between training rows and benchmarks."""
    from rich.text import Text

    from gym_llm.cli.bars import columns_table, show_bars, table_console
    from gym_llm.data.files.atomic import replacing
    from gym_llm.data.recipes.overlap import compare, index_of
    from gym_llm.utils.json_codec import dumps

    index = index_of(names, ngram)
    with show_bars() as draw:
        report = compare(train, index, lambda number: draw("rows", number, None, lambda: f"{number:,} rows"))
    console = table_console()
    table = columns_table("benchmark", "tasks", "tasks touched", "training rows", words=1)
    for name, (rows, tasks) in report.by_benchmark().items():
        table.add_row(Text(name), f"{report.tasks[name]:,}", f"{tasks:,}", f"{rows:,}")
    console.print(table)
    print(f"{report.rows_with_overlap:,} of {report.rows:,} training rows overlap.")
    for hit in report.hits[:_SHOWN]:
        print(printable(f"row {hit.row}: {hit.benchmark} task {hit.task}, {hit.share:.0%}: {hit.words[:100]}"))
    if len(report.hits) > _SHOWN:
        print(f"and {len(report.hits) - _SHOWN:,} more" + ("" if output else "; --output FILE writes all"))
    if output is not None:
        with replacing(Path(output)) as file:
            for hit in report.hits:
                file.write(dumps(hit._asdict()))
    return 0
