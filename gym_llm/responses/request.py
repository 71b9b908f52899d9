"""What is asked: the body of `POST /v1/responses`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Tag, ValidationError

from gym_llm.responses.items import ResponseItem
from gym_llm.responses.parts import ResponsesModel, Tagged, UnknownItem, tag_of, text_or_list


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
    value = "" if problem["type"] == "missing" else f" (given: {problem['input']!r:.80})"
    return f"{place}: {problem['msg']}{value}" if place else f"{problem['msg']}{value}"
