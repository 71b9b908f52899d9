"""Auditing a benchmark: official answers and junk through its verifier, and the rows themselves."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gym_llm.author.attack.attack_play import Player, says
from gym_llm.author.attack.right_answers import oracle_turns
from gym_llm.author.real_outputs import TITLE
from gym_llm.core.named_tasks import task_id
from gym_llm.core.tasks import PreparedTask
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.data.recipes.recipe import Benchmark
from gym_llm.errors import DataError

JUNK = ("nothing", "a refusal", "the question", "another task's answer")
"""Answers that should earn nothing."""

_REFUSAL = "I'm sorry, but I can't help with that."
_SHOWN = 5
_SECONDS = 60.0


@dataclass
class Audit:
    """The result of an audit.

    Attributes:
        benchmark: The benchmark's name.
        rows: The number of tasks.
        played: The number of tasks that were played.
        official: How many official answers earn the full reward.
        unanswered: Tasks whose verifier knows no official answer.
        junk: By the kind of junk, how many answers earn any reward.
        duplicates: Tasks that are equal to an earlier one.
        failures: Official answers that earn less, and errors: task and reason.
        paid: Junk that earns something: task and kind.
        origin: Further facts for the card, such as the digest of the tasks.
    """

    benchmark: str
    rows: int
    played: int = 0
    official: int = 0
    unanswered: int = 0
    junk: Counter[str] = field(default_factory=Counter)
    duplicates: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)
    paid: list[tuple[int, str]] = field(default_factory=list)
    origin: dict[str, str] = field(default_factory=dict)

    @property
    def answered(self) -> int:
        """Tasks with an official answer that were played."""
        return self.played - self.unanswered

    @property
    def is_clean(self) -> bool:
        """Whether official answers earn the full reward, and junk earns nothing."""
        return self.official == self.answered and not sum(self.junk.values())

    def card(self, old: str = "") -> str:
        """Return the card in Markdown; it keeps the real outputs of the old one."""
        _, title, outputs = old.partition(f"\n## {TITLE}")
        return self.section() + title + outputs

    def section(self) -> str:
        """Return the result in Markdown."""
        lines = [
            f"# {self.benchmark}",
            "",
            f"{self.rows:,} tasks, {self.duplicates:,} of them equal to an earlier one; {self.played:,} were played.",
            "",
            "| answer | earns | of |",
            "|---|---:|---:|",
            f"| the official one (full reward) | {self.official:,} | {self.answered:,} |",
            *(f"| {kind} (any reward) | {self.junk[kind]:,} | {self.played:,} |" for kind in JUNK),
        ]
        if self.unanswered:
            lines += ["", f"{self.unanswered:,} tasks have no official answer that the verifier can give."]
        if self.failures:
            lines += ["", "First official answers that earn less:", ""]
            lines += [f"- task {index}: {why}" for index, why in self.failures[:_SHOWN]]
        if self.paid:
            lines += ["", "First junk that earns something:", ""]
            lines += [f"- task {index}: {kind}" for index, kind in self.paid[:_SHOWN]]
        if self.origin:
            lines += ["", *(f"- {name}: {value}" for name, value in self.origin.items())]
        return "\n".join(lines) + "\n"


def card_of(benchmark: Benchmark) -> Path:
    """Return the place of a benchmark's card: `cards/NAME.md` beside the module of its recipe."""
    module = inspect.getsourcefile(benchmark.convert)
    if module is None:
        raise DataError(f"The recipe of {benchmark.name} is in no file, so its card has no place.")
    return Path(module).parent / "cards" / f"{benchmark.name.replace(':', '--')}.md"


def audit(
    benchmark: Benchmark,
    make: Callable[[], VerifierEnv],
    *,
    limit: int | None = None,
    show: Callable[[int, int], None] | None = None,
) -> Audit:
    """Play every task with the official answer, and with junk.

    Args:
        benchmark: The benchmark.
        make: Makes its environment, with its tasks.
        limit: Play only the first tasks, this many.
        show: Called with the number of tasks that are done, and of all.
    """
    player = Player(make, _SECONDS)
    try:
        tasks = player.env.tasks
        if tasks is None or tasks.size is None:
            raise DataError(f"{benchmark.name} has no list of tasks.")
        every = [tasks[index] for index in range(tasks.size)]
        ids = [task_id(task.row) for task in every]
        found = Audit(benchmark.name, len(every), duplicates=len(ids) - len(set(ids)))
        chosen = every[:limit]
        answers = [oracle_turns(player.env, task) for task in chosen]
        for index, (task, answer) in enumerate(zip(chosen, answers, strict=True)):
            _audit_task(player, index, task, answer, answers, found)
            if show is not None:
                show(index + 1, len(chosen))
    finally:
        player.env.close()
    return found


def _audit_task(
    player: Player, index: int, task: PreparedTask, answer: Any, answers: Sequence[Any], found: Audit
) -> None:
    found.played += 1
    if answer is None:
        found.unanswered += 1
    else:
        played = player.play(index, task, answer)
        if (played.reward or 0.0) >= 1.0:
            found.official += 1
        else:
            found.failures.append((index, played.error or f"reward {played.reward:g}"))
    last = task.request["input"][-1].get("content")
    other = next((each for each in [*answers[index + 1 :], *answers[:index]] if each and each != answer), None)
    junk = ("", _REFUSAL, last if isinstance(last, str) else "", other)
    for kind, text in zip(JUNK, junk, strict=True):
        if text is not None:
            turns = says(text) if isinstance(text, str) else text
            if (player.play(index, task, turns).reward or 0.0) > 0:
                found.junk[kind] += 1
                found.paid.append((index, kind))
