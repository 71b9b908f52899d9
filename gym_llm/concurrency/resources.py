"""Resources that many episodes share: made once per event loop, closed with the last environment that uses them.

An asynchronous client belongs to the event loop it was made on. The protocol of a resource's life:

1. The first `get` of a name on an event loop makes a `_Resource`, whose keeper is a task of its own on that loop.
2. The keeper makes the value, and every `get` waits for the future `ready`. Cancelling an episode cancels only its
   `get`, never the making. If making fails, all that wait get the error, and the next `get` makes it anew.
3. The keeper then waits for `_unused`, which is set when the last environment has called `release`.
4. The keeper closes the value: making and closing are in one task, as anyio's cancel scopes require.
5. `close` is called from anywhere: in the loop's own driver it waits, from another thread it returns a future.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import inspect
import json
import os
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from typing import Any

from gym_llm.concurrency.bridge import finish, in_driver, wait
from gym_llm.utils.secrets import redacted_logger

_CLOSING_SECONDS = 30.0
logger = redacted_logger(__name__)


class SharedResources:
    """The shared resources of one environment."""

    def __init__(self) -> None:
        self._resources: dict[_Key, _Resource] = {}

    def __reduce__(self) -> tuple[type[SharedResources], tuple[()]]:
        """Copy as an empty object: resources belong to event loops of this process."""
        return SharedResources, ()

    async def get(self, name: Any, make: Callable[[], Any]) -> Any:
        """See `VerifierEnv.shared`."""
        key = asyncio.get_running_loop(), name if isinstance(name, str) else json.dumps(name, sort_keys=True)
        resource = _current.get(key) or _Resource(key, make)
        resource.users.add(self)
        self._resources[key] = resource
        return resource.ready.result() if resource.ready.done() else await asyncio.shield(resource.ready)

    def used_by_another(self) -> SharedResources:
        """Return the same resources for another environment; the last one to release them closes them."""
        other = SharedResources()
        other._resources = self._resources.copy()
        for resource in other._resources.values():
            resource.users.add(other)
        return other

    def values(self) -> list[Any]:
        """Return those that have been made."""
        futures = [resource.ready for resource in self._resources.values()]
        return [future.result() for future in futures if future.done() and future.exception() is None]

    def release(self) -> None:
        """Release all of them; those without other users are closed."""
        resources, self._resources = self._resources, {}
        with ExitStack() as stack:  # one that cannot be closed, or a cancellation meanwhile, keeps no other open
            for resource in resources.values():
                resource.users.discard(self)
                if not resource.users:
                    stack.callback(resource.close)


class _Resource:
    def __init__(self, key: _Key, make: Callable[[], Any]) -> None:
        self.loop, self.name = self._key = key
        self.users: weakref.WeakSet[SharedResources] = weakref.WeakSet()
        self.ready: asyncio.Future[Any] = self.loop.create_future()
        self._unused = asyncio.Event()
        _current[key] = self
        _open.add(self)
        self._keeper = self.loop.create_task(self._keep(make))

    async def _keep(self, make: Callable[[], Any]) -> None:
        try:
            async with AsyncExitStack() as stack:
                self.ready.set_result(await _enter(stack, make))
                await self._unused.wait()
        except BaseException as error:  # if making failed, `get` raises the error
            if not self.ready.done():
                self.ready.set_exception(error)
                self.ready.exception()  # mark as read: the episodes that asked may be cancelled
            elif isinstance(error, asyncio.CancelledError):  # it is late, or its event loop ends
                raise
            else:
                logger.warning("A shared resource, %s, was not closed: %r", self._label, error, exc_info=error)
        finally:
            self._forget()

    def close(self) -> Future[None] | None:
        """Have the keeper close the value, and wait for it; return a future if another thread runs the event loop."""
        if self not in _open:  # making it failed, its event loop has ended, or it belongs to a parent process
            return None
        if _current.get(self._key) is self:
            del _current[self._key]  # the next `get` makes another one
        running_loop = asyncio._get_running_loop()
        if self.loop.is_closed():
            self._forget()
            logger.warning("A shared resource, %s, was not closed: its event loop is.", self._label)
        elif running_loop is self.loop and in_driver():
            wait(self._end())
        elif self.loop.is_running():
            return asyncio.run_coroutine_threadsafe(self._end(), self.loop)
        elif running_loop is not None:
            with ThreadPoolExecutor(1) as thread:
                thread.submit(self.loop.run_until_complete, self._end()).result()
        else:
            self.loop.run_until_complete(self._end())
        return None

    async def _end(self) -> None:
        self._unused.set()
        if not self.ready.done():
            self._keeper.cancel()
        try:
            await finish(self._keeper, _CLOSING_SECONDS)
        except (TimeoutError, RuntimeError) as error:
            logger.warning("A shared resource, %s, was not closed: %s.", self._label, error)

    def _forget(self) -> None:
        _open.discard(self)
        if _current.get(self._key) is self:
            del _current[self._key]

    @property
    def _label(self) -> str:
        return self.name.split(",")[0]  # what follows is what it is made from, keys perhaps


_Key = tuple[asyncio.AbstractEventLoop, str]
_current: dict[_Key, _Resource] = {}
_open: set[_Resource] = set()


def open_resources() -> list[str]:
    """Return the sorted names of the resources that this process is making, using or closing; as JSON if not text."""
    return sorted(resource.name for resource in list(_open))


async def _enter(stack: AsyncExitStack, make: Callable[[], Any]) -> Any:
    value = make()
    if hasattr(value, "__aenter__"):
        return await stack.enter_async_context(value)
    if inspect.isawaitable(value):
        value = await value
    close = getattr(value, "aclose", None) or getattr(value, "close", None)
    if close is not None:
        stack.push_async_callback(_call, close)
    return value


async def _call(close: Callable[[], Any]) -> None:
    result = close()
    if inspect.isawaitable(result):
        await result


@atexit.register
def _close_all() -> None:
    futures = [future for resource in list(_open) if (future := resource.close()) is not None]
    concurrent.futures.wait(futures, _CLOSING_SECONDS)


def _forget_after_fork() -> None:
    _current.clear()  # the parent's, on event loops that do not turn here
    _open.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
