"""CARD.md: a verifier's task, the attacks on it and their results; the same text for the same results."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gym_llm.author.attack.finding import Report
from gym_llm.author.catalogue import describe
from gym_llm.core.registry.classes import domain_of
from gym_llm.core.registry.ids import parse_id, verifier_folder

_COSTS = ((1.0, "under 1 ms"), (10.0, "1 to 10 ms"), (100.0, "10 to 100 ms"), (1_000.0, "100 ms to 1 s"))


def write_card(report: Report) -> Path | None:
    """Write the card into the verifier's folder; None where it has none."""
    folder = verifier_folder(report.env_id)
    if folder is None:
        return None
    path = folder / "CARD.md"
    path.write_text(card(report), "utf-8")
    return path


def card(report: Report) -> str:
    """The card's text."""
    summary = describe(report.env_id).summary
    lines = [
        f"# {parse_id(report.env_id)[1]}: the verifier's card",
        "",
        f"`gym-llm env attack {report.env_id} --card` wrote this file.",
        "",
        f"**Grades:** {summary} **Domain:** {domain_of(report.env_id) or 'none given'}.",
        "",
        "| | |",
        "|---|---|",
        f"| tasks attacked | {report.tasks} |",
        f"| right answers from | {_oracle(report)} |",
        f"| they are paid | {_rewards(report.oracle)} |",
        f"| wrong ones are paid | {_rewards(report.floor)} |",
        f"| the same again | {_determinism(report)} |",
        f"| a verification costs | {_cost(report.cost)} of CPU time |",
        "",
        "## Findings",
        "",
        *_findings(report),
        "",
        "## Forms of the right answer",
        "",
        *_forms(report),
        "",
        "## Checks",
        "",
        "| check | result |",
        "|---|---|",
        *(f"| {check.name} | {check.state}{f': {check.why}' if check.why else ''} |" for check in report.checks),
    ]
    return "\n".join(lines) + "\n"


def _oracle(report: Report) -> str:
    if not report.oracle_from:
        return "nowhere: none is known, so only what is no answer at all was tried"
    return "its `oracle`" if report.oracle_from == "oracle" else f"the row's `{report.oracle_from}`"


def _rewards(rewards: Iterable[float | None]) -> str:
    known = sorted({reward for reward in rewards if reward is not None})
    if not known:
        return "not known"
    least, most = known[0], known[-1]
    return f"{least:.4g}" if least == most else f"{least:.4g} to {most:.4g}"


def _determinism(report: Report) -> str:
    state = {check.name: check.state for check in report.checks}
    if any(finding.check in ("history", "not determined") for finding in report.findings):
        return "no: see below"
    tried = [name for name in ("history", "another process") if state.get(name) == "clean"]
    if len(tried) == 2:
        return "yes: in another order, environment, process, and with another hash seed"
    return "yes, as far as it was tried" if tried else "not tried"


def _cost(milliseconds: float) -> str:
    return next((name for most, name in _COSTS if milliseconds < most), "more than 1 s")


def _findings(report: Report) -> list[str]:
    if not report.findings:
        return ["None."]
    lines = [
        "| check | what is played | severity | should be | is | meant to be so, because |",
        "|---|---|---|---|---|---|",
    ]
    for finding in sorted(report.findings, key=lambda each: (each.check, each.attack)):
        cells = (
            finding.check,
            finding.attack,
            finding.severity,
            finding.expected,
            finding.got,
            finding.accepted or "**not accepted**",
        )
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return lines


def _cell(text: str) -> str:
    short = text if len(text) <= 120 else f"{text[:117]}..."
    return " ".join(short.replace("|", "\\|").replace("<", "&lt;").split())


def _forms(report: Report) -> list[str]:
    if not report.forms:
        return ["Not applicable: no right answer is a text of which forms are known."]
    lines = ["| form | it is | paid as the right answer |", "|---|---|---|"]
    lines += [f"| {form.name} | {form.kind} | {form.paid} of {form.tried} |" for form in report.forms]
    return lines
