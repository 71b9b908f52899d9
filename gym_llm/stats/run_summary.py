"""Statistics of a run: mean reward, pass@k, coverage, turns, tokens, failures."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from gym_llm.engines.engine_response import spent_budget
from gym_llm.stats.intervals import clustered_error, number
from gym_llm.stats.pass_at_k import pass_at_k
from gym_llm.types import Rollout, cached_tokens_of

PASS_THRESHOLD = 1.0
"""The default reward from which on an episode counts as solved, for pass@k."""


@dataclass(slots=True)
class _TaskScore:
    episodes: int = 0
    solved: int = 0
    reward_sum: float = 0.0
    first_reward: float | None = None
    are_equal: bool = True


@dataclass(slots=True)
class Summary:
    """Statistics that grow with each record; a few numbers per task are kept, no records.

    A masked episode has no reward and is excluded from means and denominators; `coverage` is the share that is left.

    Attributes:
        repeats: Episodes planned for each task: the largest k of pass@k.
        pass_threshold: The reward from which on an episode counts as solved.
        episodes: Records seen.
        failures: Masked episodes.
        failure_kinds: Number of masked episodes of each kind of failure.
        truncated: Episodes cut off by a limit; they have a reward.
        budgets: Of these, the number of episodes that each budget ended, by its name in `RolloutSettings`.
        turns: Model turns of all episodes together.
        tool_errors: Failed tool calls.
        input_tokens: Tokens given to the model, where the engine reports them.
        output_tokens: Tokens the model generated, where the engine reports them.
        cached_tokens: Input tokens that servers had in their prefix cache, where they say so.
        first_error: The first masked episode's error.
    """

    repeats: int = 1
    pass_threshold: float = PASS_THRESHOLD
    episodes: int = 0
    failures: int = 0
    failure_kinds: Counter[str] = field(default_factory=Counter)
    truncated: int = 0
    budgets: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    tool_errors: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    first_error: str | None = None
    _reward_sum: float = 0.0
    _reward_squares: float = 0.0
    _tasks: dict[tuple[str, int], _TaskScore] = field(default_factory=dict)

    def add(self, record: Rollout) -> None:
        """Count one record, fresh or read back from a file."""
        self.episodes += 1
        number = record.get("dataset", ""), record["rollout_id"]["task_index"]
        task = self._tasks.get(number)
        if task is None:
            task = self._tasks[number] = _TaskScore()
        reward = record["reward"]
        if reward is None:
            self.failures += 1
            self.failure_kinds[record.get("failure_kind") or "verifier_error"] += 1
            self.first_error = self.first_error or record.get("error")
        else:
            self._reward_sum += reward
            self._reward_squares += reward * reward
            task.episodes += 1
            task.solved += reward >= self.pass_threshold
            task.reward_sum += reward
            if task.first_reward is None:
                task.first_reward = reward
            elif task.first_reward != reward:
                task.are_equal = False
            self.truncated += bool(record.get("truncated"))
        info = record.get("info") or {}
        self.turns += info.get("turn", 0)
        self.tool_errors += info.get("tool_errors", 0)
        response: Any = record.get("response", {})
        if budget := spent_budget(response):
            self.budgets[budget] += reward is not None
        usage: Any = response.get("usage") or {}
        self.input_tokens += usage.get("input_tokens") or 0
        self.output_tokens += usage.get("output_tokens") or 0
        self.cached_tokens += cached_tokens_of(usage)

    @property
    def scored(self) -> int:
        """Episodes that have a reward."""
        return self.episodes - self.failures

    @property
    def coverage(self) -> float:
        """Share of the episodes that have a reward, [0, 1]; NaN without episodes."""
        return self.scored / self.episodes if self.episodes else math.nan

    @property
    def mean_reward(self) -> float:
        """Mean reward over the episodes that have one; NaN without any."""
        return self._reward_sum / self.scored if self.scored else math.nan  # inf where floats cannot hold the sum

    @property
    def standard_error(self) -> float:
        """Standard error of the mean reward; NaN for fewer than two rewards.

        Repeats of one task are not independent, so the errors are clustered by task, with the usual correction for few
        clusters. Source: Miller 2024, "Adding Error Bars to Evals", arXiv 2411.00640, section 2.2. With one episode per
        task this is the sample deviation over the square root of n. Episodes of a single task count as independent.
        """
        scores = [task for task in self._tasks.values() if task.episodes]
        n, mean, clusters = self.scored, self.mean_reward, len(scores)
        if n < 2:
            return math.nan
        if clusters == 1:
            variance = (self._reward_squares - n * mean * mean) / (n - 1)
            return math.sqrt(max(0.0, variance) / n) if math.isfinite(variance) else math.nan
        try:
            squares = math.fsum((task.reward_sum - task.episodes * mean) ** 2 for task in scores)
        except OverflowError:  # of rewards such as 1e200
            return math.nan
        return clustered_error(squares, clusters, n)

    def pass_at(self) -> dict[int, float]:
        """Return pass@k for k = 1, 2, 4, … and `repeats`, each over the tasks with k rewards or more."""
        tasks = Counter((task.episodes, task.solved) for task in self._tasks.values())
        powers = [2**power for power in range(self.repeats.bit_length()) if 2**power < self.repeats]
        result = {}
        for k in [*powers, self.repeats]:
            counted = {score: number for score, number in tasks.items() if score[0] >= k}
            if counted:
                total = math.fsum(pass_at_k(n, c, k) * number for (n, c), number in counted.items())
                result[k] = total / sum(counted.values())
        return result

    def equal_groups(self) -> tuple[int, int]:
        """Return how many tasks have several rewards, all equal, and how many have several."""
        groups = [task for task in self._tasks.values() if task.episodes > 1]
        return sum(task.are_equal for task in groups), len(groups)

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON values, NaN as None."""
        return {
            "episodes": self.episodes,
            "tasks": len(self._tasks),
            "scored": self.scored,
            "coverage": number(self.coverage),
            "mean_reward": number(self.mean_reward),
            "standard_error": number(self.standard_error),
            "pass_threshold": self.pass_threshold,
            "pass_at": {str(k): value for k, value in self.pass_at().items()},
            "turns_per_episode": self.turns / self.episodes if self.episodes else None,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            **({"cached_tokens": self.cached_tokens} if self.cached_tokens else {}),
            "tool_errors": self.tool_errors,
            "truncated": self.truncated,
            **({"budgets": dict(self.budgets.most_common())} if self.budgets else {}),
            "failures": self.failures,
            "failure_kinds": dict(self.failure_kinds.most_common()),
        }
