"""CircleCount: how many circles of a color are in a picture (NeMo Gym's `circle_count`)."""

from __future__ import annotations

import re

import numpy as np

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.answers import last_boxed
from gym_llm.grading.quantities import read_quantity
from gym_llm.grading.quotations import meant_words
from gym_llm.types import Row, known
from gym_llm.utils.png import asking, draw_circles, shuffled_colors

_FIRST_BOXED = re.compile(r"\\boxed\{(\d+)\}")
_SIZE = 400
_MOST_DIGITS = 18


class CircleCount(NemoCompatible):
    r"""Count the circles of one color; the reward is 1.0 if the number in `\boxed{}` is right.

    Details: `predicted_count` (absent without a number), `expected_count`, `correct`.

    Args:
        conform: `"nemo"` reads the first box with digits only, instead of the last box.
        **kwargs: As for every `VerifierEnv`.
    """

    reverify_mode = "stateless"
    metrics = {"predicted_count": Metric(higher_is_better=None)}

    class Circle(BaseTask):
        """A circle of the picture."""

        color: str

    class Task(BaseTask):
        """The circles and the color of those to count."""

        circles: list[CircleCount.Circle] = []
        target_color: str = ""

        @property
        def count(self) -> int:
            """The number of circles of the color."""
            return sum(circle.color == self.target_color for circle in self.circles)

    def generate(self, rng: np.random.Generator) -> Row:
        """Draw circles, and choose one of their colors."""
        circles = draw_circles(rng, _SIZE, int(rng.integers(3, 13)), shuffled_colors(rng)[:3])
        target = circles[int(rng.integers(len(circles)))].color
        question = f"How many {target} circles are in this picture? Put the number into \\boxed{{}}."
        return {
            "responses_create_params": asking(question, circles, _SIZE),
            "circles": [circle._asdict() for circle in circles],
            "target_color": target,
        }

    def oracle(self, task: Task) -> str:
        """Return the number of circles in a box."""
        return f"\\boxed{{{task.count}}}"

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the number in the box with the number of circles."""
        predicted = self._count(episode.text if self.conform else meant_words(episode.text, episode))
        correct = predicted == task.count
        details = {**known(predicted_count=predicted), "expected_count": task.count, "correct": correct}
        return Verdict(float(correct), details)

    def _count(self, text: str) -> int | None:
        if self.conform:
            match = _FIRST_BOXED.search(text)
            return int(match[1]) if match and len(match[1].lstrip("0")) <= _MOST_DIGITS else None
        number = read_quantity(last_boxed(text) or "")
        is_count = number is not None and number.value.denominator == 1 and 0 <= number.value < 10**_MOST_DIGITS
        return int(number.value) if number is not None and is_count else None
