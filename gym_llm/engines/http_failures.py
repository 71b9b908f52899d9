"""Reading what went wrong over HTTP: servers' error bodies, context overflow, Retry-After, broken connections."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import orjson

from gym_llm.records.failures import failure_kind, reason
from gym_llm.types import FailureKind
from gym_llm.utils.text import excerpt, printable

MAX_RETRY_AFTER_SECONDS = 60.0
"""A server that asks for a longer pause is asked again after this one."""

_MAX_MESSAGE = 10_000
_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body|h1)\b", re.IGNORECASE)
_TITLE = re.compile(r"<(?:title|h1)\b[^<>]{0,200}>([^<>]{1,100})", re.IGNORECASE)
_NOT_TEXT = re.compile("[\x00-\x08\x0e-\x1f\ufffd]")
_SPENT_CODES = frozenset(
    {
        "billing_hard_limit_reached",
        "billing_not_active",
        "credit_limit",
        "exceeded_current_quota_error",
        "insufficient_balance",
        "insufficient_credits",
        "insufficient_quota",
    }
)
"""Codes and types of errors that no pause mends; a mere rate limit has another one, or none."""
_OVERFLOW_PHRASES = (
    "context_length_exceeded",  # OpenAI's error code
    "context length",  # OpenAI, vLLM ("maximum context length"), SGLang
    "maximum model length",  # vLLM
    "context window",  # OpenAI's Responses API
    "context size",  # llama.cpp
    "prompt is too long",  # Anthropic
)


def parse_body(payload: bytes) -> Any:
    """Parse JSON; the standard library for what orjson refuses and servers do write: NaN, lone surrogates.

    Raises:
        ValueError: If it is not JSON.
    """
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError:
        try:
            return json.loads(payload)
        except RecursionError:
            raise ValueError("It is nested too deeply.") from None


def is_json(payload: bytes) -> bool:
    """Whether the body of an answer begins and ends as JSON does; a short one is parsed.

    >>> is_json(b'{"output": []}'), is_json(b"<html></html>"), is_json(b'{"output": [')
    (True, False, False)
    """
    ends = payload.lstrip()[:1] + payload.rstrip()[-1:]
    if ends in (b"{}", b"[]"):
        return True
    with suppress(ValueError):
        parse_body(payload[:_MAX_MESSAGE])
        return True
    return False


def server_message(payload: bytes) -> str:
    """Return the message of an error's body (in the shape of OpenAI, vLLM or FastAPI, else its text) as one line.

    An HTML page is named by its title; bytes that are not text are counted.

    >>> server_message(b'{"error": {"message": "Too long.", "code": "context_length_exceeded"}}')
    'Too long. (context_length_exceeded)'
    >>> server_message(b'{"object": "error", "message": "No such model.", "code": 404}')
    'No such model.'
    >>> server_message(b"<html><title>Sign in</title><body>Hi</html>"), server_message(bytes(range(256)))
    ('the HTML page "Sign in"', '256 bytes that are not text')
    """
    body: Any = None
    with suppress(ValueError):
        body = parse_body(payload)
    text: Any = _shown_body(payload)
    if isinstance(body, dict):
        error = body.get("error")
        if isinstance(error, dict):
            code = error.get("code")
            text = _text(error.get("message")) + (f" ({code[:100]})" if isinstance(code, str) else "")
        else:
            text = error or body.get("message") or body.get("detail") or text
    return printable(" ".join(_text(text).split()))


def _shown_body(payload: bytes) -> str:
    text = payload[:_MAX_MESSAGE].decode(errors="replace")
    if _PAGE.match(text):
        title = _TITLE.search(text)
        return f'the HTML page "{title[1].strip()}"' if title else "an HTML page"
    is_text = len(_NOT_TEXT.findall(text)) <= len(text) // 10
    return text if is_text else f"{len(payload):,} bytes that are not text"


def _text(value: Any) -> str:
    return value[:_MAX_MESSAGE] if isinstance(value, str) else excerpt(value, _MAX_MESSAGE)


def is_spent(status: int, payload: bytes) -> bool:
    """Whether an error says that the account has no credit left, so that the same request fails again.

    >>> is_spent(429, b'{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}')
    True
    >>> is_spent(429, b'{"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}')
    False
    """
    if status == 402:
        return True
    if not 400 <= status < 500:
        return False
    try:
        body = parse_body(payload)
    except ValueError:
        return False
    error = body.get("error", body) if isinstance(body, dict) else None
    named = [error.get(name) for name in ("code", "type")] if isinstance(error, dict) else []
    return any(isinstance(name, str) and name.lower() in _SPENT_CODES for name in named)


def is_overflow(status: int, message: str) -> bool:
    """Whether an error says that prompt and answer do not fit the model's context.

    vLLM also says so where the prompt alone fits but `max_output_tokens` more do not.
    """
    if status not in (400, 413):
        return False
    message = message.lower()
    return any(phrase in message for phrase in _OVERFLOW_PHRASES)


def retry_after(value: str | None) -> float:
    """Seconds that a Retry-After header asks for (RFC 9110, 10.2.3: a number or a date), cut to a minute.

    >>> retry_after("7"), retry_after("86400"), retry_after("soon"), retry_after(None)
    (7.0, 60.0, 0.0, 0.0)
    """
    if value is None:
        return 0.0
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
            seconds = (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
        except (ValueError, OverflowError):  # no date, or none that there is: in the year 0001 east of Greenwich
            return 0.0
    return min(max(0.0, seconds), MAX_RETRY_AFTER_SECONDS)  # max(0.0, nan) is 0.0


def kind_of(error: Exception) -> FailureKind:
    """Return the failure kind of an episode whose request failed with this error.

    >>> kind_of(aiohttp.ServerDisconnectedError()), kind_of(TimeoutError())
    ('transport_peer_drop', 'transport_timeout')
    """
    kind = failure_kind(error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error, "engine")
    if kind != "agent_run_error":
        return kind
    connected = not isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ClientSSLError))
    return "transport_peer_drop" if connected else "transport_unreachable"


def kind_of_status(status: int) -> FailureKind:
    """Return the failure kind for an HTTP status; that of a 200 whose body is not JSON.

    >>> kind_of_status(429), kind_of_status(503), kind_of_status(400)
    ('provider_quota_exhausted', 'provider_unavailable', 'agent_request_failed')
    """
    if status in (402, 429):
        return "provider_quota_exhausted"
    return "provider_unavailable" if status >= 500 or status == 200 else "agent_request_failed"


def failure_clause(error: Exception) -> str:
    """Return what happened to a request as the rest of a sentence that begins with the server's URL."""
    if isinstance(error, aiohttp.ClientSSLError):
        return f"cannot be reached: {printable(str(error))}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "cannot be reached: its host name does not resolve"
    if isinstance(error, aiohttp.ClientConnectorError):
        why = os.strerror(error.os_error.errno) if error.os_error.errno else str(error.os_error)
        return f"cannot be reached: {why}"
    if isinstance(error, TimeoutError):
        return "cannot be reached: connecting took too long"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "closed the connection without an answer"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "closed the connection in the middle of an answer"
    return f"failed: {printable(reason(error))}"
