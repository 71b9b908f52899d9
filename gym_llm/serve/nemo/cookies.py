"""A session's cookie: its id, signed, so that nobody can make one up."""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode

_UNUSABLE = re.compile(r"[^A-Za-z0-9_.-]")
_SIGNATURE_BYTES = 18  # of SHA-256's 32; a multiple of 3 needs no padding


class SessionCookie:
    """Reads and writes the cookie of one server's sessions.

    Its name is the one that NeMo Gym would give it, and is signed, too: another server's cookie opens nothing.

    Args:
        class_name: Of the environment's class.
        name: Of the server.
        secret: What the key is derived from.

    Attributes:
        name: `ClassName___NAME`.
    """

    def __init__(self, class_name: str, name: str, secret: bytes) -> None:
        self.name = _UNUSABLE.sub("_", f"{class_name}___{name}")
        self._key = hmac.digest(secret, b"gym_llm session cookie " + self.name.encode(), "sha256")
        self._prefix = f"{self.name}="

    def read(self, header: str | None) -> str | None:
        """The session's id.

        Args:
            header: A request's `Cookie`, as it came.

        Returns:
            None if there is no such cookie, or none that was signed here.
        """
        if header is None:
            return None
        for pair in header.split(";"):
            pair = pair.strip()
            if pair.startswith(self._prefix):
                session_id, _, signature = pair[len(self._prefix) :].strip('"').rpartition(".")
                if hmac.compare_digest(signature.encode(errors="surrogateescape"), self._sign(session_id)):
                    return session_id
        return None

    def written(self, session_id: str) -> str:
        """The `Set-Cookie` of an answer."""
        return f"{self._prefix}{session_id}.{self._sign(session_id).decode()}; Path=/; HttpOnly; SameSite=Lax"

    def _sign(self, session_id: str) -> bytes:
        digest = hmac.digest(self._key, session_id.encode(errors="surrogateescape"), "sha256")
        return urlsafe_b64encode(digest[:_SIGNATURE_BYTES])
