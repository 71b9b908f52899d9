"""EngineActor: one engine for many processes, each with a client that batches its calls.

The protocol:

1. A client's `submit_and_poll` brings new requests. It returns as soon as any of the client's requests has an answer.
2. A client with new requests makes another call at once. The new call releases the waiting one, which may return empty.
   So only the newest call of a client waits.
3. Answers that arrive between two calls are kept in `finished`.
4. When the last of its calls has returned and requests are still open, the client calls again
   (`ActorEngine._exchange`). An earlier call that returns leaves this to the later ones.

If the actor's process ends, the waiting calls fail. Ray starts a new process with a new `EngineActor`, and its engine
starts with the next request. It cannot know which weights the old process had last, so it answers only after it has
received weights again.
"""

from __future__ import annotations

import asyncio
import os
import pickle
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gym_llm.concurrency.relaxed_gc import relax_gc
from gym_llm.engines import Capabilities, Engine, make_engine
from gym_llm.errors import EngineError
from gym_llm.records.failures import reason
from gym_llm.rollouts.ray.codec import pickle_each
from gym_llm.rollouts.ray.weight_files import written
from gym_llm.types import FailureKind, Request, ResponseDict
from gym_llm.utils.secrets import redact_streams

Answer: TypeAlias = ResponseDict | tuple[str, FailureKind]
"""Of a request: a response, or why there is none, and of what kind that is."""

_LOST_WEIGHTS = "The engine's process has ended, and with it the weights that it was given: give it them again."


@dataclass(slots=True)
class _Client:
    """What a client has asked for and was not given yet; `arrived` releases its newest call."""

    tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    finished: list[tuple[int, Answer]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)


class EngineActor:
    """An engine in a process of its own (an async Ray actor), answering `ActorEngine`s. Batches come and go pickled.

    Args:
        spec: The engine's.
        options: The engine's.
        name: The actor's, under which Ray's key-value store has whether its weights were replaced; "" for not there.
    """

    def __init__(self, spec: str, options: dict[str, Any], name: str = "") -> None:
        relax_gc()
        redact_streams()
        self._spec = spec
        self._options = options
        self._name = name
        self._engine: Engine | None = None
        self._starting: asyncio.Task[None] | None = None
        self._has_lost_weights = False
        self._clients: dict[str, _Client] = {}
        self._departed: set[str] = set()

    async def start(self) -> None:
        """Make and start the engine, if it is not there. Not in the constructor: Ray makes a text of what that raises.

        Raises:
            EngineUnavailable: If it cannot be used.
        """
        await self._started()

    async def describe(self) -> tuple[str, Capabilities, int]:
        """Return the name of the engine's model, the engine's capabilities, and the version of its weights."""
        engine = await self._started()
        return engine.model, engine.capabilities, engine.weight_version

    async def pid(self) -> int:
        """The process's number."""
        return os.getpid()

    async def submit_and_poll(self, client: str, batch: bytes) -> bytes:
        """Accept requests, and return the answers that are ready; the module describes the protocol.

        Args:
            client: Which client asks.
            batch: Pickled list of (number, request, episode id). A request of None cancels that number.

        Returns:
            Pickled list of pairs: a request's number, and its response or its error.
        """
        requests = pickle.loads(batch)
        if client in self._departed:  # a small call may overtake a large one
            return pickle.dumps([])
        asker = self._clients.setdefault(client, _Client())
        for number, request, episode_id in requests:
            if request is not None:
                asker.tasks[number] = asyncio.create_task(self._answer(asker, number, request, episode_id))
            elif task := asker.tasks.pop(number, None):
                task.cancel()
        asker.arrived.set()
        asker.arrived = arrived = asyncio.Event()
        if asker.tasks and not asker.finished:
            await arrived.wait()
        finished, asker.finished = asker.finished, []
        return pickle_each(finished, _cannot_be_sent)

    async def leave(self, client: str) -> None:
        """Forget a client and cancel its requests."""
        self._departed.add(client)
        if asker := self._clients.pop(client, None):
            for task in asker.tasks.values():
                task.cancel()
            asker.tasks.clear()
            asker.arrived.set()

    async def call(self, method: str, *args: Any, **options: Any) -> Any:
        """Call `score`, or one of `WeightSync`'s methods.

        `update_weights` takes a folder or `Files`, and returns the version of the new weights. `can_read` says whether
        a folder is here, `has_weights` whether the engine has the weights that it was given last.

        Raises:
            EngineError: If the engine's weights cannot be replaced, or are lost.
            Exception: The method's own exception.
        """
        if method == "can_read":
            return os.path.isdir(args[0])
        engine = await self._started()
        if method == "has_weights":
            return not self._has_lost_weights
        if method not in ("score", "update_weights", "sleep", "wake_up"):
            raise EngineError(f"An engine's process has no method {method}.")
        if method != "score" and not engine.capabilities.weights:
            raise EngineError(f"The weights of {self._spec} cannot be replaced: its engine has no WeightSync.")
        if method == "score" and self._has_lost_weights:
            raise EngineError(_LOST_WEIGHTS, failure_kind="kill_shaped")
        if method != "update_weights":
            return await getattr(engine, method)(*args, **options)
        with nullcontext(args[0]) if isinstance(args[0], str) else written(args[0]) as folder:
            await engine.update_weights(folder, **options)  # type: ignore[attr-defined]
        self._has_lost_weights = False
        if self._name:
            _note_version(self._name, engine.weight_version)
        return engine.weight_version

    async def aclose(self) -> None:
        """Close the engine."""
        if self._engine is not None:
            await self._engine.aclose()

    async def _started(self) -> Engine:
        if self._engine is None:
            if self._starting is None or self._starting.done():
                self._starting = asyncio.create_task(self._start())
            await asyncio.shield(self._starting)  # which others wait for, too
        assert self._engine is not None
        return self._engine

    async def _start(self) -> None:
        version = _noted_version(self._name) if self._name else None
        self._has_lost_weights = version is not None
        engine = make_engine(self._spec, **self._options)
        await engine.start()
        if version is not None:
            getattr(engine, "engine", engine).weight_version = version  # of an agent's engine: the model's
        self._engine = engine

    async def _answer(self, asker: _Client, number: int, request: Request, episode_id: str) -> None:
        answer: Answer
        try:
            engine = self._engine or await self._started()
            if self._has_lost_weights:
                raise EngineError(_LOST_WEIGHTS, failure_kind="kill_shaped")
            answer = await engine.respond(request, episode_id=episode_id)
        except EngineError as error:
            answer = str(error), error.failure_kind
        except (Exception, asyncio.CancelledError) as error:  # an engine's bug fails the episode, not the run
            answer = reason(error), EngineError.failure_kind
        if asker.tasks.pop(number, None) is not None:  # else nobody waits for it any more
            asker.finished.append((number, answer))
            asker.arrived.set()


def _note_version(name: str, version: int) -> None:
    from ray.experimental import internal_kv

    internal_kv._internal_kv_put(f"{name}'s version of the weights", b"%d" % version, overwrite=True)


def _noted_version(name: str) -> int | None:
    """Return the version of the weights that the actor was given last; None if it was given none."""
    from ray.experimental import internal_kv

    noted = internal_kv._internal_kv_get(f"{name}'s version of the weights")
    return None if noted is None else int(noted)


def _cannot_be_sent(finished: tuple[int, Answer], error: Exception) -> tuple[int, Answer]:
    return finished[0], (f"The engine's answer cannot be sent to another process: {error}", EngineError.failure_kind)
