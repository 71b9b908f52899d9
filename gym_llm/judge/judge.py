"""Judge: an engine that many episodes ask about answers, which asks it once for what they ask twice."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from gym_llm.data.files.jsonl import dumps
from gym_llm.engines import Engine
from gym_llm.errors import InfrastructureError, JudgeError
from gym_llm.judge.cache import FileCache, MemoryCache
from gym_llm.types import Item, ResponseDict


class Answer(NamedTuple):
    """What a judge said.

    Attributes:
        text: Its message, with the thinking that no parser has taken out.
        response: The response with only what is the same each time: no ids, no times, no reasoning items.
    """

    text: str
    response: dict[str, Any]


class Params(NamedTuple):
    """The fields of a judge's requests beside the messages, ready to be hashed."""

    fields: dict[str, Any]
    key: bytes
    greedy: bool

    @classmethod
    def read(cls, *fields: Mapping[str, Any]) -> Params:
        """Fields of several sources, later ones win; a null takes one away. The messages and the model are not here."""
        merged: dict[str, Any] = {}
        for each in fields:
            merged.update(each)
        kept = {name: value for name, value in merged.items() if value is not None and name not in ("input", "model")}
        return cls(kept, dumps(sorted(kept.items())), kept.get("temperature") == 0)


class Judge:
    """Asks an engine; used from one event loop, closed with `aclose`.

    Identical calls are one request, also while it is under way: in training the same answer ("42") comes a thousand
    times. What waits for it may be cancelled, and the others get their answer; the last to go ends the request.

    Args:
        engine: What is asked, started already; it stays open when the judge is closed.
        identity: What the answers depend on beside the request, e.g. the model: a part of their keys.
        concurrency: The most requests at a time.
        cache: Whether answers are kept; None for those of temperature 0, others being one sample of many.
        cache_file: An SQLite file for them, None for memory alone.
    """

    def __init__(
        self,
        engine: Engine,
        identity: str = "",
        *,
        concurrency: int = 64,
        cache: bool | None = None,
        cache_file: str | None = None,
    ) -> None:
        self.engine = engine
        self.cache = cache
        self.requests = 0
        self._identity = identity.encode()
        self._free = asyncio.Semaphore(concurrency)
        self._memory = MemoryCache()
        self._file = None if cache_file is None else FileCache(cache_file)
        self._flights: dict[bytes, _Flight] = {}

    async def ask(self, messages: list[Item], params: Params, *, sample: int = 0) -> Answer:
        """What the judge says to these messages.

        Args:
            messages: The conversation. Not changed.
            params: The request's other fields.
            sample: Which one of several answers to the same; each is asked for, and kept, once.

        Raises:
            JudgeError: If its engine fails.
        """
        if not (params.greedy if self.cache is None else self.cache):
            return await self._request(messages, params, "")
        # BLAKE2 is Python's own; a SHA-256 is OpenSSL's, which looks its algorithm up each time, for 20 times as long.
        asked = b"%b\n%b\n%d\n%b" % (self._identity, params.key, sample, dumps(messages))
        key = hashlib.blake2b(asked, digest_size=32).digest()
        answer: Answer | None = self._memory.get(key)
        if answer is not None:
            return answer
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.create_task(self._fetch(messages, params, key)))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        except JudgeError as error:
            # Everybody raises an error of their own: a traceback grows on the one that is raised.
            raise JudgeError(*error.args, failure_kind=error.failure_kind) from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if flight.task.cancelled() and task is not None and not task.cancelling():
                raise JudgeError("The judge was closed while it was asked.") from None
            raise
        finally:
            flight.waiting -= 1
            if not flight.waiting:
                flight.task.cancel()
                if self._flights.get(key) is flight:
                    del self._flights[key]

    async def aclose(self) -> None:
        """End what is under way and close the cache's file."""
        tasks = [flight.task for flight in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._file is not None:
            await self._file.aclose()

    async def _fetch(self, messages: list[Item], params: Params, key: bytes) -> Answer:
        kept = None if self._file is None else await self._file.get(key)
        if kept is not None:
            answer = Answer(_text(kept), kept)
        else:
            answer = await self._request(messages, params, key.hex()[:16])
            if self._file is not None:
                self._file.put(key, answer.response)
        self._memory.put(key, answer, len(answer.text))
        return answer

    async def _request(self, messages: list[Item], params: Params, name: str) -> Answer:
        async with self._free:
            self.requests += 1
            try:
                response = await self.engine.respond({"input": messages, **params.fields}, episode_id=name)  # type: ignore[typeddict-item]
            except JudgeError:
                raise
            except (InfrastructureError, OSError) as error:
                raise JudgeError(f"The judge gave no answer: {error}") from error
        if (response.get("incomplete_details") or {}).get("reason") == "context_length_exceeded":
            text = "The judge cannot be asked: the prompt with this answer in it is longer than its context."
            raise JudgeError(text, failure_kind="judge_unparseable")  # which another try would not change
        return _answer(response)


class _Flight:
    """A request under way, and how many wait for it."""

    __slots__ = ("task", "waiting")

    def __init__(self, task: asyncio.Task[Answer]) -> None:
        self.task = task
        self.waiting = 0


def _answer(response: ResponseDict) -> Answer:
    text = _last_message(response["output"])
    part = {"type": "output_text", "text": text, "annotations": []}
    kept: dict[str, Any] = {
        "object": "response",
        "model": response.get("model", ""),
        "status": response.get("status", "completed"),
        "output": [{"type": "message", "role": "assistant", "content": [part]}],
    }
    if details := response.get("incomplete_details"):
        kept["incomplete_details"] = details
    if usage := response.get("usage"):
        kept["usage"] = usage
    return Answer(text, kept)


def _last_message(items: list[Item]) -> str:
    for item in reversed(items):
        if item.get("type", "message") == "message":
            content = item.get("content")
            if isinstance(content, str):
                return content
            parts = content if isinstance(content, list) else []
            return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))
    return ""


def _text(kept: Any) -> str:
    text: str = kept["output"][0]["content"][0]["text"]
    return text
