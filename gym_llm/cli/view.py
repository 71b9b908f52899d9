"""`gym-llm view`: show rollouts in the browser."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gym_llm.cli.help import Command
from gym_llm.cli.refusals import printable

if TYPE_CHECKING:
    from gym_llm.evaluation.view.index import RunIndex

_EXAMPLES = """\
examples:
  gym-llm view                                      the newest files of ./rollouts
  gym-llm view rollouts/arithmetic.jsonl            one run, also while it is written
  gym-llm view before.jsonl after.jsonl             side by side
  gym-llm view results/2026-11-22                   a result folder of `gym-llm eval`
  gym-llm view run.jsonl --export report.html       one file that opens anywhere, without a network

The page is served on 127.0.0.1 to browsers that have the address with its token; it changes nothing. For a file of 16
MB or more the command writes an index, .NAME.index, beside it, so that it opens at once the next time. Ctrl-C ends it.
"""
app = typer.Typer()


@app.command("view", cls=Command, epilog=_EXAMPLES)
def view(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE|DIR", help="rollout files, or folders of them (default: ./rollouts)"),
    ] = None,
    *,
    port: Annotated[int, typer.Option(metavar="P", min=0, max=65535, help="the port; 0 for a free one")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="only print the address")] = False,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default=False, help="write one page that needs no server")
    ] = None,
    max_episodes: Annotated[
        int, typer.Option(metavar="N", min=1, help="with --export: maximum number of episodes in the page")
    ] = 1000,
) -> int:
    """Show rollouts in the browser: figures, conversations, tokens and log probabilities."""
    from gym_llm.cli.interrupts import run_until_interrupted
    from gym_llm.evaluation.view.run_files import find_runs

    runs = find_runs(paths or [])
    if export is not None:
        return run_until_interrupted(lambda: _export(runs, export, max_episodes))

    async def serve() -> None:
        from gym_llm.evaluation.view.view_server import ViewServer

        async with ViewServer(runs, port=port) as server:
            has_display = sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
            names = ", ".join(printable(str(run)) for run in runs[:3]) + (", …" if len(runs) > 3 else "")
            print(f"{names}\nlook: {server.url}\nCtrl-C ends it.", flush=True)
            if not no_browser and has_display:
                await asyncio.to_thread(webbrowser.open, server.url)
            await asyncio.Event().wait()

    run_until_interrupted(serve)
    return 0


async def _export(runs: list[Path], path: Path, most: int) -> None:
    from gym_llm.cli.bars import show_bars
    from gym_llm.evaluation.view.static_page import export_page

    with show_bars() as draw:

        def tell(run: RunIndex) -> None:
            share = run.indexed
            draw(str(run.path), round(100 * share), 100, lambda: f"{share:.0%} read")

        note = await export_page(runs, path, max_episodes=most, tell=tell)
    print(f"page: {printable(str(path))} ({path.stat().st_size / 1e6:.1f} MB)")
    if note:
        print(note)
