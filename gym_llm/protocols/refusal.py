"""Refusal: a request of a client that is not answered."""

from __future__ import annotations

from typing import Any

from gym_llm.errors import CallerError


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
