"""What is answered."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gym_llm.responses.items import ResponseItem, ResponseOutputMessage
from gym_llm.responses.parts import ResponseOutputText, ResponsesModel, Tagged
from gym_llm.responses.request import Tool


class InputTokensDetails(Tagged):
    """Where the input tokens came from."""

    schema_fields = frozenset({"cached_tokens", "cache_write_tokens"})

    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputTokensDetails(Tagged):
    """What the output tokens were spent on."""

    schema_fields = frozenset({"reasoning_tokens"})

    reasoning_tokens: int = 0


class ResponseUsage(Tagged):
    """Tokens of one response."""

    schema_fields = frozenset({"input_tokens_details", "output_tokens_details"})

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: InputTokensDetails = Field(default_factory=InputTokensDetails)
    output_tokens_details: OutputTokensDetails = Field(default_factory=OutputTokensDetails)


class IncompleteDetails(ResponsesModel):
    """Why a response stopped early, e.g. `max_output_tokens` or `content_filter`."""

    reason: str | None = None


class Response(Tagged):
    """An answer, as `POST /v1/responses` gives it."""

    schema_fields = frozenset({"object", "status", "parallel_tool_calls", "tool_choice", "tools"})

    id: str
    created_at: float
    model: str
    output: list[ResponseItem]
    object: Literal["response"] = "response"
    status: str = "completed"
    parallel_tool_calls: bool = True
    tool_choice: str | dict[str, Any] = "auto"
    tools: list[Tool] = Field(default_factory=list)
    incomplete_details: IncompleteDetails | None = None
    usage: ResponseUsage | None = None

    @property
    def output_text(self) -> str:
        """The text of all messages in `output`, joined without a separator."""
        return "".join(
            part.text
            for item in self.output
            if isinstance(item, ResponseOutputMessage)
            for part in item.content
            if isinstance(part, ResponseOutputText)
        )
