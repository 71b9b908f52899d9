"""The findings of an attack on a verifier, and the checks made."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Severity = Literal["high", "medium", "low"]
"""`high`: something else is paid as the right answer is; `medium`: part of it, or a verdict that cannot be relied on;
`low`: a fault that pays nobody."""

State = Literal["clean", "found", "accepted", "not applicable", "not run"]


@dataclass
class Finding:
    """A fault of a verifier.

    Attributes:
        check: Which check found it.
        attack: Its kind, within the check.
        severity: How bad it is.
        task_index: The first task that shows it.
        action: The model's turns that were played, as JSON; long texts are cut.
        expected: The result that was expected.
        got: The result.
        tasks: How many of the tasks show it.
        accepted: The reason why it is meant to be so, where the verifier's `config.yaml` gives one.
    """

    check: str
    attack: str
    severity: Severity
    task_index: int
    action: Any
    expected: str
    got: str
    tasks: int = 1
    accepted: str | None = None


@dataclass
class CheckResult:
    """The result of one check.

    Attributes:
        name: Its name.
        state: How it ended.
        why: Why it does not apply, or was not run; "" otherwise.
        plays: How many episodes it played.
    """

    name: str
    state: State = "clean"
    why: str = ""
    plays: int = 0


@dataclass
class Form:
    """A line of the metamorphic table: a change of the right answer, and whether it is still paid in full.

    Attributes:
        name: What is done.
        kind: `equivalent` (it has to be paid alike) or `near miss` (it must not be).
        tried: On how many tasks.
        paid: On how many it was paid as the right answer is.
    """

    name: str
    kind: Literal["equivalent", "near miss"]
    tried: int = 0
    paid: int = 0


@dataclass
class Report:
    """The results of an attack on one verifier.

    Attributes:
        env_id: The verifier.
        tasks: How many tasks were played.
        oracle: The rewards of the right answers, one of each task; None where none is known.
        floor: The rewards of a wrong answer in the right form, or of "I do not know."
        oracle_from: Where the right answers come from: `oracle` (the verifier's own hook), the row's field, or "".
        checks: What became of each check.
        findings: What was found, those that are accepted included.
        forms: The metamorphic table.
        seconds: Of the clock, all in all.
        cost: Milliseconds of CPU time that one verification took, the median.
    """

    env_id: str
    tasks: int = 0
    oracle: list[float | None] = field(default_factory=list)
    floor: list[float | None] = field(default_factory=list)
    oracle_from: str = ""
    checks: list[CheckResult] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    forms: list[Form] = field(default_factory=list)
    seconds: float = 0.0
    cost: float = 0.0

    @property
    def open_findings(self) -> list[Finding]:
        """The findings that the verifier does not accept."""
        return [finding for finding in self.findings if finding.accepted is None]

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Report:
        """From `as_json`."""
        parts = {
            "checks": [CheckResult(**each) for each in values["checks"]],
            "findings": [Finding(**each) for each in values["findings"]],
            "forms": [Form(**each) for each in values["forms"]],
        }
        return cls(**{**values, **parts})
