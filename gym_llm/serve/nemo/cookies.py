"""A session's cookie: its id, signed, so that nobody can make one up."""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from hashlib import blake2b

_UNUSABLE = re.compile(r"[^A-Za-z0-9_.-]")
_SIGNATURE_BYTES = 18  # a multiple of 3 needs no padding


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
        self._key = blake2b(self.name.encode(), key=blake2b(secret).digest(), person=b"gym_llm cookie").digest()
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
        text = session_id.encode(errors="surrogateescape")
        return urlsafe_b64encode(blake2b(text, key=self._key, digest_size=_SIGNATURE_BYTES).digest())
