"""Programming languages: how a program is compiled, and how it is run."""

from __future__ import annotations

import functools
import glob
import hashlib
import json
import os
import shutil
import subprocess
from asyncio import Lock
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

from gym_llm.errors import SandboxUnavailable
from gym_llm.sandbox.backends import Mounts, own_python
from gym_llm.sandbox.run_limits import Limits
from gym_llm.sandbox.sandbox import RunResult, Sandbox

COMPILE_LIMITS = Limits(cpu_seconds=60, wall_seconds=30, memory_bytes=2 << 30, disk_bytes=256 << 20, processes=128)
_KEPT_BYTES = 256 << 20
_LARGEST_PROGRAM = 32 << 20  # it is sent into the sandbox with every run
_SAID_CHARACTERS = 10_000
_SYSTEM = ("/usr", "/bin", "/sbin")  # every sandbox shows them
_WITH_ARGUMENTS = "program.py"


@dataclass(frozen=True, slots=True)
class Language:
    """A line of the table of languages.

    Attributes:
        name: Its name.
        source: The file that the program is in.
        compile: The command that compiles it; None where there is nothing to compile.
        result: The file that compiling leaves, the only one that a run gets.
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


_GCC_FLAGS = ("-O2", "-fmax-errors=20")
_JAVA_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss64m", "-XX:-UsePerfData")
_JAVAC = 'mkdir out && javac -proc:none -d out -J-Xmx1g -J-XX:+UseSerialGC "$1" && cd out && jar cfe ../main.jar Main .'
LANGUAGES = {
    language.name: language
    for language in (
        Language("python", "main.py", None, "main.py", None, aliases=("py", "python3")),
        Language(
            "cpp", "main.cpp", ("g++", *_GCC_FLAGS, "-std=gnu++17", "-o", "main", "main.cpp"), "main", ("./main",),
            aliases=("c++", "cc", "cxx"),
        ),
        Language("c", "main.c", ("gcc", *_GCC_FLAGS, "-o", "main", "main.c", "-lm"), "main", ("./main",)),
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
    """Return a language by its name, or by the tag of a code block, in any case.

    Raises:
        ValueError: If the name is unknown.
    """
    wanted = name.lower()
    for one in LANGUAGES.values():
        if wanted == one.name or wanted in one.aliases:
            return one
    raise ValueError(f"language is one of {', '.join(LANGUAGES)}; got {name!r}.")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled program.

    Attributes:
        language: The language in which it was written.
        program: The file that is run.
        said: The compiler's messages, e.g. warnings.
    """

    language: Language
    program: bytes
    said: str = ""


@dataclass(frozen=True, slots=True)
class CompileError:
    """A program that cannot be compiled.

    Attributes:
        output: What the compiler said, or which limit it passed.
    """

    output: str


def _toolchain(folder: str) -> str | None:
    """The folder above a toolchain's `bin`, which belongs to it; None where it holds other things."""
    above = os.path.dirname(folder)
    home = os.path.realpath(os.path.expanduser("~"))
    shared = {"/", "/root", "/opt", "/srv", "/var", "/tmp", os.path.dirname(home)}
    is_one = any(os.path.isdir(os.path.join(above, name)) for name in ("lib", "lib64", "pkg"))
    if os.path.basename(folder) != "bin" or not is_one or above in shared:
        return None
    return None if any(_below(path, above) for path in (home, os.getcwd())) else above


def _below(path: str, folder: str) -> bool:
    return os.path.commonpath([path, folder]) == folder


@functools.cache
def mounts_for(name: str) -> Mounts:
    """Return the mounts of a sandbox that compiles and runs a language.

    Raises:
        ValueError: If the language is unknown.
        SandboxUnavailable: If its compiler, or interpreter, is not on this machine.
    """
    one, mounts = language(name), own_python()
    if one.command is None:
        return mounts
    needed = "javac" if one.name == "java" else one.command
    if (found := shutil.which(needed)) is None:
        raise SandboxUnavailable(f"No sandbox for {one.name}: {needed} is not on PATH.")
    folder = os.path.dirname(os.path.realpath(found))
    shown: list[str] = []
    variables = {}
    if one.name == "rust" and os.path.basename(os.path.realpath(found)) == "rustup":
        said = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=False, timeout=60)
        shown, folder = [said.stdout.strip()], os.path.join(said.stdout.strip(), "bin")
    elif not any(_below(folder, system) for system in _SYSTEM):
        shown = [_toolchain(folder) or os.path.realpath(found)]
    if shown:
        variables["PATH"] = f"{folder}:/usr/local/bin:/usr/bin:/bin"
    if one.name == "java":
        shown += glob.glob("/etc/java-*")  # where Debian's looks for its settings
    return replace(mounts, shown=(*mounts.shown, *shown), environment={**mounts.environment, **variables})


class Compiler:
    """Compiles programs in a sandbox, each once.

    Args:
        sandbox: Made with the mounts of `mounts_for`.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._kept: OrderedDict[str, Compiled | CompileError] = OrderedDict()
        self._bytes = 0
        self._locks: WeakValueDictionary[str, Lock] = WeakValueDictionary()

    async def compile(
        self,
        name: str,
        source: str,
        *,
        files: Mapping[str, bytes] | None = None,
        arguments: Sequence[str] = (),
        limits: Limits = COMPILE_LIMITS,
    ) -> Compiled | CompileError:
        """Compile a program, or find it among those that are compiled already.

        The program can read and contain the files beside it: give it nothing that it must not know.

        Args:
            name: The language's name.
            source: The program.
            files: Beside it, headers say.
            arguments: Further arguments of the compiler, e.g. those of the files that are sources, too.
            limits: Limits of the compilation.

        Raises:
            ValueError: If the language is unknown.
            SandboxError: If the sandbox failed.
        """
        one = language(name)
        text = source.encode("utf-8", "replace")
        if one.compile is None:
            return Compiled(one, text)
        named = {**(files or {}), one.source: text}
        request = [one.name, list(arguments), limits.as_json(), [[file, len(data)] for file, data in named.items()]]
        digest = hashlib.sha256(b"".join([json.dumps(request).encode(), *named.values()])).hexdigest()
        lock = self._locks.setdefault(digest, Lock())
        async with lock:  # the same one meanwhile is not compiled beside it
            if digest in self._kept:
                self._kept.move_to_end(digest)
                return self._kept[digest]
            compiled, final = await self._compile(one, named, arguments, limits)
            if final:
                self._keep(digest, compiled)
            return compiled

    async def _compile(
        self, one: Language, files: Mapping[str, bytes], arguments: Sequence[str], limits: Limits
    ) -> tuple[Compiled | CompileError, bool]:
        """With whether it would be the same another time: a limit that was passed, perhaps not."""
        assert one.compile is not None
        result = await self._sandbox.run(
            [*one.compile, *arguments], files=files, collect=[one.result], limits=limits, reserves=one.reserves
        )
        made = result.files.get(one.result)
        said = (result.stderr or result.stdout)[: 4 * _SAID_CHARACTERS].decode("utf-8", "replace")[:_SAID_CHARACTERS]
        if result.ok and made is not None and len(made) <= _LARGEST_PROGRAM:
            return Compiled(one, made, said), True
        if result.limit is not None:
            said = f"The compiler took too much: {result.limit}.\n{said}"
        elif result.ok:
            said = f"The compiled program has more than {_LARGEST_PROGRAM >> 20} MiB.\n{said}"
        return CompileError(said), result.limit is None and result.signal is None

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
            named, code = dict(files or {}), compiled.program.decode()
            if arguments:
                named[_WITH_ARGUMENTS], code = compiled.program, _with_arguments(arguments)
            return await self._sandbox.python(code, stdin=stdin, files=named, limits=limits, **options)
        return await self._sandbox.run(
            [*one.run, *arguments],
            stdin=stdin,
            files={**(files or {}), one.result: compiled.program},
            executable=[one.result],
            limits=limits,
            reserves=one.reserves,
            **options,
        )

    def _keep(self, digest: str, compiled: Compiled | CompileError) -> None:
        self._kept[digest] = compiled
        self._bytes += _size(compiled)
        while self._bytes > _KEPT_BYTES and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= _size(oldest)


def _with_arguments(arguments: Sequence[str]) -> str:
    run = f"runpy.run_path({_WITH_ARGUMENTS!r}, run_name='__main__')"
    return f"import runpy, sys\nsys.argv[1:] = {list(arguments)!r}\n{run}"


def _size(compiled: Compiled | CompileError) -> int:
    return len(compiled.program) if isinstance(compiled, Compiled) else len(compiled.output)
