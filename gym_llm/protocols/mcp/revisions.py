"""The supported revisions of MCP, and their differences.

Up to 2025-11-25 a client begins with a handshake (`initialize`). The server may return a session id, which the client
repeats in a header. From 2026-07-28 on there is neither. Each request then names its revision in `_meta`. Headers
repeat the revision, the method and the called name, so a proxy can route a request without its body. If headers and
body differ, the server refuses the request (`HEADER_MISMATCH`).
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from gym_llm.protocols.mcp.jsonrpc import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    McpError,
    Message,
)

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = ("2026-07-28",)
ASSUMED = "2025-03-26"
"""The revision of a request whose header names none, as later revisions say."""
BATCHING = HANDSHAKE[:2]
"""The revisions in which a body may be a list of messages."""

SESSION_HEADER, VERSION_HEADER = "Mcp-Session-Id", "MCP-Protocol-Version"
METHOD_HEADER, NAME_HEADER = "Mcp-Method", "Mcp-Name"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_OF_MCP = "io.modelcontextprotocol/"
VERSION_META, CAPABILITIES_META, SERVER_META = (
    f"{_OF_MCP}{name}" for name in ("protocolVersion", "clientCapabilities", "serverInfo")
)

_UNREADABLE = (PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, HEADER_MISMATCH, UNSUPPORTED_VERSION)
STATUS = {**dict.fromkeys(_UNREADABLE, 400), METHOD_NOT_FOUND: 404}
"""The HTTP status of a stateless request's error, by its code; 200 for all others, and before 2026-07-28."""


def agreed(offered: Any) -> str:
    """Return the revision of a handshake: the client's, or our latest if that has no handshakes.

    >>> agreed("2025-06-18"), agreed("2099-01-01")
    ('2025-06-18', '2025-11-25')
    """
    return offered if isinstance(offered, str) and offered in HANDSHAKE else HANDSHAKE[-1]


def is_stateless(headers: CIMultiDictProxy[str], value: Any) -> bool:
    """Whether a body is a message without a handshake, by its header or, without one, by its `_meta`."""
    version = headers.get(VERSION_HEADER)
    if version is not None:
        return version not in HANDSHAKE
    params = value.get("params") if isinstance(value, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and VERSION_META in meta


def check_stateless(headers: CIMultiDictProxy[str], message: Message) -> str:
    """Check a stateless request against its headers.

    Returns:
        Its revision.

    Raises:
        McpError: If they differ, a field is missing, or the revision is not supported.
    """
    for name in (VERSION_HEADER, METHOD_HEADER, NAME_HEADER):
        if len(headers.getall(name, ())) > 1:
            raise McpError(f"The header {name} was sent more than once.", HEADER_MISMATCH)
    header = headers.get(VERSION_HEADER)
    if VERSION_META not in message.meta and header not in (None, *STATELESS):
        raise unsupported(header)
    missing = [key for key in (VERSION_META, CAPABILITIES_META) if key not in message.meta]
    if missing:
        raise McpError(f"The `_meta` of the params lacks {' and '.join(missing)}.", INVALID_PARAMS)
    version = message.meta[VERSION_META]
    if header is None or header != version:
        raise _mismatch(VERSION_HEADER, f"`_meta`, which has {version!r:.40}")
    if headers.get(METHOD_HEADER) != message.method:
        raise _mismatch(METHOD_HEADER, f"the body, whose method is {message.method!r:.80}")
    called = message.params.get(_NAMED.get(message.method, ""))
    if called is not None and _decoded(headers.get(NAME_HEADER)) != called:
        raise _mismatch(NAME_HEADER, f"the body, which calls for {called!r:.80}")
    if version not in STATELESS:
        raise unsupported(version)
    return str(version)


def unsupported(version: Any, supported: tuple[str, ...] = (*STATELESS, *HANDSHAKE)) -> McpError:
    """Return the error that lists the supported revisions."""
    said = str(version)[:40]
    return McpError(
        f"The revision {said!r} is not spoken here, only {', '.join(supported)}.",
        UNSUPPORTED_VERSION,
        data={"supported": [*supported], "requested": said},
    )


def handshake_first(version: str) -> McpError:
    """Return the answer to `server/discover` of a server that needs sessions: clients continue with `initialize`."""
    return unsupported(version, HANDSHAKE)


def _mismatch(header: str, place: str) -> McpError:
    return McpError(f"The header {header} does not say what {place} says.", HEADER_MISMATCH)


def _decoded(value: str | None) -> str | None:
    """A header's value; `=?base64?...?=` stands for what a header cannot have."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    payload = value[9:-2]
    try:
        return base64.b64decode(payload, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
