"""Comparison of calls with the expected ones, with NeMo Gym's categories of differences, by which users filter."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from gym_llm.grading.call_matching import NOT_JSON, Call, candidates, difference, largest_matching

NO_ACTION = "No tool call or chat message was found in the response"
NO_CALL = "No tool call was found when one was expected"
MESSAGE = "A chat message was found as expected"
NO_MESSAGE = "A tool call was executed when a chat message was expected"
CALL = "A tool call that matches the expected tool call was found"
BATCH = "A tool-call batch that matches the expected tool calls was found"
OTHER_TOOL = "The tool in a tool call is not the expected tool"
NO_ARGUMENTS = "An error occurred when decoding the arguments string in a tool call as a JSON object"
OTHER_NUMBER = "The number of tool calls in a batch is different than expected"
DIFFERENCES = {
    "type": "The type of an argument value in a tool call is different than the expected type",
    "keys": "The keys in an object in an argument value in a tool call are different than the keys in the expected "
    "object",
    "length": "A list in an argument value in a tool call has a different length than the expected list",
    "value": "An argument value in a tool call is different than the expected value",
}
_SHORT = 2_000  # characters of a text of which the words are remembered, for the next call to be compared with


class Settings(BaseModel):
    """The rules to compare and reward calls, under NeMo Gym's names."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    word_count_similarity_threshold: float = Field(0.1, ge=0, le=1)
    floating_point_comparison_threshold: float = Field(1e-6, ge=0)
    parallel_tool_call_rewarding: bool = False
    allow_subset: bool = False
    allow_superset: bool = False
    parallel_tool_call_reward_mode: Literal["binary_strict", "fractional", "f1"] = "binary_strict"


class Comparison:
    """Compares a turn's calls with the expected ones.

    Args:
        settings: The thresholds, and what calls too many or too few are worth.
        as_nemo_gym: Whether texts are compared as NeMo Gym does; the README says what is wrong with that.
    """

    def __init__(self, settings: Settings, as_nemo_gym: bool) -> None:
        self.settings = settings
        self._as_nemo_gym = as_nemo_gym

    def compare(self, expected: list[Call], calls: list[Call]) -> tuple[float, str]:
        """The reward and the category of calls, of which there is at least one."""
        if len(expected) == len(calls) == 1:
            problem = self._problem(expected[0], calls[0])
            return float(problem is None), problem or CALL
        settings = self.settings
        if settings.parallel_tool_call_rewarding and not self._may_be_so_many(len(expected), len(calls)):
            return 0.0, OTHER_NUMBER
        edges = candidates(expected, calls, lambda one, call: self._problem(one, call) is None)
        pairs = largest_matching(edges)
        reward = self._reward(len(pairs), len(expected), len(calls))
        if reward == 1.0:
            return reward, CALL if len(expected) == 1 else BATCH
        unmatched = sorted(set(range(len(expected))) - set(pairs.values()))
        if not unmatched or len(pairs) == len(calls):
            return reward, OTHER_NUMBER
        return reward, self._first_reason(expected[unmatched[0]], calls)

    def _may_be_so_many(self, expected: int, actual: int) -> bool:
        if actual == expected:
            return True
        return self.settings.allow_subset if actual < expected else self.settings.allow_superset

    def _reward(self, matched: int, expected: int, actual: int) -> float:
        settings = self.settings
        if not settings.parallel_tool_call_rewarding:
            return float(matched == expected)
        if settings.parallel_tool_call_reward_mode == "f1":
            return 2 * matched / (expected + actual)
        required = min(expected, actual) if settings.allow_subset else expected
        fraction = matched / required
        return fraction if settings.parallel_tool_call_reward_mode == "fractional" else float(fraction == 1.0)

    def _first_reason(self, expected: Call, calls: list[Call]) -> str:
        for call in calls:
            problem = self._problem(expected, call)
            if problem is not None and problem != OTHER_TOOL:
                return problem
        return OTHER_TOOL

    def _problem(self, expected: Call, call: Call) -> str | None:
        if expected.name != call.name:
            return OTHER_TOOL
        if call.arguments is NOT_JSON:
            return NO_ARGUMENTS
        found = difference(expected.arguments, call.arguments, self._same)
        return None if found is None else DIFFERENCES[found]

    def _same(self, expected: Any, actual: Any) -> bool:
        if expected.__class__ is str:
            return self._similar(expected, actual)
        if expected.__class__ is float:
            return abs(actual - expected) < self.settings.floating_point_comparison_threshold
        return bool(expected == actual)

    def _similar(self, expected: str, actual: str) -> bool:
        """Whether two texts share enough words, upper and lower case aside; single words have to be the same."""
        if expected == actual and not self._as_nemo_gym:
            return True
        threshold = self.settings.word_count_similarity_threshold
        words = _words(expected)
        total = words.total()
        most = int(total / threshold) + 1 if threshold else 1  # of more words, not enough can be the same
        others = _words(actual) if len(actual) <= _SHORT else _count(actual.split(None, max(most, 1)))
        other_total = others.total()
        if total < 2 or other_total < 2:
            return expected == actual if self._as_nemo_gym else words == others
        if not threshold or other_total > most:
            return not threshold
        shared, both = words.keys() & others.keys(), total + other_total
        common = len(shared)  # at least, and as a rule enough; each as often as both have it takes several times longer
        if common / (both if self._as_nemo_gym else both - common) < threshold:
            common = sum([min(words[word], others[word]) for word in shared])
        return common / (both if self._as_nemo_gym else both - common) >= threshold


@lru_cache(maxsize=1024)
def _words(text: str) -> Counter[str]:
    return _count(text.split())


def _count(words: list[str]) -> Counter[str]:
    return Counter([word.lower() for word in words])
