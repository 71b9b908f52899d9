"""The catalogue of registered verifiers: their descriptions, and Markdown tables of them.

The built-in verifiers are described in `catalogue.json`, which `make environments` writes.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from gym_llm.core.registry.classes import domain_of, nemo_gym_names
from gym_llm.core.registry.ids import env_ids, verifier_folder
from gym_llm.errors import DataError, UsageError
from gym_llm.records.failures import reason
from gym_llm.utils.text import did_you_mean

_BLOCK = re.compile(r"(<!-- verifiers\b.*?-->\n).*?(<!-- end of verifiers -->)", re.DOTALL)
_HEAD = "| id | what the model does | needs | tools | NeMo Gym's name |\n|---|---|---|---|---|\n"
# Arguments that say what an episode needs beside the model; `build_network` is Harbor's, which builds machines.
_NEEDS = {"judge": "judge", "sandbox": "sandbox", "build_network": "sandbox"}
_OTHER = "other"
TABLE = Path(__file__).with_name("catalogue.json")
"""Descriptions of the built-in verifiers, by entry point."""


class Description(NamedTuple):
    """A verifier's entry in the catalogue."""

    summary: str
    """The first line of its docstring."""
    tools: list[str]
    tasks: str
    """The number of tasks it comes with, `generated` or `none`."""
    needs: list[str] = []
    """What an episode may need beside the model: `judge`, `sandbox`."""


def describe(env_id: str) -> Description:
    """Describe a verifier: a built-in one by the packaged table, any other by its class, which is imported.

    A class that cannot be imported is described by the error.
    """
    entry_point = gym.spec(env_id).entry_point
    if isinstance(entry_point, str) and (known := _built_in().get(entry_point)):
        return known
    try:
        return describe_class(env_id)
    except Exception as error:  # another package's environment may fail in any way; the others are listed all the same
        return Description(f"cannot be made: {reason(error)}", [], "")


def describe_class(env_id: str) -> Description:
    """Describe a verifier by its class.

    Raises:
        Exception: If its module cannot be imported, as the module raises it.
    """
    from gym_llm.core.registry.classes import env_class, known_arguments
    from gym_llm.core.verifier_env import VerifierEnv

    if isinstance(entry_point := gym.spec(env_id).entry_point, str):
        load_env_creator(entry_point)  # whose error says more, in a list, than that of `env_class`
    verifier = env_class(env_id)
    try:
        example = Path(inspect.getfile(verifier)).with_name("data") / "example.jsonl"
    except (OSError, TypeError):  # defined in a notebook
        example = Path()
    own = "tool_schemas" in {name for parent in verifier.__mro__ if parent is not VerifierEnv for name in vars(parent)}
    # Schemas take ten milliseconds each.
    tools = [schema["name"] for schema in verifier.tool_schemas()] if own else list(verifier._tools)
    tasks = "generated" if verifier.generate is not VerifierEnv.generate else "none"
    if tasks == "none" and example.is_file():
        tasks = str(sum(1 for line in example.read_bytes().splitlines() if line.strip()))
    arguments = known_arguments(verifier)
    needs = sorted({need for argument, need in _NEEDS.items() if argument in arguments})
    return Description((inspect.getdoc(verifier) or "").partition("\n")[0], tools, tasks, needs)


@cache
def _built_in() -> dict[str, Description]:
    return {name: Description(*entry) for name, entry in json.loads(TABLE.read_text("utf-8")).items()}


def table_of_built_ins() -> str:
    """Return the text of the packaged table, made anew from the built-in verifiers' classes."""
    lines = []
    for env_id in env_ids():
        entry_point = gym.spec(env_id).entry_point
        if isinstance(entry_point, str) and entry_point.startswith("gym_llm.envs."):
            lines.append(f"  {json.dumps(entry_point)}: {json.dumps(describe_class(env_id), ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def domains() -> dict[str, list[str]]:
    """Return the ids of each domain, by name; those without a domain come last, as `other`."""
    groups: dict[str, list[str]] = {}
    for env_id in env_ids():
        groups.setdefault(domain_of(env_id) or _OTHER, []).append(env_id)
    return {name: groups[name] for name in sorted(groups, key=lambda name: (name == _OTHER, name))}


def ids_of(domain: str | None) -> dict[str, list[str]]:
    """Return the ids of a domain, or of all domains.

    Raises:
        UsageError: If the domain is unknown.
    """
    groups = domains()
    if domain is None:
        return groups
    if domain not in groups:
        hint = did_you_mean(domain, groups)
        raise UsageError(f"No environment has the domain {domain!r}.{hint} Domains: {', '.join(groups)}.")
    return {domain: groups[domain]}


def markdown_table(folder: str | os.PathLike[str] = ".", *, inside: bool = False, domain: str | None = None) -> str:
    """Return the registered verifiers as Markdown, a table for each domain.

    Args:
        folder: The folder of the page. Verifiers with a README.md in the same project (the nearest folder with a
            pyproject.toml, or this one) are linked to it.
        inside: Whether to list only the verifiers of that project.
        domain: The domain to list; None for all.

    Raises:
        UsageError: If the domain is unknown.
    """
    here, home = _places(folder)
    tables = []
    for name, group in ids_of(domain).items():
        if lines := "".join(_lines(group, here, home, inside)):
            tables.append(f"\n### {name.replace('_', ' ').capitalize()}\n\n{_HEAD}{lines}")
    return "".join(tables) + ("\n" if tables else "")


def _places(folder: str | os.PathLike[str]) -> tuple[Path, Path]:
    here = Path(folder).resolve()
    return here, next((parent for parent in (here, *here.parents) if (parent / "pyproject.toml").is_file()), here)


def _lines(group: Iterable[str], here: Path, home: Path, inside: bool) -> Iterable[str]:
    for env_id in group:
        readme = (verifier_folder(env_id) or home.parent) / "README.md"
        is_inside = readme.is_file() and home in readme.parents
        if inside and not is_inside:
            continue
        link = f"[`{env_id}`]({Path(os.path.relpath(readme, here)).as_posix()})" if is_inside else f"`{env_id}`"
        about = describe(env_id)
        names = (", ".join(f"`{name}`" for name in listed) for listed in (about.tools, nemo_gym_names(env_id)))
        cells = " | ".join(cell.replace("|", r"\|") for cell in (link, about.summary, ", ".join(about.needs), *names))
        yield f"| {cells} |\n"


def refresh_table(path: str | os.PathLike[str]) -> None:
    """Rewrite the tables of a project's verifiers between the two marks of one of its pages.

    Raises:
        DataError: If the file cannot be read or written, or has no marks.
    """
    path = Path(path)
    try:
        text = path.read_text("utf-8")

        def written(match: re.Match[str]) -> str:
            return f"{match[1]}{markdown_table(path.parent, inside=True)}{match[2]}"

        new, blocks = _BLOCK.subn(written, text)
        if not blocks:
            marks = "`<!-- verifiers -->` and `<!-- end of verifiers -->`"
            raise DataError(f"{path} has no place for the table: give it the lines {marks}.")
        if new != text:
            path.write_text(new, "utf-8")
    except OSError as error:
        raise DataError(f"Cannot write {path}: {error.strerror or error}.") from None


if __name__ == "__main__":
    TABLE.write_text(table_of_built_ins(), "utf-8")
