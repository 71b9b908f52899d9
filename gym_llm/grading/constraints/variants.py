"""What a text is without a line said before or after it, and without Markdown's stars: IFEval's loose reading."""

from __future__ import annotations

from collections.abc import Iterator


def loose_variants(text: str) -> Iterator[str]:
    r"""The eight texts of which one is enough to follow a constraint loosely; blank ones are left out.

    The text, then without stars; without its first line, its last and both; these without stars.

    >>> list(loose_variants("Sure:\n*Hello*"))
    ['Sure:\n*Hello*', 'Sure:\nHello', '*Hello*', 'Sure:', 'Hello', 'Sure:']
    """
    lines = text.split("\n")
    cut = ["\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1])]
    for variant in (text, text.replace("*", ""), *cut, *(part.replace("*", "") for part in cut)):
        if variant and not variant.isspace():
            yield variant
