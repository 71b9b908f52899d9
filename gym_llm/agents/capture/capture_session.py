"""CaptureSession: the model calls of one agent, in one episode, to the token."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any

from gym_llm.agents.capture.call_graph import Call, CallGraph
from gym_llm.agents.capture.token_recall import Recall
from gym_llm.engines.engine import Engine
from gym_llm.engines.sampling import check_sampling
from gym_llm.errors import EngineError
from gym_llm.protocols.dialect import Refusal
from gym_llm.protocols.responses.token_fields import without_tokens
from gym_llm.records.failures import reason
from gym_llm.tokens.weight_versions import each_version
from gym_llm.types import CONSTRAINED, ROUTED_EXPERTS, TOKEN_FIELDS, WEIGHT_VERSIONS, Item, Request, ResponseDict
from gym_llm.utils.json_codec import dumps

MOST_CALLS = 10_000
"""Calls that a session takes, unless it says otherwise."""
MOST_BYTES = 1 << 28
"""About how much memory a session's calls take at most, in bytes."""

_TOKEN_BYTES = 8


class CallRefused(Refusal):
    """Raised for a call that the session does not make, whatever its request.

    Its `code` is `max_model_calls`, `session_full`, `session_closed` or `context_length_exceeded`.
    """


class CaptureSession:
    """Stands between an agent and an engine, and keeps every call.

    The agent may retry, make several calls at once, and shorten or rephrase its history. The session sends the
    unchanged parts to the engine with the ids that were sampled (`token_recall.py`). Each call continues the call with
    whose tokens its prompt begins (`call_graph.py`). `trajectory` is the result for a trainer.

    Only answers that the agent received are trained on. A call that failed has no tokens. An answer that was not
    delivered, because the client disconnected or its stream broke, is in `calls` but not in the trajectory. Neither are
    calls of other models than the policy.

    Args:
        engine: The policy: started, and closed by its owner.
        id: The key of the agents; None for a new random one. The id is the right to ask the engine.
        episode_id: The episode id for the engine (sampling, cache); None for the session's id. Further conversations
            and retries get names after it, so that no two sample the same numbers.
        others: More engines, by the model name with which an agent asks for them. Any other name is the policy.
        sampling: Fields of a request (`temperature`, `top_p`, `max_output_tokens`, ...) that replace the agent's; for
            the policy only.
        defaults: Fields for requests that do not have them.
        max_model_calls: The most calls; None for no limit.
        max_calls: The most calls that are kept. Further calls are refused.
        max_bytes: About the most memory of the calls, in bytes.
        metadata: Any values of the caller.

    Attributes:
        calls: All calls, in the order of their requests.
        graph: The links between the policy's calls.
        under_way: The number of calls that are being answered.
        used: The monotonic time of the last call's begin or end, in seconds.
        is_closed: Whether no more calls are made.
        budget_stops: How often the agent was stopped because it had made all its calls.

    Raises:
        ValueError: If `sampling` or `defaults` are invalid.

    >>> import asyncio
    >>> from gym_llm.engines import make_engine
    >>> session = CaptureSession(make_engine("constant:4"))
    >>> asyncio.run(session.call({"input": [{"role": "user", "content": "2+2?"}]}))["output"][0]["content"][0]["text"]
    '4'
    >>> len(session.calls), session.trajectory()
    (1, None)
    """

    def __init__(
        self,
        engine: Engine,
        *,
        id: str | None = None,
        episode_id: str | None = None,
        others: Mapping[str, Engine] | None = None,
        sampling: Mapping[str, Any] | None = None,
        defaults: Mapping[str, Any] | None = None,
        max_model_calls: int | None = None,
        max_calls: int = MOST_CALLS,
        max_bytes: int = MOST_BYTES,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.engine = engine
        self.id = secrets.token_urlsafe(24) if id is None else id
        self.episode_id = self.id if episode_id is None else episode_id
        self.others = dict(others or {})
        self.sampling, self.defaults = _checked("sampling", sampling), _checked("defaults", defaults)
        self.max_model_calls, self.max_calls, self.max_bytes = max_model_calls, max_calls, max_bytes
        self.metadata = dict(metadata or {})
        self.calls: list[Call] = []
        self.graph = CallGraph()
        self.under_way = 0
        self.created, self.used = time.time(), time.monotonic()
        self.is_closed = False
        self.budget_stops = 0
        self._recall = Recall()
        self._bytes = 0
        self._lines = 0
        self._free_lines: list[str] = []

    @property
    def size(self) -> int:
        """About how many bytes the calls take."""
        return self._bytes

    def trajectory(self) -> list[dict[str, Any]] | None:
        """Return one entry for each branch of the policy's calls so far; see `CallGraph.trajectory`."""
        return self.graph.trajectory()

    def close(self) -> None:
        """Make no more calls. Those under way are answered; what was kept stays."""
        self.is_closed = True

    async def call(self, request: Request, *, model: str | None = None) -> ResponseDict:
        """Answer a request of an agent in this process; the returned answer counts as delivered.

        Args:
            request: As for an engine. Its token fields are ignored.
            model: A name of `others`; anything else is the policy.

        Returns:
            The engine's response, with its token ids.

        Raises:
            CallRefused: If no more calls are made.
            EngineError: If the engine cannot answer.
        """
        return (await self.ask(request, model=model))[1]

    async def ask(self, request: Request, *, model: str | None = None, dialect: str = "") -> tuple[Call, ResponseDict]:
        """Answer as `call` does, for servers: `dialect` is the API. Return the call, too, for `withdraw`."""
        self._check_room()
        other = self.others.get(model) if model is not None else None
        asked: Request = {**request, "input": _items(request)}
        if other is None:
            asked, previous, state = self._recall.give_back(asked)
            asked = _over(self.sampling, _over(asked, self.defaults))
        else:  # the policy's ids would be other words to it
            asked, previous, state = {**asked, "input": [without_tokens(item) for item in asked["input"]]}, None, 0
        call = Call(
            index=len(self.calls),
            model=(other or self.engine).model,
            is_policy=other is None,
            dialect=dialect,
            request=asked,
            previous=previous,
            line=self._line(previous),
            state=state,
            started=time.time(),
        )
        self.calls.append(call)
        self.under_way += 1
        try:
            response = await (other or self.engine).respond(asked, episode_id=self.episode_id + call.line)
            self._keep(call, response)
        except EngineError as error:
            call.status, call.error = "failed", str(error)
            raise
        except BaseException as error:
            call.status, call.error = "abandoned", reason(error)
            raise
        finally:
            if call.status != "answered":
                self.graph.remove(call)  # what it had, should some of its answer be wrong
                self._give_line_back(call)
            self._shorten(call)
            self.under_way -= 1
            call.ended, self.used = time.time(), time.monotonic()
        return call, response

    def withdraw(self, call: Call) -> None:
        """Mark a call's answer as not delivered: it is not trained on, unless another call continues it."""
        self._recall.forget(call)
        self.graph.remove(call)
        if not call.samples:
            call.status, call.error = "abandoned", "The answer was not delivered."

    # ------------------------------------------------------------------------------------------------------------------

    def _check_room(self) -> None:
        if self.is_closed:
            raise CallRefused("The session has ended.", 401, code="session_closed")
        if self.max_model_calls is not None and len(self.calls) >= self.max_model_calls:
            raise CallRefused(f"This session has {self.max_model_calls:,} model calls.", code="max_model_calls")
        if len(self.calls) >= self.max_calls:
            raise CallRefused(f"A session keeps {self.max_calls:,} model calls.", code="session_full")
        if self._bytes > self.max_bytes:
            raise CallRefused(f"A session keeps {self.max_bytes:,} bytes of model calls.", code="session_full")

    def _keep(self, call: Call, response: ResponseDict) -> None:
        call.status = "answered"
        output: list[Item] = []
        for item in response["output"]:
            prompt, sampled, log_probs = (item.get(name) for name in TOKEN_FIELDS)
            if prompt is None or sampled is None or log_probs is None:
                output.append(item)
                continue
            output.append(without_tokens(item))
            if not call.is_policy:
                continue
            try:
                runs = item.get(WEIGHT_VERSIONS)
                versions = None if runs is None else each_version(runs, len(sampled))
                marks: Any = {"is_constrained": item.get(CONSTRAINED) is True, "versions": versions}
                if isinstance(experts := item.get(ROUTED_EXPERTS), str):
                    marks["experts"] = experts
                    self._bytes += len(experts)
                sample = self.graph.add(call, prompt, sampled, log_probs, **marks)
            except ValueError as error:
                raise EngineError(f"{call.model} gave invalid tokens: {error}.") from None
            if sample is not None:
                self._bytes += sample.ids_kept * _TOKEN_BYTES
        call.response = {**response, "output": output}
        self._bytes += len(dumps(output))
        if call.is_policy:
            self._recall.remember(call)

    def _shorten(self, call: Call) -> None:
        """Share what a call's request has in common with the call before, and count the rest; take its tokens off."""
        before: Request = {} if call.previous is None else call.previous.request
        known = [*before.get("input", ()), *(() if call.previous is None else call.previous.output)]
        items: list[Item] = []
        new: list[Any] = []
        for index, item in enumerate(call.request["input"]):
            item = without_tokens(item)
            if index < len(known) and (known[index] is item or known[index] == item):
                item = known[index]
            else:
                new.append(item)
            items.append(item)
        call.request = {**call.request, "input": items}
        for name, value in call.request.items():
            if name != "input" and value == before.get(name):
                call.request[name] = before[name]  # type: ignore[literal-required]
            elif name != "input":
                new.append(value)
        self._bytes += len(dumps(new)) + 16 * len(items)

    def _line(self, previous: Call | None) -> str:
        if previous is not None and not previous.is_continued:
            previous.is_continued = True
            return previous.line
        if self._free_lines:
            return self._free_lines.pop()
        self._lines += 1
        return f"~{self._lines - 1}" if self._lines > 1 else ""

    def _give_line_back(self, call: Call) -> None:
        if call.previous is not None and call.previous.line == call.line:
            call.previous.is_continued = False
        else:
            self._free_lines.append(call.line)


def _items(request: Request) -> list[Item]:
    items: Any = request["input"]
    return [{"role": "user", "content": items}] if isinstance(items, str) else items


def _over(upper: Mapping[str, Any], lower: Mapping[str, Any]) -> Any:
    return {**lower, **{name: value for name, value in upper.items() if value is not None}}


def _checked(what: str, fields: Mapping[str, Any] | None) -> dict[str, Any]:
    known = dict(fields or {})
    if not known.keys().isdisjoint(("input", "tools", "instructions")):
        raise ValueError(f"{what} is about sampling: it has no input, tools or instructions.")
    try:
        check_sampling(known)  # type: ignore[arg-type]
    except EngineError as error:
        raise ValueError(f"{what}: {error}") from None
    return known
