"""The bodies of `POST /v1/responses` and of its responses."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag, ValidationError

from gym_llm.protocols.responses.content_parts import (
    ResponseOutputText,
    ResponsesModel,
    Tagged,
    UnknownItem,
    tag_of,
    text_or_list,
)
from gym_llm.protocols.responses.items import ResponseItem, ResponseOutputMessage
from gym_llm.utils.text import excerpt


class FunctionTool(Tagged):
    """A function the model may call; `parameters` is a JSON schema."""

    name: str
    type: Literal["function"] = "function"
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    description: str | None = None


Tool: TypeAlias = Annotated[
    Annotated[FunctionTool, Tag("function")] | Annotated[UnknownItem, Tag("other")],
    Discriminator(
        lambda tool: tag_of(tool, ("function",)),
        custom_error_type="tool",
        custom_error_message='A tool must be an object with a `type`, such as {"type": "function", "name": "...", '
        '"parameters": {...}}',
    ),
]


class ResponseCreateParams(ResponsesModel):
    """The body of `POST /v1/responses`: what a task's `responses_create_params` must be.

    `chat_template_kwargs` is vLLM's addition to it.

    >>> ResponseCreateParams.model_validate({"input": "2+2?", "temperature": 1}).to_dict()
    {'input': '2+2?', 'temperature': 1.0}
    """

    input: Annotated[
        Annotated[str, Tag("text")] | Annotated[list[ResponseItem], Tag("list")],
        Discriminator(
            text_or_list,
            custom_error_type="input",
            custom_error_message="`input` must be a string or a list of items",
        ),
    ]
    model: str | None = None
    tools: list[Tool] | None = None
    instructions: str | None = None
    tool_choice: Literal["none", "auto", "required"] | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    max_output_tokens: int | None = None
    reasoning: dict[str, Any] | None = None
    text: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None


PASSED_ON: dict[str, str] = {
    "allowed_token_ids": "whole numbers",
    "bad_words": "strings",
    "frequency_penalty": "a number",
    "ignore_eos": "true or false",
    "include_stop_str_in_output": "true or false",
    "min_p": "a number",
    "min_tokens": "a whole number",
    "presence_penalty": "a number",
    "repetition_penalty": "a number",
    "seed": "a whole number",
    "stop": "a string or strings",
    "stop_token_ids": "whole numbers",
    "thinking_token_budget": "a whole number",
    "top_k": "a whole number",
}
"""Request fields beyond the Responses API that mean the same to `vllm serve`, by these names, and what they are."""

_OPENAIS = {
    *("background", "context_management", "conversation", "include", "max_tool_calls", "moderation"),
    *("previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_retention", "safety_identifier"),
    *("service_tier", "store", "stream", "stream_options", "truncation", "user"),
}
REQUEST_PARAMETERS = frozenset({*ResponseCreateParams.model_fields, *PASSED_ON, *_OPENAIS})
"""Request parameters that a task may have: the Responses API's and vLLM's."""

CHAT_NAMES = {
    **dict.fromkeys(("max_tokens", "max_completion_tokens"), "max_output_tokens"),
    **{"messages": "input", "reasoning_effort": "reasoning", "response_format": "text", "logprobs": "top_logprobs"},
}
"""The names of parameters that a chat request calls otherwise."""

WHOLE_NUMBERS = frozenset(
    {"max_output_tokens", "max_tool_calls", "top_logprobs"}
    | {name for name, kind in PASSED_ON.items() if kind == "a whole number"}
)
"""Those of them that are one whole number."""


class InputTokensDetails(Tagged):
    """Details of the input tokens."""

    schema_fields = frozenset({"cached_tokens", "cache_write_tokens"})

    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputTokensDetails(Tagged):
    """Details of the output tokens."""

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


def explain(error: ValidationError) -> str:
    """The first problem of a validation error in one line: where, what, and what was given.

    >>> try:
    ...     ResponseCreateParams.model_validate({"input": [{"role": "robot", "content": "Hi"}]})
    ... except ValidationError as error:
    ...     print(explain(error))
    input.list.0.message.role: Input should be 'user', 'assistant', 'system' or 'developer' (given: 'robot')
    """
    problem = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in problem["loc"])
    value = "" if problem["type"] == "missing" else f" (given: {excerpt(problem['input'], 80)})"
    return f"{place}: {problem['msg']}{value}" if place else f"{problem['msg']}{value}"
