"""A worker process of a `ProcessPool`: the parent's side, and the child's."""

from __future__ import annotations

import asyncio
import atexit
import importlib
import mmap
import os
import pickle
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any, NoReturn

from gym_llm.records.failures import reason

_MEMORY_BYTES = 2 << 30
_FLUSH_SECONDS = 0.002
_IDLE_SHARE = 0.01  # a call that computes less than this of two deadlines, twice in a row, only waits
_NOTE = struct.Struct("<I")  # the length of a note, which stands behind it in the shared memory, after the position
_NOTE_START = 1 + _NOTE.size
_NOTE_BYTES = 1 << 16
# Started with -P, a worker finds modules where its parent does and nowhere else (not in the current folder).
_COMMAND = """
import pickle, sys
try:
    sys.path[:], settings = pickle.load(sys.stdin.buffer)
except EOFError:
    sys.exit()  # the parent is gone already
from gym_llm.concurrency.worker_process import serve
serve(*settings)
"""


@dataclass(slots=True, eq=False)
class PoolJob:
    """A call of the pool's function, pickled in the caller, which gets a pickling error."""

    argument: bytes
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    deaths: int = 0


@dataclass(slots=True)
class Death:
    """The way in which a worker ended."""

    exit_code: int
    answered: int  # jobs of the batch that were answered before
    position: int  # the job the worker was at
    note: str | None  # what that job left with `leave_note`

    @property
    def by_deadline(self) -> bool:
        """Whether the kernel ended it because a call took too long."""
        return self.exit_code in (-signal.SIGPROF, -signal.SIGALRM)


class WorkerProcess:
    """A worker process. Only the thread that feeds it calls anything but `kill`."""

    def __init__(self, function: str, deadline: float) -> None:
        self.function = function
        # Memory shared with the worker: its first byte says at which job of the batch it is, the one to blame if it
        # dies; behind it is that job's note.
        with tempfile.TemporaryFile() as file:
            file.truncate(_NOTE_START + _NOTE_BYTES)
            self._shared = mmap.mmap(file.fileno(), _NOTE_START + _NOTE_BYTES)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(file.fileno(),),
                start_new_session=True,  # a Ctrl-C in the terminal is for the parent
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
            )
            assert self._process.stdin is not None and self._process.stdout is not None  # PIPE was asked for
            self._requests, self._replies = self._process.stdin, self._process.stdout
            _live_workers.add(self)
            settings = (function, deadline, file.fileno())
        try:
            self._send((sys.path, settings))
        except OSError:
            pass  # it died at once: wait_until_ready says so

    def wait_until_ready(self) -> None:
        """Raise RuntimeError if the worker cannot run the function."""
        try:
            problem = pickle.load(self._replies)
        except (EOFError, OSError, pickle.UnpicklingError):
            problem = f"its process ended with exit code {self._process.wait()}"
        if problem is not None:
            raise RuntimeError(f"No worker can run {self.function}: {problem}.")

    def run(self, batch: list[PoolJob]) -> Death | None:
        """Have the worker do `batch`, settling jobs as it answers; what is known if it died, else None."""
        answered = 0
        self._shared[0] = 0
        try:
            self._send([job.argument for job in batch])
            while answered < len(batch):
                outcomes = pickle.load(self._replies)
                settle(batch[answered : answered + len(outcomes)], [pickle.loads(outcome) for outcome in outcomes])
                answered += len(outcomes)
        except (EOFError, OSError, pickle.UnpicklingError):
            exit_code, position = self._process.wait(), self._shared[0]
            return Death(exit_code, answered, max(answered, position), self._note() if position >= answered else None)
        return None

    def kill(self) -> None:
        """End the process, from any thread; `bury` has to follow."""
        self._process.kill()

    def bury(self) -> None:
        """Leave nothing of the process behind: no zombie, no open file."""
        self._process.kill()
        self._process.wait()
        _live_workers.discard(self)
        self._replies.close()
        self._shared.close()
        try:
            self._requests.close()
        except OSError:
            pass  # what was still to be written has no reader any more

    def detach(self) -> None:
        """In a forked child: let go of the parent's pipes, without closing numbers that may be used again."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for pipe in (self._requests, self._replies):
            if not pipe.closed:
                os.dup2(nowhere, pipe.fileno(), inheritable=False)
        os.close(nowhere)

    def _note(self) -> str | None:
        (length,) = _NOTE.unpack_from(self._shared, 1)
        note = self._shared[_NOTE_START : _NOTE_START + length]
        return note.decode("utf-8", "surrogatepass") if length else None

    def _send(self, message: Any) -> None:
        self._requests.write(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
        self._requests.flush()


_Outcome = tuple[bool, Any]  # (True, what the function returned) or (False, an exception)


def settle(jobs: list[PoolJob], outcomes: list[_Outcome]) -> None:
    """Give the jobs their outcomes, waking each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], _Outcome]]] = {}
    for job, outcome in zip(jobs, outcomes, strict=True):
        by_loop.setdefault(job.loop, []).append((job.future, outcome))
    for loop, pairs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, pairs)
        except RuntimeError:
            pass  # the loop was closed: nobody waits any more


def _resolve(pairs: list[tuple[asyncio.Future[Any], _Outcome]]) -> None:
    for future, (succeeded, value) in pairs:
        if future.done():
            continue
        if succeeded:
            future.set_result(value)
        else:
            future.set_exception(value)


_live_workers: set[WorkerProcess] = set()


def _kill_workers() -> None:
    for worker in list(_live_workers):
        worker.kill()


def _let_go_after_fork() -> None:
    # While a forked child held the workers' pipes they would not notice the parent's end.
    global _live_workers
    for worker in _live_workers:
        worker.detach()
    _inherited.append(_live_workers)  # never finalized here: they are the parent's
    _live_workers = set()


_inherited: list[set[WorkerProcess]] = []
atexit.register(_kill_workers)
os.register_at_fork(after_in_child=_let_go_after_fork)


# -- the worker's side -------------------------------------------------------------------------------------------------

_shared: mmap.mmap | None = None


def leave_note(text: str) -> None:
    """In a pool's function: what to keep of this call if the deadline ends it, as `DeadlinePassed.note`.

    A later note replaces it. Anywhere else, and with a text of more than 64 KB, nothing happens.
    """
    note = text.encode("utf-8", "surrogatepass")
    if _shared is not None and len(note) <= _NOTE_BYTES:
        _NOTE.pack_into(_shared, 1, 0)  # never half of one: the kernel may end this process at any time
        _shared[_NOTE_START : _NOTE_START + len(note)] = note
        _NOTE.pack_into(_shared, 1, len(note))


class _IdleWatch:
    """Ends this process (by SIGALRM) if a call waits for something instead of computing.

    By the clock alone one cannot tell: on a busy machine, or while the process is stopped, a call that computes may
    take any time. So what counts is how little it has computed, in two intervals one after the other.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._cpu_seconds = 0.0
        self._idle_intervals = 0
        signal.signal(signal.SIGALRM, self._look)

    def start(self) -> None:
        self._idle_intervals = 0
        self._cpu_seconds = time.process_time()
        signal.setitimer(signal.ITIMER_REAL, self._seconds, self._seconds)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _look(self, *_: object) -> None:
        before, self._cpu_seconds = self._cpu_seconds, time.process_time()
        idle = self._cpu_seconds - before < _IDLE_SHARE * self._seconds
        self._idle_intervals = self._idle_intervals + 1 if idle else 0
        if self._idle_intervals == 2:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGALRM)


def serve(name: str, deadline: float, descriptor: int) -> NoReturn:
    """The worker's main function: answer batches until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    watch = _IdleWatch(2 * deadline)
    requests = sys.stdin.buffer
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the function prints must not end up among the replies
    global _shared
    shared = _shared = mmap.mmap(descriptor, _NOTE_START + _NOTE_BYTES)
    os.close(descriptor)

    def reply(message: Any) -> None:
        replies.write(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
        replies.flush()

    try:
        module, _, attribute = name.partition(":")
        function = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        reply(reason(error))
        os._exit(1)
    # So that an answer such as 9^{9^{9^9}} runs out of its own memory instead of the machine's.
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    try:
        reply(None)
        while True:
            batch = pickle.load(requests)
            outcomes: list[bytes] = []
            flushed = time.monotonic()
            for index, argument in enumerate(batch):
                shared[:_NOTE_START] = bytes([index, 0, 0, 0, 0])
                signal.setitimer(signal.ITIMER_PROF, deadline)
                watch.start()
                try:
                    outcome = pickle.dumps((True, function(pickle.loads(argument))), pickle.HIGHEST_PROTOCOL)
                except Exception as error:
                    problem = RuntimeError(f"{name} raised {reason(error)}")
                    outcome = pickle.dumps((False, problem), pickle.HIGHEST_PROTOCOL)
                signal.setitimer(signal.ITIMER_PROF, 0)
                watch.stop()
                outcomes.append(outcome)
                if index == len(batch) - 1 or time.monotonic() - flushed > _FLUSH_SECONDS:
                    reply(outcomes)
                    outcomes = []
                    flushed = time.monotonic()
    except (EOFError, BrokenPipeError):
        os._exit(0)
