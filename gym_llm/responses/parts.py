"""What the models of the Responses schema share, and the parts that contents consist of."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag


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


class Tagged(ResponsesModel):
    """A model that has `schema_fields`."""

    def model_post_init(self, context: Any, /) -> None:
        """Count the schema's fields as set."""
        self.__pydantic_fields_set__.update(self.schema_fields)


class UnknownItem(ResponsesModel):
    """An item or content part whose type is not known here: kept field by field, in the order given."""


class ResponseInputText(Tagged):
    """A text part of an input message."""

    schema_fields = frozenset({"type"})

    text: str
    type: Literal["input_text"] = "input_text"


class ResponseInputImage(Tagged):
    """An image part of an input message, by URL (a `data:` URL too) or uploaded file."""

    schema_fields = frozenset({"type"})

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

    schema_fields = frozenset({"type"})

    refusal: str
    type: Literal["refusal"] = "refusal"


_PARTS = {
    "input_text": ResponseInputText,
    "input_image": ResponseInputImage,
    "output_text": ResponseOutputText,
    "refusal": ResponseOutputRefusal,
}
_PART_TAGS: dict[type, str] = {**{model: tag for tag, model in _PARTS.items()}, UnknownItem: "other"}


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
    | Annotated[UnknownItem, Tag("other")],
    Discriminator(
        _part_tag,
        custom_error_type="content_part",
        custom_error_message='A content part must be an object with a string `type`, such as {"type": "input_text", '
        '"text": "..."}',
    ),
]


def text_or_list(value: Any) -> str | None:
    """Which side of a `str | list` a value is on, so that errors are about that side only."""
    return "text" if isinstance(value, str) else "list" if isinstance(value, list) else None


Content: TypeAlias = Annotated[
    Annotated[str, Tag("text")] | Annotated[list[ContentPart], Tag("list")],
    Discriminator(
        text_or_list,
        custom_error_type="content",
        custom_error_message="Content must be a string or a list of content parts",
    ),
]
"""What a message or a tool output says."""
