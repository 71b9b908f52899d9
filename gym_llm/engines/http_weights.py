"""ServerWeights: new weights for model servers, which read them from a folder that both see.

A `gym_llm.serve.ModelServer` changes its engine's weights itself (`POST /v1/weights`), and its answers carry versions.

vLLM's answers do not say where in them the weights changed. So no request of this client is under way while they do:

1. The client lets its requests end, and holds new ones back.
2. `POST /pause?mode=wait` waits for the requests of others, and clears what was cached of prompts.
3. `POST /collective_rpc` has vLLM's workers read the folder.
4. `POST /resume`, and the client sends its requests again. What they sample is of the new version.

vLLM 0.32 has these routes, beside `/v1`, if it was started with VLLM_SERVER_DEV_MODE=1.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias

import aiohttp
from yarl import URL

from gym_llm.engines.http_failures import failure_clause, kind_of, parse_body, server_message
from gym_llm.engines.weights import Gate, UpdateMode, Weights, all_of, check_update, to_its_end, weights_folder
from gym_llm.errors import EngineError, EngineUnavailable
from gym_llm.types import TOKEN_FIELDS, WEIGHT_VERSIONS, ResponseDict
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.secrets import redact

WeightServer: TypeAlias = Literal["vllm", "vllm-cpu", "gym_llm"]
"""A kind of servers that take weights.

- `vllm`: `vllm serve` with VLLM_SERVER_DEV_MODE=1.
- `vllm-cpu`: the same on a CPU, with `--worker-extension-cls gym_llm.engines.vllm_worker.CPUReload`.
- `gym_llm`: `gym-llm serve-model` on a loopback address with a token.
"""

_RELOAD = {"vllm": "reload_weights", "vllm-cpu": "reload_weights_and_head"}


class ServerWeights:
    """The weights of an engine's servers. Of one event loop.

    Args:
        kind: The servers'.
        urls: Their base URLs.
        session: Open; sends the key.

    Attributes:
        version: The number of the weights.
    """

    def __init__(self, kind: WeightServer, urls: Sequence[URL], session: aiohttp.ClientSession) -> None:
        self.version = 0
        self._kind, self._urls, self._session = kind, urls, session
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

    async def answered(self, respond: Callable[[], Awaitable[ResponseDict]]) -> ResponseDict:
        """Return a response whose tokens carry the version of their weights; raises what `respond` does."""
        async with self._gate.request():
            if self._failure:
                raise EngineError(self._failure)
            response = await respond()
            if self.version and self._kind in _RELOAD:
                for item in response["output"]:
                    if ids := item.get(TOKEN_FIELDS[1]):
                        item[WEIGHT_VERSIONS] = [[self.version, len(ids)]]
            return response

    async def update(self, weights: Weights, mode: UpdateMode, version: int | None) -> None:
        """Replace the weights of all servers; see `WeightSync.update_weights`."""
        check_update(mode, version, self.version)
        if mode != "wait" and self._kind in _RELOAD:
            raise EngineError(
                f"A vLLM server does not say where in an answer weights changed: use mode='wait', not {mode!r}."
            )
        async with self._gate.alone() if self._kind in _RELOAD else self._gate.beside():
            new = check_update(mode, version, self.version)
            with weights_folder(weights) as folder:
                await to_its_end(self._update(os.path.abspath(folder), mode, new))

    async def sleep(self, level: int) -> None:
        """Let requests end, and hold new ones back; see `WeightSync.sleep`."""
        if level:
            raise EngineError("A server keeps its memory: level=0 only stops answering.")
        await self._gate.sleep()

    async def wake_up(self) -> None:
        """Go on after `sleep`."""
        await self._gate.wake_up()

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
        await self._ask("POST", (root / "pause").with_query(mode="wait", clear_cache="true"))
        call = {"method": _RELOAD[self._kind], "kwargs": {"weights_path": folder}}
        await self._ask("POST", root / "collective_rpc", call)
        await self._ask("POST", root / "resume")

    async def _state(self, url: URL) -> dict[str, Any]:
        """Return what a server that takes weights says of them."""
        return await self._ask("GET", url.parent / "is_paused" if self._kind in _RELOAD else url / "weights")

    async def _ask(self, method: str, url: URL, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else dumps(body)
        try:
            async with self._session.request(method, url, data=data, allow_redirects=False) as reply:
                payload = await reply.read()
        except (aiohttp.ClientError, OSError) as error:
            raise EngineError(redact(f"{url} {failure_clause(error)}."), failure_kind=kind_of(error)) from None
        if reply.status != 200:
            raise EngineError(redact(f"{url} answered {reply.status}: {server_message(payload)[:300]}"))
        try:
            answer = parse_body(payload)
        except ValueError:
            answer = None
        return answer if isinstance(answer, dict) else {}
