"""Waiting for Ray: callers get an error within a second after Ray has ended, where Ray itself would wait.

After a raylet has died, Ray treats its shards as alive for 15 seconds, and searches for a machine for new ones without
end. After the GCS has died, Ray waits for a minute and then ends the process. So a thread here watches Ray's processes.
When one dies, the thread cancels what tasks wait for, as `asyncio.timeout` does. Waiting threads see it at their next
check.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from gym_llm.errors import RayUnavailable

_TURN = 0.5


def is_connected(ray: Any, address: str) -> bool:
    """Whether this process is connected to the Ray whose GCS is at this address."""
    try:
        return ray.is_initialized() and ray.get_runtime_context().gcs_address == address
    except AttributeError:  # another thread is shutting it down
        return False


class Watch:
    """Looks after a Ray.

    Args:
        ray: The module.
        address: Where its GCS is.
        find_loss: Says in a sentence that it is gone; None while it is there.
        period: Seconds between two looks.
        after_loss: Called then, in the watch's own thread.

    Attributes:
        lost: The sentence; None while it is there.
    """

    def __init__(
        self,
        ray: Any,
        address: str,
        find_loss: Callable[[], str | None],
        period: float,
        after_loss: Callable[[], None] | None = None,
    ) -> None:
        self.address = address
        self.lost: str | None = None
        self._ray = ray
        self._find_loss = find_loss
        self._period = period
        self._after_loss = after_loss
        self._waiting: set[asyncio.Task[Any]] = set()
        self._told: set[asyncio.Task[Any]] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, name="Ray's watch", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise RayUnavailable if it is gone."""
        if self.lost is not None:
            raise RayUnavailable(self.lost)

    def is_here(self) -> bool:
        """Whether it is there, and this process connected to it."""
        return self.lost is None and is_connected(self._ray, self.address)

    def get(self, ref: Any) -> Any:
        """`ray.get`, or RayUnavailable."""
        while True:
            self.check()
            try:
                return self._ray.get(ref, timeout=_TURN)
            except self._ray.exceptions.GetTimeoutError:
                pass

    def wait(self, refs: Sequence[Any], timeout: float | None, num_returns: int = 1) -> list[Any]:
        """Those of these references that are ready, as `ray.wait` finds them, or RayUnavailable."""
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            self.check()
            left = _TURN if deadline is None else max(0.0, min(_TURN, deadline - monotonic()))
            ready, _ = self._ray.wait(refs, num_returns=num_returns, timeout=left)
            if len(ready) >= num_returns or (deadline is not None and monotonic() >= deadline):
                return ready

    async def result(self, ref: Any) -> Any:
        """`await ref`, or RayUnavailable."""
        task = asyncio.current_task()
        assert task is not None, "outside of any task"
        self._waiting.add(task)
        try:
            self.check()  # not before: it could be lost in between
            return await ref
        except asyncio.CancelledError:
            if task in self._told and task.uncancel() == 0:
                self.check()
            raise
        finally:
            self._waiting.discard(task)
            self._told.discard(task)

    def stop(self, seconds: float = 0.0) -> None:
        """Look no more; wait so long for what is done after a loss."""
        self._stopped.set()
        self._thread.join(seconds)

    def _look(self) -> None:
        while not self._stopped.wait(self._period):
            if loss := self._find_loss():
                self._lose(loss)
                if self._after_loss is not None:
                    self._after_loss()
                return

    def _lose(self, sentence: str) -> None:
        self.lost = sentence
        for task in list(self._waiting):
            try:
                task.get_loop().call_soon_threadsafe(self._tell, task)
            except RuntimeError:  # its event loop is closed
                pass

    def _tell(self, task: asyncio.Task[Any]) -> None:
        if task in self._waiting and task not in self._told:
            self._told.add(task)
            task.cancel()
