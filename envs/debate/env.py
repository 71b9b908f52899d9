"""Debate: two seats argue about a claim, and a judge says who was right."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

from gym_llm import BaseTask, Episode, IllegalMove, Metric, MultiAgentEnv, Verdict
from gym_llm.core.env_config import Count
from gym_llm.judge import JudgedEnv, last_label

_LABELS = ("PRO", "CON")
_MARK = re.compile(r"\[(?=(?:PRO|CON), round)")


class DebateTask(BaseTask):
    """A claim.

    Attributes:
        claim: What is debated.
        truth: Whether it is true, where that is known: the details then say whether the judge was right.
    """

    claim: str
    truth: bool | None = None


@dataclass
class Speeches:
    """The speeches of a debate.

    Attributes:
        rounds: Each finished or begun round, by seat.
    """

    rounds: list[dict[str, str]] = field(default_factory=list)

    def read(self, seats: tuple[str, ...]) -> str:
        """Return all speeches in their order. Their lines are quoted, so that none can pass for another's speech."""
        said = [
            (number, seat, texts[seat])
            for number, texts in enumerate(self.rounds, 1)
            for seat in seats
            if seat in texts
        ]
        return "\n\n".join(f"[{seat.upper()}, round {number}]\n{_quoted(text)}" for number, seat, text in said)


class Debate(MultiAgentEnv[DebateTask, Speeches], JudgedEnv):
    """Argue for (`pro`) or against (`con`) a claim; the winner gets 1.0 and the loser -1.0, as a judge decides.

    After Irving et al. 2018, "AI safety via debate" (arXiv 1805.00899). An empty speech is illegal. A debate that was
    cut off pays nothing. Details: `winner`, `judge_right` where the claim's truth is known, `judge_evaluations`.

    Args:
        rounds: How often each seat speaks.
        simultaneous: Whether both speak at the same time in each round; else `con` answers `pro`.
        **kwargs: See `MultiAgentEnv` and `JudgedEnv`.
    """

    possible_agents = ("pro", "con")
    forfeit_rewards = (-1.0, 1.0)
    dry_run_kwargs: ClassVar[dict[str, Any]] = {"judge": "constant:Winner: PRO"}
    metrics: ClassVar[dict[str, Metric]] = {"judge_right": Metric()}
    accepted_findings: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("non-answer", "prompt echoed"), "the judge of a dry run always names pro"),
    }

    class Config(MultiAgentEnv.Config, JudgedEnv.Config):
        """The order of the speeches."""

        rounds: Count = 2
        simultaneous: bool = False

    config: Config

    def setup(self, task: DebateTask) -> Speeches:
        """Begin without a speech."""
        return Speeches()

    def seat_opening(self, task: DebateTask, state: Speeches, seat: str) -> str:
        """Name the claim and the side."""
        side = "true" if seat == "pro" else "false"
        return f"Claim: {task.claim}\nYou argue that it is {side}. A judge who reads both sides decides who is right."

    def next_seats(self, task: DebateTask, state: Speeches) -> list[str]:
        """Return who speaks: both at once, or one after the other."""
        begun = state.rounds[-1] if state.rounds else dict.fromkeys(self.possible_agents, "")
        left = [seat for seat in self.possible_agents if seat not in begun]
        if not left and len(state.rounds) < self.config.rounds:
            left = list(self.possible_agents)
        return left if self.config.simultaneous else left[:1]

    def seat_turn(self, task: DebateTask, state: Speeches, seat: str) -> str:
        """Show what was said so far."""
        said = state.read(tuple(self.possible_agents))
        return f"{said}\n\nYour speech, please." if said else "Your opening speech, please."

    def play(self, task: DebateTask, state: Speeches, moves: dict[str, Episode[Speeches]]) -> None:
        """Add the speeches."""
        texts = {seat: episode.answer.strip() for seat, episode in moves.items()}
        for seat, text in texts.items():
            if not text:
                raise IllegalMove("You said nothing.", seat)
        if not state.rounds or len(state.rounds[-1]) == len(self.possible_agents):
            state.rounds.append({})
        state.rounds[-1].update(texts)

    async def verify_seats(
        self, task: DebateTask, episodes: dict[str, Episode[Speeches]]
    ) -> dict[str, float | Verdict]:
        """Ask the judge."""
        state = episodes["pro"].state
        if len(state.rounds) < self.config.rounds or len(state.rounds[-1]) < len(self.possible_agents):
            return dict.fromkeys(self.possible_agents, 0.0)
        values = {"claim": task.claim, "debate": state.read(tuple(self.possible_agents))}
        judgement = await self.ask(values, lambda text: last_label(text, _LABELS))
        winner = judgement.value.lower()
        details: dict[str, Any] = {"winner": winner, "judge_output": judgement.text}
        if task.truth is not None:
            details["judge_right"] = float((winner == "pro") == task.truth)
        return {seat: Verdict(1.0 if seat == winner else -1.0, dict(details)) for seat in self.possible_agents}


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in _MARK.sub("[ ", text).splitlines())
