"""Launch: everything that one episode of a program is started with, from the episode's addresses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from gym_llm.agents.agent_episode import Addresses
from gym_llm.utils.json_codec import dumps

PLAIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The search path of a harness, after its layers."""
PLACEHOLDER = re.compile(r"\$\{([a-z_]+)\}")
SECRET_PLACEHOLDERS = frozenset({"api_key", "tools_url", "mcp_url"})
"""Placeholders with the episode's key, which no command may show to other users of a machine."""
PLACEHOLDERS = frozenset({"base_url", "anthropic_url", "model", "folder", "prompt", "prompt_file", "layer"})
"""The other placeholders. `layer` is the program's first layer."""
_QUOTED = (".json", ".jsonc", ".toml")


@dataclass(frozen=True)
class Launch:
    """The start of a program, with all placeholders filled.

    Attributes:
        command: The program and its arguments; they contain no key.
        environment: The variables that the program needs, the episode's key among them. A harness gets no others.
        files: Contents of files by their paths below the episode's folder. One that begins with `#!` is executable.
        folders: Folders below the episode's folder that must exist.
        workdir: The working directory.
        stdin: The text on standard input.
    """

    command: tuple[str, ...]
    environment: dict[str, str]
    files: dict[str, bytes]
    folders: tuple[str, ...]
    workdir: str
    stdin: bytes


def make_launch(
    command: Iterable[str],
    workdir: str,
    *,
    addresses: Addresses,
    folder: str,
    task: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    hint: str = "",
    layers: Iterable[PurePath] = (),
    is_harness: bool = False,
) -> Launch:
    """Return the start of a program.

    Args:
        command: The program and its arguments.
        workdir: The working directory; "" for `work` in the episode's folder.
        addresses: The addresses as the program reaches them.
        folder: The episode's folder as the program sees it.
        task: The JSON of the task (`task_of`).
        environment: More variables.
        files: More files.
        hint: A text after the task of an environment with tools.
        layers: The program's layers, whose `bin` folders come first in the search path.
        is_harness: Whether command, variables and files have placeholders (`${base_url}`). The program then has the
            folders `home`, `tmp` and `work`, and `${prompt}` in its command replaces the standard input.
    """
    layers = tuple(layers)
    prompt = str(task.get("prompt") or "")
    if hint and task.get("tools"):
        prompt = f"{prompt}\n\n{hint}"
    variables = _variables(addresses, folder)
    contents = {"task.json": dumps(task), "prompt.txt": prompt.encode(errors="replace")}
    if not is_harness:
        return Launch(tuple(command), variables, contents, (), workdir, contents["prompt.txt"])
    values = {
        "base_url": addresses.base_url,
        "anthropic_url": addresses.anthropic_url,
        "tools_url": addresses.tools_url,
        "mcp_url": addresses.mcp_url,
        "api_key": addresses.api_key,
        "model": addresses.model,
        "folder": folder,
        "prompt": prompt,
        "prompt_file": f"{folder}/prompt.txt",
        "layer": str(layers[0]) if layers else "",
    }
    path = ":".join([f"{folder}/bin", *(f"{layer}/bin" for layer in layers), PLAIN_PATH])
    own = {"HOME": f"{folder}/home", "TMPDIR": f"{folder}/tmp", "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb"}
    variables |= own | {name: fill(text, values) for name, text in (environment or {}).items()}
    for name, text in (files or {}).items():
        contents[name] = fill(text, values, is_quoted=name.endswith(_QUOTED)).encode(errors="replace")
    words = tuple(command)
    is_told = any("${prompt}" in word for word in words)
    filled = tuple(fill(word, values) for word in words)
    stdin = b"" if is_told else contents["prompt.txt"]
    return Launch(filled, variables, contents, ("home", "tmp", "work"), workdir or f"{folder}/work", stdin)


def fill(text: str, values: Mapping[str, str], *, is_quoted: bool = False) -> str:
    """Replace the placeholders of a text by their values; others stay.

    Args:
        text: The text.
        values: Values by placeholder.
        is_quoted: Whether the placeholders stand inside of double quotes in JSON or TOML.

    >>> fill('{"url": "${base_url}", "shell": "${HOME}"}', {"base_url": "http://127.0.0.1:1/v1"})
    '{"url": "http://127.0.0.1:1/v1", "shell": "${HOME}"}'
    """

    def value(match: re.Match[str]) -> str:
        if (found := values.get(match[1])) is None:
            return match[0]
        return json.dumps(found)[1:-1] if is_quoted else found

    return PLACEHOLDER.sub(value, text)


def _variables(addresses: Addresses, folder: str) -> dict[str, str]:
    return {
        "OPENAI_BASE_URL": addresses.base_url,
        "OPENAI_API_BASE": addresses.base_url,
        "OPENAI_API_KEY": addresses.api_key,
        "OPENAI_MODEL": addresses.model,
        "ANTHROPIC_BASE_URL": addresses.anthropic_url,
        "ANTHROPIC_API_KEY": addresses.api_key,
        "ANTHROPIC_MODEL": addresses.model,
        "GYM_LLM_BASE_URL": addresses.base_url,
        "GYM_LLM_API_KEY": addresses.api_key,
        "GYM_LLM_MODEL": addresses.model,
        "GYM_LLM_TASK": f"{folder}/task.json",
        "GYM_LLM_TOOLS_URL": addresses.tools_url,
        "GYM_LLM_MCP_URL": addresses.mcp_url,
        "GYM_LLM_FOLDER": folder,
    }
