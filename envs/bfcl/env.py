"""BFCL: function calls of one turn, by the rules of the Berkeley Function Calling Leaderboard."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from gym_llm import BaseTask, Episode, Metric, Verdict, VerifierEnv
from gym_llm.envs.bfcl.grading import example_arguments, matches, tool_name
from gym_llm.grading.call_matching import Call, call_items, read_calls
from gym_llm.grading.unread_calls import has_unread_call
from gym_llm.types import Item


class Function(BaseModel):
    """A function as BFCL documents it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    parameters: dict[str, Any] = {}


class BFCL(VerifierEnv):
    """Call the right functions with the right arguments; 1.0 if all expected calls are made and no other.

    Nothing is run: the first turn ends the episode. Details: `category`, `matched`, `calls`, `unread_calls` (1 for
    call-like text that no parser has read).

    Args:
        **kwargs: As for every `VerifierEnv`.
    """

    executes_tools = False
    reverify_mode = "stateless"
    metrics = {"unread_calls": Metric("rate", higher_is_better=False)}
    accepted_findings = {"near miss/other arguments": "in BFCL's relevance categories any call of a function is right"}

    class Task(BaseTask):
        """The functions, the expected calls, and BFCL's category."""

        functions: list[Function]
        ground_truth: list[dict[str, dict[str, list[Any]]]] = []
        category: str = "simple"

        @property
        def wants_no_call(self) -> bool:
            """Whether none of the functions fits."""
            return "irrelevance" in self.category

        @property
        def wants_any_call(self) -> bool:
            """Whether any call is right."""
            return "relevance" in self.category and not self.wants_no_call

        @property
        def names(self) -> set[str]:
            """The names of the functions, and of their tools."""
            return {name for each in self.functions for name in (each.name, tool_name(each.name))}

        def parameters_of(self, name: str) -> dict[str, Any]:
            """Return a function's documented parameters."""
            return next((each.parameters for each in self.functions if each.name == name), {})

    def oracle(self, task: Task) -> str | list[Item]:
        """Return the expected calls with the first accepted values."""
        if task.wants_no_call:
            return "None of these functions fits."
        if task.wants_any_call:
            return call_items([(tool_name(task.functions[0].name), {})])
        return call_items(
            (tool_name(name), example_arguments(accepted, task.parameters_of(name)))
            for expected in task.ground_truth
            for name, accepted in expected.items()
        )

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the turn's calls with the expected ones."""
        calls = read_calls(episode.items)
        matched, text = 0, episode.text
        unread = not calls and has_unread_call(text, task.names)
        if task.wants_no_call:
            reward = float(not calls and not unread and any(one.isprintable() and not one.isspace() for one in text))
        elif task.wants_any_call:
            names = {tool_name(function.name) for function in task.functions}
            reward = float(bool(calls) and all(c.name in names and isinstance(c.arguments, dict) for c in calls))
        else:
            matched = _matched(task, calls)
            reward = float(matched == len(task.ground_truth) == len(calls))
        details = {"category": task.category, "matched": matched, "calls": len(calls)}
        return Verdict(reward, {**details, "unread_calls": int(unread)})


def _matched(task: BFCL.Task, calls: list[Call]) -> int:
    """How many expected calls are among the model's; each of these counts once."""
    left, matched = list(calls[: 2 * len(task.ground_truth)]), 0
    for expected in task.ground_truth:
        ((name, accepted),) = expected.items()
        for call in left:
            if call.name == tool_name(name) and matches(call.arguments, accepted, task.parameters_of(name)):
                left.remove(call)
                matched += 1
                break
    return matched
