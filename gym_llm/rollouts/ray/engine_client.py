"""ActorEngine: the client of an engine that lives in a Ray actor, for the processes that share it."""

from __future__ import annotations

import asyncio
import pickle
import uuid
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from gym_llm.engines.engine import Capabilities, Engine
from gym_llm.engines.scores import Scores
from gym_llm.engines.weights import UpdateMode, Weights, to_its_end, update_options, weights_folder
from gym_llm.errors import EngineError, EngineUnavailable, RayUnavailable
from gym_llm.records.failures import reason
from gym_llm.rollouts.ray.codec import first_line, pickle_each
from gym_llm.rollouts.ray.connection import ray_module, watch
from gym_llm.rollouts.ray.ray_health import Watch
from gym_llm.rollouts.ray.weight_files import WeightFiles
from gym_llm.types import FailureKind, Request, ResponseDict

_ATTEMPTS = 5
_PAUSE = 0.2
_DEATHS_IN_A_ROW = 5

_New: TypeAlias = tuple[int, Request | None, str]
"""A request's number, the request (None to cancel it), and its episode."""


class ActorEngine(Engine):
    """A client of an engine that lives in a Ray actor: `actor:NAME`, the name of an `EngineActor`.

    Requests of the same turn of the event loop travel together, and so do answers; `gym_llm.rollouts.ray.engine_actor`
    describes the protocol. If the actor's process ends, its open requests fail. Later requests wait for the new
    process, unless several processes end one after the other without an answer. A client can be pickled before it is
    started.
    """

    capabilities = Capabilities(weights=True)  # the rest is its engine's, known once it is started

    def __init__(self, name: str) -> None:
        self.model = ""
        self.name = name
        self._client = ""
        self._actor: Any = None
        self._loop: asyncio.AbstractEventLoop
        self._futures: dict[int, asyncio.Future[ResponseDict]] = {}
        self._numbers = 0
        self._new: list[_New] = []
        self._exchanges: set[asyncio.Task[None]] = set()
        self._flushing = False
        self._return: asyncio.Task[str | None] | None = None  # of the actor, whose process has ended; says why not
        self._deaths = 0
        self._watch: Watch | None = None

    async def start(self) -> None:
        """Find the actor.

        Raises:
            EngineUnavailable: If no actor has this name.
            RayUnavailable: If Ray is not installed.
        """
        ray = ray_module()
        self._loop = asyncio.get_running_loop()
        self._client = uuid.uuid4().hex  # not the one that others were pickled with, and none that has left
        try:
            self._actor = ray.get_actor(self.name)
            # Ray itself ends the processes of its actors.
            self._watch = None if ray.get_runtime_context().get_actor_id() else watch()
        except ValueError as error:
            raise EngineUnavailable(f"There is no engine actor {self.name!r} ({type(error).__name__}).") from None
        if reason := await self._come_back():
            self._actor = None
            raise EngineUnavailable(reason)

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one request; see `Engine.respond`."""
        self._started()
        if self._return is not None and (reason := await asyncio.shield(self._return)):
            raise EngineUnavailable(reason)
        number = self._numbers = self._numbers + 1
        future = self._futures[number] = self._loop.create_future()
        self._new.append((number, request, episode_id))
        self._flush_soon()
        try:
            return await future
        except asyncio.CancelledError:
            self._new.append((number, None, ""))
            self._flush_soon()
            raise
        finally:
            del self._futures[number]

    async def score(self, ids: Sequence[int], *, top_k: int = 0, adapter: str | None = None) -> Scores:
        """Return the log probabilities of a row; see `Engine.score`."""
        return cast(Scores, await self._call("score", list(ids), top_k=top_k, adapter=adapter))

    async def update_weights(self, weights: Weights, *, mode: UpdateMode = "wait", version: int | None = None) -> None:
        """See `WeightSync`. An actor that cannot read their folder gets the weights over Ray's object store."""
        with weights_folder(weights) as folder:
            await to_its_end(self.update_from(WeightFiles(folder), update_options(mode, version)))

    async def update_from(self, files: WeightFiles, options: dict[str, Any]) -> None:
        """Replace the weights by those of files; the options are those of `update_weights`."""
        if await self._can_read(files.folder):
            self.weight_version = await self._call("update_weights", files.folder, **options)
        else:
            self.weight_version = await self._call("update_weights", await files.put(), **options)

    async def sleep(self, level: int = 1) -> None:
        """See `WeightSync`."""
        await self._call("sleep", level)

    async def wake_up(self) -> None:
        """See `WeightSync`."""
        await self._call("wake_up")

    async def has_weights(self) -> bool:
        """Whether the actor's process answers, and has the weights that the actor was given last."""
        return cast(bool, await self._call("has_weights"))

    async def aclose(self) -> None:
        """Let go of the actor, which goes on; requests under way are cancelled."""
        import ray

        actor, self._actor = self._actor, None
        if actor is None:
            return
        for exchange in list(self._exchanges):
            exchange.cancel()
        self._return = None  # it sees that the actor is not this client's any more
        self._exchanges.clear()
        self._fail("The engine's client was closed.")
        try:
            await self._result(actor.leave.remote(self._client))
        except (RayUnavailable, ray.exceptions.RayError):
            pass  # the actor has ended, and so has whatever was under way

    async def _can_read(self, folder: str) -> bool:
        return cast(bool, await self._call("can_read", folder))

    async def _call(self, method: str, *args: Any, **options: Any) -> Any:
        import ray

        try:
            return await self._result(self._started().call.remote(method, *args, **options))
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise EngineError(_failed(error)) from None

    def _started(self) -> Any:
        if self._actor is None:
            raise EngineError(f"The client of engine actor {self.name!r} is not started: use `async with engine`.")
        return self._actor

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._actor is None:
            return
        new, self._new = self._new, []
        self._exchanges.add(asyncio.create_task(self._exchange(pickle_each(new, self._cannot_be_sent))))

    def _cannot_be_sent(self, new: _New, error: Exception) -> None:
        future = self._futures.get(new[0])
        if future is not None and not future.done():
            future.set_exception(EngineError(f"The request cannot be sent to the engine's process: {error}"))

    async def _result(self, ref: Any) -> Any:
        return await (ref if self._watch is None else self._watch.result(ref))

    async def _exchange(self, batch: bytes) -> None:
        import ray

        try:
            finished = pickle.loads(await self._result(self._actor.submit_and_poll.remote(self._client, batch)))
        except Exception as error:  # an answer that cannot be read here, too: whoever waits would wait for ever
            if not isinstance(error, ray.exceptions.RayActorError | RayUnavailable):
                self._fail(_failed(error))
                return
            if self._return is None:
                self._deaths += 1
                self._return = asyncio.create_task(self._come_back())
            self._fail(_failed(error), "kill_shaped")
            return
        finally:
            # Now, not in a callback of the task: that comes a turn of the event loop later, in which another exchange
            # may come back, too, and each would leave it to the other to ask again.
            self._exchanges.discard(cast("asyncio.Task[None]", asyncio.current_task()))
        if finished:
            self._deaths = 0
        for number, answer in finished:
            future = self._futures.get(number)
            if future is None or future.done():
                continue
            if isinstance(answer, tuple):
                future.set_exception(EngineError(answer[0], failure_kind=answer[1]))
            else:
                future.set_result(answer)
        # Whoever waits is served by the newest exchange; the last to come back asks again.
        if not self._exchanges and any(not future.done() for future in self._futures.values()):
            self._flush_soon()

    async def _come_back(self) -> str | None:
        """Wait for the actor, of which Ray starts a new process when one has ended; says why there is none."""
        import ray

        if self._deaths >= _DEATHS_IN_A_ROW:
            return f"The engine's process has ended {self._deaths} times in a row without an answer."
        actor, failures = self._actor, 0
        while self._actor is actor:
            try:
                described = await self._result(actor.describe.remote())
                self.model, self.capabilities, self.weight_version = described
                self._return = None
                return None
            except ray.exceptions.ActorUnavailableError:
                await asyncio.sleep(_PAUSE)
            except RayUnavailable as error:
                return str(error)
            except ray.exceptions.RayTaskError as error:  # e.g. because the memory of the last one is not free yet
                failures += 1
                if failures == _ATTEMPTS:
                    return f"The engine cannot be started in a new process: {error.cause}"
                await asyncio.sleep(2**failures)
            except ray.exceptions.RayError as error:
                return f"There is no engine actor {self.name!r} ({type(error).__name__})."
        return "The engine's client was closed."

    def _fail(self, reason: str, failure_kind: FailureKind | None = None) -> None:
        for future in self._futures.values():
            if not future.done():
                future.set_exception(EngineError(reason, failure_kind=failure_kind))


def _failed(error: Exception) -> str:
    from ray.exceptions import RayError, RayTaskError

    if isinstance(error, RayTaskError) or not isinstance(error, RayError):
        cause = error.cause if isinstance(error, RayTaskError) else error
        return f"An exchange with the engine's actor failed: {reason(cause)}"
    return f"The engine's actor has ended: {first_line(error)}"
