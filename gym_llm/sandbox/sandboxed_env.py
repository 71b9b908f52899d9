"""SandboxedEnv: a verifier that runs the code that a model wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from gym_llm.core.compat import NemoCompatible
from gym_llm.core.env_config import Count
from gym_llm.sandbox.run_limits import Limits
from gym_llm.sandbox.sandbox import RunResult, Sandbox
from gym_llm.sandbox.shared import check_sandbox, sandbox_for

_MEBI = 1 << 20


class SandboxedEnv(NemoCompatible):
    """A verifier that runs the code that a model wrote. Environments of an event loop share one sandbox.

    ```python
    async def verify(self, task, episode):
        run = await self.run_python(python_code(episode.answer), stdin=task.stdin, seconds=2)
        return float(run.ok and run.text.strip() == task.expected)
    ```

    In a hook that is not async: `run = wait(self.run_python(code))`, with `gym_llm.concurrency.wait`.

    Args:
        tasks: See `VerifierEnv`.
        sandbox: Its back end, e.g. `"bubblewrap"`; see `Sandbox`.
        memory_mib: The most memory of a program, in MiB.
        num_processes: The most runs of one verification at a time. The sandbox has its own limit for all.
        **kwargs: See `NemoCompatible`.

    Raises:
        ValueError: If an argument is invalid.
        SandboxUnavailable: If this machine does not have the back end.
    """

    class Config(NemoCompatible.Config):
        """The back end and the limits of programs."""

        sandbox: Annotated[str, AfterValidator(check_sandbox), Field(validate_default=True)] = "bubblewrap"
        memory_mib: Count = 4096
        num_processes: Count = 8

    config: Config

    async def run_python(
        self,
        code: str,
        *,
        stdin: str | bytes = "",
        seconds: float = 10.0,
        files: Mapping[str, bytes] | None = None,
        **options: Any,
    ) -> RunResult:
        """Run a Python program in the sandbox, as `python main.py` would.

        The program never sees the expected answer: compare its output here.

        Args:
            code: The program.
            stdin: Its standard input.
            seconds: Seconds of processor time, and as many of waiting, after which it is killed.
            files: Files beside it, by name.
            **options: Further arguments of `Sandbox.run`, e.g. `collect`.

        Returns:
            The result: `ok`, `text` (its standard output), `error` (why it is not `ok`) and more.

        Raises:
            SandboxError: If the sandbox failed, which masks the episode; never for what the program does.
        """
        data = stdin.encode("utf-8", "replace") if isinstance(stdin, str) else stdin
        sandbox = await self.started_sandbox()
        options.setdefault("limits", self.limits(seconds))
        return await sandbox.python(code, stdin=data, files=files, **options)

    async def started_sandbox(self) -> Sandbox:
        """Return the sandbox, for more than `run_python` does."""
        return await sandbox_for(self, self.config.sandbox)

    def limits(self, seconds: float, output_bytes: int = _MEBI) -> Limits:
        """Return the limits of a program with these seconds and about this much correct output."""
        return Limits(
            cpu_seconds=seconds,
            wall_seconds=seconds,
            memory_bytes=self.config.memory_mib * _MEBI,
            output_bytes=max(_MEBI, 2 * output_bytes),
            stack_bytes=256 * _MEBI,
        )
