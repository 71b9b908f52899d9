"""The OpenAI Responses protocol: its schema as pydantic models, for data that comes in from outside.

Names and fields are those of the `openai` package's `openai.types.responses`, whose data these models read and write;
they are more forgiving where servers and data sets differ (ids and statuses may be null or missing) and carry the
training fields `prompt_token_ids`, `generation_token_ids` and `generation_log_probs`. Fields and item types that are
not known here are kept as they are. Hot paths use the plain dicts of `gym_llm.types` instead.
"""

from gym_llm.protocols.responses.bodies import (
    FunctionTool,
    IncompleteDetails,
    InputTokensDetails,
    OutputTokensDetails,
    Response,
    ResponseCreateParams,
    ResponseUsage,
    explain,
)
from gym_llm.protocols.responses.content_parts import (
    ResponseInputImage,
    ResponseInputText,
    ResponseOutputRefusal,
    ResponseOutputText,
    ResponsesModel,
    UnknownItem,
)
from gym_llm.protocols.responses.items import (
    EasyInputMessage,
    FunctionCallOutput,
    ReasoningText,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseReasoningItem,
    SummaryText,
)

__all__ = [
    "EasyInputMessage",
    "FunctionCallOutput",
    "FunctionTool",
    "IncompleteDetails",
    "InputTokensDetails",
    "OutputTokensDetails",
    "ReasoningText",
    "Response",
    "ResponseCreateParams",
    "ResponseFunctionToolCall",
    "ResponseInputImage",
    "ResponseInputText",
    "ResponseOutputMessage",
    "ResponseOutputRefusal",
    "ResponseOutputText",
    "ResponseReasoningItem",
    "ResponseUsage",
    "ResponsesModel",
    "SummaryText",
    "UnknownItem",
    "explain",
]
