"""The picture of a trajectory: segments, branches, and the mask under each token."""

from drawing import Picture

_SIZE = 26
_STEP = 30


def token_branches():
    """Return the picture."""
    about = (
        "Three trajectories: two turns that continue token for token are one segment; where a chat template rewrote "
        "the history a second segment begins; an agent that asks twice from one history has two branches. The mask is "
        "1 on sampled tokens only"
    )
    picture = Picture("token_branches", about, 1000, 500)
    _legend(picture)

    picture.text(24, 92, "Every turn continues the last one: one segment", size=15, bold=True)
    _row(picture, 24, 106, "ppppp sssss oooo sss")
    picture.text(630, 116, "The mask is 1 exactly where the model sampled.", size=13, hue="soft")
    picture.text(630, 136, "A log probability belongs to each of these.", size=13, hue="soft")

    picture.text(24, 196, "The chat template rewrote the history: a second segment", size=15, bold=True)
    _row(picture, 24, 210, "ppppp rrrss")
    picture.text(350, 227, "turn 1: three tokens of thinking, two of an answer", size=13, hue="soft")
    _row(picture, 24, 270, "ppppp cc oooo sss")
    picture.text(490, 287, "turn 2: the template left the thinking out, so turn 1's", size=13, hue="soft")
    picture.text(490, 305, "answer is context here, and is trained on once", size=13, hue="soft")

    picture.text(24, 356, "An agent asked twice from one history: two branches", size=15, bold=True)
    end = _row(picture, 24, 396, "ppppp sss", mask=False)
    upper, lower = 370, 432
    picture.arrow((end - 4, 409), (end + 14, 409), (end + 14, upper + 13), (end + 34, upper + 13))
    picture.arrow((end - 4, 409), (end + 14, 409), (end + 14, lower + 13), (end + 34, lower + 13))
    _row(picture, end + 40, upper, "oo sss", mask=False)
    _row(picture, end + 40, lower, "uuu ssss", mask=False)
    picture.text(600, upper + 17, "the main conversation goes on", size=13, hue="soft")
    picture.text(600, lower + 17, "a sub-agent, a retry or a summary", size=13, hue="soft")
    picture.text(
        24, 480, "Both branches are in the trajectory; what they share is trained on once.", size=13, hue="soft"
    )
    return picture


_KINDS = {
    "p": ("blue", False, "p"),
    "s": ("red", True, "s"),
    "r": ("red", True, "s"),
    "o": ("green", False, "o"),
    "u": ("green", False, "u"),
    "c": ("line", False, "c"),
}


def _row(picture, x, y, kinds, *, mask=True):
    for kind in kinds:
        if kind == " ":
            x += 8
            continue
        hue, filled, letter = _KINDS[kind]
        picture.square(x, y, _SIZE, hue=hue, filled=filled, words=letter)
        if mask:
            picture.text(x + _SIZE / 2, y + _SIZE + 16, "1" if filled else "0", size=11, anchor="middle", mono=True)
        x += _STEP
    return x


def _legend(picture):
    x = 24
    for kind, words in (
        ("p", "prompt"),
        ("s", "sampled: mask 1"),
        ("o", "a tool's output"),
        ("u", "the user"),
        ("c", "context, seen again"),
    ):
        hue, filled, letter = _KINDS[kind]
        picture.square(x, 20, _SIZE, hue=hue, filled=filled, words=letter)
        picture.text(x + 34, 38, words, size=13)
        x += 56 + 8 * len(words)
