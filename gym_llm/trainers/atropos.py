"""Atropos (atroposlib 0.4): groups of episodes as its `scored_data`, and its server, which hands them to a trainer."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson

from gym_llm.engines.http_failures import server_message
from gym_llm.engines.http_reading import read_body
from gym_llm.protocols.chat.requests import request_to_chat
from gym_llm.trainers.shared.token_rows import TokenRow, token_rows
from gym_llm.types import Rollout
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.secrets import redacted_logger

_log = redacted_logger(__name__)

IGNORED = -100
"""In `masks`, where nothing is learned; elsewhere there is the token's id."""
NO_LOGPROB = 1.0
"""In `inference_logprobs`, where nothing was sampled."""
_REQUEST_SECONDS = 60
_POLL_SECONDS = 0.5
_MOST_ANSWER_BYTES = 1 << 20


def scored_data(
    records: Sequence[Rollout], *, temperature: float | None = None, messages: bool = False
) -> dict[str, Any] | None:
    """Return a group of episodes of one task as the body of `POST /scored_data` (`ScoredDataGroup` in Atropos).

    Each episode is a row with its score. The trainer computes the mean and the deviation over the rows, and its batches
    need whole groups. So a group is left out, with a warning, if an episode is masked or is not exactly one row. The
    environments of Atropos leave out groups of another size, too.

    Args:
        records: The group, with token ids.
        temperature: The sampling temperature, if it is not 1: trainers divide their logits by it.
        messages: Add the conversations, for reading.

    Returns:
        The body; None if the group is left out.

    Raises:
        ValueError: If there are no records.
    """
    if not records:
        raise ValueError("A group has one record or more.")
    rows: list[TokenRow] = []
    for record in records:
        rows_of_record = token_rows(record)
        if record["reward"] is None or len(rows_of_record) != 1:
            _log.warning("A group is left out: %s", _reason(record, len(rows_of_record)))
            return None
        rows += rows_of_record
    group: dict[str, Any] = {
        "tokens": [row.input_ids for row in rows],
        "masks": [_labels(row) for row in rows],
        "scores": [row.reward for row in rows],
        "inference_logprobs": [_logprobs(row) for row in rows],
        "overrides": None,
        "generation_params": None if temperature is None else {"temperature": temperature},
    }
    if messages:
        group["messages"] = [_messages(record) for record in records]
    return group


class AtroposServer:
    """A client of Atropos' `run-api`, which collects groups for its trainer. Use it from one event loop.

    ```python
    async with AtroposServer("http://localhost:8000", "arithmetic", group_size=8) as server:
        for group in groups:  # lists of 8 records of one task
            await server.send(scored_data(group))
    ```

    Args:
        url: The server's URL.
        name: The environment's name in the trainer's logs.
        group_size: Episodes per group.
        max_token_length: Maximum length of a sequence, which determines the environment's share of a batch.
        weight: A factor of that share.
        most_queued: `send` waits while the server has this number of groups that no batch has taken.
        timeout: Seconds to wait for a trainer: until it starts, and until it takes a batch.

    Raises:
        ConnectionError: On entering, or in `send`: if the server does not answer as Atropos does.
        TimeoutError: On entering, or in `send`: if no trainer starts, or takes a batch, in time.
        ValueError: On entering, if the trainer's batches do not consist of whole groups.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        group_size: int,
        max_token_length: int = 32768,
        weight: float = 1.0,
        most_queued: int = 1024,
        timeout: float = 3600.0,
    ) -> None:
        self._url = url.rstrip("/")
        self._registration = {
            "max_token_length": max_token_length,
            "desired_name": name,
            "weight": weight,
            "group_size": group_size,
        }
        self._group_size = group_size
        self._most_queued = most_queued
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None
        self._env_id: int | None = None
        self._batch_size = self._max_token_length = -1

    async def __aenter__(self) -> AtroposServer:
        """Register, as soon as the trainer has asked for its first batch."""
        self._env_id = None
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_REQUEST_SECONDS))
        try:
            async with self._waiting("asks for its first batch"):
                while (answer := await self._ask("POST", "/register-env", self._registration))["status"] != "success":
                    await asyncio.sleep(_POLL_SECONDS)
            self._env_id = answer["env_id"]
            info = await self._ask("GET", "/info")
            self._batch_size, self._max_token_length = info["batch_size"], info["max_token_len"]
            if self._batch_size % self._group_size:
                raise ValueError(f"The trainer's batch_size is {self._batch_size}: no multiple of {self._group_size}.")
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Tell the server that nothing more comes."""
        assert self._session is not None
        try:
            if self._env_id is not None:
                await self._ask("POST", "/disconnect-env", {"env_id": self._env_id})
        except ConnectionError as error:
            _log.warning("%s was not told that nothing more comes: %s", self._url, error)
        finally:
            await self._session.close()

    async def send(self, group: dict[str, Any] | None) -> bool:
        """Send the body that `scored_data` made of a group.

        Returns:
            Whether the server accepted it. None is not sent. A group with too long a sequence, or of another size than
            `group_size`, is not sent, and a warning is logged.
        """
        if group is None:
            return False
        if (rows := len(group["tokens"])) != self._group_size:
            # The server would keep it back until others make up for the difference.
            _log.warning("A group is left out: it has %d rows, and group_size=%d.", rows, self._group_size)
            return False
        if 0 < self._max_token_length <= (longest := max(map(len, group["tokens"]))):
            # Atropos leaves out what is as long as the limit, too.
            _log.warning("A group is left out: %d tokens, and max_token_len=%d.", longest, self._max_token_length)
            return False
        async with self._waiting("takes what is queued"):
            while (await self._ask("GET", "/status"))["queue_size"] >= self._most_queued:
                await asyncio.sleep(_POLL_SECONDS)
        await self._ask("POST", "/scored_data", {**group, "env_id": self._env_id})
        return True

    @asynccontextmanager
    async def _waiting(self, what: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout):
                yield
        except TimeoutError:
            raise TimeoutError(f"No trainer {what} at {self._url} within {self._timeout:g} s.") from None

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        assert self._session is not None
        payload = None if body is None else gzip.compress(dumps(body), 1)
        headers = {} if body is None else {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        url = self._url + path
        try:
            async with self._session.request(method, url, data=payload, headers=headers) as reply:
                answer = await read_body(reply, _MOST_ANSWER_BYTES)
                status = reply.status
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionError(f"{url} does not answer: {type(error).__name__}: {error}") from error
        if status != 200:
            raise ConnectionError(f"{url} answered with status {status}: {server_message(answer)}")
        try:
            fields = orjson.loads(answer)
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            raise ConnectionError(f"{url} is not an Atropos server: its reply is not a JSON object.")
        return fields


def _labels(row: TokenRow) -> list[int]:
    return [token if sampled else IGNORED for token, sampled in zip(row.input_ids, row.loss_mask, strict=True)]


def _logprobs(row: TokenRow) -> list[float]:
    return [each if sampled else NO_LOGPROB for each, sampled in zip(row.logprobs, row.loss_mask, strict=True)]


def _reason(record: Rollout, rows: int) -> str:
    """Why a group with this episode is left out."""
    if record["reward"] is None:
        return f"an episode is masked ({record['error']})."
    return f'an episode has {rows} segments with sampled tokens, and a row is one (use history="append").'


def _messages(record: Rollout) -> list[dict[str, Any]]:
    """The episode as chat messages, each of which has a `content`, which Atropos asks for."""
    request = record["responses_create_params"]
    asked = request["input"]
    items = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    everything = {**request, "input": [*items, *record["response"]["output"]]}
    return [{"content": "", **message} for message in request_to_chat(everything)["messages"]]  # type: ignore[arg-type]
