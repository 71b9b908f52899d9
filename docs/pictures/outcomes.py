"""The picture of the three outcomes of an episode."""

from drawing import Picture, colour

_ROWS = [
    (
        "scored",
        "green",
        '<circle cx="{x}" cy="{y}" r="13" fill="{fill}"/>',
        ["it came to its end"],
        ["what `verify` gave"],
        ["in every mean, pass@k", "and baseline"],
    ),
    (
        "truncated",
        "amber",
        '<path d="M{x} {top} l14 25 h-28 z" fill="{fill}"/>',
        ["turns, tokens or a wrapper", "cut it off"],
        ["what `verify` gave", "for what there was"],
        ["counted like a scored one,", "and its share is shown"],
    ),
    (
        "masked",
        "red",
        '<path d="M{left} {top2} l18 18 m0 -18 l-18 18" stroke="{fill}" stroke-width="6" stroke-linecap="round"/>',
        ["an engine, a judge, a tool, a", "process or the verifier failed"],
        ["none"],
        ["in no mean and no baseline;", "--retry-failed plays it again"],
    ),
]
_COLUMNS = ((210, "what happened"), (490, "its reward"), (700, "in figures and training"))


def outcomes():
    """Return the picture."""
    about = "Scored, truncated and masked episodes: what happened, which reward they have, and where they count"
    picture = Picture("outcomes", about, 1000, 320)
    for x, title in _COLUMNS:
        picture.text(x, 36, title, size=13, hue="soft")
    for number, (name, hue, shape, *cells) in enumerate(_ROWS):
        top = 52 + number * 88
        picture.box(20, top, 960, 76, hue=hue)
        x, y = 52, top + 38
        values = {"x": x, "y": y, "top": y - 14, "left": x - 9, "top2": y - 9, "fill": colour(hue)}
        picture.raw(shape.format(**values))
        picture.text(78, y + 5, name, size=16, bold=True, hue=hue)
        for (column, _), lines in zip(_COLUMNS, cells, strict=True):
            for line, words in enumerate(lines):
                picture.text(column, y + 5 - 9 * (len(lines) - 1) + 18 * line, words.replace("`", ""), size=13.5)
    return picture
