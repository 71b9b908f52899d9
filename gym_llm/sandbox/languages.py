"""Programming languages: how a program is compiled, and how it is run."""

from __future__ import annotations

import functools
import glob
import hashlib
import os
import shutil
import subprocess
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gym_llm.errors import SandboxUnavailable
from gym_llm.sandbox.backends import Box, own_python
from gym_llm.sandbox.limits import Limits
from gym_llm.sandbox.sandbox import RunResult, Sandbox

COMPILE_LIMITS = Limits(
    cpu_seconds=60, wall_seconds=30, memory_bytes=2 << 30, disk_bytes=256 << 20, processes=128, output_bytes=64 << 10
)
_KEPT_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Language:
    """One line of the table.

    Attributes:
        name: As it is asked for.
        source: The file that the program is in.
        compile: The command that compiles it; None where there is nothing to compile.
        result: The file that compiling leaves, which is all that a run is given.
        run: The command that runs it; None for Python, which the sandbox runs by itself.
        reserves: Whether it reserves much more memory than it uses.
        aliases: Other names, as after the marks of a code block.
    """

    name: str
    source: str
    compile: tuple[str, ...] | None
    result: str
    run: tuple[str, ...] | None
    reserves: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def command(self) -> str | None:
        """The program that has to be on this machine; None for Python."""
        first = self.compile or self.run
        return None if first is None else first[0]


_JAVA_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss64m", "-XX:-UsePerfData")
_JAVAC = 'mkdir out && javac -d out -J-Xmx1g -J-XX:+UseSerialGC "$1" && cd out && jar cfe ../main.jar Main .'
LANGUAGES = {
    language.name: language
    for language in (
        Language("python", "main.py", None, "main.py", None, aliases=("py", "python3")),
        Language(
            "cpp", "main.cpp", ("g++", "-O2", "-std=c++17", "-o", "main", "main.cpp"), "main", ("./main",),
            aliases=("c++", "cc", "cxx"),
        ),
        Language("c", "main.c", ("gcc", "-O2", "-o", "main", "main.c", "-lm"), "main", ("./main",)),
        Language(
            "javascript", "main.js", None, "main.js", ("node", "--stack-size=16000", "main.js"), True,
            aliases=("js", "node"),
        ),
        Language(
            "java", "Main.java", ("sh", "-c", _JAVAC, "sh", "Main.java"), "main.jar",
            ("java", *_JAVA_FLAGS, "-jar", "main.jar"), True,
        ),
        Language(
            "rust", "main.rs", ("rustc", "-O", "--edition", "2021", "-o", "main", "main.rs"), "main", ("./main",),
            aliases=("rs",),
        ),
        Language("go", "main.go", ("go", "build", "-o", "main", "main.go"), "main", ("./main",), True, ("golang",)),
        Language("bash", "main.sh", None, "main.sh", ("bash", "main.sh"), aliases=("sh", "shell")),
    )
}  # fmt: skip
"""By name. A class of a Java program has to be called `Main`."""


def language(name: str) -> Language:
    """A language by its name, or by what stands after a code block's marks, in any case.

    Raises:
        ValueError: If there is none of this name.
    """
    wanted = name.lower()
    for one in LANGUAGES.values():
        if wanted == one.name or wanted in one.aliases:
            return one
    raise ValueError(f"language is one of {', '.join(LANGUAGES)}; got {name!r}.")


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a run is given.

    Attributes:
        language: In which it was written.
        program: The file that is run.
    """

    language: Language
    program: bytes


@dataclass(frozen=True, slots=True)
class CompileError:
    """A program that cannot be compiled.

    Attributes:
        output: What the compiler said, or which limit it passed.
    """

    output: str


@functools.cache
def box_for(name: str) -> Box:
    """What a sandbox shows that compiles and runs a language.

    Raises:
        ValueError: If there is no such language.
        SandboxUnavailable: If its compiler, or interpreter, is not on this machine.
    """
    one, box = language(name), own_python()
    if one.command is None:
        return box
    needed = "javac" if one.name == "java" else one.command
    if (found := shutil.which(needed)) is None:
        raise SandboxUnavailable(f"No sandbox for {one.name}: {needed} is not on PATH.")
    folder = os.path.dirname(os.path.realpath(found))
    shown: list[str] = []
    variables = {}
    if one.name == "rust" and os.path.basename(os.path.realpath(found)) == "rustup":
        said = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=False, timeout=60)
        shown, folder = [said.stdout.strip()], os.path.join(said.stdout.strip(), "bin")
    elif not folder.startswith("/usr/"):  # a toolchain of its own: what is beside its bin belongs to it
        shown = [os.path.dirname(folder)]
    if shown:
        variables["PATH"] = f"{folder}:/usr/local/bin:/usr/bin:/bin"
    if one.name == "java":
        shown += glob.glob("/etc/java-*")  # where Debian's looks for its settings
    return replace(box, shown=(*box.shown, *shown), environment={**box.environment, **variables})


class Compiler:
    """Compiles programs in a sandbox, each once.

    Args:
        sandbox: Made with the box of `box_for`.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._kept: OrderedDict[str, Compiled | CompileError] = OrderedDict()
        self._bytes = 0

    async def compile(
        self, name: str, source: str, *, files: Mapping[str, bytes] | None = None, limits: Limits = COMPILE_LIMITS
    ) -> Compiled | CompileError:
        """Compile a program, or find it among those that were.

        Args:
            name: The language's name.
            source: The program.
            files: Beside it, headers say.
            limits: What compiling may take.

        Raises:
            ValueError: If there is no such language.
            SandboxError: If the sandbox failed.
        """
        one = language(name)
        text = source.encode("utf-8", "replace")
        if one.compile is None:
            return Compiled(one, text)
        beside = dict(files or {})
        digest = hashlib.sha256(b"\0".join([one.name.encode(), *map(_labelled, beside.items()), text])).hexdigest()
        if digest in self._kept:
            self._kept.move_to_end(digest)
            return self._kept[digest]
        result = await self._sandbox.run(
            one.compile,
            files={**beside, one.source: text},
            collect=[one.result],
            limits=limits,
            reserves=one.reserves,
        )
        made = result.files.get(one.result)
        if result.ok and made is not None:
            return self._keep(digest, Compiled(one, made), len(made))
        said = (result.stderr or result.stdout).decode("utf-8", "replace")
        limit = f"The compiler took too much: {result.limit}.\n" if result.limit else ""
        return self._keep(digest, CompileError(limit + said), len(said))

    async def run(
        self,
        compiled: Compiled,
        *,
        stdin: bytes = b"",
        arguments: Sequence[str] = (),
        files: Mapping[str, bytes] | None = None,
        limits: Limits | None = None,
        **options: Any,
    ) -> RunResult:
        """Run a compiled program.

        Args:
            compiled: What `compile` returned.
            stdin: What it reads.
            arguments: After its name.
            files: Beside it.
            limits: What it may take.
            **options: Others of `Sandbox.run`.

        Raises:
            SandboxError: If the sandbox failed.
        """
        one = compiled.language
        if one.run is None:
            code = compiled.program.decode()
            return await self._sandbox.python(code, stdin=stdin, files=files, limits=limits, **options)
        return await self._sandbox.run(
            [*one.run, *arguments],
            stdin=stdin,
            files={**(files or {}), one.result: compiled.program},
            executable=[one.result],
            limits=limits,
            reserves=one.reserves,
            **options,
        )

    def _keep(self, digest: str, value: Compiled | CompileError, size: int) -> Compiled | CompileError:
        self._kept[digest] = value
        self._bytes += size
        while self._bytes > _KEPT_BYTES and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest.program if isinstance(oldest, Compiled) else oldest.output)
        return value


def _labelled(item: tuple[str, bytes]) -> bytes:
    """A file's name and content, so that no two pairs are the same bytes."""
    name, data = item
    return b"%d %d %s%s" % (len(name), len(data), name.encode(), data)
