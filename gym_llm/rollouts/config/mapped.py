"""NeMo Gym's sections as sections of ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gym_llm.rollouts.config.compose import Composed

MEANINGLESS = {
    *("entrypoint", "host", "port", "num_workers", "description", "value", "verified", "verified_url", "debug"),
    "msg_extraction_failure",  # judged in place of an empty answer, until NeMo Gym 0.7 judged none
}
"""Keys that say where a server runs or what a catalogue shows of it: nothing is lost with them."""


@dataclass
class MappedSections:
    """NeMo Gym's sections as sections of ours.

    Attributes:
        composed: The whole configuration, which knows where each value is from.
        sections: Ours, by NeMo Gym's names: an agent is the environment it plays.
        behind: The model that each proxy of a local model stands for, by names.
        ignored: Sections that mean nothing here.
        unmapped: What has no counterpart, one sentence each.
        problems: What is wrong.
    """

    composed: Composed
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    behind: dict[str, str] = field(default_factory=dict)
    ignored: set[str] = field(default_factory=set)
    unmapped: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def leave_out(self, key: str, why: str) -> None:
        """Note that a value has no counterpart; one of the command line is refused."""
        if self.composed.is_given(key):
            self.refuse(key, f"{why}.")
            return
        self.unmapped.append(f"{self.composed.place(key)}: {why}")

    def refuse(self, key: str, why: str) -> None:
        """Note that a value is wrong."""
        self.problems.append(f"{self.composed.place(key)}: {why}")

    def check_resolved(self, key: str) -> None:
        """Refuse a value that is used and could not be resolved, or something in it."""
        for unresolved, sentence in self.composed.unresolved.items():
            if f"{unresolved}.".startswith(f"{key}."):
                self.refuse(unresolved, f"{sentence}.")


@dataclass
class Server:
    """A server's section."""

    name: str
    kind: str
    implementation: str
    values: dict[str, Any]

    @property
    def key(self) -> str:
        """Return the place of its values."""
        return f"{self.name}.{self.kind}.{self.implementation}"
