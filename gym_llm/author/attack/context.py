"""The context that all checks of an attack share: player, tasks, right answers and findings so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gym_llm.author.attack.attack_play import OutOfTime, Played, Player, Turn, said
from gym_llm.author.attack.finding import Finding, Form, Severity
from gym_llm.author.attack.gold import Gold
from gym_llm.core.tasks import PreparedTask

_TOP = 1.0
_HALF = 0.5
_EPSILON = 1e-6


class NotApplicable(Exception):
    """A check has nothing to say of this verifier; its text says why."""


@dataclass
class Context:
    """An attack under way.

    Attributes:
        player: Plays.
        tasks: The tasks, by index.
        golds: Their right answers; None where none is known.
        deadline: When to stop, by `time.monotonic`.
        seed: For what is drawn.
        findings: What was found, by check and attack.
        forms: The metamorphic table, by name.
        judge: The judge's text that pays, where there is a judge.
        options: What checks remember.
        quiet: Whether what raises now is nothing to be found.
    """

    player: Player
    tasks: dict[int, PreparedTask]
    deadline: float
    seed: int = 0
    golds: dict[int, Gold | None] = field(default_factory=dict)
    findings: dict[tuple[str, str], Finding] = field(default_factory=dict)
    forms: dict[str, Form] = field(default_factory=dict)
    judge: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    quiet: bool = False

    def play(self, index: int, turns: list[Turn], task: PreparedTask | None = None) -> Played:
        """Play an episode of a task, or of another row instead."""
        if time.monotonic() > self.deadline:
            raise OutOfTime
        return self.player.play(index, task or self.tasks[index], turns)

    def known(self, *kinds: str) -> list[tuple[int, Gold]]:
        """Tasks whose right answer is known, and of one of these kinds, if there are any."""
        return [
            (index, gold)
            for index, gold in self.golds.items()
            if gold is not None and gold.reward > gold.floor and (not kinds or gold.kind in kinds)
        ]

    def texts(self) -> list[tuple[int, Gold, str]]:
        """Tasks whose right answer is a text."""
        return [(index, gold, gold.text) for index, gold in self.known() if gold.text is not None]

    def pays(self, index: int, played: Played) -> Severity | None:
        """Return how severe it is that a wrong answer has this reward; None if it is acceptable."""
        if played.reward is None:
            return None
        gold = self.golds.get(index)
        if gold is None or gold.reward <= gold.floor:
            return "high" if gold is None and played.reward >= _TOP - _EPSILON else None
        if gold.pays(played.reward):
            return "high"
        return "medium" if played.reward - gold.floor >= _HALF * (gold.reward - gold.floor) > 0 else None

    def find(
        self,
        check: str,
        attack: str,
        severity: Severity,
        index: int,
        turns: list[Turn] | Any,
        expected: str,
        got: Played | str,
    ) -> None:
        """Note a finding, or one more task that has it."""
        key = (check, attack)
        if key in self.findings:
            self.findings[key].tasks += 1
            return
        ending = got if isinstance(got, str) else got.ending
        action = said(turns) if isinstance(turns, list) else turns
        self.findings[key] = Finding(check, attack, severity, index, action, expected, ending)

    def less(self, index: int) -> str:
        """Return the reward that was expected, in words."""
        gold = self.golds.get(index)
        return f"less than {gold.reward:g}" if gold else f"less than {_TOP:g}"

    def form(self, name: str, kind: str, paid: bool) -> None:
        """Note one line of the metamorphic table."""
        form = self.forms.setdefault(name, Form(name, kind))  # type: ignore[arg-type]
        form.tried += 1
        form.paid += paid


Check = Callable[[Context], None]


def each_task(context: Context) -> Iterator[tuple[int, PreparedTask, Gold | None]]:
    """The tasks with their right answers."""
    for index, task in context.tasks.items():
        yield index, task, context.golds.get(index)
