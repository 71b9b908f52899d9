"""A picture in SVG: boxes, texts, arrows and squares in the colours of the site, light and dark.

The colours are the `--picture-…` variables of stylesheets/site.css. A file has both sets, and follows the system.
The site shows a picture as part of its page, where the page's own colours hold (docs/hooks.py).
"""

import re
from html import escape
from pathlib import Path

STYLES = Path(__file__).parents[1] / "stylesheets" / "site.css"
SANS = "system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif"
MONO = "ui-monospace, 'DejaVu Sans Mono', Menlo, monospace"


def colour(name):
    """Return the variable of a colour."""
    return f"var(--picture-{name})"


class Picture:
    """A picture that is drawn from the back to the front."""

    def __init__(self, name, about, width, height):
        """Begin an empty picture.

        Args:
            name: The file's name without `.svg`.
            about: A sentence for those who cannot see it.
            width: Its width in units of about a pixel.
            height: Its height.
        """
        self.name = name
        self.about = about
        self.width = width
        self.height = height
        self._parts = []
        self._hues = set()

    def text(self, x, y, words, *, size=14, bold=False, hue="ink", anchor="start", mono=False):
        """Draw one line of text, whose baseline begins at the place."""
        weight = ' font-weight="600"' if bold else ""
        family = f' font-family="{MONO}"' if mono else ""
        self._parts.append(
            f'<text x="{x}" y="{y}" font-size="{size}"{weight}{family} text-anchor="{anchor}" fill="{colour(hue)}">'
            f"{escape(words)}</text>"
        )

    def box(self, x, y, width, height, *, hue="plain", title="", lines=(), mono=True):
        """Draw a rounded box with a title and lines in its middle."""
        back, line = ("plain", "line") if hue == "plain" else (f"{hue}-back", hue)
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="9" fill="{colour(back)}" '
            f'stroke="{colour(line)}" stroke-width="1.4"/>'
        )
        middle = x + width / 2
        top = y + height / 2 - 9 * len(lines) + 5
        if title:
            self.text(
                middle,
                top,
                title,
                size=15,
                bold=True,
                anchor="middle",
                mono=mono,
                hue=line if hue != "plain" else "ink",
            )
        for number, line_text in enumerate(lines):
            self.text(middle, top + 19 + 17 * number, line_text, size=12.5, hue="ink", anchor="middle")

    def arrow(self, *points, hue="line", dashed=False):
        """Draw a line through the points with a head at its end."""
        self._hues.add(hue)
        dashes = ' stroke-dasharray="6 4"' if dashed else ""
        self._parts.append(
            f'<path d="{path(points)}" fill="none" stroke="{colour(hue)}" stroke-width="1.8" stroke-linejoin="round"'
            f'{dashes} marker-end="url(#{self.name}-{hue})"/>'
        )

    def square(self, x, y, size, *, hue, filled, words=""):
        """Draw a token: filled if the model sampled it."""
        fill = colour(hue) if filled else colour(f"{hue}-back" if hue != "line" else "plain")
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{size}" height="{size}" rx="4" fill="{fill}" stroke="{colour(hue)}" '
            f'stroke-width="1.4"/>'
        )
        if words:
            self.text(x + size / 2, y + size / 2 + 4, words, size=11, anchor="middle", hue="paper" if filled else "ink")

    def raw(self, part):
        """Draw a part that has no method."""
        self._parts.append(part)

    def svg(self):
        """Return the file's text."""
        heads = "".join(
            f'<marker id="{self.name}-{hue}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0 L10 5 L0 10 z" fill="{colour(hue)}"/></marker>'
            for hue in sorted(self._hues)
        )
        light, dark = (_variables(scheme) for scheme in ("default", "slate"))
        parts = "\n".join(self._parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(self.about)}" font-family="{SANS}">\n'
            f"<style>svg {{ {light} }} @media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }} "
            f"@media (prefers-reduced-motion: reduce) {{ .moving {{ display: none }} }}</style>\n"
            f"<defs>{heads}</defs>\n"
            f'<rect width="{self.width}" height="{self.height}" rx="12" fill="{colour("paper")}"/>\n{parts}\n</svg>\n'
        )


def path(points):
    """Return the SVG path through the points."""
    return "M" + " L".join(f"{x} {y}" for x, y in points)


def _variables(scheme):
    block = re.search(rf'\[data-md-color-scheme="{scheme}"\] \{{(.*?)\}}', STYLES.read_text("utf-8"), re.DOTALL)[1]
    return " ".join(re.findall(r"--picture-[\w-]+: [^;]+;", block))
