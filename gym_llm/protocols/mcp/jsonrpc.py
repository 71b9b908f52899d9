"""JSON-RPC 2.0, as MCP uses it: bytes in, messages out, and the errors of both."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from gym_llm.errors import CallerError
from gym_llm.utils.json_codec import dumps, loads, refuse_constant

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022  # MCP's own, since 2026-07-28
CANCELLED = -32800

_LONG_INTEGER = re.compile(rb"\d{19}")
MOST_LEVELS = 100
"""The deepest nesting of a message's objects and lists."""
MOST_IN_A_BATCH = 64


class McpError(CallerError):
    """Raised for a message that is answered with an error.

    Args:
        message: The reason, for the client.
        code: The code of JSON-RPC.
        status: The HTTP status; None for the one that the protocol's revision has for the code.
        data: Further data, for programs.
    """

    def __init__(
        self,
        message: str,
        code: int = INVALID_REQUEST,
        *,
        status: int | None = None,
        data: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.status, self.data = code, status, data


@dataclass(frozen=True, slots=True)
class Message:
    """A request, or a notification, which has no id and gets no answer.

    Attributes:
        method: The method, e.g. `tools/call`.
        params: The parameters; empty without any.
        id: The id for the answer.
    """

    method: str
    params: dict[str, Any]
    id: str | int | None

    @property
    def meta(self) -> dict[str, Any]:
        """The parameters' `_meta`; {} without one."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}


def parse(body: bytes) -> Any:
    """Return the JSON value of a body.

    Raises:
        McpError: If it is invalid, or nested too deeply.
    """
    try:
        # orjson makes floats of integers beyond 64 bits, but a model's argument is what it has written.
        value = json.loads(body.decode(), parse_constant=refuse_constant) if _LONG_INTEGER.search(body) else loads(body)
    except (ValueError, RecursionError):
        raise McpError("The body is not JSON.", PARSE_ERROR, status=400) from None
    if body.count(b"[") + body.count(b"{") > MOST_LEVELS and _is_deeper(value, MOST_LEVELS):
        raise McpError(f"A message has at most {MOST_LEVELS} levels.", status=400)
    return value


def read_message(value: Any) -> Message | None:
    """Return the message of a JSON value; None for a client's answer, which was not asked for.

    Raises:
        McpError: If the value is neither.
    """
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise McpError('A message is a JSON object with "jsonrpc": "2.0".', status=400)
    name = value.get("id")
    if "id" in value and (isinstance(name, bool) or not isinstance(name, str | int)):
        raise McpError("The id of a message is a string or an integer.", status=400)
    if "method" not in value and "id" in value and ("result" in value or "error" in value):
        return None
    method, params = value.get("method"), value.get("params")
    if not isinstance(method, str):
        raise McpError("A message names its method.", status=400)
    if params is not None and not isinstance(params, dict):
        raise McpError("The params of a message are an object.", status=400)
    return Message(method, params or {}, name)


def id_of(value: Any) -> str | int | None:
    """Return the id of a message that may be invalid; None without a valid id."""
    name = value.get("id") if isinstance(value, dict) else None
    return None if isinstance(name, bool) or not isinstance(name, str | int) else name


def result_of(message: Message, result: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request."""
    return {"jsonrpc": "2.0", "id": message.id, "result": result}


def error_of(name: str | int | None, error: McpError) -> dict[str, Any]:
    """Return the answer to a failed request with this id."""
    said: dict[str, Any] = {"code": error.code, "message": str(error)}
    if error.data is not None:
        said["data"] = error.data
    return {"jsonrpc": "2.0", "id": name, "error": said}


def encode(answer: Any) -> bytes:
    """Return an answer as JSON, on one line."""
    return dumps(answer).rstrip(b"\n")


def _is_deeper(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += [child for child in each.values() if isinstance(child, dict | list)]
            elif isinstance(each, list):
                inner += [child for child in each if isinstance(child, dict | list)]
        if not inner:
            return False
        level = inner
    return True
