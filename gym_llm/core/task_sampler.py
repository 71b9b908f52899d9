"""TaskSampler: which task is played next, by what its episodes have been worth."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from gym_llm.core.tasks import TaskSource
from gym_llm.errors import UsageError

By: TypeAlias = Literal["variance", "uniform"]
_STATE = 1
_TRIES = 64


class Draw(NamedTuple):
    """A task that was drawn, and the probability that it had."""

    task_index: int
    probability: float


class TaskSampler:
    """Draws tasks, most often those whose episodes are neither sure to succeed nor sure to fail.

    The sampler keeps a Beta distribution of each task's chance of success. A reward r in [0, 1] counts as r successes
    and 1 - r failures. With `by="variance"` a task's weight is the expected variance of its next reward, plus a share
    that all tasks have alike. Groups of equal rewards teach nothing, since GRPO's advantages are 0 there. Old rewards
    count less and less, since the policy changes.

    Args:
        by: `"variance"`, or `"uniform"` for equal weights.
        share: The share of the weight of a task of which nothing is known that every task keeps, in (0, 1].
        discount: The factor of what is known of a task with each of its rewards, in (0, 1].
        prior: Successes and failures that every task begins with, both above 0. The smaller they are, the sooner a
            task of equal rewards is drawn rarely. After 8 failures the default leaves a third of the first weight.
        weight: A function of a task's index, whose result multiplies its weight: a curriculum, or a mixture.
            `reweight` calls it again.
        seed: The seed of the draws.

    Raises:
        ValueError: If an argument is invalid.

    >>> sampler = TaskSampler(share=0.01, seed=3)
    >>> sampler.begin(["easy", "open"])
    >>> for _ in range(200):
    ...     sampler.update(0, 1.0)
    ...     sampler.update(1, _ % 2)
    >>> sampler.probability(1) > 0.9
    True
    """

    def __init__(
        self,
        *,
        by: By = "variance",
        share: float = 0.05,
        discount: float = 0.98,
        prior: tuple[float, float] = (0.2, 0.2),
        weight: Callable[[int], float] | None = None,
        seed: int = 0,
    ) -> None:
        if by not in get_args(By):
            raise ValueError(f"by is variance or uniform; got {by!r}.")
        if not (0 < share <= 1 and 0 < discount <= 1 and _is_beta(prior)):
            given = f"{share}, {discount} and {prior}"
            raise ValueError(f"share and discount are in (0, 1], prior is two numbers above 0; got {given}.")
        self._by, self._share, self._discount, self._prior = by, share, discount, (float(prior[0]), float(prior[1]))
        self._weight = weight
        self._random = np.random.default_rng(seed)
        self._keys: list[str] = []
        self._given: list[str] = []
        self._sources: dict[int, TaskSource] = {}  # all with these keys
        self._known = np.empty((0, 2))
        self._left: dict[str, tuple[float, float]] = {}
        self._factors = np.empty(0)
        self._weights = np.empty(0)
        self._total = self._highest = 0.0

    def begin(self, keys: Sequence[str]) -> None:
        """Take on the tasks, whose keys (`TaskIdentity.sha256`) find what a loaded state knows of them.

        Raises:
            ValueError: If there are no tasks.
        """
        if not keys:
            raise ValueError("There are no tasks to draw from.")
        known, seen = self._by_key(), Counter[str]()
        self._keys = []
        for key in keys:  # equal tasks have a key each
            self._keys.append(f"{key}#{seen[key]}" if seen[key] else key)
            seen[key] += 1
        self._known = np.array([known.pop(key, self._prior) for key in self._keys], dtype=np.float64)
        self._left = known
        self._given, self._sources = list(keys), {}
        self.reweight()

    def begin_with(self, source: TaskSource | None, task_indices: Sequence[int] | None = None) -> None:
        """Take on the tasks of an environment, or some of them, numbered from 0; no work if it has them all already.

        Args:
            source: The tasks.
            task_indices: Of generated tasks, those to draw from; None for all.

        Raises:
            UsageError: If the tasks cannot be counted.
        """
        if id(source) in self._sources and task_indices is None:
            return
        if source is None or (source.size is None and task_indices is None):
            raise UsageError("A TaskSampler draws from tasks that can be counted; these are generated without end.")
        indices = range(source.size or 0) if task_indices is None else task_indices
        keys = [source.identity_of(index, source[index].row).sha256 for index in indices]
        if keys != self._given:
            self.begin(keys)
        if task_indices is None:
            self._sources[id(source)] = source

    def reweight(self) -> None:
        """Ask for the weights of a curriculum or a mixture again.

        Raises:
            ValueError: If a weight is negative or not finite, or all are 0.
        """
        count = len(self._keys)
        factors = np.ones(count) if self._weight is None else np.array([self._weight(n) for n in range(count)], float)
        if not np.isfinite(factors).all() or (factors < 0).any() or not factors.any():
            raise ValueError("weight returns a number for each task, 0 or more, and not 0 for all of them.")
        self._factors = factors
        self._weights = factors * self._worth(self._known)
        self._sum()

    def draw(self) -> Draw:
        """Return a task. Tasks of a low weight are drawn and dropped, so most draws take a constant time.

        Raises:
            ValueError: If there are no tasks: `begin` comes first.
        """
        if not self._keys:
            raise ValueError("There are no tasks to draw from: `begin` comes first.")
        for _ in range(_TRIES):
            index = int(self._random.integers(len(self._keys)))
            if self._random.random() * self._highest < self._weights[index]:
                return Draw(index, self.probability(index))
        sums = self._weights.cumsum()  # few tasks have nearly all of the weight
        index = int(sums.searchsorted(self._random.random() * sums[-1], side="right"))
        return Draw(index, self.probability(index))

    def probability(self, task_index: int) -> float:
        """Return the probability that the next draw has of being this task."""
        return float(self._weights[task_index] / self._total)

    def update(self, task_index: int, reward: float | None) -> None:
        """Take an episode's reward into account: clipped to [0, 1]; None, for a masked episode, changes nothing.

        Raises:
            ValueError: If the reward is not a number.
        """
        if reward is None:
            return
        if math.isnan(reward):
            raise ValueError("A reward is a number; got nan.")
        prior, counts = np.array(self._prior), self._known[task_index]
        success = min(max(float(reward), 0.0), 1.0)
        counts[:] = prior + self._discount * (counts - prior) + (success, 1.0 - success)
        old, new = self._weights[task_index], self._factors[task_index] * self._worth(counts[None])[0]
        self._weights[task_index] = new
        self._total += new - old
        self._highest = max(self._highest, new)
        self._updates += 1
        if self._updates >= len(self._keys):  # rounding adds up, and the highest may have fallen
            self._sum()

    def state_dict(self) -> dict[str, Any]:
        """Return what the sampler knows, as JSON values; `load_state_dict` goes on exactly there."""
        if self._keys:
            self._sum()  # the other sampler begins with fresh sums, and draws depend on them
        return {
            "version": _STATE,
            "tasks": {key: list(counts) for key, counts in self._by_key().items()},
            "random": self._random.bit_generator.state,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another sampler was; tasks are found by their keys, in any order.

        Raises:
            ValueError: If it is not a sampler's state.
        """
        try:
            if state["version"] != _STATE:
                raise ValueError(f"its version is {state['version']!r}")
            known = {str(key): (float(one), float(other)) for key, (one, other) in state["tasks"].items()}
            for key, counts in known.items():
                if not _is_beta(counts):
                    raise ValueError(f"what it knows of {key!r:.80} is {counts}")
            self._random.bit_generator.state = state["random"]
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(f"This is not the state of a TaskSampler: {error}.") from None
        self._left = known
        if self._keys:
            self._known = np.array([known.pop(key, self._prior) for key in self._keys], dtype=np.float64)
            self.reweight()

    def _by_key(self) -> dict[str, tuple[float, float]]:
        own = {key: (float(one), float(other)) for key, (one, other) in zip(self._keys, self._known, strict=True)}
        return {**self._left, **own}

    def _worth(self, known: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return weights: the expected variance of a reward whose chance has this Beta distribution, and the share."""
        if self._by == "uniform":
            return np.ones(len(known))
        one, other = self._prior
        total = known.sum(axis=1)
        variance = known[:, 0] * known[:, 1] / (total * (total + 1.0))
        unknown = one * other / ((one + other) * (one + other + 1.0))
        return np.asarray((1.0 - self._share) * variance + self._share * unknown)

    def _sum(self) -> None:
        self._total, self._highest, self._updates = float(self._weights.sum()), float(self._weights.max()), 0


def _is_beta(counts: Any) -> bool:
    """Whether these are the two parameters of a Beta distribution."""
    return isinstance(counts, (tuple, list)) and len(counts) == 2 and all(0 < count < math.inf for count in counts)
