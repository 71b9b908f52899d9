"""CircleClick: click on the circle of a color in a picture (NeMo Gym's `circle_click`)."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from gym_llm import BaseTask, Episode, Metric, Verdict, tool
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.call_matching import parse_arguments
from gym_llm.types import Item, Row, known
from gym_llm.utils.png import asking, draw_circles, shuffled_colors

_SIZE = 400


class CircleClick(NemoCompatible):
    """Click into the circle of a color, once; the reward is 1.0 for a hit, its edge included.

    Details: `clicked_x`, `clicked_y` (absent without a click on whole numbers), `hit`.

    Args:
        conform: `"nemo"` looks at the first circle of the color only, where there are several.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"
    executes_tools = False
    metrics = {"hit": Metric("rate")}

    class Circle(BaseTask):
        """One circle of the picture, in pixels from the top left corner."""

        x: float
        y: float
        radius: float
        color: str

    class Task(BaseTask):
        """The circles, and the color of the one to click."""

        circles: list[CircleClick.Circle] = []
        target_color: str = ""

    def generate(self, rng: np.random.Generator) -> Row:
        """Draw circles, each of another color, and one of the colors."""
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

    accepted_findings = {
        "near miss/another number in a call": "NeMo Gym's rule: a click anywhere on the circle is right"
    }

    def oracle(self, task: Task) -> list[Item]:
        """A click on the middle of the circle."""
        x, y = next((circle.x, circle.y) for circle in task.circles if circle.color == task.target_color)
        arguments = json.dumps({"x": x, "y": y})
        return [{"type": "function_call", "call_id": "call_1", "name": "click", "arguments": arguments}]

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Look whether the first click lies in a circle of the color."""
        x, y = clicked(episode)
        if not self.conform and (x is None or y is None):
            x = y = None
        targets = [circle for circle in task.circles if circle.color == task.target_color]
        hit = (
            x is not None
            and y is not None
            and any(
                math.hypot(x - circle.x, y - circle.y) <= circle.radius
                for circle in targets[: 1 if self.conform else None]
            )
        )
        return Verdict(float(hit), {**known(clicked_x=x, clicked_y=y), "hit": hit})


def clicked(episode: Episode) -> tuple[int | None, int | None]:
    """Where the first click went, y perhaps not known; what comes after it would be a second chance."""
    call = next(episode.function_calls("click"), None)
    arguments = parse_arguments(call["arguments"]) if call else None
    if not isinstance(arguments, dict):
        return None, None
    x, y = _pixel(arguments.get("x")), _pixel(arguments.get("y"))
    return (None, None) if x is None else (x, y)


def _pixel(value: Any) -> int | None:
    """A whole number, also one that is written as a text or has decimals."""
    if isinstance(value, str) and len(value) < 12:
        try:
            value = int(value)
        except ValueError:
            return None
    return int(value) if isinstance(value, int | float) and abs(value) < 1e9 else None
