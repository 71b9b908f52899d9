"""The registered verifiers, one line each: for the terminal, and as the tables of a page."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from gym_llm.core.registry.class_source import ClassSource, first_line, read_class
from gym_llm.core.registry.classes import domain_of, nemo_gym_names
from gym_llm.core.registry.ids import env_ids, parse_id, verifier_folder
from gym_llm.errors import DataError, UsageError
from gym_llm.records.failures import reason
from gym_llm.utils.text import did_you_mean

_BLOCK = re.compile(r"(<!-- verifiers\b( in short)?.*?-->\n).*?(<!-- end of verifiers -->)", re.DOTALL)
_HEAD = "| id | what the model does | tools | NeMo Gym's name |\n|---|---|---|---|\n"
_OTHER = "other"


class Description(NamedTuple):
    """What a line says of a verifier."""

    summary: str
    """Its docstring's first line."""
    tools: list[str]
    tasks: str
    """How many it comes with."""


def describe(env_id: str) -> Description:
    """Describe a verifier by its source, or its class where that does not tell; or say why it cannot be had."""
    entry_point = gym.spec(env_id).entry_point
    try:
        module, _, name = entry_point.partition(":") if isinstance(entry_point, str) else ("", "", "")
        source = (read_class(module, name) if module else None) or _of_class(env_id, entry_point)
    except Exception as error:  # another package's environment may fail in any way; the others are listed all the same
        return Description(f"cannot be made: {reason(error)}", [], "")
    example = source.file.with_name("data") / "example.jsonl"
    tasks = "generated" if source.generates else "none"
    if not source.generates and example.is_file():
        tasks = str(sum(1 for line in example.read_bytes().splitlines() if line.strip()))
    return Description(first_line(source.doc), source.tools, tasks)


def _of_class(env_id: str, entry_point: Any) -> ClassSource:
    from gym_llm.core.registry.classes import env_class
    from gym_llm.core.verifier_env import VerifierEnv

    if isinstance(entry_point, str):
        load_env_creator(entry_point)  # whose error says more, in a list, than that of `env_class`
    verifier = env_class(env_id)
    try:
        file = Path(inspect.getfile(verifier))
    except (OSError, TypeError):  # of a notebook
        file = Path()
    own = "tool_schemas" in {name for parent in verifier.__mro__ if parent is not VerifierEnv for name in vars(parent)}
    # Schemas take ten milliseconds each.
    tools = [schema["name"] for schema in verifier.tool_schemas()] if own else list(verifier._tools)
    return ClassSource(inspect.getdoc(verifier) or "", tools, verifier.generate is not VerifierEnv.generate, file)


def domains() -> dict[str, list[str]]:
    """The ids of each domain, by name; those of none come last, as `other`."""
    groups: dict[str, list[str]] = {}
    for env_id in env_ids():
        groups.setdefault(domain_of(env_id) or _OTHER, []).append(env_id)
    return {name: groups[name] for name in sorted(groups, key=lambda name: (name == _OTHER, name))}


def ids_of(domain: str | None) -> dict[str, list[str]]:
    """The ids of a domain, or of all.

    Raises:
        UsageError: If there is no such domain.
    """
    groups = domains()
    if domain is None:
        return groups
    if domain not in groups:
        hint = did_you_mean(domain, groups)
        raise UsageError(f"No environment is of the domain {domain!r}.{hint} There are {', '.join(groups)}.")
    return {domain: groups[domain]}


def markdown_table(folder: str | os.PathLike[str] = ".", *, inside: bool = False, domain: str | None = None) -> str:
    """The registered verifiers as Markdown, a table for each domain.

    Args:
        folder: Of the page. Verifiers with a README.md in the same project (the nearest folder with a pyproject.toml,
            or this one) are linked to that.
        inside: Whether only these are listed.
        domain: Only the verifiers of this domain.

    Raises:
        UsageError: If there is no such domain.
    """
    here, home = _places(folder)
    tables = []
    for name, group in ids_of(domain).items():
        if lines := "".join(_lines(group, here, home, inside)):
            tables.append(f"\n### {name.replace('_', ' ').capitalize()}\n\n{_HEAD}{lines}")
    return "".join(tables) + ("\n" if tables else "")


def short_table(folder: str | os.PathLike[str] = ".") -> str:
    """A project's verifiers as one Markdown table with a line for each domain, their names linked to their README.md.

    Args:
        folder: Of the page.
    """
    here, home = _places(folder)
    lines = []
    for name, group in domains().items():
        links = []
        for env_id in group:
            readme = (verifier_folder(env_id) or home.parent) / "README.md"
            if readme.is_file() and home in readme.parents:
                links.append(f"[{parse_id(env_id)[1]}]({Path(os.path.relpath(readme, here)).as_posix()})")
        if links:
            lines.append(f"| {name.replace('_', ' ')} | {', '.join(links)} |\n")
    return f"| domain | verifiers |\n|---|---|\n{''.join(lines)}"


def _places(folder: str | os.PathLike[str]) -> tuple[Path, Path]:
    """A page's folder, and its project's."""
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
        cells = " | ".join(cell.replace("|", r"\|") for cell in (link, about.summary, *names))
        yield f"| {cells} |\n"


def refresh_table(path: str | os.PathLike[str]) -> None:
    """Write the tables of a project's verifiers between the two marks of one of its pages, in place.

    With the mark `<!-- verifiers in short -->` it is the table of `short_table`.

    Raises:
        DataError: If the file cannot be used or has no marks.
    """
    path = Path(path)
    try:
        text = path.read_text("utf-8")

        def written(match: re.Match[str]) -> str:
            table = short_table(path.parent) if match[2] else markdown_table(path.parent, inside=True)
            return f"{match[1]}{table}{match[3]}"

        new, blocks = _BLOCK.subn(written, text)
        if not blocks:
            marks = "`<!-- verifiers -->` and `<!-- end of verifiers -->`"
            raise DataError(f"{path} has no place for the table: give it the lines {marks}.")
        if new != text:
            path.write_text(new, "utf-8")
    except OSError as error:
        raise DataError(f"Cannot write {path}: {error.strerror or error}.") from None
