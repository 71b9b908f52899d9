"""Counter: a running total that lives as long as its episode (NeMo Gym's `example_session_state_mgmt`)."""

from __future__ import annotations

from dataclasses import dataclass

from gym_llm import BaseTask, Episode, tool
from gym_llm.core.compat import NemoCompatible
from gym_llm.grading.call_matching import call_items
from gym_llm.types import Item


@dataclass
class CounterState:
    """The episode's counter."""

    count: int


class Counter(NemoCompatible):
    """Add to a counter with tool calls; the reward is 1.0 if it ends at the expected count.

    Args:
        conform: `"nemo"` runs calls with `NaN` among their arguments, too.
        **kwargs: As for every `VerifierEnv`.
    """

    class Task(BaseTask):
        """The counter's first and expected last value."""

        initial_count: int
        expected_count: int

    def setup(self, task: Task) -> CounterState:
        """Return the episode's counter."""
        return CounterState(task.initial_count)

    @tool
    def increment_counter(self, state: CounterState, count: int) -> dict[str, bool]:
        """Add to the counter.

        Args:
            count: How much to add.
        """
        state.count += count
        return {"success": True}

    @tool
    def get_counter_value(self, state: CounterState) -> dict[str, int]:
        """Read the counter."""
        return {"count": state.count}

    def oracle(self, task: Task) -> list[Item] | None:
        """Return a call that adds the difference; None without a difference, for which most answers are right."""
        difference = task.expected_count - task.initial_count
        return call_items([("increment_counter", {"count": difference})]) if difference else None

    def verify(self, task: Task, episode: Episode) -> float:
        """Return 1.0 if the counter stands at `expected_count`."""
        return float(episode.state.count == task.expected_count)
