"""OpenAPI operations of NeMo Gym's routes."""

from __future__ import annotations

from typing import Any

_OBJECT: dict[str, Any] = {"type": "object"}
_ROW = {"type": "object", "required": ["responses_create_params"], "properties": {"responses_create_params": _OBJECT}}
_HANDED_IN = {
    "type": "object",
    "required": ["responses_create_params", "response"],
    "properties": {"responses_create_params": _OBJECT, "response": _OBJECT},
}
_ANSWERS = {
    "type": "object",
    "required": ["verify_responses"],
    "properties": {"verify_responses": {"type": "array", "items": _OBJECT}},
}


def _operation(summary: str, body: dict[str, Any] | None, answer: str, *, refusals: str = "400 503") -> dict[str, Any]:
    detail = {"type": "object", "properties": {"detail": {"type": "string"}}}
    responses: dict[str, Any] = {"200": {"description": answer, "content": {"application/json": {"schema": {}}}}}
    for status in refusals.split():
        content = {"application/json": {"schema": detail}}
        responses[status] = {"description": "Why not, as `detail`.", "content": content}
    operation: dict[str, Any] = {"tags": ["NeMo Gym"], "summary": summary, "responses": responses}
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return operation


SEED_SESSION = _operation("Begin an episode with a row; a cookie says whose it is.", _ROW, "The session is seeded.")
CALL_TOOL = _operation(
    "Call a tool of the session's episode with the arguments.",
    _OBJECT,
    "What to tell the model.",
    refusals="400 404 500",
)
VERIFY = _operation("Have an episode scored.", _HANDED_IN, "The body, with the reward.")
CLOSE_SESSION = _operation("Give the session up.", _OBJECT, "It is closed, or never was.", refusals="400")
RESET = _operation("Begin an episode with a row.", _ROW, "The observation, a text or null, and info.")
STEP = _operation(
    "Take a model's turn.", _HANDED_IN, "Observation, reward, terminated, truncated and info.", refusals="400 404 500"
)
CLOSE = CLOSE_SESSION
AGGREGATE = _operation("Figures over many answers of /verify.", _ANSWERS, "The figures.", refusals="400")
REVERIFY_MODE = _operation("Whether /verify needs a session.", None, "stateless, unsupported or unknown.", refusals="")
ALIVE = _operation("Whether the server runs.", None, "It does.", refusals="")
