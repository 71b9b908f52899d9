"""`gym-llm plan`: simulate a recorded run on other engines, at another concurrency."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from gym_llm.cli.shared_options import checked, panel, positive, run_file
from gym_llm.errors import UsageError

EXAMPLES = """\
examples:
  gym-llm plan runs/a.jsonl --concurrency 64,256,1024            the throughput of more episodes at once
  gym-llm plan runs/a.jsonl --concurrency 512 --engines 1,2,4    ... on more servers
  gym-llm plan runs/16.jsonl runs/64.jsonl --concurrency 256     fitted to two recordings
  gym-llm plan runs/a.jsonl --concurrency 512 --engines 4 --routing group,least,random --group-size 16
  gym-llm plan runs/a.jsonl --engines 8 --nodes 2 --node-concurrency 500 --engine-price 2.5 --node-price 0.4

The first file is played again: its episodes, their turns, and the recorded times of tools and verifiers. The time of an
answer follows the number of requests on its server, as fitted to the recorded times. Record at two concurrencies for a
better fit.

exit codes: 0 done, 2 wrong arguments or files.
"""
_what, _run, _cost, _output = map(panel, (None, "Run", "Cost", "Output"))
_price = checked(float, lambda value: 0 <= value < float("inf"), "dollars, 0 or more")


def _numbers(text: str) -> list[int]:
    numbers = [int(part) for part in text.split(",")]
    if min(numbers) < 1:
        raise ValueError
    return numbers


_list: Callable[[str], Any] = checked(_numbers, bool, "integers such as 64,256")


def plan(
    recordings: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="rollout files of one environment and model; the first is played again",
            parser=run_file,
        ),
    ],
    concurrency: Annotated[str | None, _run("N,...", "episodes at once (default: as recorded)")] = None,
    engines: Annotated[str, _run("N,...", "number of equal servers (default: 1)")] = "1",
    recorded_engines: Annotated[int, _run("N", "servers behind the recording (default: 1)", positive)] = 1,
    routing: Annotated[str, _run("HOW,...", "group (default), least, or random")] = "group",
    group_size: Annotated[int | None, _run("K", "episodes of a task (default: as recorded)", positive)] = None,
    episodes: Annotated[int | None, _run("N", "play N episodes (default: as many as recorded)", positive)] = None,
    nodes: Annotated[int, _run("M", "machines that play the episodes (default: 1)", positive)] = 1,
    node_concurrency: Annotated[int | None, _run("N", "most episodes at once on one of them", positive)] = None,
    engine_price: Annotated[float, _cost("DOLLARS", "of a server for an hour (default: 0)", _price)] = 0.0,
    node_price: Annotated[float, _cost("DOLLARS", "of a node for an hour (default: 0)", _price)] = 0.0,
    json: Annotated[bool, _output(None, "print JSON instead of a table", None, "--json")] = False,
) -> int:
    """Say how fast a recorded run would be with other engines, nodes, concurrency and routing."""
    from gym_llm.evaluation.capacity import forecast
    from gym_llm.evaluation.recorded_load import fit_speed, read_recording

    recorded = [read_recording(path) for path in recordings]
    speed = fit_speed(recorded, recorded_engines)
    rows = []
    for count in _list(engines):
        for wanted in _list(concurrency or str(recorded[0].concurrency)):
            for how in routing.split(","):
                most = wanted if node_concurrency is None else min(wanted, nodes * node_concurrency)
                try:
                    figures = forecast(
                        recorded[0],
                        speed,
                        concurrency=most,
                        engines=count,
                        recorded_engines=recorded_engines,
                        routing=how,  # type: ignore[arg-type]
                        group_size=group_size,
                        episodes=episodes,
                        nodes=nodes,
                    )
                except ValueError as error:
                    raise UsageError(str(error)) from None
                dollars = figures.seconds / 3600 * (count * engine_price + nodes * node_price)
                rows.append({**asdict(figures), "routing": how, "nodes": nodes, "dollars": dollars})
    _print(rows, speed.slope, json)
    return 0


def _print(rows: list[dict[str, Any]], slope: float, as_json: bool) -> None:
    from rich.console import Console

    from gym_llm.cli.bars import columns_table
    from gym_llm.utils.json_codec import dumps

    if as_json:
        print(dumps({"slope": slope, "forecasts": rows}).decode().strip())
        return
    table = columns_table(
        "engines", "concurrency", "routing", "episodes/s", "tokens/s", "seconds", "wait", "slower", "$"
    )
    for row in rows:
        table.add_row(
            str(row["engines"]),
            f"{row['concurrency']:,}",
            row["routing"],
            f"{row['episodes_per_second']:,.2f}",
            f"{row['tokens_per_second']:,.0f}",
            f"{row['seconds']:,.1f}",
            f"{row['engine_seconds']:.2f} s",
            f"{row['slowdown']:.2f}x",
            f"{row['dollars']:.2f}",
        )
    console = Console()
    console.print(table)
    console.out(f"an answer takes {slope:.1%} longer for each further request on its server", highlight=False)
