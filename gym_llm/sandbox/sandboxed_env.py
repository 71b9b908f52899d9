"""SandboxedEnv: a verifier that runs what a model wrote."""

from __future__ import annotations

from typing import Any

from gym_llm.core.compat import NemoCompatible
from gym_llm.sandbox.run_limits import Limits
from gym_llm.sandbox.sandbox import Sandbox
from gym_llm.sandbox.shared import check_sandbox, sandbox_for
from gym_llm.types import Row

_MEBI = 1 << 20


class SandboxedEnv(NemoCompatible):
    """A verifier that runs what a model wrote in a sandbox, which environments of an event loop share.

    Args:
        tasks: See `VerifierEnv`.
        sandbox: Its back end, e.g. `"bubblewrap"`; see `Sandbox`.
        memory_mib: What a program may take of memory, in MiB.
        num_processes: The most runs of one verification at a time; the sandbox has its own limit for all.
        **kwargs: As for every `NemoCompatible`.

    Raises:
        ValueError: If an argument makes no sense.
        SandboxUnavailable: If there is no such sandbox here.
    """

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        sandbox: str = "bubblewrap",
        memory_mib: int = 4096,
        num_processes: int = 8,
        **kwargs: Any,
    ) -> None:
        check_sandbox(sandbox)
        for name, value in (("memory_mib", memory_mib), ("num_processes", num_processes)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is a whole number, 1 or more; got {value!r}.")
        super().__init__(tasks, **kwargs)
        self.sandbox = sandbox
        self.num_processes = num_processes
        self._memory = memory_mib * _MEBI

    async def started_sandbox(self) -> Sandbox:
        """The sandbox."""
        return await sandbox_for(self, self.sandbox)

    def limits(self, seconds: float, output_bytes: int = _MEBI) -> Limits:
        """What a program may take that gets these seconds, and whose right output has about that many bytes."""
        return Limits(
            cpu_seconds=seconds,
            wall_seconds=seconds,
            memory_bytes=self._memory,
            output_bytes=max(_MEBI, 2 * output_bytes),
            stack_bytes=256 * _MEBI,
        )


def check_number(name: str, value: Any) -> None:
    """Check an argument that is a number of seconds, or of times.

    Raises:
        ValueError: If it is none between 0 and 86,400, the seconds of a day; one sentence.
    """
    if not isinstance(value, int | float) or not 0 < value < 86_400:
        raise ValueError(f"{name} is a number above 0; got {value!r}.")
