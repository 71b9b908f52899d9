"""The base of the Responses schema's models, and the parts of contents."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag


class ResponsesModel(BaseModel):
    """The base of all models: unknown fields are kept, and `to_dict` returns the fields that were set."""

    model_config = ConfigDict(extra="allow", strict=True, protected_namespaces=())

    def to_dict(self) -> dict[str, Any]:
        """The model as JSON values: the fields that were set, and those the schema cannot do without.

        Named like the `openai` package's method, so that either kind of object can be turned into a dict the same way.

        >>> ResponseOutputText(text="4").to_dict()
        {'text': '4', 'type': 'output_text', 'annotations': []}
        """
        return self.model_dump(mode="json", exclude_unset=True)


class Tagged(ResponsesModel):
    """A model with fields that are written even if they were not set: the OpenAI schema requires them."""

    schema_fields: ClassVar[frozenset[str]] = frozenset({"type"})

    def model_post_init(self, context: Any, /) -> None:
        """Count the schema's fields as set."""
        self.__pydantic_fields_set__.update(self.schema_fields)


class UnknownItem(ResponsesModel):
    """An item or content part whose type is not known here: kept field by field, in the order given."""


class ResponseInputText(Tagged):
    """A text part of an input message."""

    text: str
    type: Literal["input_text"] = "input_text"


class ResponseInputImage(Tagged):
    """An image part of an input message, by URL (a `data:` URL too) or uploaded file."""

    type: Literal["input_image"] = "input_image"
    image_url: str | None = None
    file_id: str | None = None
    detail: str | None = None


class ResponseOutputText(Tagged):
    """A text part of what a model said."""

    schema_fields = frozenset({"type", "annotations"})

    text: str
    type: Literal["output_text"] = "output_text"
    annotations: list[dict[str, Any]] = Field(default_factory=list)
    logprobs: list[dict[str, Any]] | None = None


class ResponseOutputRefusal(Tagged):
    """A part in which the model declines to answer."""

    refusal: str
    type: Literal["refusal"] = "refusal"


def tag_of(value: Any, known: Collection[str]) -> str | None:
    """Return the `type` of an object if it is known, else "other"; None for any other value."""
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return None if not isinstance(kind, str) else kind if kind in known else "other"


def text_or_list(value: Any) -> str | None:
    """Return which side of a `str | list` a value is on, so that errors are about that side only."""
    return "text" if isinstance(value, str) else "list" if isinstance(value, list) else None


_PARTS = frozenset({"input_text", "input_image", "output_text", "refusal"})

ContentPart: TypeAlias = Annotated[
    Annotated[ResponseInputText, Tag("input_text")]
    | Annotated[ResponseInputImage, Tag("input_image")]
    | Annotated[ResponseOutputText, Tag("output_text")]
    | Annotated[ResponseOutputRefusal, Tag("refusal")]
    | Annotated[UnknownItem, Tag("other")],
    Discriminator(
        lambda part: tag_of(part, _PARTS),
        custom_error_type="content_part",
        custom_error_message='A content part must be an object with a string `type`, such as {"type": "input_text", '
        '"text": "..."}',
    ),
]

Content: TypeAlias = Annotated[
    Annotated[str, Tag("text")] | Annotated[list[ContentPart], Tag("list")],
    Discriminator(
        text_or_list,
        custom_error_type="content",
        custom_error_message="Content must be a string or a list of content parts",
    ),
]
"""The content of a message or of a tool's output."""
