"""The OpenAI Responses protocol: its schema as pydantic models, for data that comes in from outside.

Names and fields are those of `openai.types.responses` in the `openai` package, and these models read and write its
data. They accept more, because servers and data sets differ: ids and statuses may be null or missing. They have the
training fields `prompt_token_ids`, `generation_token_ids` and `generation_log_probs`. Unknown fields and item types
stay unchanged. Hot paths use the plain dicts of `gym_llm.types` instead.
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
