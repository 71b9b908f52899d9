"""Views of a framework's observations: as text, as a picture, or as recorded episodes have them.

Peers import this file as `_gym_llm_theirs_views`: in a child there is no gym_llm.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
from typing import Any

_LONG_ARRAY = 400
_MARKS = " \t.!*`\"'"
_LARGEST_SHOWN = 256
_LONGEST_COMMAND = 1_000
_FILES = re.compile(
    r"\b(save\b|restor|script|unscri|noscri|transcri|recording|replay|(record|commands) o(n|ff)\b)", re.IGNORECASE
)
REFUSED = f"A command has at most {_LONGEST_COMMAND:,} characters, and neither saves nor restores."


def array(value: Any) -> Any:
    """A framework's observation as a JSON value; a long array becomes its digest, as in recorded episodes."""
    if isinstance(value, dict):
        return {str(key): array(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [array(each) for each in value]
    if getattr(value, "size", 0) > _LONG_ARRAY:
        digest = hashlib.sha256(value.tobytes()).hexdigest()
        return {"__ndarray_sha256__": digest, "shape": list(value.shape), "dtype": str(value.dtype)}
    return value.tolist() if hasattr(value, "tolist") else value


def text_of(observation: Any) -> str:
    """An observation as text: numbers with four digits, the fields of a dict in lines, MiniGrid's view in words."""
    if isinstance(observation, dict):
        if "mission" in observation and "image" in observation:
            return _grid(observation)
        return "\n".join(f"{name}: {text_of(each)}" for name, each in observation.items())
    if getattr(observation, "ndim", 0) > 1 and observation.size > _LARGEST_SHOWN:
        return "(a picture)"
    if hasattr(observation, "dtype") and observation.dtype.kind == "f":
        return str([round(float(each), 4) for each in observation.ravel()])
    return str(observation.tolist() if hasattr(observation, "tolist") else observation)


def _grid(observation: Any) -> str:
    """What a player of MiniGrid sees, in words: it stands at the bottom of the view, in the middle."""
    from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT

    image, seen = observation["image"], []
    middle, bottom = image.shape[0] // 2, image.shape[1] - 1
    for x in range(image.shape[0]):
        for y in range(image.shape[1]):
            kind = IDX_TO_OBJECT[int(image[x, y, 0])]
            if kind in ("unseen", "empty", "floor") or (x, y) == (middle, bottom):
                continue
            colour, state = IDX_TO_COLOR[int(image[x, y, 1])], int(image[x, y, 2])
            door = ("open ", "closed ", "locked ")[state] if kind == "door" else ""
            side = f", {abs(x - middle)} {'left' if x < middle else 'right'}" if x != middle else ""
            seen.append(f"{door}{colour} {kind}: {bottom - y} ahead{side}")
    facing = ("right", "down", "left", "up")[int(observation["direction"])]
    return f"Mission: {observation['mission']}\nYou face {facing}. You see:\n" + "\n".join(seen)


def picture(frame: Any) -> dict[str, str]:
    """Return what `render` drew, as a part of a message. Needs Pillow."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(frame).save(file, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    return {"type": "input_image", "image_url": url}


def last_line(text: str) -> str:
    r"""The last line that says something, without marks around it.

    >>> last_line("I think it is\n**Rock**.\n")
    'Rock'
    """
    lines = [line.strip(_MARKS) for line in text.splitlines()]
    return next((line for line in reversed(lines) if line), "")


def story_command(text: str) -> str | None:
    r"""A command for a story of the Z-machine, in one line; None if it is too long or about files.

    A story reads up to a zero, and its files are the same for all episodes.

    >>> story_command("take\nlamp"), story_command("SAVE game")
    ('take lamp', None)
    """
    ascii_only = text.encode("ascii", "replace").decode()
    command = "".join(letter if letter.isprintable() else " " for letter in ascii_only).strip()
    return None if len(command) > _LONGEST_COMMAND or _FILES.search(command) else command
