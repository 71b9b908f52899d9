"""EngineActor: one engine for many processes, each of which has a client that batches its calls."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import dataclass, field
from typing import Any

from gym_llm.concurrency.garbage import collect_rarely
from gym_llm.engines import make_engine
from gym_llm.engines.base import Engine
from gym_llm.errors import EngineError
from gym_llm.types import Request, ResponseDict


@dataclass(slots=True)
class _Client:
    """What a client has asked for and was not given yet; `arrived` is for its newest call to wait for."""

    tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    finished: list[tuple[int, ResponseDict | str]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)


class EngineActor:
    """An engine in a process of its own (an async Ray actor), answering `ActorEngine`s. Batches come and go pickled.

    Args:
        spec: Which engine; see `make_engine`.
        options: Its options.
    """

    def __init__(self, spec: str, options: dict[str, Any]) -> None:
        collect_rarely()
        self._spec = spec
        self._options = options
        self._engine: Engine | None = None
        self._clients: dict[str, _Client] = {}
        self._left: set[str] = set()

    async def start(self) -> str:
        """Start the engine, and say what its model is called.

        Raises:
            Exception: What `make_engine` and the engine's `start` raise.
        """
        # Not in the constructor: what that raises Ray turns into a text.
        self._engine = make_engine(self._spec, **self._options)
        await self._engine.start()
        return self._engine.model

    async def model(self) -> str:
        """What the engine's model is called."""
        assert self._engine is not None, "model before start"
        return self._engine.model

    async def exchange(self, client: str, batch: bytes) -> bytes:
        """Take requests, and give back answers that are ready.

        Args:
            client: Which client asks.
            batch: Pickled pair: new requests as (number, request, episode id), and numbers that nobody waits for any
                more. The call lasts until an answer is there, the client has no request left, or its next call comes.

        Returns:
            Pickled list of pairs: a request's number, and its response, or why there is none.
        """
        requests, dropped = pickle.loads(batch)
        if client in self._left:  # a small call may overtake a large one
            return pickle.dumps([])
        asker = self._clients.setdefault(client, _Client())
        for number, request, episode_id in requests:
            asker.tasks[number] = asyncio.create_task(self._answer(asker, number, request, episode_id))
        for number in dropped:
            if task := asker.tasks.pop(number, None):
                task.cancel()
        asker.arrived.set()
        asker.arrived = arrived = asyncio.Event()
        if asker.tasks and not asker.finished:
            await arrived.wait()
        finished, asker.finished = asker.finished, []
        try:
            return pickle.dumps(finished, pickle.HIGHEST_PROTOCOL)
        except Exception:  # whatever an answer's object raises; the others are fine
            return pickle.dumps([_picklable(*each) for each in finished], pickle.HIGHEST_PROTOCOL)

    async def leave(self, client: str) -> None:
        """Forget a client and cancel its requests."""
        self._left.add(client)
        if asker := self._clients.pop(client, None):
            for task in asker.tasks.values():
                task.cancel()
            asker.tasks.clear()
            asker.arrived.set()

    async def call(self, method: str, *args: Any) -> Any:
        """Call one of the engine's own methods, e.g. `update_weights`."""
        return await getattr(self._engine, method)(*args)

    async def aclose(self) -> None:
        """Close the engine."""
        if self._engine is not None:
            await self._engine.aclose()

    async def _answer(self, asker: _Client, number: int, request: Request, episode_id: str) -> None:
        assert self._engine is not None, "exchange before start"
        answer: ResponseDict | str
        try:
            answer = await self._engine.respond(request, episode_id=episode_id)
        except EngineError as error:
            answer = str(error)
        except (Exception, asyncio.CancelledError) as error:  # an engine's bug fails the episode, not the run
            answer = f"{type(error).__name__}: {error}"
        if asker.tasks.pop(number, None) is not None:  # else nobody waits for it any more
            asker.finished.append((number, answer))
            asker.arrived.set()


def _picklable(number: int, answer: ResponseDict | str) -> tuple[int, ResponseDict | str]:
    try:
        pickle.dumps(answer)
        return number, answer
    except Exception as error:  # whatever its object raises
        return number, f"The engine's answer cannot be sent to another process: {error}"
