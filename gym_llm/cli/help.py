"""Help that ends in examples, whose lines Rich must not wrap."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

_WIDTH = 120


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


class Group(_Examples, TyperGroup):
    """A group of commands whose epilog has examples."""
