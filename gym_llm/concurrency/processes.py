"""A pool of worker processes with a deadline per call: for functions that may hang or crash.

Some verifiers run code that a timeout inside the process cannot stop. A big-integer power or a regular expression holds
the interpreter until it is done. The pool runs such a function in a worker, and the kernel ends the worker after the
deadline. Each call arms `setitimer` with its signal's default action. This works while the interpreter is held, and
after the parent's death. POSIX only. The function must not use SIGPROF and SIGALRM.

The deadline is one of CPU time: whether a slow answer is right must not depend on how busy the machine is. For the same
reason a worker's hash seed is always the same.

Workers are plain subprocesses, not `multiprocessing` ones: a fork of a process with threads can deadlock, and spawn
would run the user's main module again. They begin with the first call, ignore SIGINT, and end with their parent,
however it ends: their standard input closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import threading
from queue import Empty, SimpleQueue
from typing import Any

from gym_llm.concurrency.worker_process import Death, PoolJob, WorkerProcess, settle
from gym_llm.errors import DeadlinePassed, WorkerDied

_BATCH = 8  # calls sent to a worker at once; more would only make them wait longer behind one that hangs


class ProcessPool(contextlib.AbstractContextManager["ProcessPool"]):
    """Worker processes that run one function, each call with a deadline.

    `call` may be awaited from any number of event loops and threads at once. A call that hangs holds its worker, and
    the few calls sent along with it, until the deadline; the others go on in other workers.

    Args:
        function: `"module:name"` of a function of one argument; workers import it, this process does not.
        deadline: Seconds of CPU time that a call may take. One that waits instead has four times as many by the clock.
        workers: Maximum number of worker processes; they start as calls pile up. None for one per usable core, at most
            4, because a machine may run many processes with a pool each.

    Raises:
        ValueError: If an argument is invalid.

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
        self._jobs: SimpleQueue[PoolJob | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._live: set[WorkerProcess] = set()
        self._idle = 0
        self._closed = False

    async def call(self, argument: Any) -> Any:
        """Run the function on `argument` in a worker and return what it returns (both have to pickle).

        Raises:
            Exception: What pickling `argument` raises, if it cannot be sent.
            DeadlinePassed: If it ran longer than the deadline. Its worker was killed; other calls are not affected.
            WorkerDied: If its worker died, also at a second try.
            RuntimeError: If it raised (the message names the exception), could not be imported, or the pool is closed.
        """
        loop = asyncio.get_running_loop()
        job = PoolJob(pickle.dumps(argument, pickle.HIGHEST_PROTOCOL), loop, loop.create_future())
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

    def __exit__(self, *_: object) -> None:
        self.close()

    def _submit(self, job: PoolJob) -> None:
        with self._lock:
            if self._closed:
                raise RuntimeError("The process pool is closed.")
            self._jobs.put(job)
            if len(self._threads) < self.workers and self._jobs.qsize() > self._idle:
                thread = threading.Thread(target=self._feed, name=f"gym_llm-{self.function}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _feed(self) -> None:
        """Run one worker's thread: send it jobs, and start another worker when it dies."""
        worker: WorkerProcess | None = None
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
                settle(batch, [(False, RuntimeError(problem))] * len(batch))
            elif batch and (death := worker.run(batch)) is not None:
                self._retire(worker)
                worker = None
                self._after(death, batch)
        if worker is not None:
            self._retire(worker)
        self._refuse([])
        self._jobs.put(None)

    def _next_batch(self) -> list[PoolJob] | None:
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

    def _start(self) -> WorkerProcess:
        worker = WorkerProcess(self.function, self.deadline)
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

    def _retire(self, worker: WorkerProcess) -> None:
        with self._lock:
            self._live.discard(worker)
        worker.bury()

    def _after(self, death: Death, batch: list[PoolJob]) -> None:
        """Decide about the jobs that a worker did not answer: one is to blame for its death, the others run again."""
        again, culprit = batch[death.answered :], batch[death.position]
        if death.by_deadline:
            again.remove(culprit)
            message = f"{self.function} took longer than its deadline, {self.deadline:g} s."
            error: Exception = DeadlinePassed(message, note=death.note)
            settle([culprit], [(False, error)])
        elif culprit.deaths > 0:
            again.remove(culprit)
            message = f"{self.function} ended two worker processes (last exit code {death.exit_code})."
            error = WorkerDied(message, exit_code=death.exit_code)
            settle([culprit], [(False, error)])
        else:
            culprit.deaths += 1
        with self._lock:
            if not self._closed:
                for job in again:
                    self._jobs.put(job)
                return
        self._refuse(again)

    def _refuse(self, jobs: list[PoolJob]) -> None:
        with contextlib.suppress(Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None:
                    jobs.append(job)
        settle(jobs, [(False, RuntimeError("The process pool is closed."))] * len(jobs))


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


def _forget_after_fork() -> None:
    # A forked child has none of the threads that feed the workers.
    global _pools, _pools_lock
    _inherited.append(_pools)  # never finalized here: they are the parent's
    _pools, _pools_lock = {}, threading.Lock()


_inherited: list[Any] = []
os.register_at_fork(after_in_child=_forget_after_fork)
