"""`gym-llm chaos`: inject faults and check that an environment's outcomes stay right."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import typer

from gym_llm.cli.help import Command, Group
from gym_llm.cli.refusals import printable
from gym_llm.cli.shared_options import EnvIds, EnvKwargs, read_env_kwargs
from gym_llm.errors import UsageError

_EXAMPLES = """\
examples:
  gym-llm chaos gym_llm/Weather-v0
  gym-llm chaos gym_llm/MathVerify-v0 --episodes 5000 --seed 7
  gym-llm chaos --all --episodes 200
  gym-llm chaos gym_llm/Counter-v0 --workers 2          over Ray, whose shards and raylet are killed, too

Plays the environment with random answers twice: without faults, then with a fault in a share of the episodes. The
engine, a hook or a tool raises, hangs or returns junk. A real server answers 429, 500 or 503, or resets the connection
while it answers. Meanwhile the run is cancelled, the disk is full, the clock jumps, and over Ray a shard and the raylet
are killed; then the run is resumed. In the end every episode must be there exactly once: scored as before, or masked
for the right reason.

exit codes: 0 all outcomes are right, 1 some are not, 2 wrong arguments, 130 after Ctrl-C.
"""
app = typer.Typer(cls=Group)
logger = logging.getLogger("gym_llm")


@app.command("chaos", cls=Command, epilog=_EXAMPLES)
def chaos(
    env_ids: EnvIds = None,
    every: Annotated[bool, typer.Option("--all", help="every registered environment")] = False,
    episodes: Annotated[int, typer.Option(metavar="N", min=1, help="episodes of each environment")] = 500,
    share: Annotated[float, typer.Option(metavar="P", help="share of the episodes with a fault")] = 0.5,
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="seed of tasks, answers and faults")] = 0,
    workers: Annotated[int, typer.Option(metavar="N", min=0, help="processes over Ray; 0 for this one alone")] = 0,
    env_kwargs: EnvKwargs = None,
) -> int:
    """Break everything around an environment, and check that no fault becomes a reward."""
    from rich.console import Console

    from gym_llm.author.chaos import attack
    from gym_llm.author.scaffold import find_verifier, missing_package
    from gym_llm.cli.bars import show_bars
    from gym_llm.core.registry.classes import env_class
    from gym_llm.core.registry.ids import env_ids as registered

    if bool(env_ids) == every:
        raise UsageError("No environment is given: name one or more, or add --all.")
    kwargs = read_env_kwargs(env_kwargs)
    console, clean = Console(), True
    for env_id in env_ids or registered():
        if every and (missing := missing_package(find_verifier(env_id))):
            console.print(f"{env_id}: skipped: {missing}", markup=False, soft_wrap=True)
            continue
        if every and env_class(env_id).scores_groups:
            console.print(f"{env_id}: skipped: it scores groups, so a fault changes the rewards of other episodes")
            continue
        with show_bars() as draw:

            def show(count: int, env_id: str = env_id, draw: Any = draw) -> None:
                draw(env_id, min(count, 2 * episodes), 2 * episodes, lambda: f"{count:,} episodes")

            level = logger.level
            logger.setLevel(logging.CRITICAL)  # it would report every fault that we inject
            try:
                report = attack(
                    env_id,
                    episodes=episodes,
                    share=share,
                    seed=seed,
                    workers=workers,
                    env_kwargs=kwargs,
                    on_record=show,
                )
            except ValueError as error:
                raise UsageError(str(error)) from None
            finally:
                logger.setLevel(level)
        _print(console, report)
        clean = clean and report.is_clean
    return 0 if clean else 1


def _print(console: Any, report: Any) -> None:
    from rich.text import Text

    from gym_llm.cli.bars import columns_table

    names = ("masked", "retried", "scored", "wrong")
    table = columns_table("place", "fault", *names, words=2)
    for (place, kind), counts in sorted(report.outcomes.items()):
        table.add_row(place or "none", "" if not place else kind, *(f"{counts[name]:,}" for name in names))
    interruptions = ", ".join(f"{count} x {kind}" for kind, count in report.interruptions.most_common()) or "none"
    console.print(Text(report.env_id, "bold"), table, sep="\n")
    console.print(
        f"{report.episodes:,} episodes, {report.faults:,} faults; run interrupted: {interruptions}; "
        f"{sum(counts['wrong'] for counts in report.outcomes.values())} wrong, {report.lost} lost, "
        f"{report.doubled} twice",
        style="green" if report.is_clean else "red",
        soft_wrap=True,
    )
    for sentence in report.wrong:
        console.print(Text(f"  {printable(sentence)}", "red"), soft_wrap=True)
