"""HarnessFile: the data file of a harness, `NAME.yaml`."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from gym_llm.agents.launch import PLACEHOLDER, PLACEHOLDERS, SECRET_PLACEHOLDERS
from gym_llm.utils.text import did_you_mean

Dialect = Literal["chat", "responses", "messages", "gemini"]
_PROGRAMS = Path(__file__).parent / "programs"
_SHELL_HINT = (
    "This task has tools of its own, which your shell calls: `gym-tool` lists them, `gym-tool NAME '{\"x\": 1}'` "
    'calls one with JSON, and `gym-tool submit \'{"answer": "..."}\'` gives your answer.'
)
_Pinned = Annotated[str, Field(pattern=r"^@?[A-Za-z0-9][\w.\[\],/-]*(==|@)[0-9][\w.+-]*$")]


class Install(BaseModel):
    """The packages of a harness, from package registries alone.

    Attributes:
        pip: Packages of PyPI, `name==version`.
        npm: Packages of npm, `name@version`.
        python: The least Python, `3.12`; "" for any that gym_llm supports.
        node: The version of Node.js, installed from npm; "" if no Node.js is needed.
        elsewhere: Where the harness is downloaded from if no registry has it; it is then not installed by gym_llm.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    pip: tuple[_Pinned, ...] = ()
    npm: tuple[_Pinned, ...] = ()
    python: Annotated[str, Field(pattern=r"^(3\.\d+)?$")] = ""
    node: Annotated[str, Field(pattern=r"^(\d+\.\d+\.\d+)?$")] = ""
    elsewhere: str = ""

    @model_validator(mode="after")
    def _one_source(self) -> Install:
        if sum(map(bool, (self.pip, self.npm, self.elsewhere))) != 1:
            raise ValueError("give one of pip, npm and elsewhere")
        return self


class HarnessFile(BaseModel):
    """A harness as data.

    Texts may have placeholders, which each episode fills: `${base_url}`, `${anthropic_url}`, `${mcp_url}`,
    `${tools_url}`, `${api_key}`, `${model}`, `${folder}`, `${prompt}`, `${prompt_file}` and `${layer}`.

    Attributes:
        name: Its name, as in `--agent NAME`.
        title: What it is, in one line.
        version: Its version.
        dialect: The model API that it speaks.
        tools: How it reaches the environment's tools: over MCP, over HTTP, from its shell, or not at all.
        install: How it is installed.
        command: The program and its arguments. With `${prompt}` it gets nothing on standard input, else the task.
        environment: Its variables, beside those that every program gets.
        files: Files in the episode's folder, such as `home/.codex/config.toml`.
        program: A Python or JavaScript file beside the data file, which is copied into the episode's folder.
        answer: The source of the answer: its standard output, or the model's last words.
        transcript: Where it writes what it does: a pattern of files in the episode's folder.
        hint: A text for its model after the task of an environment with tools.
        limits: What it cannot do, or takes, in short sentences.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    title: str
    version: Annotated[str, Field(pattern=r"^[\w.+-]+$")]
    dialect: Dialect
    tools: Literal["mcp", "http", "shell", "none"]
    install: Install
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    environment: dict[str, str] = {}
    files: dict[str, str] = {}
    program: str = ""
    answer: Literal["stdout", "model"] = "stdout"
    transcript: str = ""
    hint: str = ""
    limits: tuple[str, ...] = ()

    @property
    def is_playable(self) -> bool:
        """Whether it installs from package registries and speaks an API that gym_llm serves."""
        return not self.install.elsewhere and self.dialect != "gemini"

    @field_validator("files")
    @classmethod
    def _inside(cls, files: dict[str, str]) -> dict[str, str]:
        for name in files:
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise ValueError(f"{name} is not a path below the episode's folder")
        return files

    @model_validator(mode="after")
    def _placeholders(self) -> HarnessFile:
        for word in self.command:
            _check(word, PLACEHOLDERS, "command", secret=True)
        for where, texts in (("environment", self.environment), ("files", self.files)):
            for name, text in texts.items():
                _check(text, PLACEHOLDERS | SECRET_PLACEHOLDERS, f"{where}.{name}")
        return self


def read_harness_file(path: Path) -> HarnessFile:
    """Read a harness's data file, with the program beside it among its files.

    Raises:
        ValueError: If the file cannot be read or is invalid; the message names the first invalid field.
    """
    try:
        data = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"The harness file {path.name} cannot be read: {' '.join(str(error).split())}.") from None
    if not isinstance(data, dict):
        raise ValueError(f"The harness file {path.name} is not a mapping; give it name, install, command, ….")
    try:
        harness = HarnessFile.model_validate({"name": path.stem, **data})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = [*HarnessFile.model_fields, *Install.model_fields]
            raise ValueError(f"{path.name}: there is no field {place}.{did_you_mean(place, known)}") from None
        raise ValueError(f"{path.name}: {place or 'the file'}: {first['msg']}.") from None
    files, hint = dict(harness.files), harness.hint
    if harness.tools == "shell":
        files["bin/gym-tool"] = (_PROGRAMS / "gym_tool.py").read_text("utf-8")
        hint = hint or _SHELL_HINT
    if harness.program:
        program = path.parent / "programs" / harness.program
        try:
            files[f"program/{harness.program}"] = program.read_text("utf-8")
        except OSError:
            raise ValueError(f"{path.name}: the program programs/{harness.program} does not exist.") from None
    return harness.model_copy(update={"files": files, "hint": hint})


def _check(text: str, known: frozenset[str], where: str, *, secret: bool = False) -> None:
    for name in PLACEHOLDER.findall(text):
        if name in known:
            continue
        if secret and name in SECRET_PLACEHOLDERS:
            raise ValueError(f"{where}: ${{{name}}} contains the key, which arguments show; use a variable or a file")
        raise ValueError(f"{where}: there is no placeholder ${{{name}}}.{did_you_mean(name, known)}")
