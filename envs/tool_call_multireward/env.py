"""ToolCallMultiReward: three rewards of one call, kept apart (NeMo Gym's `example_tool_call_multireward`)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from gym_llm import BaseTask, Episode, Metric, Verdict, tool
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.call_matching import Call, call_items, read_calls
from gym_llm.types import Item, Row


class Expected(BaseModel):
    """A call, with the arguments it has to have; it may have others, too."""

    name: str
    arguments: dict[str, Any] = {}


class ToolCallMultiReward(NemoCompatible):
    """Make the expected call, well formed, and nothing else; the reward is the sum of three components, 0 to 3.

    `correctness`: some call is the expected one. `schema_valid`: the first call's arguments are an object with all that
    its tool requires. `format`: one call in the whole episode, and no message.

    Args:
        single_turn: Whether the first turn with calls ends the episode. Otherwise the tool answers, the model says
            something, and `format` is 0, as in NeMo Gym.
        conform: `"nemo"` reads arguments as Python's `json` does: with `NaN`, `Infinity` and numbers of any size.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"
    accepted_findings = {
        "range": "the sum of three rewards, from 0 to 3",
        "more than the right answer/a cut": "a call without a message after it has the third reward, for its format",
    }
    metrics = {name: Metric() for name in ("correctness", "schema_valid", "format")}

    class Task(BaseTask):
        """The expected call; without one no call is correct."""

        expected_call: Expected | dict[str, None] = {}

    class Config(NemoCompatible.Config):
        """Arguments of the class."""

        single_turn: bool = False

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        self.executes_tools = not self.config.single_turn

    @tool
    def get_weather(self, city: str) -> dict[str, str]:
        """Look up the current weather in a city.

        Args:
            city: The city's name.
        """
        return {"city": city, "weather_description": f"The weather in {city} is sunny."}

    def oracle(self, task: Task) -> list[Item] | None:
        """Return the expected call, if the row has one."""
        call = task.expected_call
        return call_items([(call.name, call.arguments)]) if isinstance(call, Expected) else None

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Score the calls three times."""
        calls = [
            call if isinstance(call.arguments, dict) else Call(call.name, None)
            for call in read_calls(episode.items, as_python=self.conform is not None)
        ]
        made = sum(1 for _ in episode.function_calls())
        says = any(item.get("type", "message") == "message" for item in episode.items)
        components = {
            "correctness": float(any(_is_expected(call, task.expected_call) for call in calls)),
            "schema_valid": float(bool(calls) and _has_required(calls[0], episode.request.get("tools") or [])),
            "format": float(made == 1 and not says),
        }
        predicted = [{"name": call.name, "arguments": call.arguments or {}} for call in calls]
        return Verdict(sum(components.values()), {**components, "predicted_calls": predicted}, components)


def _is_expected(call: Call, expected: Expected | dict[str, None]) -> bool:
    if not isinstance(expected, Expected) or call.name != expected.name:
        return False
    arguments = call.arguments or {}
    return all(name in arguments and arguments[name] == value for name, value in expected.arguments.items())


def _has_required(call: Call, tools: list[dict[str, Any]]) -> bool:
    if call.arguments is None:
        return False
    schema = next((tool.get("parameters") for tool in tools if tool.get("name") == call.name), None)
    required = (schema or {}).get("required") or []
    return all(name in call.arguments for name in required)
