"""Judge: an engine that grades answers for many episodes, with votes, retries and a cache.

A verdict is made in these steps, each a method of `Judge`. `verdict` counts the votes and exchanges the answers.
`_vote` asks again until an answer is complete and its verdict can be read. `ask` looks into the cache and joins an
identical request under way. `_request` waits for a free place and calls the engine.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from gym_llm.concurrency.answered_once import answered_once, current_memory
from gym_llm.engines import Engine
from gym_llm.errors import InfrastructureError, JudgeError
from gym_llm.judge.answers import Answer
from gym_llm.judge.cache import FileCache, MemoryCache
from gym_llm.judge.verdicts import Labels, Parser
from gym_llm.judge.withdrawn import deciding_part, without_copies
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import Item
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.text import excerpt

FAILS: Final = object()
"""The value of `unparsable` with which an unreadable verdict is the judge's failure, and not a reward."""


@dataclass(slots=True)
class Judgement:
    """A judge's decision.

    Attributes:
        value: What the parser read; `unparsable` if it could not.
        text: The judge's text, with its thinking; of several votes one that decided.
        swap_failed: Whether the verdict was true first, and not when the two answers had changed their places.
    """

    value: Any
    text: str
    swap_failed: bool = False


class Params(NamedTuple):
    """Fields of a judge's requests beside the messages, with the bytes that are hashed."""

    fields: dict[str, Any]
    key: bytes
    greedy: bool

    @classmethod
    def read(cls, *fields: Mapping[str, Any]) -> Params:
        """Merge fields of several sources, without messages and model: later ones win, and null removes one."""
        merged: dict[str, Any] = {}
        for each in fields:
            merged.update(each)
        kept = {name: value for name, value in merged.items() if value is not None and name not in ("input", "model")}
        return cls(kept, dumps(sorted(kept.items())), kept.get("temperature") == 0)


_NO_PARAMS: Final = Params.read()


class _Question(NamedTuple):
    parse: Parser
    params: Params
    votes: int
    retries: int
    unparsable: Any
    empty_fails: bool
    as_read: Callable[[str], str] | None

    def text(self, answer: Answer) -> str:
        """Return the text that the judgement has."""
        return answer.text if self.as_read is None else self.as_read(answer.text)

    def value(self, messages: list[Item], answer: Answer) -> Any:
        """Return the verdict; None if the answer is incomplete, or the verdict cannot be read."""
        if self.as_read is not None:  # as NeMo Gym does, which reads incomplete answers too
            return self.parse(self.as_read(answer.text))
        if answer.problem:
            return None
        said = strip_thinking(answer.text)
        return self.parse(deciding_part(without_copies(said, map(_text_of, messages))))

    def usable(self, messages: list[Item], answer: Answer) -> bool:
        """Whether a cache may keep the answer, since asking again would not help."""
        return self.as_read is not None or self.value(messages, answer) is not None


def _text_of(message: Item) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(str(part.get("text") or "") for part in content)


def _is_complete(answer: Answer) -> bool:
    return not answer.problem


class Judge:
    """A grader behind an engine. It belongs to one event loop, and is closed with `aclose`.

    Identical calls are one request, also while it is under way: in training the same answer ("42") comes a thousand
    times. A caller may be cancelled, and the others get their answer; the last one to leave ends the request.

    Args:
        engine: The engine, started already; it stays open when the judge is closed.
        identity: What the answers depend on beside the request, e.g. the model: a part of their keys.
        concurrency: The most requests at a time.
        cache: Whether answers are cached; None for those of temperature 0, since others are one sample of many.
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

    async def verdict(
        self,
        messages: list[Item],
        parse: Parser,
        params: Params = _NO_PARAMS,
        *,
        votes: int = 1,
        retries: int = 1,
        swapped: list[Item] | None = None,
        unparsable: Any = FAILS,
        empty_fails: bool = False,
        as_read: Callable[[str], str] | None = None,
        calls: list[dict[str, Any]] | None = None,
    ) -> Judgement:
        """Return the judge's verdict.

        Args:
            messages: The question. Not changed.
            parse: Reads the judge's text, without its thinking; None means that it cannot be read.
            params: The requests' other fields.
            votes: How often the judge is asked. The most frequent verdict counts; a draw of true and false is false,
                and any other draw is unreadable.
            retries: How often it is asked again for an incomplete answer, or for a verdict that cannot be read.
            swapped: The question with the two answers exchanged. A true verdict has to be true for it, too.
            unparsable: The value of a complete answer whose verdict cannot be read after the retries; `FAILS` raises a
                JudgeError. An incomplete answer always raises one.
            empty_fails: With `as_read`: whether an empty text raises a JudgeError even so.
            as_read: Makes of the judge's text the one that `parse` reads and the judgement has, as NeMo Gym does:
                incomplete answers are read, too. None as said above.
            calls: A list to which the record of each call is appended.

        Raises:
            JudgeError: If the engine fails, the answer is incomplete, or the verdict cannot be read.
        """
        question = _Question(parse, params, votes, retries, unparsable, empty_fails, as_read)
        calls = [] if calls is None else calls
        judgement = await self._poll(messages, question, calls)
        if swapped is not None and judgement.value:
            again = await self._poll(swapped, question, calls)
            if not again.value:
                return Judgement(False, again.text, swap_failed=True)
        return judgement

    async def _poll(self, messages: list[Item], question: _Question, calls: list[dict[str, Any]]) -> Judgement:
        if question.votes == 1:
            return await self._vote(messages, question, 0, calls)
        ballots: list[list[dict[str, Any]]] = [[] for _ in range(question.votes)]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._vote(messages, question, number, ballot))
                    for number, ballot in enumerate(ballots)
                ]
        except* JudgeError as failures:
            raise failures.exceptions[0] from None
        for ballot in ballots:
            calls.extend(ballot)
        judgements = [task.result() for task in tasks]
        votes = [repr(judgement.value) for judgement in judgements]  # a value may be a dict
        (vote, most), *others = Counter(votes).most_common(2)
        if not others or others[0][1] < most:
            return judgements[votes.index(vote)]
        if all(isinstance(judgement.value, bool) for judgement in judgements):
            return Judgement(False, judgements[0].text)
        if question.unparsable is FAILS:
            raise JudgeError("The judge's votes are a draw.", failure_kind="judge_unparseable")
        return Judgement(question.unparsable, judgements[0].text)

    async def _vote(
        self, messages: list[Item], question: _Question, vote: int, calls: list[dict[str, Any]]
    ) -> Judgement:
        parse, params = question.parse, question.params
        for retry in range(1 + question.retries):
            sample = vote + retry * question.votes
            answer = await self.ask(messages, params, sample=sample, usable=partial(question.usable, messages))
            value = question.value(messages, answer)
            calls.append(
                {
                    "responses_create_params": {"input": messages, **params.fields},
                    "response": answer.response,
                    "verdict_label": parse.name_of(value) if isinstance(parse, Labels) else value,
                }
            )
            if value is not None:
                return Judgement(value, question.text(answer))
        return _unreadable(answer, question)

    async def ask(
        self,
        messages: list[Item],
        params: Params,
        *,
        sample: int = 0,
        usable: Callable[[Answer], bool] = _is_complete,
    ) -> Answer:
        """Return the judge's answer to these messages; of a durable episode, the one that it has had before.

        Args:
            messages: The conversation. Not changed.
            params: The request's other fields.
            sample: The number of one of several answers to the same messages; each is requested and cached once.
            usable: Whether an answer is cached. Without, a request that failed once would fail for ever.

        Raises:
            JudgeError: If the engine fails.
        """
        if current_memory() is None:
            return await self._ask(messages, params, sample, usable)
        asked = [self._identity.decode(), params.key.decode(), sample, messages]
        return await answered_once(
            "judge",
            asked,
            lambda: self._ask(messages, params, sample, usable),
            encode=lambda answer: answer.response,
            decode=Answer.read,
        )

    async def _ask(self, messages: list[Item], params: Params, sample: int, usable: Callable[[Answer], bool]) -> Answer:
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
            flight = self._flights[key] = _Flight(asyncio.create_task(self._fetch(messages, params, key, usable)))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        except JudgeError as error:
            # Each caller raises an error of its own: a traceback grows on the one that is raised.
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
        """Cancel the requests under way and close the cache's file."""
        tasks = [flight.task for flight in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._file is not None:
            await self._file.aclose()

    async def _fetch(
        self, messages: list[Item], params: Params, key: bytes, usable: Callable[[Answer], bool]
    ) -> Answer:
        kept = None if self._file is None else await self._file.get(key)
        if kept is not None and usable(answer := Answer.read(kept)):
            self._memory.put(key, answer, len(answer.text))
            return answer
        answer = await self._request(messages, params, key.hex()[:16])
        if usable(answer):
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
        return Answer.read(response)


@dataclass(slots=True)
class _Flight:
    """A request under way, and the number of callers that wait for it."""

    task: asyncio.Task[Answer]
    waiting: int = 0


def _unreadable(answer: Answer, question: _Question) -> Judgement:
    """Return the judgement without a verdict, or raise a JudgeError."""
    text = question.text(answer)
    if question.as_read is None and answer.problem:
        raise JudgeError(answer.problem, failure_kind="judge_unparseable")
    if question.empty_fails and not text.strip():
        raise JudgeError("The judge said nothing.")
    if question.unparsable is FAILS:
        said = excerpt(answer.text[-200:], 200) if answer.text.strip() else "nothing"
        raise JudgeError(f"The judge's verdict cannot be read: {said}", failure_kind="judge_unparseable")
    return Judgement(question.unparsable, text)
