"""The bridge: synchronous code waits for asynchronous work without blocking the event loop.

Gymnasium's `step` is a plain call, but episodes spend most of their time waiting. `drive` runs a synchronous function
in a greenlet of the running event loop, and `wait` suspends that greenlet. The protocol between the two:

1. `run_until_wait` switches into a child greenlet, which calls the function.
2. The child switches back with `(_RETURNED, result)`, `(_RAISED, error)`, or, from `wait`, `(_WAITS, awaitable)`.
3. For `_WAITS` the caller gets a `Waiting`. Its `resume` awaits the awaitable on the event loop, where other episodes
   go on meanwhile. Then it switches the result into the child, or throws the error (also a cancellation). Back to 2.
4. A child that has returned or raised goes to a list of idle greenlets of its thread, for the next call.

Outside a driver `wait` runs the awaitable to its end. The idea is SQLAlchemy's
(https://docs.sqlalchemy.org/en/20/orm/extensions/asyncio.html).
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Generic, ParamSpec, TypeVar, cast

from greenlet import GreenletExit, getcurrent, greenlet

from gym_llm.concurrency.stack_end import ending

P = ParamSpec("P")
T = TypeVar("T")

SHUTDOWN_ERRORS = (GeneratorExit, GreenletExit)
"""Raised in a coroutine or a greenlet that is never resumed again. Its `finally` blocks must not wait."""


class _Driven(greenlet):
    """A greenlet that makes one call after another: a new greenlet costs twenty times as much as a switch."""

    call: _Call

    def run(self, call: _Call) -> None:  # type: ignore[override]
        self.call = call
        _serve()

    def serve(self) -> None:
        call = self.call
        del self.call
        while True:
            function, args, kwargs = call
            try:
                outcome = _RETURNED, function(*args, **kwargs)
            except GreenletExit:  # never resumed again
                return
            except BaseException as error:  # begin and resume raise it
                outcome = _RAISED, error
            del function, args, kwargs, call  # an idle greenlet must not keep them alive
            call = self._switch_back(outcome)
            del outcome

    def _switch_back(self, outcome: tuple[str, Any]) -> _Call:
        return cast(greenlet, self.parent).switch(outcome)


_serve = ending(lambda: cast(_Driven, getcurrent()).serve())


_Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
_RETURNED, _RAISED, _WAITS = "returned", "raised", "waits"
_KEPT_IDLE = 256
_GRACE = 1.0  # seconds
_LOOK_SECONDS = 0.1


class _Idle(threading.local):
    """Greenlets without a call; each belongs to the thread that made it."""

    def __init__(self) -> None:
        self.greenlets: list[_Driven] = []


_idle = _Idle()


def _return(child: _Driven, kind: str, value: Any) -> Any:
    if len(_idle.greenlets) < _KEPT_IDLE:
        _idle.greenlets.append(child)
    if kind is _RAISED:
        raise value
    return value


class Waiting(Generic[T]):
    """A synchronous call that waits for something; `await waiting.resume()` runs it to its end.

    Raises:
        Exception: Whatever the call raises.
    """

    __slots__ = ("_awaitable", "_child")

    def __init__(self, child: _Driven, awaitable: Awaitable[Any]) -> None:
        self._child = child
        self._awaitable = awaitable

    async def resume(self) -> T:
        """Run the call to its end on the event loop, and return its result."""
        child = self._child
        child.parent = getcurrent()
        kind, result = _WAITS, self._awaitable
        while kind is _WAITS:
            try:
                value = await result
            except BaseException as error:  # cancellation too: the call's `finally` blocks must run
                kind, result = child.throw(type(error), error, error.__traceback__)
            else:
                kind, result = child.switch(value)
        return cast(T, _return(child, kind, result))


def run_until_wait(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T | Waiting[T]:
    """Call a synchronous function, for example `env.step`, until it returns or first has to `wait`."""
    current = getcurrent()
    child = _idle.greenlets.pop() if _idle.greenlets else _Driven()
    child.parent = current
    # Context variables of the task stay visible in the function; without this a greenlet has a context of its own.
    child.gr_context = current.gr_context
    kind, value = child.switch((function, args, kwargs))
    if kind is _WAITS:
        return Waiting(child, value)
    return cast(T, _return(child, kind, value))


async def drive(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a synchronous function in which `wait` suspends instead of blocking the event loop.

    >>> async def later(value):
    ...     await asyncio.sleep(0)
    ...     return value
    >>> asyncio.run(drive(lambda x: wait(later(x)) + 1, 41))
    42
    """
    result = run_until_wait(function, *args, **kwargs)
    return await result.resume() if isinstance(result, Waiting) else result


def in_driver() -> bool:
    """Return whether the caller runs inside `drive`, where `wait` does not block the event loop."""
    return isinstance(getcurrent(), _Driven)


def wait(awaitable: Awaitable[T]) -> T:
    """Wait for an awaitable from synchronous code and return its result.

    Inside `drive` this suspends the calling greenlet. Elsewhere it runs the awaitable on an event loop of the calling
    thread. If that thread already runs a loop (a notebook, an async test), the awaitable runs in a new thread.
    """
    current = getcurrent()
    if isinstance(current, _Driven) and current.parent is not None:
        return cast(T, current.parent.switch((_WAITS, awaitable)))
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass  # what the awaitable raises must not have this as its context
    else:
        return _run_in_thread(awaitable)
    return _thread_runner().run(_coroutine(awaitable))


def _run_in_thread(awaitable: Awaitable[T]) -> T:
    """Run an awaitable on an event loop of another thread. An interrupt cancels it there and waits for its end.

    Ctrl-C raises KeyboardInterrupt here, also while the thread starts. Under `asyncio.run` the first Ctrl-C cancels the
    caller's task instead. The task cannot react while its thread waits here, so `cancelling` is polled.
    """
    tasks: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []
    # Not `thread.join` and `is_alive`: in Python 3.11 an interrupted `join` takes the thread for ended.
    begun, ended, given_up = threading.Event(), threading.Event(), threading.Event()
    outcome: Future[T] = Future()

    async def run() -> T:
        tasks.append((asyncio.get_running_loop(), cast("asyncio.Task[Any]", asyncio.current_task())))
        if given_up.is_set():  # `give_up` sets it before it looks for the task: one of the two sees the other
            raise asyncio.CancelledError
        return await awaitable

    def work() -> None:
        begun.set()
        try:
            outcome.set_result(asyncio.run(run()))
        except BaseException as error:  # the caller's to raise
            outcome.set_exception(error)
        finally:
            ended.set()

    def give_up() -> None:
        given_up.set()
        for loop, task in tasks:
            with suppress(RuntimeError):  # its loop is closed: it has just ended
                loop.call_soon_threadsafe(task.cancel)

    caller = asyncio.current_task()
    cancellations = caller.cancelling() if caller is not None else 0
    thread = threading.Thread(target=work, name="gym_llm wait", daemon=True)
    try:
        thread.start()
        while not ended.wait(_LOOK_SECONDS):
            if caller is not None and caller.cancelling() > cancellations and not given_up.is_set():
                give_up()
    except KeyboardInterrupt:
        if not given_up.is_set():
            give_up()
            if begun.is_set():  # or it will find that it need not begin
                ended.wait()
        raise
    return outcome.result()


async def finish(awaitable: Awaitable[Any], seconds: float) -> None:
    """Wait for work that must not be interrupted, such as removing a sandbox.

    It runs in a task of its own, which continues when the waiting task is cancelled.

    Args:
        awaitable: The work.
        seconds: Time after which the work is cancelled. If it ignores that, it is abandoned a second later.

    Raises:
        TimeoutError: If the work took too long.
        asyncio.CancelledError: If the waiting task was cancelled. It is raised after the work, whose error is its
            `__cause__`.
        Exception: If the work raises.
    """
    late = TimeoutError(f"it took longer than {seconds:g} seconds")

    async def bounded() -> BaseException | None:
        try:
            async with asyncio.timeout(seconds) as limit:
                await awaitable
        except (asyncio.CancelledError, *SHUTDOWN_ERRORS):
            raise
        except BaseException as error:  # not raised: a task's SystemExit ends the event loop
            return late if limit.expired() else error
        return None

    task, now = asyncio.create_task(bounded()), asyncio.get_running_loop().time
    deadline = now() + seconds + _GRACE
    cancellation: asyncio.CancelledError | None = None
    while not task.done() and (remaining := deadline - now()) > 0:
        try:
            await asyncio.wait({task}, timeout=remaining)
        except asyncio.CancelledError as error:
            cancellation = error
    if task.cancelled() or (task.done() and isinstance(task.exception(), GeneratorExit)):
        failure: BaseException | None = RuntimeError("it was cancelled from within")
    else:
        failure = task.result() if task.done() else late
    if cancellation is not None:
        raise cancellation from failure
    if failure is not None:
        raise failure


def is_cancellation(error: BaseException) -> bool:
    """Return whether an error cancels the episode from outside: Ctrl-C, a shutdown, or a cancelled task.

    A `CancelledError` in a task that has not been cancelled came from a hook: the episode has failed.
    """
    if not isinstance(error, asyncio.CancelledError):
        return isinstance(error, (KeyboardInterrupt, *SHUTDOWN_ERRORS))
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop is running
        return False
    return task is not None and task.cancelling() > 0


def is_closing(error: BaseException) -> bool:
    """Return whether a GeneratorExit closes the coroutine that awaits, or was raised by the code it awaits."""
    return error.__traceback__ is None or error.__traceback__.tb_next is None


async def run_blocking(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function in the process's thread pool (32 threads); other episodes continue meanwhile."""
    future = _blocking_pool().submit(function, *args, **kwargs)
    return await asyncio.wrap_future(future)


def _coroutine(awaitable: Awaitable[T]) -> Coroutine[Any, Any, T]:
    async def run() -> T:
        return await awaitable

    return awaitable if inspect.iscoroutine(awaitable) else run()


class _Runners(threading.local):
    """An event loop per thread, which stays open so that sessions and pools of hooks live on between calls."""

    runner: asyncio.Runner | None = None

    def __del__(self) -> None:
        # Not runner.close(): that starts a thread and waits for it, which hangs while the interpreter shuts down.
        if self.runner is not None:
            self.runner.get_loop().close()


_runners = _Runners()
_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()


def _thread_runner() -> asyncio.Runner:
    if _runners.runner is None:
        _runners.runner = asyncio.Runner()
    return _runners.runner


def _blocking_pool() -> ThreadPoolExecutor:
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(32, thread_name_prefix="gym_llm-blocking")
        return _pool


def _forget_after_fork() -> None:
    # A forked child (AsyncVectorEnv) shares its parent's epoll descriptor and has none of its threads.
    global _runners, _pool, _pool_lock
    inherited.append(_runners)  # closing them here would disturb the parent's loop
    _runners, _pool, _pool_lock = _Runners(), None, threading.Lock()


inherited: list[_Runners] = []
os.register_at_fork(after_in_child=_forget_after_fork)
