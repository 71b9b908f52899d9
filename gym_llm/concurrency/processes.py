"""A pool of worker processes with a deadline per call: for functions that may hang or crash.

Some verifiers run code that no timeout inside the process can stop: a big-integer power or a regular expression holds
the interpreter until it is done. Here such a function runs in a worker, and the kernel ends the worker when the
deadline has passed (`setitimer` with the default action of its signals, armed for each call, so that it also works
while the interpreter is held, and after the parent's death). POSIX only. The function must leave SIGPROF and SIGALRM
alone.

The deadline is one of CPU time: whether a slow answer is right must not depend on how busy the machine is.

Workers are plain subprocesses, not `multiprocessing` ones: a fork of a process with threads can deadlock, and spawn
would run the user's main module again. They begin with the first call, ignore SIGINT, and end with their parent,
however it ends: their standard input closes.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib
import mmap
import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, NoReturn

from gym_llm.errors import WorkerDied

_BATCH = 8  # calls sent to a worker at once; more would only make them wait longer behind one that hangs
_FLUSH_SECONDS = 0.002
_MEMORY_BYTES = 2 << 30
_WALL_FACTOR = 4  # a call that does not compute but waits is ended after this many deadlines by the clock
# Started with -P, a worker finds modules where its parent does and nowhere else (not in the current folder).
_COMMAND = """
import pickle, sys
try:
    sys.path[:], settings = pickle.load(sys.stdin.buffer)
except EOFError:
    sys.exit()  # the parent is gone already
from gym_llm.concurrency.processes import _serve
_serve(*settings)
"""


@dataclass(slots=True, eq=False)
class _Job:
    argument: bytes  # pickled by the caller, where an error belongs
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    deaths: int = 0


class ProcessPool:
    """Worker processes that run one function, each call with a deadline.

    `call` may be awaited from any number of event loops and threads at once. A call that hangs holds its worker, and
    the few calls sent along with it, until the deadline; the others go on in other workers.

    Args:
        function: `"module:name"` of a function of one argument; workers import it, this process does not.
        deadline: Seconds of CPU time that a call may take (and four times as many by the clock).
        workers: The most worker processes at a time; None for one per usable core, at most 4 (a machine may run many
            processes with a pool each). They start as calls pile up.

    Raises:
        ValueError: If an argument makes no sense.

    >>> with ProcessPool("math:sqrt", deadline=5.0) as pool:
    ...     asyncio.run(pool.call(9))
    3.0
    """

    def __init__(self, function: str, *, deadline: float, workers: int | None = None) -> None:
        if function.count(":") != 1:
            raise ValueError(f'function is "module:name", got {function!r}.')
        check_settings(deadline, workers)
        self.function = function
        self.deadline = deadline
        self.workers = workers or min(4, _usable_cores())
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._live: set[_Worker] = set()
        self._idle = 0
        self._closed = False

    async def call(self, argument: Any) -> Any:
        """Run the function on `argument` in a worker and return what it returns (both have to pickle).

        Raises:
            Exception: What pickling `argument` raises, if it cannot be sent.
            TimeoutError: If it ran longer than the deadline. Its worker was killed; other calls are not affected.
            WorkerDied: If its worker died, also at a second try.
            RuntimeError: If it raised (the message names the exception), could not be imported, or the pool is closed.
        """
        loop = asyncio.get_running_loop()
        job = _Job(pickle.dumps(argument, pickle.HIGHEST_PROTOCOL), loop, loop.create_future())
        self._submit(job)
        return await job.future

    def close(self) -> None:
        """Kill the workers; calls still waiting raise RuntimeError."""
        with self._lock:
            self._closed = True
            for worker in self._live:
                worker.kill()
            self._jobs.put(None)  # each thread that ends hands it on
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> ProcessPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _submit(self, job: _Job) -> None:
        with self._lock:
            if self._closed:
                raise RuntimeError("The process pool is closed.")
            self._jobs.put(job)
            if len(self._threads) < self.workers and self._jobs.qsize() > self._idle:
                thread = threading.Thread(target=self._feed, name=f"gym_llm-{self.function}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _feed(self) -> None:
        """One thread per worker: hand it jobs, and when it dies start another."""
        worker: _Worker | None = None
        problem = ""
        while True:
            if worker is None:  # before the next job comes: a worker takes its time to import
                try:
                    worker = self._start()
                except (OSError, RuntimeError) as error:
                    problem = str(error)
            batch = self._next_batch()
            if batch is None:
                break
            if worker is None:
                _settle(batch, [(False, RuntimeError(problem))] * len(batch))
            elif batch and (death := worker.run(batch)) is not None:
                self._retire(worker)
                worker = None
                self._after(death, batch)
        if worker is not None:
            self._retire(worker)
        self._refuse([])
        self._jobs.put(None)

    def _next_batch(self) -> list[_Job] | None:
        """The next jobs of one worker (none if they were cancelled meanwhile); None when the pool is closed."""
        with self._lock:
            if self._closed:
                return None
            self._idle += 1
        batch = [self._jobs.get()]
        with self._lock:
            self._idle -= 1
            for _ in range(min(_BATCH - 1, self._jobs.qsize() // self.workers)):
                try:
                    batch.append(self._jobs.get_nowait())
                except Empty:  # another worker's thread was quicker
                    break
            if self._closed:
                self._refuse([job for job in batch if job is not None])
                return None
        return [job for job in batch if job is not None and not job.future.cancelled()]

    def _start(self) -> _Worker:
        worker = _Worker(self.function, self.deadline)
        with self._lock:
            self._live.add(worker)
            if self._closed:
                worker.kill()
        try:
            worker.wait_until_ready()
        except RuntimeError:
            self._retire(worker)
            raise
        return worker

    def _retire(self, worker: _Worker) -> None:
        with self._lock:
            self._live.discard(worker)
        worker.bury()

    def _after(self, death: _Death, batch: list[_Job]) -> None:
        """Decide about the jobs that a worker did not answer: one is to blame for its death, the others run again."""
        again, culprit = batch[death.answered :], batch[death.position]
        if death.by_deadline:
            again.remove(culprit)
            error: Exception = TimeoutError(f"{self.function} took longer than its deadline, {self.deadline:g} s.")
            _settle([culprit], [(False, error)])
        elif culprit.deaths > 0:
            again.remove(culprit)
            error = WorkerDied(f"{self.function} ended two worker processes (last exit code {death.exit_code}).")
            _settle([culprit], [(False, error)])
        else:
            culprit.deaths += 1
        with self._lock:
            if not self._closed:
                for job in again:
                    self._jobs.put(job)
                return
        self._refuse(again)

    def _refuse(self, jobs: list[_Job]) -> None:
        with contextlib.suppress(Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None:
                    jobs.append(job)
        _settle(jobs, [(False, RuntimeError("The process pool is closed."))] * len(jobs))


_pools: dict[tuple[str, float, int | None], ProcessPool] = {}
_pools_lock = threading.Lock()


def shared_pool(function: str, *, deadline: float, workers: int | None = None) -> ProcessPool:
    """This process's pool for these settings, made at the first request; it lives as long as the process.

    Ask for it at each use instead of keeping it: a forked child gets its own.
    """
    key = (function, deadline, workers)
    pool = _pools.get(key)
    if pool is None:
        with _pools_lock:
            pool = _pools.get(key) or _pools.setdefault(key, ProcessPool(function, deadline=deadline, workers=workers))
    return pool


def check_settings(deadline: float, workers: int | None) -> None:
    """Raise ValueError unless these can be a pool's settings."""
    if isinstance(deadline, bool) or not isinstance(deadline, (int, float)) or not 0 < deadline < float("inf"):
        raise ValueError(f"deadline is a number of seconds above 0, got {deadline!r}.")
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise ValueError(f"workers is a number of processes, 1 or more, or None; got {workers!r}.")


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# -- the parent's side of one worker -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Death:
    exit_code: int
    answered: int  # jobs of the batch that were answered before
    position: int  # the job the worker was at

    @property
    def by_deadline(self) -> bool:
        return self.exit_code in (-signal.SIGPROF, -signal.SIGALRM)


class _Worker:
    """A worker process. Only the thread that feeds it calls anything but `kill`."""

    def __init__(self, function: str, deadline: float) -> None:
        self.function = function
        # One byte shared with the worker says at which job of the batch it is: the one to blame if it dies.
        with tempfile.TemporaryFile() as file:
            file.write(b"\0")
            file.flush()
            self._position = mmap.mmap(file.fileno(), 1)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(file.fileno(),),
                start_new_session=True,  # a Ctrl-C in the terminal is for the parent
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
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

    def run(self, batch: list[_Job]) -> _Death | None:
        """Have the worker do `batch`, settling jobs as it answers; what is known if it died, else None."""
        answered = 0
        self._position[0] = 0
        try:
            self._send([job.argument for job in batch])
            while answered < len(batch):
                outcomes = pickle.load(self._replies)
                _settle(batch[answered : answered + len(outcomes)], [pickle.loads(outcome) for outcome in outcomes])
                answered += len(outcomes)
        except (EOFError, OSError, pickle.UnpicklingError):
            return _Death(self._process.wait(), answered, max(answered, self._position[0]))
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
        self._position.close()
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

    def _send(self, message: Any) -> None:
        self._requests.write(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
        self._requests.flush()


_Outcome = tuple[bool, Any]  # (True, what the function returned) or (False, an exception)


def _settle(jobs: list[_Job], outcomes: list[_Outcome]) -> None:
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


_live_workers: set[_Worker] = set()


def _kill_workers() -> None:
    for worker in list(_live_workers):
        worker.kill()


def _forget_after_fork() -> None:
    # A forked child has none of the threads that feed the workers; while it held their pipes they would not notice
    # the parent's end.
    global _pools, _pools_lock, _live_workers
    for worker in _live_workers:
        worker.detach()
    _inherited.append((_pools, _live_workers))  # never finalized here: they are the parent's
    _pools, _pools_lock, _live_workers = {}, threading.Lock(), set()


_inherited: list[Any] = []
atexit.register(_kill_workers)
os.register_at_fork(after_in_child=_forget_after_fork)


# -- the worker's side -------------------------------------------------------------------------------------------------


def _serve(name: str, deadline: float, descriptor: int) -> NoReturn:
    """The worker's main function: answer batches until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    requests = sys.stdin.buffer
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the function prints must not end up among the replies
    position = mmap.mmap(descriptor, 1)
    os.close(descriptor)

    def reply(message: Any) -> None:
        replies.write(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
        replies.flush()

    try:
        module, _, attribute = name.partition(":")
        function = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        reply(f"{type(error).__name__}: {error}")
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
                position[0] = index
                signal.setitimer(signal.ITIMER_PROF, deadline)
                signal.setitimer(signal.ITIMER_REAL, _WALL_FACTOR * deadline)
                try:
                    outcome = pickle.dumps((True, function(pickle.loads(argument))), pickle.HIGHEST_PROTOCOL)
                except Exception as error:
                    problem = RuntimeError(f"{name} raised {type(error).__name__}: {error}")
                    outcome = pickle.dumps((False, problem), pickle.HIGHEST_PROTOCOL)
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.setitimer(signal.ITIMER_REAL, 0)
                outcomes.append(outcome)
                if index == len(batch) - 1 or time.monotonic() - flushed > _FLUSH_SECONDS:
                    reply(outcomes)
                    outcomes = []
                    flushed = time.monotonic()
    except (EOFError, BrokenPipeError):
        os._exit(0)
