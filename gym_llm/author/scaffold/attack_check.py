"""The check of a verifier that attacks it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gym_llm.author.attack import attack
from gym_llm.author.scaffold.file_checks import is_file
from gym_llm.author.scaffold.play_checks import Check
from gym_llm.author.scaffold.verifier_checks import find_verifier
from gym_llm.core.registry.ids import env_ids, verifier_folder
from gym_llm.errors import ConfigError, UsageError
from gym_llm.rollouts.config import load_config

_SHOWN = 5


def check_attack(name: str, tasks: str | None = None) -> Iterator[Check]:
    """Attack the verifiers of a name, a file's or a folder's, which its other checks have registered."""
    folder = None
    names = [name]
    if not is_file(name):
        verifier = find_verifier(name)
        folder = str(Path(verifier.root).resolve())
        names = [env_id for env_id in env_ids() if verifier_folder(env_id) == verifier.folder]
        if not names:
            try:
                config = load_config([verifier.folder / "config.yaml"], folder=verifier.root)
            except ConfigError:
                return  # another check says so
            names = [section.env for section in config.environments.values()]
    for env_id in names:
        yield _attacked(env_id, folder, tasks)


def _attacked(env_id: str, folder: str | None, tasks: str | None) -> Check:
    try:
        report = attack(env_id, rows=tasks, folder=folder)
    except UsageError as error:
        return Check("attack", "not run", str(error))
    findings = report.open_findings
    if findings:
        shown = [f"{each.check}, {each.attack}: {each.got}, should be {each.expected}" for each in findings[:_SHOWN]]
        more = [f"and {len(findings) - _SHOWN} more"] if len(findings) > _SHOWN else []
        return Check("attack", "failed", "\n".join([f"{len(findings)} findings", *shown, *more]))
    accepted = len(report.findings)
    plays = sum(check.plays for check in report.checks)
    return Check("attack", "ok", f"nothing found in {plays:,} episodes; {accepted} findings accepted")
