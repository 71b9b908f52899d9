"""CircleClick: click on the circle of a color in a picture (NeMo Gym's `circle_click`)."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import numpy as np

from gym_llm import BaseTask, Episode, Metric, Verdict, tool
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.call_matching import call_items, parse_arguments
from gym_llm.types import Item, Row, known
from gym_llm.utils.png import asking, draw_circles, shuffled_colors

_SIZE = 400
_FAR = 10**9


class CircleClick(NemoCompatible):
    """Click once into the circle of a color; the reward is 1.0 for a hit, the edge included.

    Details: `clicked_x`, `clicked_y` (absent without a valid click), `hit`.

    Args:
        conform: `"nemo"` compares the click with the first circle of the color only, and reads it as Python's `json`.
        **kwargs: As for every `VerifierEnv`.
    """

    reverify_mode = "stateless"
    executes_tools = False
    metrics = {"hit": Metric("rate")}
    accepted_findings = {
        "near miss/another number in a call": "NeMo Gym's rule: a click anywhere on the circle is right"
    }

    class Circle(BaseTask):
        """A circle of the picture, in pixels from the top left corner."""

        x: float
        y: float
        radius: float
        color: str

    class Task(BaseTask):
        """The circles and the color of the one to click."""

        circles: list[CircleClick.Circle] = []
        target_color: str = ""

    def generate(self, rng: np.random.Generator) -> Row:
        """Draw circles of different colors, and choose one of the colors."""
        circles = draw_circles(rng, _SIZE, int(rng.integers(3, 7)), shuffled_colors(rng), distinct=True)
        target = circles[int(rng.integers(len(circles)))].color
        question = (
            f"Click on the middle of the {target} circle. The picture is {_SIZE} pixels wide and high; (0, 0) is its "
            "top left corner."
        )
        return {
            "responses_create_params": asking(question, circles, _SIZE),
            "circles": [circle._asdict() for circle in circles],
            "target_color": target,
        }

    @tool
    def click(self, state: None, x: int, y: int) -> dict[str, int]:
        """Click on a pixel of the picture.

        Args:
            x: From the left edge, in pixels.
            y: From the top edge, in pixels.
        """
        return {"x": x, "y": y}

    def oracle(self, task: Task) -> list[Item]:
        """Return a click on the center of the circle."""
        x, y = next((circle.x, circle.y) for circle in task.circles if circle.color == task.target_color)
        return call_items([("click", {"x": x, "y": y})])

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Return whether the first click lies in a circle of the color."""
        x, y = clicked_as_nemo_gym(episode) if self.conform else clicked(episode)
        targets = [circle for circle in task.circles if circle.color == task.target_color]
        if self.conform:
            targets = targets[:1]
        elif y is None:
            x = None
        hit = x is not None and y is not None and any(math.dist((x, y), (c.x, c.y)) <= c.radius for c in targets)
        return Verdict(float(hit), {**known(clicked_x=x, clicked_y=y), "hit": hit})


def clicked(episode: Episode) -> tuple[int | None, int | None]:
    """Return the pixel of the first click. Both numbers are None if x is invalid; y is None if only y is."""
    call = next(episode.function_calls("click"), None)
    arguments = parse_arguments(call["arguments"]) if call else None
    if not isinstance(arguments, dict):
        return None, None
    x, y = _pixel(arguments.get("x")), _pixel(arguments.get("y"))
    return (None, None) if x is None else (x, y)


def clicked_as_nemo_gym(episode: Episode) -> tuple[int | None, int | None]:
    """Return the same as Python's `json` and `int` read it: `NaN` among the arguments is fine, and so is `" 7 "`."""
    call = next(episode.function_calls("click"), None)
    arguments: Any = parse_arguments(call["arguments"], as_python=True) if call else None
    pixel: list[int | None] = [None, None]
    with suppress(KeyError, TypeError, ValueError, OverflowError):
        for place, name in enumerate("xy"):
            pixel[place] = max(-_FAR, min(int(arguments[name]), _FAR))
    return pixel[0], pixel[1]


def _pixel(value: Any) -> int | None:
    if isinstance(value, str) and len(value) < 12:
        with suppress(ValueError):
            value = int(value)
    return int(value) if isinstance(value, int | float) and abs(value) < _FAR else None
