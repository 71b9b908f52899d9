"""Traces of episodes, for any OpenTelemetry collector: spans `episode`, `turn`, `tool` and `verify`.

Attributes are those of the GenAI semantic conventions (https://opentelemetry.io/docs/specs/semconv/gen-ai/), and
`gym_llm.…` where these have none. Messages are not among them.

An episode's trace is an engine around the episode's engine, so it sees each request and response. The environment's
tools and `verify` are wrapped once, and notify the trace of the current episode.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import gymnasium as gym
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from gym_llm.engines import Engine
from gym_llm.engines.engine import EpisodeReport
from gym_llm.errors import UsageError
from gym_llm.records.failures import reason
from gym_llm.rollouts.plan import Job
from gym_llm.types import Request, ResponseDict, Rollout
from gym_llm.utils.secrets import redact
from gym_llm.version import __version__

_QUEUE, _BATCH, _DELAY_MS, _EXPORT_SECONDS = 65_536, 2_048, 500, 10


class Tracing:
    """Traces the episodes of a run: `RolloutSettings(tracing=Tracing("http://localhost:4318"))`, or `--otel`.

    It can be sent to other processes, each of which then exports its own. OpenTelemetry's environment variables hold,
    e.g. `OTEL_EXPORTER_OTLP_HEADERS`, and `OTEL_TRACES_SAMPLER=traceidratio` with `OTEL_TRACES_SAMPLER_ARG=0.01`.

    Args:
        endpoint: A collector's address, over HTTP; without a path `/v1/traces` is added.

    Raises:
        UsageError: If the address is invalid.
    """

    def __init__(self, endpoint: str) -> None:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise UsageError(
                f"--otel is a collector's address such as http://localhost:4318, got {redact(endpoint)!r}."
            )
        self.endpoint = endpoint if parts.path.strip("/") else f"{endpoint.rstrip('/')}/v1/traces"
        self._environments: WeakKeyDictionary[Any, _Hooks] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        """To another process goes the address alone."""
        return {"endpoint": self.endpoint}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """In another process."""
        self.endpoint = state["endpoint"]
        self._environments = WeakKeyDictionary()

    def episode(self, env: gym.Env[Any, Any], engine: Engine, job: Job) -> EpisodeTrace:
        """Begin the trace of an episode that is about to be played."""
        return EpisodeTrace(
            _provider(self.endpoint).get_tracer("gym_llm", __version__), self, env.unwrapped, engine, job
        )

    def flush(self) -> None:
        """Have everything arrive that has ended, if it does within ten seconds."""
        _provider(self.endpoint).force_flush(_EXPORT_SECONDS * 1000)

    def hooks(self, verifier: Any) -> _Hooks:
        """Return the wrapped hooks of an environment; wrap them first if necessary."""
        if (hooks := self._environments.get(verifier)) is None:
            hooks = self._environments[verifier] = _Hooks(verifier)
        return hooks


@functools.cache
def _provider(endpoint: str) -> TracerProvider:
    provider = TracerProvider(resource=Resource.create({"service.name": "gym_llm", "service.version": __version__}))
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=_EXPORT_SECONDS)
    provider.add_span_processor(
        BatchSpanProcessor(
            exporter, max_queue_size=_QUEUE, max_export_batch_size=_BATCH, schedule_delay_millis=_DELAY_MS
        )
    )
    return provider


class EpisodeTrace:
    """An episode's spans. `play_episode` gets it in place of the engine, which it asks."""

    def __init__(self, tracer: Tracer, tracing: Tracing, verifier: Any, engine: Engine, job: Job) -> None:
        self._tracer = tracer
        self._tracing = tracing
        self._verifier = verifier
        self._engine = engine
        self._turn: Span | None = None
        self._turns = 0
        self._span = tracer.start_span(
            "episode",
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.conversation.id": job.episode_id,
                "gym_llm.task_index": job.task_index,
                "gym_llm.repeat_index": job.repeat_index,
            },
        )
        self._parent = trace.set_span_in_context(self._span)

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Ask the engine, in a span `turn` that lasts until the next one."""
        self._end_turn()
        self._turns += 1
        self._tracing.hooks(self._verifier.playing).trace = self
        engine = self._engine
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "gym_llm",
            "gen_ai.request.model": engine.model,
            "gym_llm.turn": self._turns,
        }
        for field, name in _REQUEST.items():
            if isinstance(value := request.get(field), int | float):
                attributes[name] = value
        turn = self._turn = self._tracer.start_span(
            "turn", context=self._parent, kind=SpanKind.CLIENT, attributes=attributes
        )
        try:
            response = await engine.respond(request, episode_id=episode_id)
        except BaseException as error:
            _fail(turn, error)
            raise
        turn.add_event("answered")
        usage: Any = response.get("usage") or {}
        for field, name in _USAGE.items():
            if isinstance(value := usage.get(field), int):
                turn.set_attribute(name, value)
        turn.set_attribute("gen_ai.response.model", str(response.get("model") or engine.model))
        turn.set_attribute("gen_ai.response.id", str(response.get("id") or ""))
        turn.set_attribute("gen_ai.response.finish_reasons", [_finish_reason(response)])
        return response

    async def end_episode(
        self, episode_id: str, *, rewards: Sequence[float] = (), failed: bool = False
    ) -> EpisodeReport | None:
        """Notify the engine; see `Engine.end_episode`."""
        return await self._engine.end_episode(episode_id, rewards=rewards, failed=failed)

    def span(self, name: str, attributes: dict[str, Any]) -> Span:
        """Begin what an environment does."""
        above = self._parent if self._turn is None else trace.set_span_in_context(self._turn)
        return self._tracer.start_span(name, context=above, attributes=attributes)

    def end(self, record: Rollout) -> None:
        """End the episode's spans, with what its record says."""
        self._end_turn()
        span, info = self._span, record["info"]
        span.set_attribute("gym_llm.env_id", record["env_id"])
        span.set_attribute("gen_ai.agent.name", record["env_id"])
        span.set_attribute("gym_llm.outcome", record["outcome"])
        span.set_attribute("gym_llm.turns", int(info.get("turn", 0)))
        span.set_attribute("gym_llm.tool_errors", int(info.get("tool_errors", 0)))
        if record["reward"] is not None:
            span.set_attribute("gym_llm.reward", float(record["reward"]))
            span.set_attribute("gen_ai.evaluation.score.value", float(record["reward"]))
        else:
            span.set_attribute("error.type", record["failure_kind"] or "_OTHER")
            span.set_attribute("gym_llm.error_phase", record["error_phase"] or "")
            span.set_status(Status(StatusCode.ERROR, redact(record["error"] or "")))
        span.end()

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.end()


class _Hooks:
    """An environment's tools and `verify`, wrapped: each tells the trace of the episode that is under way."""

    def __init__(self, verifier: Any) -> None:
        self.trace: EpisodeTrace | None = None
        tools = {}
        for name, tool in verifier._tools.items():
            tools[name] = copy.copy(tool)
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.type": "function",
            }
            tools[name].function = self._traced(tool.function, "tool", attributes)
        verifier._tools = tools
        verifier.verify = self._traced(verifier.verify, "verify", {"gym_llm.phase": "verify"})

    def _traced(self, function: Callable[..., Any], name: str, attributes: dict[str, Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def traced(*args: Any, **kwargs: Any) -> Any:
                span = self._begin(name, attributes)
                try:
                    return await function(*args, **kwargs)
                except BaseException as error:
                    _fail(span, error)
                    raise
                finally:
                    span.end()

            return traced

        @functools.wraps(function)
        def traced_here(*args: Any, **kwargs: Any) -> Any:
            span = self._begin(name, attributes)
            try:
                return function(*args, **kwargs)
            except BaseException as error:
                _fail(span, error)
                raise
            finally:
                span.end()

        return traced_here

    def _begin(self, name: str, attributes: dict[str, Any]) -> Span:
        return trace.INVALID_SPAN if self.trace is None else self.trace.span(name, attributes)


_REQUEST = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "max_output_tokens": "gen_ai.request.max_tokens",
}
_USAGE = {"input_tokens": "gen_ai.usage.input_tokens", "output_tokens": "gen_ai.usage.output_tokens"}


def _finish_reason(response: ResponseDict) -> str:
    if response.get("status") == "incomplete":
        return str((response.get("incomplete_details") or {}).get("reason") or "incomplete")
    return "tool_calls" if any(item.get("type") == "function_call" for item in response["output"]) else "stop"


def _fail(span: Span, error: BaseException) -> None:
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, redact(reason(error))))
