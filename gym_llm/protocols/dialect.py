"""Dialect: a model API, as functions that read its requests and write its answers; Refusal: an error of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from gym_llm.errors import CallerError
from gym_llm.types import Request, ResponseDict


class Refusal(CallerError):
    """A request that is not answered.

    Args:
        message: Why, for the client.
        status: HTTP's.
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
        """The answer, as OpenAI's clients read it."""
        return {"error": {"message": str(self), "type": self.kind, "param": self.param, "code": self.code}}


Body: TypeAlias = dict[str, Any]
"""The JSON object that a client posts."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """A model API.

    Nothing here looks at `model`, or decides by `stream` how to answer. Token ids (`gym_llm.types.Item`) are told to
    clients whose body says `"return_token_ids": true`, as vLLM's clients ask for them.

    Attributes:
        name: `"chat"`, `"responses"` or `"messages"`.
        path: Where its requests are posted, `/v1/chat/completions`.
        read: A body's request; a `Refusal` if there is none. The body is not changed; the request shares its values.
        answer: The whole answer to a body, as a JSON object; a ValueError for items that this API cannot say. The
            response is not changed.
        events: The same as server-sent events: encoded, in order, the last one included.
        refusal: An error as this API's clients read it, the body of an answer with the error's `status`.
        broken: An error as the last event of a stream that has begun.
        waiting: An event that clients skip: it keeps a connection alive for as long as the model works.
    """

    name: str
    path: str
    read: Callable[[Body], Request]
    answer: Callable[[ResponseDict, Body], dict[str, Any]]
    events: Callable[[ResponseDict, Body], Iterator[bytes]]
    refusal: Callable[[Refusal], dict[str, Any]]
    broken: Callable[[Refusal], bytes]
    waiting: bytes
