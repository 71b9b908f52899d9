"""Building Dockerfiles in a machine, without Docker, on bases that exist already.

The supported instructions are FROM (one), RUN, COPY, ADD (files beside it), WORKDIR, ENV, ARG and USER. Instructions
that only describe or start a container are ignored. Any other line is refused, because the image would differ from the
task's. https://docs.docker.com/reference/dockerfile/
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import posixpath
import re
import shlex
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gym_llm.errors import UsageError
from gym_llm.sandbox.inside import tree
from gym_llm.sandbox.machines.machine import ExecResult, Machine
from gym_llm.sandbox.machines.rootfs import Image

_DONE = ("FROM", "RUN", "COPY", "ADD", "WORKDIR", "ENV", "ARG", "USER")
_PASSED_OVER = ("CMD", "ENTRYPOINT", "EXPOSE", "LABEL", "MAINTAINER", "STOPSIGNAL")
_VARIABLE = re.compile(r"\\(.)|\$(?:(\w+)|\{(\w+)(?:(:?[-+])([^}]*))?\})")
_HERE_DOCUMENT = re.compile(r"(?<!\S)\d*<<-?[\"']?\w")
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".txz", ".tar.zst")
_LARGEST = 512 << 20
_SAID = 1500


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction: its line (from 1), its name, and the rest of its text, unchanged."""

    line: int
    name: str
    rest: str


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """A Dockerfile that can be carried out.

    Attributes:
        path: Where it lies; the folder is its context.
        base: The image that it is FROM.
        instructions: What is to be done then.
        arguments: Values of ARGs that stand before FROM.
    """

    path: str
    base: str
    instructions: tuple[Instruction, ...]
    arguments: dict[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """A hash of all that it is made from but its base: its text, and the files beside it."""
        digest = hashlib.sha256()
        for path, name in sorted(tree.walk(os.path.dirname(self.path)), key=lambda one: one[1]):
            status = os.lstat(path)
            digest.update(f"{name}\0{status.st_mode}\0{status.st_size}\0".encode("utf-8", "surrogateescape"))
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
            elif stat.S_ISLNK(status.st_mode):
                digest.update(os.fsencode(os.readlink(path)))
        return digest.hexdigest()


def read_dockerfile(path: str | Path) -> Dockerfile:
    """Read a Dockerfile.

    Raises:
        UsageError: If something in it cannot be carried out here; one sentence that names the line.
    """
    base: str | None = None
    arguments: dict[str, str] = {}
    instructions: list[Instruction] = []
    for one in _instructions(Path(path).read_text("utf-8", "replace"), path):
        if one.name not in _DONE and one.name not in _PASSED_OVER:
            raise _refusal(path, one, f"{one.name} is not carried out here")
        if one.name in ("RUN", "COPY", "ADD") and _HERE_DOCUMENT.search(one.rest):
            raise _refusal(path, one, "a here-document is not carried out here")
        if one.name == "FROM":
            if base is not None:
                raise _refusal(path, one, "a second FROM (a build of several stages) is not carried out here")
            words = [word for word in expand(one.rest, arguments).split() if not word.startswith("--")]
            if len(words) not in (1, 3) or words[0] == "scratch":
                raise _refusal(path, one, "FROM names an image")
            base = words[0]
        elif base is None and one.name == "ARG":
            name, _, value = one.rest.partition("=")
            arguments[name.strip()] = expand(_unquoted(value), arguments)
        elif base is None:
            raise _refusal(path, one, f"{one.name} stands before FROM")
        elif one.name in ("RUN", "COPY", "ADD"):
            _check_flags(path, one)
            instructions.append(one)
        elif one.name not in _PASSED_OVER:
            instructions.append(one)
    if base is None:
        raise UsageError(f"{path} has no FROM.")
    return Dockerfile(str(path), base, tuple(instructions), arguments)


async def build(dockerfile: Dockerfile, machine: Machine, image: Image, *, timeout_sec: float, network: bool) -> Image:
    """Carry out a Dockerfile in a machine of its base; afterwards nothing runs in it.

    Returns:
        The image with the variables, folder and user of the Dockerfile; its files are in the machine.

    Args:
        dockerfile: The instructions.
        machine: A fresh machine of the image.
        image: Of its base.
        timeout_sec: Of each RUN.
        network: Whether the machine has a network, for messages.

    Raises:
        UsageError: If a RUN fails, or a COPY has nothing to copy; the message names the line.
    """
    environment, arguments = dict(image.environment), dict[str, str]()
    workdir, user = image.workdir, image.user
    for one in dockerfile.instructions:
        values = {**arguments, **environment}
        if one.name == "ENV":
            environment |= {name: expand(value, values) for name, value in _pairs(dockerfile.path, one)}
        elif one.name == "ARG":
            name, equals, value = one.rest.partition("=")
            default = expand(_unquoted(value), values) if equals else dockerfile.arguments.get(name.strip(), "")
            arguments[name.strip()] = default
        elif one.name == "USER":
            user = expand(one.rest, values).strip()
        elif one.name == "WORKDIR":
            workdir = posixpath.normpath(posixpath.join(workdir, expand(_unquoted(one.rest), values)))
            await machine.upload(workdir, tree.pack_files([]))
        elif one.name == "RUN":
            result = await machine.exec(_command(one.rest), cwd=workdir, env=values, timeout_sec=timeout_sec, user=user)
            if result.return_code:
                raise _failed(dockerfile.path, one, result, network)
        else:
            await _copy(dockerfile.path, one, machine, workdir, values)
    await machine.seal([])
    return replace(image, environment=environment, workdir=workdir, user=user)


def expand(text: str, values: Mapping[str, str]) -> str:
    r"""A text with its variables filled in, as Docker does outside RUN.

    >>> expand(r"$A/${B:-x}/\$A/${A:+y}", {"A": "a"})
    'a/x/$A/y'
    """

    def value(match: re.Match[str]) -> str:
        escaped, plain, named, operator, other = match.groups()
        if escaped is not None:
            return escaped if escaped == "$" else match[0]
        known = values.get(plain or named, "")
        if operator is None:
            return known
        if operator.endswith("-"):
            return known if known or (operator == "-" and named in values) else expand(other, values)
        return expand(other, values) if known or (operator == "+" and named in values) else ""

    return _VARIABLE.sub(value, text)


def _instructions(text: str, path: str | Path) -> Iterator[Instruction]:
    begun: list[str] = []
    first = 0
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"#\s*escape\s*=\s*`", line) and not begun:
            raise UsageError(f"{path}, line {number}: another escape character than \\ is not carried out here.")
        if line.lstrip().startswith("#") or not line.strip():
            continue
        first = first if begun else number
        if line.rstrip().endswith("\\"):
            begun.append(line.rstrip()[:-1])
            continue
        whole = "".join([*begun, line]).strip()
        begun = []
        name, _, rest = whole.partition(" ") if " " in whole else whole.partition("\t")
        yield Instruction(first, name.upper(), rest.strip())
    if begun:
        yield Instruction(first, "".join(begun).split()[0].upper(), "".join(begun).strip().partition(" ")[2].strip())


def _check_flags(path: str | Path, one: Instruction) -> None:
    for word in one.rest.split():
        if not word.startswith("--"):
            break
        if one.name == "RUN" or word.partition("=")[0] not in ("--chown", "--chmod", "--link"):
            raise _refusal(path, one, f"{one.name} {word.partition('=')[0]} is not carried out here")
    if one.name == "ADD":
        for word in one.rest.split():
            if "://" in word or word.startswith("git@") or word.endswith(_ARCHIVES):
                raise _refusal(path, one, f"ADD takes plain files and folders here, not {word}")


def _pairs(path: str, one: Instruction) -> list[tuple[str, str]]:
    if "=" not in one.rest.split(None, 1)[0]:
        name, _, value = one.rest.partition(" ")
        return [(name, value.strip())]
    try:
        words = shlex.split(one.rest)
    except ValueError as error:
        raise _refusal(path, one, str(error)) from None
    return [(name, value) for name, _, value in (word.partition("=") for word in words)]


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _command(rest: str) -> str:
    words = _exec_form(rest)
    return shlex.join(words) if words is not None else rest


def _exec_form(rest: str) -> list[str] | None:
    try:
        words = json.loads(rest) if rest.startswith("[") else None
    except ValueError:
        return None
    return words if isinstance(words, list) and all(isinstance(word, str) for word in words) else None


async def _copy(path: str, one: Instruction, machine: Machine, workdir: str, values: Mapping[str, str]) -> None:
    flags, rest = {}, one.rest
    while rest.startswith("--"):
        flag, _, rest = rest.partition(" ")
        name, _, value = flag.partition("=")
        flags[name] = value
        rest = rest.strip()
    words = _exec_form(rest) or shlex.split(rest)
    if len(words) < 2:
        raise _refusal(path, one, f"{one.name} names files and where they go")
    *sources, target = [expand(word, values) for word in words]
    context = os.path.realpath(os.path.dirname(path))
    found = [match for source in sources for match in _matches(path, one, context, source)]
    place = posixpath.join(workdir, target)
    is_folder = target.endswith(("/", "/.")) or target in (".", "..") or len(found) > 1
    if not is_folder and not os.path.isdir(found[0]):
        is_folder = (await machine.exec(f"test -d {shlex.quote(place)}")).return_code == 0
    files: list[tuple[str, int, bytes]] = []
    for source in found:
        if os.path.isdir(source):
            files += _files(source)
        elif is_folder:
            files.append(_file(source, os.path.basename(source)))
        else:
            place, name = posixpath.split(posixpath.normpath(place))
            files.append(_file(source, name))
    if "--chmod" in flags:
        mode = int(flags["--chmod"], 8)
        files = [(name, old if old == tree.LINK else mode, data) for name, old, data in files]
    if sum(len(data) for _, _, data in files) > _LARGEST:
        raise _refusal(path, one, f"{one.name} copies more than {_LARGEST >> 20} MiB")
    await machine.upload(posixpath.normpath(place), tree.pack_files(files))


def _matches(path: str, one: Instruction, context: str, source: str) -> list[str]:
    wanted = posixpath.normpath(source.lstrip("/"))
    paths = [context] if wanted == "." else []
    if not paths:
        names = [name for _, name in tree.walk(context)]
        depth = wanted.count("/")
        paths = [
            os.path.join(context, name)
            for name in sorted(names)
            if name.count("/") == depth and fnmatch.fnmatchcase(name, wanted)
        ]
    if not paths:
        raise _refusal(path, one, f"there is no {source} beside it")
    for match in paths:
        if os.path.commonpath([context, os.path.realpath(match)]) != context:
            raise _refusal(path, one, f"{source} leads out of its folder")
    return paths


def _files(folder: str) -> list[tuple[str, int, bytes]]:
    files = []
    for path, name in tree.walk(folder):
        if os.path.islink(path):
            files.append((name, tree.LINK, os.fsencode(os.readlink(path))))
        else:
            files.append((f"{name}/", 0o755, b"") if os.path.isdir(path) else _file(path, name))
    return files


def _file(path: str, name: str) -> tuple[str, int, bytes]:
    real = Path(path)
    return name, stat.S_IMODE(real.stat().st_mode), real.read_bytes()


def _refusal(path: str | Path, one: Instruction, why: str) -> UsageError:
    return UsageError(f"{path}, line {one.line}: {why}.")


def _failed(path: str, one: Instruction, result: ExecResult, network: bool) -> UsageError:
    said = (result.stderr.strip() or result.stdout.strip())[-_SAID:]
    hint = "" if network else " (it had no network: build_network=True gives it this machine's)"
    return UsageError(f"{path}, line {one.line}: RUN ended with {result.return_code}{hint}: {said}")
