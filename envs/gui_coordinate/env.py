"""GUICoordinate: point at something in a picture (NeMo Gym's `gui_coordinate`)."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from pydantic import field_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.denials import is_denied
from gym_llm.grading.quotations import meant_words
from gym_llm.types import Row
from gym_llm.utils.png import asking, draw_circles, shuffled_colors

_POINT = re.compile(r"_\[?_\(_(\d{1,15})_,_(\d{1,15})_\)_\]?_</point>".replace("_", r"\s{0,9}"))
_OPENING = "<point>"
_MOST_POINTS = 10_000
_SIZE = 400


class GUICoordinate(NemoCompatible):
    """Point at something, `<point>(x, y)</point>`; the reward falls from 1.0 at the place to 0.0 at `max_dist`.

    x and y go from 0 to 1000, from left to right and from top to bottom. At a distance d, in widths of the picture,
    the reward is (1 - d / max_dist)².

    Details: `extracted_x`, `extracted_y` (from 0 to 1), `distance`; None without a point.

    Args:
        conform: `"nemo"` reads the first point instead of the last, also outside the picture.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument is invalid.
    """

    reverify_mode = "stateless"
    metrics = {"distance": Metric(higher_is_better=False)}

    class Task(BaseTask):
        """The place, as "x,y" from 0 to 1, and the distance at which the reward reaches 0."""

        expected_answer: tuple[float, float]
        max_dist: float = 0.15

        @field_validator("expected_answer", mode="before")
        @classmethod
        def _place(cls, value: Any) -> tuple[float, float]:
            try:
                x, y = (float(part) for part in value.split(","))
            except (AttributeError, ValueError):
                x = y = math.nan
            if not (math.isfinite(x) and math.isfinite(y)):
                raise ValueError(f'expected_answer is two numbers such as "0.25,0.5", got {value!r}')
            return x, y

    def generate(self, rng: np.random.Generator) -> Row:
        """Draw circles of different colors, and ask for one of them."""
        circles = draw_circles(rng, _SIZE, int(rng.integers(3, 7)), shuffled_colors(rng), distinct=True)
        target = circles[int(rng.integers(len(circles)))]
        question = (
            f"Where is the middle of the {target.color} circle? Answer <point>(x, y)</point>: x and y are whole "
            "numbers, from 0 at the left or at the top to 1000 at the right or at the bottom."
        )
        return {
            "responses_create_params": asking(question, circles, _SIZE),
            "expected_answer": f"{target.x / _SIZE:.4f},{target.y / _SIZE:.4f}",
            "max_dist": 0.15,
        }

    def oracle(self, task: Task) -> str:
        """Return the place."""
        x, y = (round(1000 * part) for part in task.expected_answer)
        return f"<point>({x}, {y})</point>"

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Measure the distance of the point from the place."""
        text = episode.messages_text if self.conform else meant_words(episode.messages_text, episode)
        point = _read_point(text, conform=self.conform is not None)
        if point is None:
            return Verdict(0.0, {"extracted_x": None, "extracted_y": None, "distance": None})
        distance = math.dist(point, task.expected_answer)
        reward = (1.0 - distance / task.max_dist) ** 2 if distance < task.max_dist else 0.0
        return Verdict(reward, {"extracted_x": point[0], "extracted_y": point[1], "distance": distance})


def _read_point(text: str, *, conform: bool) -> tuple[float, float] | None:
    """Return the last point that lies in the picture; with `conform` the first point anywhere."""
    position = -1 if conform else len(text)
    for _ in range(_MOST_POINTS):
        position = text.find(_OPENING, position + 1) if conform else text.rfind(_OPENING, 0, position)
        if position < 0:
            break
        match = _POINT.match(text, position + len(_OPENING))
        if match and (conform or (max(int(match[1]), int(match[2])) <= 1000 and not is_denied(text, position))):
            return int(match[1]) / 1000, int(match[2]) / 1000
    return None
