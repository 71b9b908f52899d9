"""A command in a machine, which runs to the end of its first process."""

from __future__ import annotations

import os
import signal
from typing import Any

from . import program, resident, supervisor


class Command(supervisor.Run):
    """A command. Processes that earlier ones have left running are measured with it.

    Attributes:
        beside: The program that runs beside commands, if there is one.
    """

    beside: resident.Resident | None = None

    def command(self, leftover: list[supervisor.Stream]) -> dict[str, Any]:
        """Run it until its first process ends, or a limit is passed.

        Args:
            leftover: Output of processes that run beside it.

        Raises:
            RuntimeError: If it cannot be started.
        """
        before = self.use.now(0, self.limits)[0]
        inherited, self.settings["inherited"] = self.settings["inherited"], ()
        self._start(program.text_input(self.pieces[0]), inherited)
        for descriptor in inherited:  # it ends with the command: no connection waits for one that has ended
            os.close(descriptor)
        self.streams += leftover
        self.use.begin(before)
        self._signal(signal.SIGCONT)
        why = self._watch(None)
        if why in ("memory", "processes"):
            self.end()
        else:
            self._signal(signal.SIGSTOP)
        if self.ended is None:
            self._end_family()
        for stream in self.streams:
            stream.rest()
        answer = self._answer(why)
        if self.beside is not None:
            self.beside.use.base += self.use.seconds
            if self.beside.ended is None:
                self._signal(signal.SIGCONT)
            elif why in ("memory", "processes"):
                self.beside.why = why
        return answer

    def reaped(self, process: int, status: int) -> None:
        """Note the end of the program beside it."""
        if self.beside is not None and process == self.beside.child:
            self.beside.note_end(status)

    def _end_family(self) -> None:
        """Kill the command and what it has started, while all are stopped."""
        family = {self.child}
        parents = {}
        for name in os.listdir("/proc"):
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if name.isdigit():
                parents[int(name)] = int(fields[1])
                if int(fields[3]) == self.child:
                    family.add(int(name))
        while found := {one for one, parent in parents.items() if parent in family} - family:
            family |= found
        for process in family:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        _, status, usage = os.wait4(self.child, supervisor.EVERY_CHILD)
        self.ended = status, usage
