"""Items of an `input` or an `output`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from gym_llm.protocols.responses.content_parts import Content, ContentPart, ResponsesModel, Tagged, UnknownItem
from gym_llm.types import Item

Status: TypeAlias = Literal["in_progress", "completed", "incomplete"]
Role: TypeAlias = Literal["user", "assistant", "system", "developer"]


class EasyInputMessage(ResponsesModel):
    """A message to the model, in the short form that needs no `type` (`{"role": "user", "content": "Hi"}`)."""

    role: Role
    content: Content
    type: Literal["message"] | None = None


class FunctionCallOutput(Tagged):
    """The output of a tool: text, or content parts."""

    call_id: str
    output: Content
    type: Literal["function_call_output"] = "function_call_output"
    id: str | None = None
    status: Status | None = None


class OutputItem(Tagged):
    """An item that a model produced; the last one of a turn may carry the turn's tokens (`gym_llm.types.Item`)."""

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


class ResponseOutputMessage(OutputItem):
    """A message that the model said."""

    schema_fields = frozenset({"type", "role"})

    id: str | None = None
    content: list[ContentPart]
    role: Literal["assistant"] = "assistant"
    status: Status | None = None
    type: Literal["message"] = "message"


class SummaryText(Tagged):
    """A piece of a reasoning item's summary (`Summary` in the openai package)."""

    text: str
    type: Literal["summary_text"] = "summary_text"


class ReasoningText(Tagged):
    """A piece of a reasoning item's own text (`Content` in the openai package)."""

    text: str
    type: Literal["reasoning_text"] = "reasoning_text"


class ResponseReasoningItem(OutputItem):
    """The model's reasoning before its answer."""

    schema_fields = frozenset({"type", "summary"})

    id: str | None = None
    summary: list[SummaryText] = Field(default_factory=list)
    type: Literal["reasoning"] = "reasoning"
    content: list[ReasoningText] | None = None
    encrypted_content: str | None = None
    status: Status | None = None


class ResponseFunctionToolCall(OutputItem):
    """A call of one function; `arguments` is the text the model wrote, not necessarily JSON."""

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
    UnknownItem: "other",
}
_KNOWN_TYPES = frozenset({"reasoning", "function_call", "function_call_output"})


def _item_tag(item: Any) -> str | None:
    """Return the tag of the `ResponseItem` model that a value should match."""
    if not isinstance(item, dict):
        return _ITEM_TAGS.get(type(item))
    kind = item.get("type")
    if kind == "message" or (kind is None and "role" in item):
        is_models = item.get("role") == "assistant" and isinstance(item.get("content"), list)
        return "output_message" if is_models else "message"
    if not isinstance(kind, str):
        return None
    return kind if kind in _KNOWN_TYPES else "other"


ResponseItem: TypeAlias = Annotated[
    Annotated[EasyInputMessage, Tag("message")]
    | Annotated[ResponseOutputMessage, Tag("output_message")]
    | Annotated[ResponseReasoningItem, Tag("reasoning")]
    | Annotated[ResponseFunctionToolCall, Tag("function_call")]
    | Annotated[FunctionCallOutput, Tag("function_call_output")]
    | Annotated[UnknownItem, Tag("other")],
    Discriminator(
        _item_tag,
        custom_error_type="item",
        custom_error_message='An item must be an object with a `type`, or a message such as {"role": "user", '
        '"content": "..."}',
    ),
]
"""Any item of an `input` or an `output`."""


def user_items(said: Any, hook: str) -> list[Item]:
    """Return a hook's user turn as items.

    Raises:
        TypeError: If it is neither a text, nor items, nor None.
    """
    if isinstance(said, str):
        return [{"type": "message", "role": "user", "content": said}]
    if said is None:
        return []
    if not isinstance(said, list) or not all(isinstance(item, dict) for item in said):
        raise TypeError(f"{hook} returns a str, a list of items or None; got {type(said).__name__}.")
    return said
