"""ServerWeights: new weights for model servers, which read them from a folder that both see.

A `gym_llm.serve.ModelServer` changes its engine's weights itself (`POST /v1/weights`), and its answers carry versions.

vLLM's answers do not say where in them the weights changed. So no request of this client is under way while they do:

1. The client holds new requests back. With `wait` it lets the others end. With `recompute` it has the servers abort
   them (`POST /pause?mode=abort`): these answers have what was sampled so far, and `CutAnswer` goes on with it later.
2. `POST /pause?mode=wait` waits for the requests of others, and clears what was cached of prompts.
3. `POST /collective_rpc` has vLLM's workers read the folder.
4. `POST /resume`, and the client sends its requests again. What they sample is of the new version.

vLLM 0.32 has these routes, beside `/v1`, if it was started with VLLM_SERVER_DEV_MODE=1.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import aiohttp
from yarl import URL

from gym_llm.engines.http_continued import CutAnswer
from gym_llm.engines.http_failures import failure_clause, kind_of, parse_body, server_message
from gym_llm.engines.routing import Server
from gym_llm.engines.weights import Gate, UpdateMode, Weights, all_of, check_update, to_its_end, weights_folder
from gym_llm.errors import EngineError, EngineUnavailable
from gym_llm.tokens.weight_versions import Starts
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.secrets import redact

WeightServer: TypeAlias = Literal["vllm", "vllm-cpu", "gym_llm"]
"""A kind of servers that take weights.

- `vllm`: `vllm serve` with VLLM_SERVER_DEV_MODE=1.
- `vllm-cpu`: the same on a CPU, with `--worker-extension-cls gym_llm.engines.vllm_worker.CPUReload`.
- `gym_llm`: `gym-llm serve-model` on a loopback address with a token.
"""

_CONTROL_SECONDS = 1800.0
"""Seconds that a server may take to read weights, or to let the requests of others end."""
_ABORT_SECONDS = 60.0


@dataclass(slots=True)
class Attempt:
    """A request to a server, as `ServerWeights.attempt` lets it through.

    Attributes:
        version: The version of the weights that answer it.
        aborts: How often the servers had aborted requests before.
        entered: When it was let through, by the event loop's clock.
        has_to_end: Whether new weights wait for it: it has begun anew before.
    """

    version: int = 0
    aborts: int = 0
    entered: float = 0.0
    has_to_end: bool = False


Send: TypeAlias = Callable[[dict[str, Any], Attempt], Awaitable[tuple[bytes | None, Server]]]
"""Sends a body, and returns what a server answered (None if the prompt is too long) and the server."""

_RELOAD = {"vllm": "reload_weights", "vllm-cpu": "reload_weights_and_head"}


class ServerWeights:
    """The weights of an engine's servers. Of one event loop.

    Args:
        kind: The servers'.
        urls: Their base URLs.
        session: Open; sends the key.
        decode: Returns the text of ids, if prompts are token ids; None if they are not.

    Attributes:
        version: The number of the weights.
    """

    def __init__(
        self,
        kind: WeightServer,
        urls: Sequence[URL],
        session: aiohttp.ClientSession,
        decode: Callable[[list[int]], str] | None,
    ) -> None:
        self.version = 0
        self._kind, self._urls, self._session, self._decode = kind, urls, session, decode
        self._aborts = self._having_to_end = 0
        self._gate = Gate()
        self._failure = ""

    async def start(self) -> None:
        """Check that the servers take weights.

        Raises:
            EngineUnavailable: If one does not.
        """
        try:
            states = await asyncio.gather(*map(self._state, self._urls))
        except EngineError as error:
            how = "start it with VLLM_SERVER_DEV_MODE=1" if self._kind in _RELOAD else "see `gym-llm serve-model`"
            raise EngineUnavailable(f"A server takes no weights ({error}): {how}.") from None
        self.version = max(state.get("weight_version", 0) for state in states)

    async def answered(self, body: dict[str, Any], send: Send) -> tuple[bytes | None, Server, Starts]:
        """Send a request, and again with what was sampled of its answer if new weights cut it off.

        Returns:
            The answer and its server, as `send` does, and the versions that sampled it, as for `runs_between`; none
            where the server says them itself.
        """
        cut = None if self._decode is None or self._kind not in _RELOAD else CutAnswer(body, self._decode)
        starts: Starts = []
        attempt = Attempt()
        while True:
            payload, server = await send(body if cut is None else cut.body, attempt)
            done = 0 if cut is None else len(cut.ids)
            starts = [*starts, (attempt.version, done)] if done else [(attempt.version, 0)]
            if cut is None or payload is None:
                return payload, server, starts if self._kind in _RELOAD else []
            # An answer that another client aborted is incomplete: that client could abort it again without end.
            if attempt.aborts == self._aborts or not cut.add(payload):
                return cut.joined(payload), server, starts
            attempt.has_to_end = cut.restarts > 0

    @asynccontextmanager
    async def attempt(self, attempt: Attempt) -> AsyncIterator[None]:
        """Let one request through, when no weights are being replaced.

        Raises:
            EngineError: If a server may have half of new weights.
        """
        async with self._gate.request():
            if self._failure:
                raise EngineError(self._failure)
            attempt.version, attempt.aborts = self.version, self._aborts
            attempt.entered = asyncio.get_running_loop().time()
            self._having_to_end += attempt.has_to_end
            try:
                yield
            finally:
                self._having_to_end -= attempt.has_to_end

    async def update(self, weights: Weights, mode: UpdateMode, version: int | None) -> None:
        """Replace the weights of all servers; see `WeightSync.update_weights`."""
        check_update(mode, version, self.version)
        reloads = self._kind in _RELOAD
        if reloads and (mode == "keep" or (mode == "recompute" and self._decode is None)):
            how = "mode='wait'" if self._decode is None else "mode='wait' or 'recompute'"
            hint = " With api='completions' it takes 'recompute', too." if self._decode is None else ""
            raise EngineError(
                f"A vLLM server does not say where in an answer weights changed: use {how}, not {mode!r}.{hint}"
            )
        with weights_folder(weights) as folder:
            work = self._replace(os.path.abspath(folder), mode, version)
            # Servers that have aborted requests are paused, and have to go on.
            await (to_its_end(work) if reloads and mode == "recompute" else work)

    async def _replace(self, folder: str, mode: UpdateMode, version: int | None) -> None:
        if self._kind not in _RELOAD:
            gate = self._gate.beside()
        else:
            gate = self._gate.alone(self._abort if mode == "recompute" else None)
        async with gate:
            await to_its_end(self._update(folder, mode, check_update(mode, version, self.version)))

    async def _abort(self) -> None:
        if self._having_to_end:
            return
        self._aborts += 1
        try:
            await all_of(*(self._pause(url.parent, "abort") for url in self._urls))
        except BaseException:
            await asyncio.gather(*(self._resume(url.parent) for url in self._urls), return_exceptions=True)
            raise

    async def sleep(self, level: int) -> None:
        """Let requests end, and hold new ones back; see `WeightSync.sleep`."""
        if level:
            raise EngineError("A server keeps its memory: level=0 only stops answering.")
        await self._gate.sleep()

    async def wake_up(self) -> None:
        """Go on after `sleep`."""
        await self._gate.wake_up()

    def close(self) -> None:
        """Let go of requests that wait: they fail."""
        self._failure = "The engine was closed while its servers slept or took weights."
        self._gate.close()

    async def _update(self, folder: str, mode: UpdateMode, version: int) -> None:
        body = {"folder": folder, "mode": mode, "version": version}
        updates: list[Any]
        if self._kind in _RELOAD:
            updates = [self._reload(url.parent, folder) for url in self._urls]
        else:
            updates = [self._ask("POST", url / "weights", body) for url in self._urls]
        try:
            await all_of(*updates)
        except BaseException as failure:
            if self._kind in _RELOAD:
                self._failure = f"A server may have half of new weights and stays paused: update them again. {failure}"
            raise
        self._failure, self.version = "", version

    async def _reload(self, root: URL, folder: str) -> None:
        await self._pause(root, "wait")
        call = {"method": _RELOAD[self._kind], "kwargs": {"weights_path": folder}}
        await self._ask("POST", root / "collective_rpc", call)
        await self._resume(root)

    async def _pause(self, root: URL, mode: str) -> None:
        seconds = _ABORT_SECONDS if mode == "abort" else _CONTROL_SECONDS
        await self._ask("POST", (root / "pause").with_query(mode=mode, clear_cache="true"), seconds=seconds)

    async def _resume(self, root: URL) -> None:
        await self._ask("POST", root / "resume", seconds=_ABORT_SECONDS)

    async def _state(self, url: URL) -> dict[str, Any]:
        """Return what a server that takes weights says of them."""
        return await self._ask("GET", url.parent / "is_paused" if self._kind in _RELOAD else url / "weights")

    async def _ask(
        self, method: str, url: URL, body: dict[str, Any] | None = None, *, seconds: float = _CONTROL_SECONDS
    ) -> dict[str, Any]:
        data = None if body is None else dumps(body)
        try:
            async with (
                asyncio.timeout(seconds),
                self._session.request(method, url, data=data, allow_redirects=False) as reply,
            ):
                payload = await reply.read()
        except TimeoutError:
            text = redact(f"{url} did not answer within {seconds:g} s.")
            raise EngineError(text, failure_kind="transport_timeout") from None
        except (aiohttp.ClientError, OSError) as error:
            raise EngineError(redact(f"{url} {failure_clause(error)}."), failure_kind=kind_of(error)) from None
        if reply.status != 200:
            raise EngineError(redact(f"{url} answered {reply.status}: {server_message(payload)[:300]}"))
        try:
            answer = parse_body(payload)
        except ValueError:
            answer = None
        return answer if isinstance(answer, dict) else {}
