"""Which values of a configuration are secret, and showing it without them."""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Any

MASK = "***"
_SECRET_KEY = re.compile(
    r"api_?-?key|secret|password|passwd|credential|(^|[._-]|[a-z](?=T))token([_-]?\d+)?$", re.IGNORECASE
)
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_LONG = 8  # a shorter secret may be part of any word: it is masked only where it is the whole value


def is_secret_key(key: str) -> bool:
    """Whether a key names a secret.

    >>> [is_secret_key(key) for key in ("policy_api_key", "hf_token", "clientSecret", "max_output_tokens", "tokenizer")]
    [True, True, True, False, False]
    """
    return bool(_SECRET_KEY.search(key))


def secret_values(value: Any) -> set[str]:
    """What a secret is, as strings: itself, or all that is in it."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return set().union(*map(secret_values, value))
    return set() if value is None or value == "" else {str(value)}


def mask(value: Any, secrets: Set[str] = frozenset()) -> Any:
    """A copy in which secrets are `***`: the values of secret keys, and these strings wherever they are.

    >>> mask({"api_key": "sk-12345678", "headers": ["Bearer sk-12345678"], "model": "m"}, {"sk-12345678"})
    {'api_key': '***', 'headers': ['Bearer ***'], 'model': 'm'}
    """
    if isinstance(value, dict):
        return {
            key: MASK if is_secret_key(str(key)) and secret_values(item) else mask(item, secrets)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [mask(item, secrets) for item in value]
    if isinstance(value, str):
        if value in secrets:
            return MASK
        for secret in sorted(secrets, key=len, reverse=True):
            if len(secret) >= _LONG:
                value = value.replace(secret, MASK)
        return _USER_INFO.sub(MASK, value)
    if isinstance(value, (int, float)) and len(str(value)) >= _LONG and str(value) in secrets:
        return MASK
    return value
