"""The OpenAI Responses schema as pydantic models, for data that comes in from outside.

Names and fields are those of the `openai` package's `openai.types.responses`, whose data these models read and write;
they are more forgiving where servers and data sets differ (ids and statuses may be null or missing) and carry the
training fields `prompt_token_ids`, `generation_token_ids` and `generation_log_probs`. Fields and item types that are
not known here are kept as they are. Hot paths use the plain dicts of `gym_llm.types` instead.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError

Status: TypeAlias = Literal["in_progress", "completed", "incomplete"]
Role: TypeAlias = Literal["user", "assistant", "system", "developer"]


class ResponsesModel(BaseModel):
    """What all models here share: unknown fields are kept, and `to_dict` gives back what was set."""

    model_config = ConfigDict(extra="allow", strict=True, protected_namespaces=())

    schema_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields that are written even when nobody set them, because the OpenAI schema has no object without them."""

    def to_dict(self) -> dict[str, Any]:
        """The model as JSON values: the fields that were set, and those the schema cannot do without.

        Named like the `openai` package's method, so that either kind of object can be turned into a dict the same way.

        >>> ResponseOutputText(text="4").to_dict()
        {'text': '4', 'type': 'output_text', 'annotations': []}
        """
        return self.model_dump(mode="json", exclude_unset=True)


class _Tagged(ResponsesModel):
    """A model that has `schema_fields`."""

    def model_post_init(self, context: Any, /) -> None:
        """Count the schema's fields as set."""
        self.__pydantic_fields_set__.update(self.schema_fields)


class Item(ResponsesModel):
    """An item or content part whose type is not known here: kept field by field, in the order given."""


# Content parts ------------------------------------------------------------------------------------------------------


class ResponseInputText(_Tagged):
    """A text part of an input message."""

    schema_fields = frozenset({"type"})

    text: str
    type: Literal["input_text"] = "input_text"


class ResponseInputImage(_Tagged):
    """An image part of an input message, by URL (a `data:` URL too) or uploaded file."""

    schema_fields = frozenset({"type"})

    type: Literal["input_image"] = "input_image"
    image_url: str | None = None
    file_id: str | None = None
    detail: str | None = None


class ResponseOutputText(_Tagged):
    """A text part of what a model said."""

    schema_fields = frozenset({"type", "annotations"})

    text: str
    type: Literal["output_text"] = "output_text"
    annotations: list[dict[str, Any]] = Field(default_factory=list)
    logprobs: list[dict[str, Any]] | None = None


class ResponseOutputRefusal(_Tagged):
    """A part in which the model declines to answer."""

    schema_fields = frozenset({"type"})

    refusal: str
    type: Literal["refusal"] = "refusal"


_PARTS = {
    "input_text": ResponseInputText,
    "input_image": ResponseInputImage,
    "output_text": ResponseOutputText,
    "refusal": ResponseOutputRefusal,
}
_PART_TAGS: dict[type, str] = {**{model: tag for tag, model in _PARTS.items()}, Item: "other"}


def _part_tag(part: Any) -> str | None:
    """Which model of `ContentPart` a value is meant to be."""
    if not isinstance(part, dict):
        return _PART_TAGS.get(type(part))
    kind = part.get("type")
    if not isinstance(kind, str):
        return None
    return kind if kind in _PARTS else "other"


ContentPart: TypeAlias = Annotated[
    Annotated[ResponseInputText, Tag("input_text")]
    | Annotated[ResponseInputImage, Tag("input_image")]
    | Annotated[ResponseOutputText, Tag("output_text")]
    | Annotated[ResponseOutputRefusal, Tag("refusal")]
    | Annotated[Item, Tag("other")],
    Discriminator(
        _part_tag,
        custom_error_type="content_part",
        custom_error_message='A content part must be an object with a string `type`, such as {"type": "input_text", '
        '"text": "..."}',
    ),
]


def _text_or_list(value: Any) -> str | None:
    """Which side of a `str | list` a value is on, so that errors are about that side only."""
    return "text" if isinstance(value, str) else "list" if isinstance(value, list) else None


Content: TypeAlias = Annotated[
    Annotated[str, Tag("text")] | Annotated[list[ContentPart], Tag("list")],
    Discriminator(
        _text_or_list,
        custom_error_type="content",
        custom_error_message="Content must be a string or a list of content parts",
    ),
]
"""What a message or a tool output says."""


# Items --------------------------------------------------------------------------------------------------------------


class EasyInputMessage(ResponsesModel):
    """A message to the model, in the short form that needs no `type` (`{"role": "user", "content": "Hi"}`)."""

    role: Role
    content: Content
    type: Literal["message"] | None = None


class FunctionCallOutput(_Tagged):
    """What a tool answered: text, or content parts."""

    schema_fields = frozenset({"type"})

    call_id: str
    output: Content
    type: Literal["function_call_output"] = "function_call_output"
    id: str | None = None
    status: Status | None = None


class _OutputItem(_Tagged):
    """An item that a model produced; the last one of a turn may carry the turn's tokens.

    Attributes:
        prompt_token_ids: All ids the model was given.
        generation_token_ids: The ids it sampled.
        generation_log_probs: Natural log of the probability of each sampled id.
    """

    prompt_token_ids: list[int] | None = None
    generation_token_ids: list[int] | None = None
    generation_log_probs: list[float] | None = None

    def model_post_init(self, context: Any, /) -> None:
        """Check that the token fields belong together."""
        super().model_post_init(context)
        prompt, generated, log_probs = self.prompt_token_ids, self.generation_token_ids, self.generation_log_probs
        if prompt is None and generated is None and log_probs is None:
            return
        if prompt is None or generated is None or log_probs is None:
            raise ValueError(
                "prompt_token_ids, generation_token_ids and generation_log_probs come together: give all three or none"
            )
        if len(generated) != len(log_probs):
            raise ValueError(
                f"there are {len(generated)} generation_token_ids but {len(log_probs)} generation_log_probs: "
                "give one log probability per generated id"
            )


class ResponseOutputMessage(_OutputItem):
    """A message that the model said."""

    schema_fields = frozenset({"type", "role"})

    id: str | None = None
    content: list[ContentPart]
    role: Literal["assistant"] = "assistant"
    status: Status | None = None
    type: Literal["message"] = "message"


class Summary(_Tagged):
    """A piece of a reasoning item's summary."""

    schema_fields = frozenset({"type"})

    text: str
    type: Literal["summary_text"] = "summary_text"


class ReasoningText(_Tagged):
    """A piece of a reasoning item's own text (`Content` in the openai package)."""

    schema_fields = frozenset({"type"})

    text: str
    type: Literal["reasoning_text"] = "reasoning_text"


class ResponseReasoningItem(_OutputItem):
    """What the model thought before it answered."""

    schema_fields = frozenset({"type", "summary"})

    id: str | None = None
    summary: list[Summary] = Field(default_factory=list)
    type: Literal["reasoning"] = "reasoning"
    content: list[ReasoningText] | None = None
    encrypted_content: str | None = None
    status: Status | None = None


class ResponseFunctionToolCall(_OutputItem):
    """A call of one function; `arguments` is the text the model wrote, not necessarily JSON."""

    schema_fields = frozenset({"type"})

    arguments: str
    call_id: str
    name: str
    type: Literal["function_call"] = "function_call"
    id: str | None = None
    status: Status | None = None


_ITEM_TAGS: dict[type, str] = {
    EasyInputMessage: "message",
    ResponseOutputMessage: "output_message",
    ResponseReasoningItem: "reasoning",
    ResponseFunctionToolCall: "function_call",
    FunctionCallOutput: "function_call_output",
    Item: "other",
}
_KNOWN_TYPES = frozenset({"reasoning", "function_call", "function_call_output"})


def _item_tag(item: Any) -> str | None:
    """Which model of `ResponseItem` a value is meant to be."""
    if not isinstance(item, dict):
        return _ITEM_TAGS.get(type(item))
    kind = item.get("type")
    if kind == "message" or (kind is None and "role" in item):
        said_by_model = item.get("role") == "assistant" and isinstance(item.get("content"), list)
        return "output_message" if said_by_model else "message"
    if not isinstance(kind, str):
        return None
    return kind if kind in _KNOWN_TYPES else "other"


ResponseItem: TypeAlias = Annotated[
    Annotated[EasyInputMessage, Tag("message")]
    | Annotated[ResponseOutputMessage, Tag("output_message")]
    | Annotated[ResponseReasoningItem, Tag("reasoning")]
    | Annotated[ResponseFunctionToolCall, Tag("function_call")]
    | Annotated[FunctionCallOutput, Tag("function_call_output")]
    | Annotated[Item, Tag("other")],
    Discriminator(
        _item_tag,
        custom_error_type="item",
        custom_error_message='An item must be an object with a `type`, or a message such as {"role": "user", '
        '"content": "..."}',
    ),
]
"""Any item of an `input` or an `output`."""


# Tools --------------------------------------------------------------------------------------------------------------


class FunctionTool(_Tagged):
    """A function the model may call; `parameters` is a JSON schema."""

    schema_fields = frozenset({"type"})

    name: str
    type: Literal["function"] = "function"
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    description: str | None = None


_TOOL_TAGS: dict[type, str] = {FunctionTool: "function", Item: "other"}


def _tool_tag(tool: Any) -> str | None:
    """Which model of `Tool` a value is meant to be."""
    if not isinstance(tool, dict):
        return _TOOL_TAGS.get(type(tool))
    kind = tool.get("type")
    if not isinstance(kind, str):
        return None
    return kind if kind == "function" else "other"


Tool: TypeAlias = Annotated[
    Annotated[FunctionTool, Tag("function")] | Annotated[Item, Tag("other")],
    Discriminator(
        _tool_tag,
        custom_error_type="tool",
        custom_error_message='A tool must be an object with a `type`, such as {"type": "function", "name": "...", '
        '"parameters": {...}}',
    ),
]


# Requests and responses ---------------------------------------------------------------------------------------------


class ResponseCreateParams(ResponsesModel):
    """The body of `POST /v1/responses`: what a task's `responses_create_params` must be.

    `chat_template_kwargs` is vLLM's addition to it.

    >>> ResponseCreateParams.model_validate({"input": "2+2?", "temperature": 1}).to_dict()
    {'input': '2+2?', 'temperature': 1.0}
    """

    input: Annotated[
        Annotated[str, Tag("text")] | Annotated[list[ResponseItem], Tag("list")],
        Discriminator(
            _text_or_list,
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


class InputTokensDetails(_Tagged):
    """Where the input tokens came from."""

    schema_fields = frozenset({"cached_tokens", "cache_write_tokens"})

    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputTokensDetails(_Tagged):
    """What the output tokens were spent on."""

    schema_fields = frozenset({"reasoning_tokens"})

    reasoning_tokens: int = 0


class ResponseUsage(_Tagged):
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


class Response(_Tagged):
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
    given = "" if problem["type"] == "missing" else f" (given: {problem['input']!r:.80})"
    return f"{place}: {problem['msg']}{given}" if place else f"{problem['msg']}{given}"
