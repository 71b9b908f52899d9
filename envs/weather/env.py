"""Weather: one tool, one question (NeMo Gym's `example_single_tool_call`)."""

from __future__ import annotations

import numpy as np

from gym_llm import BaseTask, Episode, tool
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.call_matching import call_items
from gym_llm.types import Item, Row

CITIES = (
    "Amsterdam", "Athens", "Bangkok", "Berlin", "Bogota", "Boston", "Brussels", "Buenos Aires", "Cairo", "Cape Town",
    "Chicago", "Copenhagen", "Dakar", "Delhi", "Dublin", "Edinburgh", "Florence", "Geneva", "Hanoi", "Helsinki",
    "Hong Kong", "Istanbul", "Jakarta", "Kyoto", "Lagos", "Lima", "Lisbon", "London", "Los Angeles", "Madrid",
    "Melbourne", "Mexico City", "Montreal", "Mumbai", "Nairobi", "New York", "Osaka", "Oslo", "Paris", "Prague",
    "Quito", "Reykjavik", "Rio de Janeiro", "Rome", "San Francisco", "Santiago", "Seoul", "Singapore", "Stockholm",
    "Sydney", "Taipei", "Tokyo", "Toronto", "Vancouver", "Vienna", "Warsaw", "Wellington", "Zurich",
)  # fmt: skip
QUESTIONS = (
    "What is the weather in {}?",
    "How is the weather in {} right now?",
    "Is it cold in {}?",
    "Do I need a coat in {} today?",
    "I am travelling to {}. How is the weather there?",
)


class Weather(NemoCompatible):
    """Look up the weather with `get_weather`; the reward is 1.0 if the city asked about was looked up.

    Rows without `expected_city`, such as NeMo Gym's, expect some call of `get_weather`, whatever it asks.
    """

    class Task(BaseTask):
        """The city to look up, None for any."""

        expected_city: str | None = None

    def generate(self, rng: np.random.Generator) -> Row:
        """Draw a city and a question."""
        city = CITIES[rng.integers(len(CITIES))]
        question = QUESTIONS[rng.integers(len(QUESTIONS))].format(city)
        return self.row(question, expected_city=city)

    def setup(self, task: Task) -> list[str]:
        """The cities looked up so far: none."""
        return []

    @tool
    def get_weather(self, state: list[str], city: str) -> dict[str, str]:
        """Look up the current weather in a city.

        Args:
            city: The city's name.
        """
        state.append(city.strip().casefold())
        return {"city": city, "weather_description": f"The weather in {city} is cold."}

    def oracle(self, task: Task) -> list[Item]:
        """Return a call that looks the city up."""
        return call_items([("get_weather", {"city": task.expected_city or CITIES[0]})])

    def verify(self, task: Task, episode: Episode) -> float:
        """Return 1.0 if a call of `get_weather` names `expected_city`, ignoring case and outer spaces."""
        if task.expected_city is None:
            return float(next(episode.function_calls("get_weather"), None) is not None)
        return float(task.expected_city.strip().casefold() in episode.state)
