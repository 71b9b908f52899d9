"""Help that ends in examples: they stay as they are written, where Rich would break their lines and fill them up."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from rich.text import Text

_WIDTH = 120


class _Examples:
    epilog: str | None
    help: str | None

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, without Typer's types where they tell nothing: `<bool>` of a flag, `<list[str]>` of words."""
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if param.param_type_name == "argument" or param.is_bool_flag:
                param.display_type_rich = lambda ctx: None
        return params

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help; paragraphs of the epilog that have indented lines keep their lines, others are wrapped."""
        epilog, self.epilog = self.epilog, None
        self.help = re.sub(r"(?<!\n)\n(?!\n)", " ", self.help or "")
        super().format_help(ctx, formatter)  # type: ignore[misc]
        from rich.console import Console

        console = Console()
        for paragraph in (epilog or "").strip().split("\n\n"):
            console.print()
            if "\n  " in paragraph:
                console.print(_styled(paragraph), soft_wrap=True)
            else:
                console.print(_styled(paragraph.replace("\n", " ")), width=min(console.width, _WIDTH))


class Command(_Examples, TyperCommand):
    """A command whose epilog are examples."""


class Group(_Examples, TyperGroup):
    """A group of commands whose epilog are examples."""


def _styled(paragraph: str) -> Text:
    from rich.text import Text

    text = Text(paragraph)
    text.highlight_regex(r"(?m)^[a-z ]+:(?=\n| \d)", "bold")
    text.highlight_regex(r"(?m)`[^`]+`|^  gym-llm( [a-z]+)+", "cyan")
    return text
