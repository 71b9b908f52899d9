"""`gym-llm data`: the group of commands for task files."""

import typer

from gym_llm.cli import data_overlap, data_prepare, data_remote, data_tasks
from gym_llm.cli.help import Group

_EXAMPLES = """\
examples:
  gym-llm data fetch aime25
  gym-llm data prepare --config envs/multiple_choice/config.yaml --output-dir prepared --mode example_validation

`gym-llm data COMMAND --help` says more about each command.
"""

app = typer.Typer(
    cls=Group,
    help="Fetch the tasks of benchmarks; check, count, collate and publish task files.",
    epilog=_EXAMPLES,
    no_args_is_help=True,
)
app.add_typer(data_prepare.app)
app.add_typer(data_remote.app)
app.add_typer(data_tasks.app)
app.add_typer(data_overlap.app)
