"""PythonTool: a Python interpreter, kept for an episode, as a tool of the model."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from gym_llm.core.rewards import Metric
from gym_llm.core.tools import tool
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.errors import CannotFork
from gym_llm.grading.call_matching import NOT_JSON, parse_arguments
from gym_llm.sandbox.python_session import CellResult, PythonSession
from gym_llm.sandbox.run_limits import Limits
from gym_llm.sandbox.shared import check_backend, sandbox_for
from gym_llm.types import Episode, Row
from gym_llm.utils.limits import check_seconds

_TIMED_OUT = "The code timed out"
_BEGUN_ANEW = "The interpreter was started anew: what earlier calls had defined is lost.\n"
_PRELUDE_SECONDS = 60.0  # of processor time: what it imports is ours
_BYTES_PER_CHARACTER = 4


class EpisodePython:
    """An episode's interpreter: begun by its first cell, it runs one cell at a time, in the order of the calls.

    A copy of it, of an environment that was pickled in the middle of an episode, begins anew, and says so once.
    """

    def __init__(self) -> None:
        self._session: PythonSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._order = asyncio.Lock()
        self._is_new = True
        self._lost = False

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the interpreter."""
        fresh = {"_session": None, "_loop": None, "_order": None, "_is_new": True}
        return {**self.__dict__, **fresh, "_lost": self._lost or self._session is not None}

    def check_fork(self) -> None:
        """Refuse a fork of an interpreter that has begun: a copy begins anew, and a fork has to have what was defined.

        Raises:
            CannotFork: If it has begun.
        """
        if self._session is not None or self._lost:
            raise CannotFork("a live interpreter is not copied; fork the record with gym_llm.fork")

    async def run(self, env: PythonSessionEnv, code: str) -> CellResult:
        """Run a cell within the limits of the environment.

        Raises:
            SandboxError: If the sandbox failed, which masks the episode; never for what the code does.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # a session belongs to one; in a notebook each step has its own
            self.__dict__.update(self.__getstate__())
            self._loop, self._order = loop, asyncio.Lock()
        async with self._order:
            if self._session is None:
                self._session = PythonSession(await sandbox_for(env, env.sandbox, preload=env.preload), env.cell_limits)
            if self._is_new and env.prelude:
                await self._session.run(env.prelude, cpu_seconds=_PRELUDE_SECONDS)
            cell = await self._session.run(code)
            self._is_new = cell.state_lost
            if self._lost:
                self._lost = False
                cell = replace(cell, stderr=_BEGUN_ANEW + cell.stderr)
            return cell

    async def close(self) -> None:
        """End the interpreter and all that it started; another cell begins anew."""
        if self._loop is not asyncio.get_running_loop():  # it ended with its event loop, or was never begun
            self._session = None
            return
        async with self._order:
            session, self._session, self._is_new = self._session, None, True
            if session is not None:
                await session.close()


class PythonSessionEnv(VerifierEnv):
    """A verifier with an interpreter for each episode, for tools that run code in it: `await state.run(self, code)`.

    The interpreter starts with the episode's first call and ends with the episode. A cell that takes too long ends it.
    The model then reads that its definitions are lost, and the next cell starts a new interpreter. For your own state,
    derive a class from `EpisodePython` and return an instance from `setup`.

    In a notebook an event loop already runs around `step`. Every step then has its own loop and interpreter, so play
    with `await drive(env.step, action)` there.

    Args:
        tasks: See `VerifierEnv`.
        sandbox: The sandbox, e.g. `"bubblewrap"`; see `gym_llm.sandbox.Sandbox`. It starts with the first call; if this
            machine does not have it, the episode is masked.
        code_exec_timeout_s: Seconds of processor time that a call may take, and as many in which it only waits.
        code_exec_max_output_chars: Characters of standard output, and of standard error, that the model sees.
        preload: Modules to import before any call, so that no call spends time on them. Modules that are not installed
            are left out. None for the class's `default_preload`.
        **kwargs: See `VerifierEnv`.

    Raises:
        ValueError: If an argument is invalid.

    Attributes:
        python_tool: The name of the tool whose calls are counted.
        prelude: Code that runs in every new interpreter.
    """

    python_tool: str = "stateful_python_code_exec"
    prelude: ClassVar[str] = ""
    default_preload: ClassVar[tuple[str, ...]] = ("numpy",)
    reverify_mode = "stateless"
    metrics = {
        "num_tool_calls": Metric(higher_is_better=None),
        "tool_timeout_count": Metric("sum", higher_is_better=False),
    }

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        sandbox: str = "bubblewrap",
        code_exec_timeout_s: float = 10.0,
        code_exec_max_output_chars: int = 10_000,
        preload: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        check_backend(sandbox)
        check_seconds("code_exec_timeout_s", code_exec_timeout_s)
        if type(code_exec_max_output_chars) is not int or not 0 < code_exec_max_output_chars <= 1_000_000:
            raise ValueError(
                f"code_exec_max_output_chars is an integer from 1 to 1,000,000, got {code_exec_max_output_chars!r}."
            )
        modules = self.default_preload if preload is None else preload
        if isinstance(modules, str) or not all(isinstance(name, str) for name in modules):
            raise ValueError(f"preload is a list of modules' names, got {preload!r}.")
        super().__init__(tasks, **kwargs)
        self.sandbox = sandbox
        self.preload = tuple(modules)
        self.code_exec_timeout_s = code_exec_timeout_s
        self.code_exec_max_output_chars = code_exec_max_output_chars
        self.cell_limits = Limits(
            cpu_seconds=code_exec_timeout_s,
            wall_seconds=code_exec_timeout_s,
            output_bytes=_BYTES_PER_CHARACTER * (code_exec_max_output_chars + 1),
        )

    def setup(self, task: Any) -> EpisodePython:
        """An interpreter that begins with its first cell."""
        return EpisodePython()

    async def teardown(self, task: Any, episode: Episode) -> None:
        """End it."""
        await episode.state.close()

    def tool_use(self, episode: Episode) -> dict[str, int]:
        """Details of a verdict: `num_tool_calls`, `tool_timeout_count`."""
        unanswered: deque[str] = deque()  # outputs are in the calls' order, whatever ids a model gives them
        calls = timeouts = 0
        for item in episode.items:
            if item.get("type") == "function_call":
                unanswered.append(item["name"])
            elif item.get("type") != "function_call_output" or not unanswered:
                continue
            elif unanswered.popleft() == self.python_tool:
                calls += 1
                timeouts += _timed_out(item["output"])
        return {"num_tool_calls": calls, "tool_timeout_count": timeouts}


class PythonTool(PythonSessionEnv):
    """A verifier whose model can run Python with `stateful_python_code_exec`, as in a notebook.

    Args:
        tasks: See `VerifierEnv`.
        **kwargs: See `PythonSessionEnv`.

    Raises:
        ValueError: If an argument is invalid.
    """

    @tool
    async def stateful_python_code_exec(self, code: str, state: EpisodePython) -> dict[str, str]:
        """Run Python code in an interpreter that keeps its state from call to call, as a notebook does.

        Args:
            code: The code. What it prints is returned, and the value of the last line if that is an expression.
            state: The episode's interpreter.
        """
        cell = await state.run(self, code)
        status = "timeout" if timed_out(cell) else "completed" if cell.error is None else "error"
        value = "" if cell.value is None else f"{cell.value}\n"
        most = self.code_exec_max_output_chars
        return {
            "process_status": status,
            "stdout": shortened(cell.stdout + value, most),
            "stderr": shortened(cell.stderr + error_text(cell, self.code_exec_timeout_s), most),
        }


def timed_out(cell: CellResult) -> bool:
    """Whether a cell took too long, computing or waiting."""
    return cell.limit in ("cpu", "wall")


def error_text(cell: CellResult, seconds: float) -> str:
    """Return the text of a cell's failure: a traceback, a sentence that the state is lost, or ""."""
    if cell.error is None:
        return ""
    return f"{_TIMED_OUT} after {seconds:g} seconds. {cell.error}" if timed_out(cell) else cell.error


def shortened(text: str, most: int) -> str:
    r"""Return the first `most` characters of a text, and a line that says so if there are more.

    >>> shortened("abc", 3), shortened("abcd", 3)
    ('abc', 'abc\n[The rest is left out: it is longer than 3 characters.]')
    """
    return text if len(text) <= most else f"{text[:most]}\n[The rest is left out: it is longer than {most} characters.]"


def _timed_out(output: Any) -> bool:
    said = parse_arguments(output) if isinstance(output, str) else NOT_JSON
    if said is NOT_JSON or not isinstance(said, dict):
        return False
    return said.get("process_status") == "timeout" or str(said.get("error_message")).startswith(_TIMED_OUT)
