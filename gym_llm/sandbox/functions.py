"""Calls functions of a program that a model wrote, in a sandbox: JSON in, JSON out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gym_llm.grading.program_output import read_json
from gym_llm.sandbox.python_session import PythonSession
from gym_llm.sandbox.run_limits import Limits
from gym_llm.sandbox.sandbox import Limit, Sandbox

FUNCTION_CELL = Path(__file__).with_name("function_cell.py")
FORKED_CELL = Path(__file__).with_name("forked_cell.py")
_IMPORTABLE = """
def _importable(sources):
    import importlib.abc, importlib.util, sys

    class Finder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
        def find_spec(self, name, path, target=None):
            return importlib.util.spec_from_loader(name, self) if name in sources else None

        def get_source(self, name):
            return sources[name]

    sys.meta_path.insert(0, Finder())
"""


@dataclass(frozen=True, slots=True)
class Called:
    """The result of a call.

    Attributes:
        value: The value returned, as JSON.
        error: The `repr` of the exception that it raised, or None.
        limit: The limit that it passed, for which the process was killed; else None.
        ended: Whether the process is gone, by a limit or by itself, or could not answer.
        cpu_seconds: Its processor time.
    """

    value: Any = None
    error: str | None = None
    limit: Limit | None = None
    ended: bool = False
    cpu_seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether it returned nothing."""
        return self.ended or self.error is not None

    @property
    def out_of_time(self) -> bool:
        """Whether it took, or slept, too long."""
        return self.limit in ("cpu", "wall")


class Functions:
    """A program that is loaded once, and called any number of times, in one process.

    Use it as an async context manager. Its answers are the program's own word: compare them
    outside with the expected ones, which the program must not see. After a call that `ended` it, it cannot be called
    again.

    Args:
        sandbox: Where it runs.
        limits: Of loading it, and of each call.
        *cells: Python that together defines `load` and `call`, which answer as those of `function_cell` do; by default
            that one.
        modules: Files that the cells can import, by their names.
    """

    def __init__(self, sandbox: Sandbox, limits: Limits, *cells: Path, modules: Sequence[Path] = ()) -> None:
        self._session = PythonSession(sandbox, limits)
        self._cells = cells or (FUNCTION_CELL,)
        self._modules = modules

    async def __aenter__(self) -> Functions:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def load(self, source: str, *arguments: Any) -> Called:
        """Run the program, and find in it what is to be called.

        Args:
            source: The program.
            *arguments: Of the cell's `load`; of `function_cell`: the function's name, and whether it is a method of
                `Solution`.

        Raises:
            SandboxError: If the sandbox failed.
        """
        values = ", ".join(ascii(value) for value in (source, *arguments))
        sources = {module.stem: _text(module) for module in self._modules}
        modules = [_IMPORTABLE, f"_importable({sources!a})"] if sources else []
        return await self._run("\n".join([*modules, *map(_text, self._cells), f"load({values})"]))

    async def call(self, argument: str, *, cpu_seconds: float | None = None) -> Called:
        """Call it.

        Args:
            argument: Of the cell's `call`; of `function_cell`: the arguments as a JSON list.
            cpu_seconds: What this call may take, if it is not what the limits say.

        Raises:
            SandboxError: If the sandbox failed.
        """
        return await self._run(f"call({argument!a})", cpu_seconds)

    async def _run(self, code: str, cpu_seconds: float | None = None) -> Called:
        cell = await self._session.run(code, cpu_seconds=cpu_seconds)
        if cell.error is not None or cell.state_lost:
            return Called(error=cell.error, limit=cell.limit, ended=True)
        try:
            answer = read_json(cell.text)
            if not isinstance(answer, dict):
                raise ValueError("no answer")
        except ValueError:
            return Called(error="what it answered is too long, or no JSON", limit="output", ended=True)
        error = answer.get("error")
        return Called(answer.get("value"), None if error is None else str(error), cpu_seconds=cell.cpu_seconds)


@cache
def _text(cell: Path) -> str:
    return cell.read_text("utf-8")
