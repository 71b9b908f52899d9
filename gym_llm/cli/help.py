"""Help that ends in examples, whose lines Rich must not wrap; and short help for commands with many options."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

_WIDTH = 120
_COMMON = (
    *("suite", "tasks", "env_kwargs", "engine", "model", "temperature", "judge", "limit", "repeats", "concurrency"),
    *("output", "show", "resume", "help_all"),
)
"""The options that the short help of a `LongCommand` has."""


class _Examples:
    epilog: str | None
    help: str | None

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters without Typer's types for arguments and flags: `<bool>`, `<list[str]>`."""
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if param.param_type_name == "argument" or param.is_bool_flag:
                param.display_type_rich = lambda ctx: None
        return params

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help; paragraphs of the epilog with indented lines keep their lines, others are wrapped."""
        epilog, self.epilog = self.epilog, None
        self.help = re.sub(r"(?<!\n)\n(?!\n)", " ", self.help or "")
        super().format_help(ctx, formatter)  # type: ignore[misc]
        from rich.console import Console

        console = Console(highlight=False, markup=False, emoji=False)
        for paragraph in (epilog or "").strip().split("\n\n"):
            is_verbatim = "\n  " in paragraph
            text = paragraph if is_verbatim else paragraph.replace("\n", " ")
            console.print("\n" + text, soft_wrap=is_verbatim, width=min(console.width, _WIDTH))


class Command(_Examples, TyperCommand):
    """A command whose epilog has examples."""


class LongCommand(Command):
    """A command with many options: `--help` shows the common ones, and `--help-all` shows all.

    The epilog's first paragraph ends the short help.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help in one list, without the rare options."""
        param: Any
        for param in self.params:
            param.hidden = param.param_type_name == "option" and param.name not in _COMMON
            param.rich_help_panel = None
        examples = (self.epilog or "").partition("\n\n")[0]
        self.epilog = f"{examples}\n\n`{ctx.command_path} --help-all` explains every option, exit codes and more."
        super().format_help(ctx, formatter)

    def print_all(self, ctx: Any) -> None:
        """Print the help with all options, by panel."""
        super().format_help(ctx, ctx.make_formatter())


def _print_all(context: typer.Context, is_requested: bool) -> None:
    if is_requested:
        context.command.print_all(context)  # type: ignore[attr-defined]
        raise typer.Exit


HelpAll = Annotated[
    bool, typer.Option("--help-all", help="Show all options and exit.", is_eager=True, callback=_print_all)
]
"""The option of a `LongCommand` that shows all of them."""


class Group(_Examples, TyperGroup):
    """A group of commands whose epilog has examples."""
