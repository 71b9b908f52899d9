"""The health of a run: how many episodes show which sign of trouble, and which are the worst."""

from __future__ import annotations

import hashlib
import heapq
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gym_llm.data.files.reading import is_compressed
from gym_llm.errors import DataError
from gym_llm.evaluation.health_signs import SIGNS, answer_of, record_signs
from gym_llm.records.record_files import numbered_lines
from gym_llm.records.trajectory_bytes import read_without_trajectory
from gym_llm.types import Rollout

LONGEST_LINE = 64 << 20
"""Longer lines are counted as unreadable: what is in them is not looked at."""

_WORST = 10
_EXAMPLES = 5
_MOST_ANSWERS = 100_000
_MOST_TASKS = 200_000
_SHOWN_ANSWERS = 3
_EQUAL_SHARE = 0.2  # of all answers
_EQUAL_SHARE_SHORT = 0.8  # of short ones, such as a letter
_SHORT = 24
_FEWEST_ANSWERS = 10
_EXCERPT = 120


def health_of(path: str | os.PathLike[str], *, on_read: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Return the health of a rollout file, as JSON values.

    The file is read once, as a stream: memory does not grow with it, and each record takes bounded time.

    Args:
        path: The rollout file, ours or NeMo Gym's; may be compressed.
        on_read: Called with the size in bytes of each line that is read.

    Returns:
        `path`, `episodes`, `mean_reward`, and

        - `unreadable`: the number of lines that are not records.
        - `outcomes`: the number of episodes by outcome.
        - `signs`: by name (`gym_llm.evaluation.health_signs.SIGNS`) the `meaning`, the number of `episodes`, their
            `share`, their `mean_reward` and the `first` ones.
        - `equal_answers`: the most frequent last messages of different tasks, with `count`, `share`, number of `tasks`,
            the `first` episode, and `suspicious`. `equal_repeats` says of how many tasks with several episodes all
            answers, or all rewards, are equal.
        - `worst`: the episodes with the most signs, worst first.

        An episode is `{"line", "task_index", "repeat_index", "dataset", "signs", "reward"}`. Lines count from 1.

    Raises:
        DataError: If the file cannot be read.
    """
    health = _Health()
    for number, line in _lines(path):
        if on_read is not None:
            on_read(len(line or b""))
        try:
            record = None if line is None else read_without_trajectory(line)
        except (ValueError, DataError):
            record = None
        if record is None:
            health.unreadable += 1
        else:
            health.add(number, record)
    return {"path": os.fspath(path), **health.as_dict()}


def _lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, bytes | None]]:
    """The lines of a file that are not empty, with their numbers; None for one that is too long."""
    if is_compressed(os.fspath(path)):
        yield from numbered_lines(path)
        return
    try:
        with open(path, "rb") as file:
            number = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    while line and not line.endswith(b"\n"):
                        line = file.readline(LONGEST_LINE)
                    yield number, None
                elif not line.isspace():
                    yield number, line
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from None


@dataclass
class _Sign:
    episodes: int = 0
    rewards: int = 0
    reward_sum: float = 0.0
    first: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class _Task:
    """What is kept of a task: the hash of the first answer, the first reward, and whether the others are equal."""

    answer: int
    reward: float | None
    episodes: int = 1
    has_equal_answers: bool = True
    has_equal_rewards: bool = True


class _Answers:
    """Counts of the most frequent texts, in bounded memory.

    Beyond 100,000 different texts it drops all that were seen once more than others, as Misra and Gries do ("Finding
    repeated elements", 1982): a count may then be too low, by at most a hundred-thousandth of all texts.
    """

    def __init__(self) -> None:
        self.total = 0
        self._counts: Counter[int] = Counter()
        self._seen: dict[int, tuple[str, dict[str, Any], int, tuple[str, int]]] = {}

    def add(self, key: int, text: str, episode: dict[str, Any]) -> None:
        self.total += 1
        self._counts[key] += 1
        task = episode["dataset"], episode["task_index"]
        if key not in self._seen:
            self._seen[key] = text[:_EXCERPT], episode, 1, task
        elif self._seen[key][3] != task:
            shown, first, tasks, _ = self._seen[key]
            self._seen[key] = shown, first, tasks + 1, task
        if len(self._counts) > _MOST_ANSWERS:
            self._counts = Counter({each: count - 1 for each, count in self._counts.items() if count > 1})
            self._seen = {each: self._seen[each] for each in self._counts}

    def frequent(self) -> Iterator[dict[str, Any]]:
        for key, count in self._counts.most_common(_SHOWN_ANSWERS):
            text, first, tasks, _ = self._seen[key]
            share = count / self.total
            least = _EQUAL_SHARE_SHORT if len(text) <= _SHORT else _EQUAL_SHARE
            is_suspicious = self.total >= _FEWEST_ANSWERS and tasks > 2 and share >= least
            if count > 1:
                shown = {"text": text, "count": count, "share": share, "tasks": tasks}
                yield {**shown, "suspicious": is_suspicious, "first": first}


class _Health:
    """The counts of a file."""

    def __init__(self) -> None:
        self.episodes = self.unreadable = self._rewards = 0
        self._reward_sum = 0.0
        self._outcomes: Counter[str] = Counter()
        self._signs = {name: _Sign() for name in SIGNS}
        self._answers = _Answers()
        self._tasks: dict[tuple[str, int], _Task] = {}
        self._worst: list[tuple[int, int, dict[str, Any]]] = []

    def add(self, number: int, record: Rollout) -> None:
        self.episodes += 1
        self._outcomes[record["outcome"]] += 1
        reward, place = record["reward"], record["rollout_id"]
        signs = record_signs(record)
        dataset = record.get("dataset", "")[:_EXCERPT]
        episode = {
            "line": number,
            "task_index": place["task_index"],
            "repeat_index": place["repeat_index"],
            "dataset": dataset,
            "signs": signs,
            "reward": reward,
        }
        if reward is not None:
            self._rewards += 1
            self._reward_sum += reward
        for name in signs:
            sign = self._signs[name]
            sign.episodes += 1
            if reward is not None:
                sign.rewards += 1
                sign.reward_sum += reward
            if len(sign.first) < _EXAMPLES:
                sign.first.append(episode)
        if signs:
            entry = len(signs), -number, episode
            (heapq.heappushpop if len(self._worst) >= _WORST else heapq.heappush)(self._worst, entry)
        answer = answer_of(record)
        key = int.from_bytes(hashlib.blake2b(answer.encode(errors="replace"), digest_size=8).digest(), "big")
        if answer:
            self._answers.add(key, answer, episode)
        self._add_task((dataset, place["task_index"]), key, reward)

    def _add_task(self, name: tuple[str, int], answer: int, reward: float | None) -> None:
        task = self._tasks.get(name)
        if task is not None:
            task.episodes += 1
            task.has_equal_answers &= task.answer == answer
            if task.reward is None:
                task.reward = reward
            task.has_equal_rewards &= reward is None or task.reward == reward
        elif len(self._tasks) < _MOST_TASKS:
            self._tasks[name] = _Task(answer, reward)

    def as_dict(self) -> dict[str, Any]:
        groups = [task for task in self._tasks.values() if task.episodes > 1]
        return {
            "episodes": self.episodes,
            "unreadable": self.unreadable,
            "outcomes": dict(self._outcomes),
            "mean_reward": self._reward_sum / self._rewards if self._rewards else None,
            "signs": {
                name: {
                    "meaning": SIGNS[name],
                    "episodes": sign.episodes,
                    "share": sign.episodes / self.episodes if self.episodes else 0.0,
                    "mean_reward": sign.reward_sum / sign.rewards if sign.rewards else None,
                    "first": sign.first,
                }
                for name, sign in self._signs.items()
            },
            "equal_answers": list(self._answers.frequent()),
            "equal_repeats": {
                "tasks": len(groups),
                "equal_answers": sum(task.has_equal_answers for task in groups),
                "equal_rewards": sum(task.has_equal_rewards for task in groups),
            },
            "worst": [episode for _, _, episode in sorted(self._worst, key=lambda entry: entry[:2], reverse=True)],
        }
