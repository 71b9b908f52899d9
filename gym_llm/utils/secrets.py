"""Secrets of this process: finding them, and removing them from text.

A secret is learned where it comes in (`register_secrets`): from engines' options and URLs, environments' arguments,
configurations, the command line, environment variables. Where text goes out (files, streams, logs) each learned secret
becomes `***`, also as URLs, JSON and Basic authentication write it. There is one set of them for the process: a log
has no run.

A secret that is short (less than 6 characters, 8 digits) or a plain word could be part of anything that a model says.
It is not looked for in running text, and masked only where a name (`api_key`) says what it is.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import traceback
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from gym_llm.utils.byte_matcher import ByteMatcher

MASK = "***"
_SECRET_KEY = re.compile(
    r"api_?-?key|access_?-?key|private_?-?key|secret|password|passwd|passphrase|credential|authori[sz]ation|cookie"
    r"|(^|[._-])(auth|bearer|pat)$|(^|[._-]|[a-z](?=T))token([_-]?\d+)?$",
    re.IGNORECASE,
)
_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)(?P<user>[^/?#@\s]*@)?(?P<rest>[^\s'\"<>`]*)", re.IGNORECASE)
_QUERY_VALUE = re.compile(r"(?<=[?&;])([^=&;#]+)=([^&;#]*)")
_SECRET_PARAMETER = re.compile(r"(^|[._-])(key|sig|signature|code|auth|sas|pass|pwd|token)$", re.IGNORECASE)
_TELLS_NOTHING = re.compile(r"[\d.:v-]*(preview)?|[A-Za-z_]{1,11}|true|false", re.IGNORECASE)
_KEY_PREFIX = re.compile(r"(sk|pk|rk|hf|gh[a-z]|github_pat|glpat|xox[a-z]|nvapi|AIza|eyJ)[-_A-Z0-9][\w.-]{6,}")
_HEX = re.compile(r"[0-9a-f]{16,}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", re.IGNORECASE)
_RUN = re.compile(r"[A-Za-z0-9]+")
_CHANGE = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[a-z0-9])|(?<=[0-9])(?=[A-Za-z])")
_PLAIN = re.compile(r"[a-z]{1,12}|(?!.{25})[a-z]+(_[a-z]+)+|\d{1,7}|.{0,5}", re.DOTALL)
_NAME = re.compile(r"""([A-Za-z_][\w.-]*)["']?[ \t]*[:=][ \t]*(?:[|>][-+]?)?(?:\n[ \t]+(?![\w.-]+:))?""")
_GIVEN = re.compile(r""""(?:[^"\\\n]|\\.)*|'[^'\n]*|[^\n,}\]]*""")
_INTERPOLATION = re.compile(r"\$\{[^}]*\}?|\s#.*")


def is_secret_key(key: str) -> bool:
    """Whether a key names a secret.

    >>> [is_secret_key(key) for key in ("policy_api_key", "hf_token", "clientSecret", "max_output_tokens", "tokenizer")]
    [True, True, True, False, False]
    """
    return bool(_SECRET_KEY.search(key))


def secret_values(value: Any) -> set[str]:
    """Return a secret's strings: itself, or all strings in it."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return set().union(*map(secret_values, value))
    return set() if value is None or value == "" or isinstance(value, bool) else {_text(value)}


def find_secrets(value: Any) -> set[str]:
    """The secrets in a value: what has a secret's name at any depth, and what is secret in its URLs.

    >>> sorted(find_secrets({"judge": {"api_key": "k-1"}, "url": "http://me:pass@host/v1?key=k-2&n=3"}))
    ['bWU6cGFzcw==', 'k-1', 'k-2', 'pass']
    """
    secrets: set[str] = set()
    if isinstance(value, Mapping):
        for name, item in value.items():
            secrets |= secret_values(item) if isinstance(name, str) and is_secret_key(name) else find_secrets(item)
    elif isinstance(value, (list, tuple)):
        secrets.update(*map(find_secrets, value))
    elif isinstance(value, str):
        if value.lstrip()[:1] in ("{", "["):
            with suppress(ValueError, RecursionError):
                secrets |= find_secrets(json.loads(value))
        for match in _URL.finditer(value):
            secrets |= _url_secrets(match)
    return secrets


def find_in_text(text: str) -> set[str]:
    """The secrets in a text that may be a broken file or argument: whatever follows a secret's name, and URLs'."""
    secrets = find_secrets(text)
    for match in _NAME.finditer(text):
        if is_secret_key(match[1]) and (given := _GIVEN.match(text, match.end())):
            value = _INTERPOLATION.sub(" ", given[0]).strip(" \t\r\"'")
            words = {word.strip("!&*|>%@`'\"[]{}") for word in value.split()}
            secrets |= {value, *(word for word in words if not word.isalpha() or len(word) > 8)}  # not `Bearer`
    return secrets - {""}


def mask(value: Any, secrets: Set[str] = frozenset()) -> Any:
    """A copy in which secrets are `***`: the values of secret keys, these strings, learned ones, and parts of URLs.

    >>> mask({"api_key": "sk-12345678", "headers": ["Bearer sk-12345678"], "model": "m"}, {"sk-12345678"})
    {'api_key': '***', 'headers': ['Bearer ***'], 'model': 'm'}
    """
    if isinstance(value, Mapping):
        return {
            redact(key) if isinstance(key, str) else key: MASK
            if is_secret_key(str(key)) and secret_values(item)
            else mask(item, secrets)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [mask(item, secrets) for item in value]
    if isinstance(value, str):
        if value in secrets:
            return MASK
        for secret in sorted(secrets, key=len, reverse=True):
            if not _PLAIN.fullmatch(secret):
                value = value.replace(secret, MASK)
        return _URL.sub(_masked_url, redact(value))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        text = _text(value)
        return MASK if text in secrets or redact(text) != text else value
    return value


# What this process knows ----------------------------------------------------------------------------------------------


class _Known:
    """The learned secrets, ready to be looked for."""

    def __init__(self) -> None:
        self.secrets: set[str] = set()
        self.in_json = ByteMatcher()
        self.pattern: re.Pattern[str] | None = None

    def add(self, secrets: Set[str]) -> None:
        new = {secret for secret in secrets if not _PLAIN.fullmatch(secret)} - self.secrets
        if not new:
            return
        self.secrets = self.secrets | new
        forms = sorted(set().union(*map(_forms, self.secrets)), key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, forms)))
        lines = {line for form in forms for line in _in_json(form)}
        self.in_json = ByteMatcher(line for line in lines if not any(other in line for other in lines if other != line))


_known = _Known()


def register_secrets(*values: Any) -> None:
    """Have what is secret in these values be `***` wherever this process writes; see `find_secrets`."""
    for value in values:
        add_secrets(find_secrets(value))


def add_secrets(secrets: Set[str]) -> None:
    """Mask these strings as `***` wherever this process writes; plain words are not masked."""
    _known.add(set().union(*map(_parts, secrets)))


def register_env_secrets() -> None:
    """Learn the values of environment variables such as OPENAI_API_KEY and HF_TOKEN, and passwords in their URLs."""
    for name, value in os.environ.items():
        if is_secret_key(name) and not value.startswith(("/", "~", ".")):  # a path says where the secret is
            add_secrets({value})
        elif "://" in value:
            register_secrets(value)


def without_secrets(runtime_env: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Ray's `runtime_env` without the variables whose names are secrets', and these: Ray writes it into its logs.

    >>> without_secrets({"pip": ["x"], "env_vars": {"MY_API_KEY": "k", "A": "1"}})
    ({'pip': ['x'], 'env_vars': {'A': '1'}}, {'MY_API_KEY': 'k'})
    """
    variables: dict[str, str] = runtime_env.get("env_vars") or {}
    secrets = {name: value for name, value in variables.items() if is_secret_key(name)}
    if not secrets:
        return runtime_env, {}
    register_secrets(secrets)
    rest = {name: value for name, value in variables.items() if name not in secrets}
    return {**runtime_env, "env_vars": rest}, secrets


def redact(text: str) -> str:
    """The text with `***` for every learned secret.

    >>> register_secrets({"api_key": "sk-abcdef"})
    >>> redact("401: sk-abcdef is not known")
    '401: *** is not known'
    """
    return text if _known.pattern is None else _known.pattern.sub(MASK, text)


def has_secrets() -> bool:
    """Whether anything is to be looked for."""
    return bool(_known.in_json)


def is_in_json(line: bytes) -> bool:
    """Whether JSON holds a learned secret. Asked of every record, so it only looks."""
    return _known.in_json.are_in(line)


def redact_values(value: Any) -> Any:
    """Return a JSON value with `***` for every registered secret in its strings; numbers (token ids) stay."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(key): redact_values(item) for key, item in value.items()}
    if isinstance(value, list):
        return [redact_values(item) for item in value]
    return value


class _RedactedStream:
    """A text stream on which learned secrets are `***`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> Any:
        return self._stream.write(redact(text))

    def writelines(self, lines: Sequence[str]) -> None:
        self._stream.writelines(map(redact, lines))


def redact_streams() -> None:
    """From now on, learned secrets are `***` on this process's stdout and stderr, the environment's among them."""
    register_env_secrets()
    for name in ("stdout", "stderr"):
        if not isinstance(stream := getattr(sys, name), _RedactedStream | None):
            setattr(sys, name, _RedactedStream(stream))


@contextmanager
def redacted_streams() -> Iterator[None]:
    """`redact_streams`, as long as the block lasts."""
    before = sys.stdout, sys.stderr
    redact_streams()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def redacted_logger(name: str) -> logging.Logger:
    """Return the logger of a module that masks learned secrets as `***` in messages and tracebacks."""
    logger = logging.getLogger(name)
    if _redact_log_record not in logger.filters:
        logger.addFilter(_redact_log_record)
    return logger


def _redact_log_record(record: logging.LogRecord) -> bool:
    if _known.pattern is None:
        return True
    message = record.getMessage()
    if (redacted := redact(message)) != message:
        record.msg, record.args = redacted, None
    if record.exc_info and record.exc_info[1]:
        trace = "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
        if (redacted := redact(trace)) != trace:
            record.exc_info, record.exc_text = None, redacted
    return True


# The forms of a secret ------------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # an integer of more than 4,300 digits, an object whose text raises
        return ""


def _parts(secret: str) -> set[str]:
    """A secret, and what of it is one by itself: the key of `Bearer KEY`, a password in `Basic …`, cookies' values."""
    parts = {secret, secret.strip(), *(cookie.partition("=")[2] for cookie in secret.split("; ") if "=" in cookie)}
    scheme, _, rest = secret.strip().partition(" ")
    if rest and scheme.isalpha():
        parts.add(rest.strip())
        if scheme.lower() == "basic":
            with suppress(ValueError):
                parts.add(b64decode(rest).decode().partition(":")[2])
    return parts


def _forms(secret: str) -> set[str]:
    once = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    twice = {json.dumps(form)[1:-1] for form in once}
    percent = quote(secret, safe="")
    lower = re.sub(r"%..", lambda match: match[0].lower(), percent)
    return {secret, *once, *twice, percent, lower, quote(secret), quote_plus(secret), repr(secret)[1:-1]} - {""}


def _in_json(text: str) -> set[bytes]:
    ascii_only = json.dumps(text)[1:-1].encode()
    try:
        return {ascii_only, json.dumps(text, ensure_ascii=False)[1:-1].encode()}
    except UnicodeEncodeError:  # a lone surrogate: only escaped
        return {ascii_only}


def _url_secrets(match: re.Match[str]) -> set[str]:
    secrets: set[str] = set()
    if match["user"]:
        user, colon, password = match["user"][:-1].partition(":")
        if colon:
            name, word = unquote(user), unquote(password)
            secrets |= {password, word, b64encode(f"{name}:{word}".encode()).decode()}
        if not password or _looks_like_key(user):
            secrets |= {user, unquote(user)}
    rest, _, fragment = match["rest"].partition("#")
    for name, value in _QUERY_VALUE.findall(rest):
        if _is_secret_parameter(name, value):
            secrets |= {value, unquote(value)}
    if fragment and not _TELLS_NOTHING.fullmatch(fragment):
        secrets |= {fragment, unquote(fragment), *(value for _, value in _QUERY_VALUE.findall(f"?{fragment}"))}
    secrets |= {part for part in rest.partition("?")[0].split("/")[1:] if _looks_like_key(unquote(part))}
    return {secret.strip(",;)]}") for secret in secrets} - {""}


def _masked_url(match: re.Match[str]) -> str:
    rest, hash_mark, fragment = match["rest"].partition("#")
    path, question, query = rest.partition("?")
    host, *parts = path.split("/")
    path = "/".join([host, *(MASK if _looks_like_key(unquote(part)) else part for part in parts)])
    query = _QUERY_VALUE.sub(
        lambda pair: f"{pair[1]}={MASK if _is_secret_parameter(pair[1], pair[2]) else pair[2]}", f"?{query}"
    )[1:]
    fragment = fragment if _TELLS_NOTHING.fullmatch(fragment) else MASK
    user = f"{MASK}@" if match["user"] else ""
    return f"{match['scheme']}{user}{path}{question}{query}{hash_mark}{fragment}"


def _is_secret_parameter(name: str, value: str) -> bool:
    if not value or value == MASK:
        return False
    return is_secret_key(name) or bool(_SECRET_PARAMETER.search(name)) or not _TELLS_NOTHING.fullmatch(value)


def _looks_like_key(text: str) -> bool:
    """Whether a part of a path is no word: hexadecimal, or letters and digits that change all the time.

    >>> [_looks_like_key(part) for part in ("4fK2pQ9xWz71mB", "sk-proj-abc12345", "v1", "Qwen3-4B-Instruct-2507")]
    [True, True, False, False]
    """
    if _KEY_PREFIX.fullmatch(text) or _HEX.fullmatch(text):
        return True
    return any(len(run) >= 10 and len(_CHANGE.findall(run)) > 0.34 * len(run) for run in _RUN.findall(text))
