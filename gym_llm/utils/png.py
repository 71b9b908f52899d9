"""Pictures of coloured circles, for tasks of models that see: drawn and written as PNG without any library."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any, NamedTuple

import numpy as np

COLORS = {
    "red": (214, 39, 40),
    "orange": (255, 127, 14),
    "yellow": (240, 215, 0),
    "green": (44, 160, 44),
    "cyan": (0, 190, 207),
    "blue": (31, 90, 200),
    "purple": (140, 60, 180),
    "pink": (250, 130, 190),
}
_ROOM = 4  # pixels between circles


class Circle(NamedTuple):
    """A filled circle, in pixels from the top left corner."""

    x: int
    y: int
    radius: int
    color: str


def draw_circles(
    rng: np.random.Generator, size: int, count: int, colors: list[str], *, distinct: bool = False
) -> list[Circle]:
    """Draw up to `count` circles that do not touch, fewer if the picture is full.

    Args:
        rng: Where they lie, how large they are, and which of the colors they have.
        size: Of the picture, in pixels.
        count: How many; where they are distinct as many as there are colors, at most.
        colors: Names of `COLORS`.
        distinct: Whether each has another color, those of the list in order.
    """
    circles: list[Circle] = []
    for _ in range(20 * count):
        radius = int(rng.integers(size // 20, size // 9))
        x, y = (int(rng.integers(radius, size - radius)) for _ in range(2))
        apart = ((x - other.x) ** 2 + (y - other.y) ** 2 > (radius + other.radius + _ROOM) ** 2 for other in circles)
        if all(apart):
            color = colors[len(circles) if distinct else int(rng.integers(len(colors)))]
            circles.append(Circle(x, y, radius, color))
        if len(circles) == count:
            break
    return circles


def shuffled_colors(rng: np.random.Generator) -> list[str]:
    """The names of all colors, in any order."""
    names = list(COLORS)
    return [names[index] for index in rng.permutation(len(names))]


def asking(question: str, circles: list[Circle], size: int) -> dict[str, Any]:
    """The request that shows a picture and asks a question."""
    image = {"type": "input_image", "image_url": data_url(circles, size), "detail": "auto"}
    return {"input": [{"role": "user", "content": [image, {"type": "input_text", "text": question}]}]}


def data_url(circles: list[Circle], size: int) -> str:
    """A square PNG of circles on white, as a `data:` URL."""
    names = list(COLORS)
    rows = [bytearray(size) for _ in range(size)]  # the palette's first color is white
    for circle in circles:
        color = bytes([names.index(circle.color) + 1])
        for y in range(max(0, circle.y - circle.radius), min(size, circle.y + circle.radius + 1)):
            half = int((circle.radius**2 - (y - circle.y) ** 2) ** 0.5)
            left, right = max(0, circle.x - half), min(size, circle.x + half + 1)
            rows[y][left:right] = color * (right - left)
    palette = b"".join(bytes(color) for color in ((255, 255, 255), *COLORS.values()))
    header = struct.pack(">IIBBBBB", size, size, 8, 3, 0, 0, 0)  # eight bits of palette, not interlaced
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 6)
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", pixels), (b"IEND", b""))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
