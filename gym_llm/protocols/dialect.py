"""Dialect: a model API, as functions that read its requests and write its answers; Refusal: an error of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from gym_llm.errors import CallerError
from gym_llm.types import Request, ResponseDict


class Refusal(CallerError):
    """Raised for a request that is not answered.

    Args:
        message: The reason, for the client.
        status: The HTTP status.
        param: The field that is wrong.
        code: OpenAI's name of the error.
        kind: OpenAI's `type` of the error.
    """

    def __init__(
        self,
        message: str,
        status: int = 400,
        *,
        param: str | None = None,
        code: str | None = None,
        kind: str = "invalid_request_error",
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code, self.kind = status, param, code, kind

    def body(self) -> dict[str, Any]:
        """Return the error in OpenAI's form."""
        return {"error": {"message": str(self), "type": self.kind, "param": self.param, "code": self.code}}


Body: TypeAlias = dict[str, Any]
"""The JSON object that a client posts."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """A model API.

    A dialect does not read `model`, nor choose by `stream` how to answer. Token ids (`gym_llm.types.Item`) are sent to
    clients whose body has `"return_token_ids": true`, as vLLM's clients ask for them.

    Attributes:
        name: `"chat"`, `"responses"` or `"messages"`.
        path: The path of its requests, `/v1/chat/completions`.
        read: Returns the request of a body, or raises a `Refusal`. The body is not changed; the request shares its
            values.
        answer: Returns the whole answer to a body, as a JSON object; raises a ValueError for items that this API cannot
            express. The response is not changed.
        events: Yields the same as server-sent events: encoded, in order, with the last one.
        refusal: Returns the body of an error in the API's form, for an answer with the error's `status`.
        broken: Returns an error as the last event of a stream that has begun.
        waiting: An event that clients skip: it keeps a connection alive while the model works.
    """

    name: str
    path: str
    read: Callable[[Body], Request]
    answer: Callable[[ResponseDict, Body], dict[str, Any]]
    events: Callable[[ResponseDict, Body], Iterator[bytes]]
    refusal: Callable[[Refusal], dict[str, Any]]
    broken: Callable[[Refusal], bytes]
    waiting: bytes
