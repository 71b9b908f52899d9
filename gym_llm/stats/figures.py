"""Figures of a set of episodes as JSON values: rewards, pass@k and its kin with intervals, shares, tokens, cost."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gym_llm.core.rewards import Metric
from gym_llm.stats import pass_at_k as subsets
from gym_llm.stats.episode_scores import EpisodeScore
from gym_llm.stats.intervals import LEVEL, RESAMPLES, Estimate, Floats, estimates, number
from gym_llm.stats.nemo_gym import nemo_gym_figures
from gym_llm.stats.prices import Prices, dollars
from gym_llm.stats.run_summary import PASS_THRESHOLD

_Tasks: TypeAlias = list[list[EpisodeScore]]
_PerK: TypeAlias = Callable[[list[EpisodeScore]], Sequence[float]]


def evaluate_scores(
    scores: Sequence[EpisodeScore],
    *,
    repeats: int | None = None,
    pass_threshold: float = PASS_THRESHOLD,
    declared: Mapping[str, Metric] | None = None,
    prices: Prices | None = None,
    level: float = LEVEL,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """Return the figures of a set of episodes.

    Masked episodes are in the counts, the tokens and the cost. All other figures leave them out, also of denominators.
    Each figure with an interval is a dict of `value`, `standard_error`, `interval`, `bootstrap` and `tasks`. `interval`
    is analytic, `bootstrap` has percentiles over tasks, both are `[low, high]`. `tasks` is the number of tasks. See
    `gym_llm.stats.intervals`.

    Args:
        scores: Episodes of one environment and engine; see `gym_llm.stats.episode_scores.read_scores`.
        repeats: The largest k; None for the most episodes that a task has.
        pass_threshold: The reward from which on an answer is right.
        declared: The verifier's own metrics, by name: `VerifierEnv.metrics`.
        prices: Prices of tokens by model; a model without a price makes the cost None.
        level: The confidence level.
        seed: Seed of the bootstrap.
        resamples: Number of resamples of the bootstrap; 0 for no bootstrap.

    Returns:
        JSON values by name. Counts are `episodes`, `tasks`, `scored`, `masked`, `truncated`, `failure_kinds`. There are
        `coverage` and other shares: the masked share is of all episodes, the others are of those with a reward.
        `mean_reward` is the mean of all rewards. Some figures are dicts by k, as a text: `pass_at`, `pass_all` (all k
        right), `majority_at`, `best_of`, `best_of_per_token` and `mean_at`. They count tasks with k rewards or more.
        `best_of` is the reward of the answer with the highest log probability of k, in sum or per token. `mean_at` is
        the mean over tasks of the mean of k, with the standard error of k repeats. The others are `declared`,
        `turns_per_episode`, `seconds_per_episode`, `input_tokens`, `cached_tokens`, `output_tokens` and `cost`.
        `nemo_gym` has NeMo Gym's figures, by its names and definitions (`gym_llm.stats.nemo_gym`).

    Raises:
        ValueError: If a level or a price is invalid.
    """
    if not 0 < level < 1:
        raise ValueError(f"level is a confidence such as 0.95, got {level!r}.")
    tasks = _tasks(scores)
    most = max((len(task) for task in tasks), default=0) if repeats is None else repeats
    chosen = _Figures(most, level, seed, resamples)
    rewarded = [score for task in tasks for score in task]

    def solved(task: list[EpisodeScore]) -> int:
        return sum(_reward(score) >= pass_threshold for score in task)

    chosen.add_ratio("mean_reward", tasks, _reward)
    chosen.add_per_k("pass_at", tasks, lambda task: subsets.pass_at(len(task), solved(task)))
    chosen.add_per_k("pass_all", tasks, lambda task: subsets.pass_all(len(task), solved(task)))
    if any(score.answer is not None for score in rewarded):
        countable = [task for task in tasks if len(task) <= subsets.MOST_VOTES]
        chosen.add_per_k(
            "majority_at",
            countable,
            lambda task: subsets.majority_at((score.answer, _reward(score) >= pass_threshold) for score in task),
        )
    sampled = [[score for score in task if score.log_prob is not None] for task in tasks]
    if any(sampled):
        in_unit = _in_unit(rewarded)
        chosen.add_per_k("best_of", sampled, _best_of(_log_prob), bounded=in_unit)
        chosen.add_per_k("best_of_per_token", sampled, _best_of(_log_prob_per_token), bounded=in_unit)
    for name, metric in (declared or {}).items():
        chosen.add_declared(name, metric, tasks)
    figures = chosen.estimate()
    result = {
        **_counts(scores),
        "pass_threshold": pass_threshold,
        "repeats": most,
        "level": level,
        **figures,
        "mean_at": _mean_at(tasks, most),
        "turns_per_episode": _mean([score.turns for score in rewarded]),
        "seconds_per_episode": _mean([score.seconds for score in rewarded]),
        "input_tokens": sum(score.input_tokens for score in scores),
        **({"cached_tokens": cached} if (cached := sum(score.cached_tokens for score in scores)) else {}),
        "output_tokens": sum(score.output_tokens for score in scores),
        "cost": _cost(scores, rewarded, prices, pass_threshold),
    }
    own = {f"{figure['aggregate']}/{name}": figure["value"] for name, figure in result.get("declared", {}).items()}
    result["nemo_gym"] = nemo_gym_figures(rewarded) | own
    return result


def evaluate_groups(
    scores: Sequence[EpisodeScore], by: Sequence[str], **options: Any
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the figures for each value of each field that the scores were read with.

    Args:
        scores: As for `evaluate_scores`.
        by: The fields, some of those that `read_scores` was given.
        **options: As for `evaluate_scores`.

    Returns:
        By field and value: `{"subject": {"maths": {...}, "physics": {...}}}`, the values in their order as texts.
    """
    groups: dict[str, dict[str, dict[str, Any]]] = {}
    for name in by:
        parts: dict[str, list[EpisodeScore]] = defaultdict(list)
        for score in scores:
            parts[score.groups[name]].append(score)
        groups[name] = {value: evaluate_scores(parts[value], **options) for value in sorted(parts)}
    return groups


def declared_metrics(env_id: str) -> dict[str, Metric]:
    """The metrics that a verifier declares, by its id; none for what is not registered here."""
    import gymnasium as gym
    from gymnasium.envs.registration import load_env_creator

    import gym_llm.core.registry.ids  # noqa: F401 # registers the ids

    try:
        entry_point = gym.spec(env_id).entry_point
        creator: Any = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    except (gym.error.Error, ImportError, AttributeError):
        return {}
    return dict(getattr(creator, "metrics", None) or {})


class _Figures:
    """Columns of numerators and denominators over the same tasks, estimated all at once."""

    def __init__(self, most: int, level: float, seed: int, resamples: int) -> None:
        self._most, self._options = most, {"level": level, "seed": seed, "resamples": resamples}
        self._names: list[tuple[str, str | None]] = []
        self._columns: list[tuple[Floats, Floats, bool]] = []
        self._plain: dict[str, Any] = {}
        self._metrics: dict[str, Metric] = {}
        self._tasks: dict[str, int] = {}

    def add_ratio(self, name: str, tasks: _Tasks, value: Callable[[EpisodeScore], float | None]) -> None:
        """The mean of all episodes' values; with only one task its episodes are taken as independent."""
        rows = tasks if len(tasks) > 1 else [[score] for task in tasks for score in task]
        values = [[found for score in row if (found := value(score)) is not None] for row in rows]
        flat = [each for row in values for each in row]
        if flat:
            bounded = min(flat) >= 0 and max(flat) <= 1
            counts = np.array([float(len(row)) for row in values])
            self._names.append((name, None))
            self._columns.append((np.array([_sum(row) for row in values]), counts, bounded))
            self._tasks[name] = sum(any(value(score) is not None for score in task) for task in tasks)

    def add_per_k(self, name: str, tasks: _Tasks, values: _PerK, *, bounded: bool = True) -> None:
        """For each k the mean over the tasks that have as many episodes."""
        rows = [values(task) for task in tasks]
        for k in range(1, self._most + 1):
            if any(len(row) >= k for row in rows):
                numerators = np.array([row[k - 1] if len(row) >= k else 0.0 for row in rows])
                denominators = np.array([float(len(row) >= k) for row in rows])
                self._names.append((name, str(k)))
                self._columns.append((numerators, denominators, bounded))

    def add_declared(self, name: str, metric: Metric, tasks: _Tasks) -> None:
        """A verifier's own."""
        field = metric.field or name

        def value(score: EpisodeScore) -> float | None:
            found = score.reward if field == "reward" else score.info.get(field)
            return None if not isinstance(found, (int, float)) else float(found)

        self._metrics[name] = metric
        if metric.aggregate == "mean":
            self.add_ratio(f"declared/{name}", tasks, value)
        elif metric.aggregate == "rate":
            self.add_ratio(
                f"declared/{name}", tasks, lambda score: None if (v := value(score)) is None else float(v != 0)
            )
        elif values := [found for task in tasks for score in task if (found := value(score)) is not None]:
            aggregates: dict[str, Callable[[list[float]], float]] = {
                "sum": _sum, "max": max, "min": min, "median": statistics.median
            }  # fmt: skip
            self._plain[name] = {"value": number(aggregates[metric.aggregate](values))}

    def estimate(self) -> dict[str, Any]:
        """All of them, by name, and by k where there is one."""
        result: dict[str, Any] = {"mean_reward": None}
        declared: dict[str, Any] = dict(self._plain)
        for (name, k), estimate in zip(self._names, self._estimates(), strict=True):
            if k is not None:
                result.setdefault(name, {})[k] = estimate.as_dict()
            elif name.startswith("declared/"):
                declared[name.removeprefix("declared/")] = estimate.as_dict() | {"tasks": self._tasks[name]}
            else:
                result[name] = estimate.as_dict() | {"tasks": self._tasks[name]}
        if self._metrics:
            result["declared"] = {
                name: {
                    **declared.get(name, {"value": None}),
                    "aggregate": metric.aggregate,
                    "higher_is_better": metric.higher_is_better,
                }
                for name, metric in self._metrics.items()
            }
        return result

    def _estimates(self) -> list[Estimate]:
        """In the order in which they were added; those over as many rows together, so that they share a bootstrap."""
        by_rows: dict[int, list[int]] = defaultdict(list)
        for index, (numerators, _, _) in enumerate(self._columns):
            by_rows[len(numerators)].append(index)
        done: dict[int, Estimate] = {}
        for indices in by_rows.values():
            columns = [self._columns[index] for index in indices]
            numerators, denominators = (np.stack([column[n] for column in columns], axis=1) for n in (0, 1))
            bounded = np.array([column[2] for column in columns])
            found = estimates(numerators, denominators, bounded=bounded, **self._options)  # type: ignore[arg-type]
            done.update(zip(indices, found, strict=True))
        return [done[index] for index in range(len(self._columns))]


def _tasks(scores: Sequence[EpisodeScore]) -> _Tasks:
    """The episodes that have a reward, by task."""
    tasks: dict[tuple[str, int], list[EpisodeScore]] = defaultdict(list)
    for score in scores:
        if score.reward is not None:
            tasks[score.task].append(score)
    return list(tasks.values())


def _counts(scores: Sequence[EpisodeScore]) -> dict[str, Any]:
    """Return the number of episodes, and the shares of their outcomes."""
    rewarded = [score for score in scores if score.reward is not None]
    masked = len(scores) - len(rewarded)
    truncated = sum(score.outcome == "truncated" for score in rewarded)
    kinds = Counter(score.failure_kind or "verifier_error" for score in scores if score.reward is None)

    def share(count: int, of: int) -> float | None:
        return count / of if of else None

    return {
        "episodes": len(scores),
        "tasks": len({score.task for score in scores}),
        "scored": len(rewarded),
        "masked": masked,
        "truncated": truncated,
        "tool_errors": sum(score.tool_errors for score in rewarded),
        "coverage": share(len(rewarded), len(scores)),
        "masked_share": share(masked, len(scores)),
        "truncated_share": share(truncated, len(rewarded)),
        "tool_error_share": share(sum(score.tool_errors > 0 for score in rewarded), len(rewarded)),
        "failure_kinds": dict(kinds.most_common()),
    }


def _mean_at(tasks: _Tasks, most: int) -> dict[str, Any]:
    """The mean over the tasks with k rewards of the mean of k, and the standard error that k repeats would have.

    The variance of a task's mean of k is the tasks' own plus that of the answers to one task over k, both estimated
    without bias; what is left of sampling error with endless repeats is the tasks' own.
    """
    counts = np.array([float(len(task)) for task in tasks])
    result = {}
    with np.errstate(over="ignore", invalid="ignore"):  # of rewards such as 1e308
        sums = np.array([_sum([_reward(score) for score in task]) for task in tasks])
        means = sums / counts
        squares = np.array(
            [_sum([(_reward(score) - mean) ** 2 for score in task]) for task, mean in zip(tasks, means, strict=True)]
        )
        for k in range(1, most + 1):
            chosen = counts >= k
            number_of_tasks = int(chosen.sum())
            if not number_of_tasks:
                break
            error = math.nan
            if number_of_tasks > 1:
                degrees = float((counts[chosen] - 1).sum())
                within = float(squares[chosen].sum()) / degrees if degrees else 0.0
                between = float(means[chosen].var(ddof=1)) - within * float((1 / counts[chosen]).mean())
                error = math.sqrt(max(0.0, between + within / k) / number_of_tasks)
            value = float(means[chosen].mean())
            result[str(k)] = {"value": number(value), "standard_error": number(error), "tasks": number_of_tasks}
    return result


def _cost(
    scores: Sequence[EpisodeScore], rewarded: Sequence[EpisodeScore], prices: Prices | None, pass_threshold: float
) -> dict[str, Any] | None:
    """Dollars of all tokens, masked episodes' too, which were paid for like others; None where a price is missing."""
    if not prices:
        return None
    models = sorted({score.model for score in scores if score.input_tokens or score.output_tokens})
    if unpriced := [model for model in models if model not in prices]:
        return {"total": None, "per_episode": None, "per_solved": None, "unpriced": unpriced}
    total = 0.0
    for model in models:
        price = prices[model]
        if not all(isinstance(price.get(name), (int, float)) and price[name] >= 0 for name in ("input", "output")):
            raise ValueError(
                f"The price of {model!r} is dollars per million tokens, {{'input': 0.5, 'output': 1.5}}; got {price!r}."
            )
        mine = [score for score in scores if score.model == model]
        counts = ("input_tokens", "output_tokens", "cached_tokens")
        total += dollars(price, *(sum(getattr(score, name) for score in mine) for name in counts))
    solved = sum(_reward(score) >= pass_threshold for score in rewarded)
    return {
        "total": total,
        "per_episode": total / len(scores) if scores else None,
        "per_solved": total / solved if solved else None,
        "unpriced": [],
    }


def _reward(score: EpisodeScore) -> float:
    if score.reward is None:
        raise ValueError("a masked episode has no reward")
    return float(score.reward)


def _log_prob(score: EpisodeScore) -> float:
    return score.log_prob or 0.0


def _log_prob_per_token(score: EpisodeScore) -> float:
    return _log_prob(score) / max(1, score.sampled_tokens)


def _best_of(key: Callable[[EpisodeScore], float]) -> _PerK:
    return lambda task: subsets.best_of([key(score) for score in task], [_reward(score) for score in task])


def _in_unit(scores: Sequence[EpisodeScore]) -> bool:
    return all(0 <= _reward(score) <= 1 for score in scores)


def _sum(values: Sequence[float]) -> float:
    try:
        return math.fsum(values)
    except OverflowError:  # of rewards such as 1e308, or of an integer that is no float
        return math.nan


def _mean(values: Sequence[float]) -> float | None:
    return number(_sum(values) / len(values)) if values else None
