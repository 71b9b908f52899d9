"""SingleStepToolUse: the expert's next step (NeMo Gym's `single_step_tool_use_with_argument_comparison`)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.core.checks import read_settings
from gym_llm.core.compat import NemoCompatible
from gym_llm.envs.single_step_tool_use.comparison import MESSAGE, NO_ACTION, NO_CALL, NO_MESSAGE, Comparison, Settings
from gym_llm.grading.call_matching import Call, ExpectedAction, calls_of, expected_turn, read_calls
from gym_llm.grading.unread_calls import has_unread_call, tool_names
from gym_llm.tokens.parsers.thinking import without_cut_thought
from gym_llm.types import Item, Row, is_said


class SingleStepToolUse(NemoCompatible):
    """Do what an expert did next: a message, or calls with nearly the same arguments. Detail: `category`, a sentence.

    Nothing is run: the first turn with calls ends the episode.

    Args:
        tool_call_comparator_config: How calls are compared and rewarded; the README has a table of its keys.
        conform: `"nemo"` compares texts as NeMo Gym does, where it is wrong; the README says where.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    executes_tools = False
    reverify_mode = "stateless"
    accepted_findings = {
        "near miss/with the calls of other tasks": "more calls do not matter without `parallel_tool_call_rewarding`",
        **dict.fromkeys(
            ("non-answer", "near miss", "all options", "look-alike"), "where a message is expected, any is right"
        ),
    }

    class Task(BaseTask):
        """The expert's step."""

        expected_action: ExpectedAction

        @cached_property
        def calls(self) -> list[Call]:
            """The expert's calls, their arguments read; none if it was a message."""
            return calls_of(self.expected_action)

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        tool_call_comparator_config: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        settings = read_settings("tool_call_comparator_config", Settings, tool_call_comparator_config)
        super().__init__(tasks, **kwargs)
        self._comparison = Comparison(settings, self.conform is not None)

    def oracle(self, task: Task) -> str | list[Item]:
        """Return the expert's message or calls."""
        return expected_turn(task.expected_action)

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the turn with the expert's."""
        calls = read_calls(episode.items, as_python=self.conform is not None)
        text = without_cut_thought(episode.text).strip()
        if not calls and not (any(map(_has_text, episode.items)) if self.conform else text):
            reward, category = 0.0, NO_ACTION
        elif not task.calls:
            is_message = not calls and (bool(self.conform) or not has_unread_call(episode.text, tool_names(episode)))
            reward, category = (1.0, MESSAGE) if is_message else (0.0, NO_MESSAGE)
        elif not calls:
            reward, category = 0.0, NO_CALL
        else:
            reward, category = self._comparison.compare(task.calls, calls)
        return Verdict(reward, {"category": category})


def _has_text(item: Item) -> bool:
    """Whether this is a message of the model's with a text, even an empty one."""
    if not is_said(item):
        return False
    content = item.get("content")
    parts = content if isinstance(content, list) else ()
    texts = (part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "output_text")
    return isinstance(content, str) or any(isinstance(text, str) for text in texts)
