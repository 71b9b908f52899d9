"""HTTPEngine: any server that speaks OpenAI's Chat Completions, Responses or Completions API.

All requests are in flight at once, without a limit on connections. The server batches, and a queue in the client would
hide requests from it. The client is aiohttp, because httpx's pool walks its whole queue on every event.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import aiohttp
from yarl import URL

from gym_llm.engines.constraints import mark_constrained
from gym_llm.engines.engine import Capabilities, Engine
from gym_llm.engines.engine_response import overflow_response
from gym_llm.engines.health import HealthChecks
from gym_llm.engines.http_bodies import (
    chat_body,
    checked_response,
    completion_body,
    completion_to_response,
    responses_body,
    with_old_limit,
)
from gym_llm.engines.http_client import Endpoint, check_header_name, open_session, session_field
from gym_llm.engines.http_failures import (
    failure_clause,
    is_json,
    is_overflow,
    is_spent,
    kind_of,
    kind_of_status,
    parse_body,
    retry_after,
    server_message,
)
from gym_llm.engines.http_reading import check_density, is_name, model_root, read_body
from gym_llm.engines.http_scores import read_scores, score_body
from gym_llm.engines.http_weights import Attempt, ServerWeights, WeightServer
from gym_llm.engines.prompt_ids import build_prompt, load_prompt_tokens
from gym_llm.engines.routing import Router, Server, base_url
from gym_llm.engines.sampling import wants_log_probs
from gym_llm.engines.scores import Scores, check_row
from gym_llm.engines.sockets import raise_open_files_limit
from gym_llm.engines.thoughts import SeenThoughts, settle_thought
from gym_llm.engines.weights import UpdateMode, Weights
from gym_llm.errors import EngineError, EngineUnavailable
from gym_llm.protocols.chat.completions import chat_to_response
from gym_llm.records.failures import QUOTA_SPENT
from gym_llm.tokens.weight_versions import Starts, note_versions
from gym_llm.types import Request, ResponseDict
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.limits import RESPONSE_BYTES, limit
from gym_llm.utils.secrets import add_secrets, redact, redacted_logger
from gym_llm.utils.text import excerpt, printable

if TYPE_CHECKING:
    from gym_llm.tokens.prompt_tokens import PromptTokens

logger = redacted_logger(__name__)

BACKOFF_SECONDS = 0.5
"""A retry waits a random time up to this, doubled with each further one ("full jitter", AWS Builders' Library)."""

MAX_BACKOFF_SECONDS = 30.0
START_SECONDS = 10.0
_MOST_PAGES = 2

_ENDPOINTS = {"chat": "chat/completions", "responses": "responses", "completions": "completions"}
_RETRYABLE = frozenset({408, 409, 429})
_NOT_RUNNING = "The engine is not running: use it as `async with engine`, or call start() first."


class HTTPEngine(Engine):
    """An engine that sends requests to one or several OpenAI-compatible servers.

    The engine sends a request again after status 408, 409, 429 or 5xx, or if there is no reply. It waits for the
    server's Retry-After, or an exponential back-off with full jitter. With several servers an episode stays on one
    server until that server fails, and so do the episodes of one task (`gym_llm.engines.routing`). They and new ones
    then use the others until the server answers again (`gym_llm.engines.health`).

    If a prompt no longer fits the model, the response is `incomplete` with an empty `output` and the reason
    `"context_length_exceeded"`.

    With `"completions"` the engine builds prompts as token ids (`gym_llm.tokens.prompt_tokens.PromptTokens`), and the
    server returns token ids. The other APIs send the conversation, which the server tokenises anew for every turn. In a
    chat, calls whose arguments are not a JSON object are sent with `{}` instead, because older versions of vLLM refuse
    such a conversation (https://github.com/vllm-project/vllm/pull/48922).

    A server that begins to fail, or to refuse requests for their rate, is logged as a warning; retries and recoveries
    at level INFO. An account without credit (`insufficient_quota`, 402) is not asked again.

    Args:
        base_urls: One base URL, several separated by commas, or a list; the part before `/chat/completions`.
        model: The model's name on the servers; None for the first one they list.
        api: `"chat"` (Chat Completions), `"responses"`, or `"completions"` (with token ids, as vLLM has them).
        api_key: Sent as a bearer token; None for the environment variable OPENAI_API_KEY, if set.
        timeout: Seconds that one `respond` may take, retries included.
        max_retries: Maximum number of retries of one request.
        extra_body: Fields added to each request's body; they override the request's own.
        token_ids: With `"chat"`: ask vLLM for token ids and log probabilities. `"completions"` always does.
        tokenizer: With `"completions"`: the tokenizer's name or folder; None for the one that the server lists as the
            root of `model`, else `model`.
        history: With `"completions"`: see `PromptTokens`.
        session_header: Name of the header that has the episode's id, for routers with sticky sessions; None for none.
        max_response_bytes: Largest size of a decompressed response, beyond which it is an error; None for the limit of
            `utils/limits.py`.
        takes_weights: The kind of the servers, if `update_weights` replaces their weights; see `WeightServer`.

    Raises:
        ValueError: If an argument is invalid.

    >>> HTTPEngine("http://localhost:8000/v1", model="Qwen/Qwen3-4B")
    HTTPEngine('http://localhost:8000/v1', model='Qwen/Qwen3-4B', api='chat')
    """

    capabilities = Capabilities(tools=True, forced_calls=True)

    def __init__(
        self,
        base_urls: str | Sequence[str],
        *,
        model: str | None = None,
        api: Literal["chat", "responses", "completions"] = "chat",
        api_key: str | None = None,
        timeout: float = 600.0,
        max_retries: int = 10,
        extra_body: Mapping[str, Any] | None = None,
        token_ids: bool = False,
        tokenizer: str | None = None,
        history: Literal["template", "append"] = "template",
        session_header: str | None = "X-Session-ID",
        max_response_bytes: int | None = None,
        takes_weights: WeightServer | None = None,
    ) -> None:
        if takes_weights is not None and takes_weights not in get_args(WeightServer):
            raise ValueError(f"takes_weights is {', '.join(get_args(WeightServer))}, or None; got {takes_weights!r}.")
        if api not in _ENDPOINTS:
            raise ValueError(f"api is 'chat', 'responses' or 'completions', got {api!r}.")
        if token_ids and api == "responses":
            raise ValueError("Servers of the Responses API give no token ids: use api='chat' or api='completions'.")
        if api != "completions" and (tokenizer is not None or history != "template"):
            raise ValueError(
                f"tokenizer and history are for api='completions', where prompts are made here; not {api!r}."
            )
        numbers = isinstance(timeout, (int, float)) and isinstance(max_retries, int)
        if not numbers or timeout <= 0 or max_retries < 0:
            raise ValueError(f"timeout is > 0 and max_retries >= 0, got {timeout!r} and {max_retries!r}.")
        if max_response_bytes is not None and (type(max_response_bytes) is not int or max_response_bytes < 1):
            raise ValueError(f"max_response_bytes is an integer of 1 or more, got {max_response_bytes!r}.")
        for name, text in {"model": model, "api_key": api_key, "tokenizer": tokenizer}.items():
            if not isinstance(text, str | None):
                raise ValueError(f"{name} is a text, got {type(text).__name__}.")  # the value may be a secret
        if not isinstance(token_ids, bool) or not isinstance(extra_body, Mapping | None):
            raise ValueError("token_ids is true or false, and extra_body a mapping of fields to their values.")
        check_header_name(session_header)
        bases = [base_url(url) for url in (base_urls.split(",") if isinstance(base_urls, str) else base_urls)]
        if not bases:
            raise ValueError("HTTPEngine needs at least one base URL, e.g. http://localhost:8000/v1.")
        self.model = model or ""
        self.api = api
        ours = api == "completions"  # the prompts
        self.capabilities = Capabilities(
            token_ids=token_ids or ours,
            tools=True,
            forced_calls=not ours,
            compaction=api == "responses",
            scores=ours,
            weights=takes_weights is not None,
        )
        self.timeout, self.max_retries, self.session_header = timeout, max_retries, session_header
        self.max_response_bytes = max_response_bytes
        self._most_bytes: int | None = max_response_bytes
        self.router = Router([Server(base, base.joinpath(_ENDPOINTS[api])) for base in bases])
        asks_for_ids = {"return_token_ids": True, "logprobs": True} if token_ids and api == "chat" else {}
        self._extra_body = {**asks_for_ids, **(extra_body or {})}
        self._tokenizer_name = tokenizer
        self._history = history
        self._prompts: PromptTokens | None = None
        self._context: int | None = None
        self._root = ""  # the folder or hub name of the model that the servers serve under a name of their own
        self._old_limit = False  # the servers know `max_tokens` only
        key = api_key if api_key is not None else os.environ.get("OPENAI_API_KEY", "")
        add_secrets({key})
        self._api_key = key.strip() or None  # keys read from files end in a newline, which no header may hold
        if not key.strip().isprintable():
            raise ValueError("api_key (or OPENAI_API_KEY) holds a control character, which no header may hold.")
        self._session: aiohttp.ClientSession | None = None
        self._endpoints: dict[Server, Endpoint] = {}
        self._health = HealthChecks(self._answers)
        self._takes_weights = takes_weights
        self._weights: ServerWeights | None = None
        self._thoughts = SeenThoughts()

    def __repr__(self) -> str:
        urls = ",".join(str(server.base_url) for server in self.router.servers)
        return f"HTTPEngine({urls!r}, model={self.model or None!r}, api={self.api!r})"

    async def start(self) -> None:
        """Open the client, check that every server answers, and find the model's name if none was given.

        Raises:
            EngineUnavailable: If a server cannot be reached or refuses the key, or if it is unclear which model to ask.
        """
        raise_open_files_limit()
        self._most_bytes = self.max_response_bytes or limit(RESPONSE_BYTES)  # once: it asks the environment
        self._health = HealthChecks(self._answers)
        key = {} if self._api_key is None else {"Authorization": f"Bearer {self._api_key}"}
        session = self._session = open_session({"Content-Type": "application/json", **key})
        self._endpoints = {server: Endpoint(session, server.endpoint) for server in self.router.servers}
        checks = (self._first_model(session, server.base_url) for server in self.router.servers)
        try:
            # All checks end before one failure is raised: that closes the session they use.
            models = await asyncio.gather(*checks, return_exceptions=True)
            if failure := next((result for result in models if isinstance(result, BaseException)), None):
                raise failure
            if len(names := sorted(set(cast("list[str]", models)))) > 1:
                raise EngineUnavailable(f"The servers list different models ({', '.join(names)}): give model=.")
            self.model = names[0]
            if self.api == "completions":
                name = self._tokenizer_name or self._root or self.model
                self._prompts = await asyncio.to_thread(load_prompt_tokens, name, self._history)
                if self._context is not None:
                    self._prompts.limit_to(self._context)
            if self._takes_weights is not None:
                urls = [server.base_url for server in self.router.servers]
                decode = None if self._prompts is None else self._prompts.decode
                self._weights = ServerWeights(self._takes_weights, urls, session, decode)
                await self._weights.start()
                self.weight_version = self._weights.version
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Close the connections. Safe to call twice."""
        if self._weights is not None:
            self._weights.close()
        await self._health.aclose()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @property
    def context_tokens(self) -> int | None:
        """The length of the model's context; see `Engine.context_tokens`."""
        return self._context or None

    def prompt_ids(self, request: Request) -> list[int] | None:
        """Return the ids of a request's prompt, if prompts are made here; see `Engine.prompt_ids`."""
        prompts = self._prompts
        return None if prompts is None else build_prompt(prompts, request, conversation="", model=self.model)

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one request; see `Engine.respond`."""
        body, prompt = self._body(request, episode_id)
        if prompt is not None and self._context is not None and len(prompt) >= self._context:
            return overflow_response(self.model, len(prompt))
        payload, server, starts = await self._ask_with_weights(body, episode_id)
        answer = overflow_response(self.model) if payload is None else self._read(payload, server, prompt, request)
        return mark_constrained(note_versions(answer, starts), request)

    async def update_weights(self, weights: Weights, *, mode: UpdateMode = "wait", version: int | None = None) -> None:
        """See `WeightSync` and `WeightServer`. The servers have to see the folder, or this machine's temporary one.

        The versions count from 0 at `start`, or from what servers of gym_llm say. With vLLM the mode is `wait`, or
        `recompute` if the API is Completions: it aborts the requests of the servers' other clients, too.
        """
        server_weights = self._server_weights()
        await server_weights.update(weights, mode, version)
        self.weight_version = server_weights.version

    async def sleep(self, level: int = 0) -> None:
        """Let requests end, and hold new ones back; the servers keep their memory. See `WeightSync`."""
        await self._server_weights().sleep(level)

    async def wake_up(self) -> None:
        """See `WeightSync`."""
        await self._server_weights().wake_up()

    def _server_weights(self) -> ServerWeights:
        if self._takes_weights is None:
            raise EngineError("The servers' weights are replaced only if `takes_weights` names their kind.")
        if self._session is None or self._weights is None:
            raise EngineError(_NOT_RUNNING)
        return self._weights

    async def score(self, ids: Sequence[int], *, top_k: int = 0, adapter: str | None = None) -> Scores:
        """Return the log probabilities of a row, from a vLLM server; see `Engine.score`."""
        if self.api != "completions":
            return await super().score(ids, top_k=top_k, adapter=adapter)
        row = check_row(ids, top_k, context=self._context and self._context - 1, model=self.model)
        fields = {"model": self.model, **self._extra_body}
        if adapter is not None:  # a server takes an adapter's name in place of the model's
            fields["model"] = adapter
        payload, _, _ = await self._ask_with_weights(score_body(row, top_k, fields), "")
        if payload is None:
            raise EngineError(f"A row of {len(row):,} tokens does not fit the context of {self.model}.")
        check_density(payload)
        return read_scores(self._censored(payload.decode(errors="replace")).encode(), row, top_k)

    async def _ask_with_weights(self, body: dict[str, Any], episode_id: str) -> tuple[bytes | None, Server, Starts]:
        """See `_ask`, and `ServerWeights.answered` for the versions of the weights."""

        async def send(fields: dict[str, Any], attempt: Attempt) -> tuple[bytes | None, Server]:
            return await self._ask_in_time(dumps(fields), episode_id, attempt)

        if self._weights is None:
            return *await send(body, Attempt()), ()
        return await self._weights.answered(body, send)

    @asynccontextmanager
    async def _let_through(self, attempt: Attempt, deadline: asyncio.Timeout) -> AsyncIterator[None]:
        """Wait for new weights, which take their own time, and keep others out."""
        assert self._weights is not None
        when, began = deadline.when(), asyncio.get_running_loop().time()
        deadline.reschedule(None)
        async with self._weights.attempt(attempt):
            deadline.reschedule(None if when is None else when + attempt.entered - began)
            yield

    async def _ask_in_time(self, body: bytes, episode_id: str, attempt: Attempt) -> tuple[bytes | None, Server]:
        """See `_ask`; an EngineError if there is no answer in time."""
        failures: list[EngineError] = []
        try:
            async with asyncio.timeout(self.timeout) as deadline:
                return await self._ask(body, episode_id, failures, deadline, attempt)
        except TimeoutError:
            tries = f"; {len(failures)} tries failed, the last: {failures[-1]}" if failures else ""
            kind = failures[-1].failure_kind if failures else "transport_timeout"
            raise EngineError(f"No answer within {self.timeout:g} s{tries}", failure_kind=kind) from None

    def _body(self, request: Request, episode_id: str) -> tuple[dict[str, Any], list[int] | None]:
        """The fields that are posted, and the prompt's ids if they were made here."""
        prompt = None
        if self.api == "chat":
            body = chat_body(request, old_limit=self._old_limit)
        elif self.api == "responses":
            body = responses_body(request)
        elif self._prompts is None:
            raise EngineError(_NOT_RUNNING)
        else:
            prompt = build_prompt(self._prompts, request, conversation=episode_id, model=self.model)
            body = completion_body(request, prompt, context=self._context)
        body["model"] = self.model
        body.update(self._extra_body)
        return body, prompt

    async def _ask(
        self, body: bytes, episode_id: str, failures: list[EngineError], deadline: asyncio.Timeout, attempt: Attempt
    ) -> tuple[bytes | None, Server]:
        """The answer, None if the prompt is too long, and who gave it.

        A request is sent until it is answered or the deadline ends it; what went wrong is appended to `failures`.
        """
        loop = asyncio.get_running_loop()
        fields = session_field(self.session_header, episode_id)
        refusal: EngineError | None = None  # of `max_completion_tokens`
        pages = 0  # answers that were not JSON
        while True:
            if self._session is None:
                raise EngineError(_NOT_RUNNING)
            server = self.router.pick(episode_id)
            wait = 0.0
            started = loop.time()
            server.in_flight += 1
            try:
                gate = nullcontext() if self._weights is None else self._let_through(attempt, deadline)
                async with gate, self._endpoints[server].post(body, fields) as reply:
                    status = reply.status
                    payload = await read_body(reply, self._most_bytes)
            except (aiohttp.ClientError, OSError) as error:
                failure = EngineError(
                    self._censored(f"{server.base_url} {failure_clause(error)}"), failure_kind=kind_of(error)
                )
                if isinstance(error, aiohttp.ClientSSLError):
                    raise failure from None  # a wrong certificate stays wrong
                if failure.failure_kind != "transport_local_resource":  # for which no server can be blamed
                    self._failed(server, episode_id, str(failure))
            except asyncio.CancelledError:
                seconds, when = loop.time() - max(started, attempt.entered), deadline.when()
                # Of several tries the last may have had little time.
                if when is not None and loop.time() >= when and seconds > self.timeout / 2:
                    self._failed(server, episode_id, f"{server.base_url} gave no answer in {seconds:.3g} s", hung=True)
                raise
            else:
                if status == 200 and is_json(payload):
                    server.on_trial = False
                    self._old_limit = self._old_limit or refusal is not None
                    return payload, server
                message = self._censored(server_message(payload)) or printable(self._censored(str(reply.reason)))
                if is_overflow(status, message):
                    return None, server
                text = f"{server.base_url} answered {status}: {message[:300]}"
                if status == 200:  # a proxy's page; one that comes again and again is no model server's
                    pages += 1
                    page = message[:100] if payload else "nothing"
                    text = f"{server.endpoint} answered something that is not JSON: {page}"
                failure = EngineError(text, failure_kind=kind_of_status(status))
                if is_spent(status, payload):
                    raise EngineError(f"{text}. {QUOTA_SPENT}", failure_kind="provider_quota_exhausted")
                if refusal is None and (older := with_old_limit(body, status, message)):
                    body, refusal = older, failure
                    continue
                if 200 < status < 500 and status not in _RETRYABLE:
                    raise refusal or failure
                wait = retry_after(reply.headers.get("Retry-After"))
                if status >= 500 or status == 200:
                    self._failed(server, episode_id, text)
            finally:
                server.in_flight -= 1
            failures.append(failure)
            if len(failures) > self.max_retries or pages > _MOST_PAGES:
                text = f"Gave up after {len(failures)} tries: {failure}"
                raise EngineError(text, failure_kind=failure.failure_kind)
            backoff = min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2 ** min(len(failures) - 1, 10))
            wait += random.uniform(0.0, backoff)
            if failure.failure_kind == "provider_quota_exhausted":
                self._health.limited(server, str(failure), wait)
            logger.info("Retry %d of episode %r in %.1f s: %s", len(failures), episode_id, wait, failure)
            await asyncio.sleep(wait)

    async def _answers(self, server: Server) -> bool:
        """Whether a server lists its models."""
        if self._session is None:
            return False
        try:
            return (await self._list_models(self._session, server.base_url))[0] < 500
        except (TimeoutError, aiohttp.ClientError, OSError, EngineError):
            return False

    def _failed(self, server: Server, episode_id: str, failure: str, *, hung: bool = False) -> None:
        """Have a server rest, and say so if it did not rest before: thousands of requests fail at the same time."""
        if self._session is None:
            return  # it was not the server who hung up
        if not server.resting:
            others = "; new episodes go to other servers until it answers" if len(self.router.servers) > 1 else ""
            logger.warning("%s%s", failure, others)
        self._health.failed(server, hung=hung)
        self.router.leave(episode_id)

    def _read(self, payload: bytes, server: Server, prompt: list[int] | None, request: Request) -> ResponseDict:
        """The response in a 200 answer."""
        try:
            return self._converted(payload, server, prompt, request)
        except EngineError as error:
            # Errors quote what was answered, cut somewhere: so our key has to be gone before.
            censored = self._censored(payload.decode(errors="replace")).encode()
            if censored == payload:
                raise
            failure = error
        self._converted(censored, server, prompt, request)
        raise EngineError(self._censored(str(failure)), failure_kind=failure.failure_kind)

    def _converted(self, payload: bytes, server: Server, prompt: list[int] | None, request: Request) -> ResponseDict:
        check_density(payload)
        try:
            answer = parse_body(payload)
        except ValueError:
            text = f"answered something that is not JSON: {printable(payload[:200].decode(errors='replace'))}"
            raise EngineError(f"{server.endpoint} {text}", failure_kind="provider_unavailable") from None
        if self.api == "chat":
            return self._thoughts.settle(chat_to_response(answer), answer.get("usage"))
        if prompt is not None and self._prompts is not None:
            log_probs = wants_log_probs(request)
            response = completion_to_response(answer, model=self.model, prompt=prompt, text_log_probs=log_probs)
            return settle_thought(response, prompt, self._prompts)
        if isinstance(answer, dict) and answer.get("status") not in (None, "completed", "incomplete"):
            message, status = server_message(payload), excerpt(answer["status"], 60)
            text = f"{server.endpoint} answered with a response of status {status}: {message[:300]}"
            raise EngineError(text, failure_kind="agent_run_error")
        return self._thoughts.settle(checked_response(answer))

    async def _first_model(self, session: aiohttp.ClientSession, url: URL) -> str:
        """The model to ask a server for: `model`, else the first that it lists; raises as `start` does."""
        try:
            status, payload = await self._list_models(session, url)
        except TimeoutError:
            text = f"{url} did not answer GET /models within {START_SECONDS:g} s."
            raise EngineUnavailable(text, failure_kind="transport_timeout") from None
        except EngineError as error:
            raise EngineUnavailable(str(error), failure_kind=error.failure_kind) from None
        except (aiohttp.ClientError, OSError) as error:
            text = f"{url} {failure_clause(error)}. Is a server running there?"
            raise EngineUnavailable(text, failure_kind=kind_of(error)) from None
        if status in (401, 403):
            text = f"{url} {'refused the API key' if self._api_key else 'wants an API key'} ({status})"
            text += ": set OPENAI_API_KEY or give api_key=."
            raise EngineUnavailable(text, failure_kind="agent_request_failed")
        message = self._censored(server_message(payload))[:200]
        if status >= 500 or (status in (402, 429) and not self.model):
            raise EngineUnavailable(f"{url} answered GET /models with {status}: {message}")
        try:
            listed = parse_body(payload)["data"]
            models = [entry for entry in listed if isinstance(entry, dict) and is_name(entry.get("id"))]
        except (ValueError, LookupError, TypeError):
            models = []
        model = next((entry for entry in models if self.model in ("", entry["id"])), {})
        if type(length := model.get("max_model_len")) is int and length > 0:  # vLLM's; other servers do not say
            self._context = self._context or length
        self._root = self._root or model_root(model, models)
        if self.model or model:
            return self.model or model["id"]  # a server that does not list the model may still serve it
        hint = "" if url.path.endswith("/v1") else f" Did you mean {url / 'v1'}?"
        raise EngineUnavailable(f"{url} lists no models ({status}: {message}): give its name, model= or --model.{hint}")

    async def _list_models(self, session: aiohttp.ClientSession, url: URL) -> tuple[int, bytes]:
        """Status and body of a server's list of models."""
        async with asyncio.timeout(START_SECONDS), session.get(url.joinpath("models"), allow_redirects=False) as reply:
            return reply.status, await read_body(reply, self.max_response_bytes)

    def _censored(self, text: str) -> str:
        """The text without our key and other secrets, which some servers and proxies repeat in their errors."""
        return redact(text.replace(self._api_key, "***") if self._api_key else text)
