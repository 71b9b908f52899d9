"""WebSocket frames (RFC 6455) as a server reads and writes them, without extensions."""

from __future__ import annotations

import numpy as np

from gym_llm.protocols.http.bodies import OBJECT_BYTES, SMALL, too_many_values
from gym_llm.protocols.http.server_memory import MEMORY
from gym_llm.protocols.http.value_counter import ValueCounter
from gym_llm.utils.limits import REQUEST_VALUES, limit

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
NORMAL, GOING_AWAY, PROTOCOL_ERROR, UNSUPPORTED, TOO_BIG, SERVER_ERROR = 1000, 1001, 1002, 1003, 1009, 1011
TRY_AGAIN = 1013
_PIECE = 1 << 18  # bytes of a long frame that are unmasked and counted at once
_LONG = 512  # bytes above which numpy is the faster to unmask


class BrokenFrame(Exception):
    """Raised when a client sends an invalid frame or too long a message: the connection ends.

    Attributes:
        code: The close code.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class LongMessage(bytes):
    """A message of more than `SMALL` bytes, whose values were counted as they came.

    Attributes:
        weight: The count (see `ValueCounter`).
        held: The bytes that are counted for it in the process's account, as long as it is referred to.
    """

    weight: int
    held: int = 0

    def __del__(self) -> None:
        MEMORY.release(self.held)


class FrameReader:
    """Takes a client's bytes as they come, and gives its messages and control frames one after the other.

    The payload of a long frame is unmasked and counted as it comes: nothing is done with a long message at once.

    Args:
        most_bytes: How long a message is at most.
    """

    __slots__ = ("_buffer", "_counter", "_frame", "_held", "_kind", "_mask", "_most_bytes", "_parts", "_to_come")

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._buffer = bytearray()
        self._parts = bytearray()  # of a message that comes in several frames, or in a long one
        self._kind = CONTINUATION  # what that message is; CONTINUATION if there is none
        self._frame = self._to_come = 0  # the first byte of a long frame under way, and how much of it is to come
        self._mask = b""
        self._counter: ValueCounter | None = None
        self._held = 0

    def feed(self, data: bytes) -> None:
        """Bytes have come."""
        self._buffer += data

    def read_whole(self, data: bytes) -> bytes | None:
        """The text that these bytes are: one frame and nothing else, after nothing else. None if they are not.

        It is what nearly always comes, and costs a third.
        """
        if self._buffer or self._kind or len(data) < 6 or data[0] != 0x80 | TEXT or not data[1] & 0x80:
            return None
        length, start = data[1] & 0x7F, 2
        if length == 126:
            length, start = data[2] << 8 | data[3], 4
        elif length == 127:
            return None
        if len(data) != start + 4 + length or length > self._most_bytes:
            return None
        return _unmasked(data[start : start + 4], data[start + 4 :])

    def __len__(self) -> int:
        """Return the number of bytes that wait to be read."""
        return len(self._buffer)

    def read(self) -> tuple[int, bytes] | None:
        """Return the next message or control frame: its kind and its payload. None if it is not complete yet.

        Raises:
            BrokenFrame: If the frame is invalid, or too long.
        """
        buffer = self._buffer
        while len(buffer) >= 2 or (self._to_come and buffer):
            if self._to_come:
                piece = bytes(buffer[: min(self._to_come, _PIECE)])
                del buffer[: len(piece)]
                self._to_come -= len(piece)
                self._add(_unmasked(self._mask, piece))
                turn = len(piece) % 4
                self._mask = self._mask[turn:] + self._mask[:turn]
                if not self._to_come and self._frame & 0x80:
                    return self._whole()
                continue
            first, second = buffer[0], buffer[1]
            length, start = second & 0x7F, 2
            if length > 125:
                start = 4 if length == 126 else 10
                if len(buffer) < start:
                    return None
                length = int.from_bytes(buffer[2:start], "big")
            self._check(first, second, length)
            end = start + 4 + length
            kind = first & 0x0F
            if length > SMALL:
                if len(buffer) < start + 4:
                    return None
                self._frame, self._to_come, self._mask = first, length, bytes(buffer[start : start + 4])
                self._kind = kind or self._kind
                del buffer[: start + 4]
                continue
            if len(buffer) < end:
                return None
            payload = _unmasked(buffer[start : start + 4], buffer[start + 4 : end])
            del buffer[:end]
            if kind >= CLOSE:
                return kind, payload
            if first & 0x80 and kind:
                return kind, payload
            self._kind = kind or self._kind
            self._add(payload)
            if first & 0x80:
                return self._whole()
        return None

    def close(self) -> None:
        """Forget what has come, and release what is held for it."""
        MEMORY.release(self._held)
        self._buffer, self._parts, self._held = bytearray(), bytearray(), 0

    def _add(self, payload: bytes) -> None:
        """Add to the message under way; count it once it is no longer small."""
        self._parts += payload
        if len(self._parts) <= SMALL:
            return
        if self._counter is None:
            self._counter = ValueCounter(limit(REQUEST_VALUES))
            payload = bytes(self._parts)
        if not MEMORY.has_room(len(payload)):
            raise BrokenFrame(TRY_AGAIN, "The server has no memory left for a message of this size.")
        MEMORY.add(len(payload))
        self._held += len(payload)
        if not self._counter.feed(payload):
            raise BrokenFrame(TOO_BIG, too_many_values())

    def _whole(self) -> tuple[int, bytes]:
        counter = self._counter
        message = bytes(self._parts) if counter is None else LongMessage(self._parts)
        if counter is not None and isinstance(message, LongMessage):
            objects = counter.weight * OBJECT_BYTES
            MEMORY.add(objects)
            message.weight, message.held = counter.weight, self._held + objects
        kind = self._kind
        self._kind, self._parts, self._counter, self._held = CONTINUATION, bytearray(), None, 0
        return kind, message

    def _check(self, first: int, second: int, length: int) -> None:
        kind = first & 0x0F
        if not second & 0x80:
            raise BrokenFrame(PROTOCOL_ERROR, "The frame is not masked.")
        if first & 0x70:
            raise BrokenFrame(PROTOCOL_ERROR, "The frame uses an extension.")
        if kind >= CLOSE:
            if kind > PONG or length > 125 or not first & 0x80:
                raise BrokenFrame(PROTOCOL_ERROR, "The control frame is invalid.")
        elif kind > BINARY or (kind == CONTINUATION) != (self._kind != CONTINUATION):
            raise BrokenFrame(PROTOCOL_ERROR, "The frames of two messages are mixed.")
        elif length + len(self._parts) > self._most_bytes:
            raise BrokenFrame(TOO_BIG, f"A message has at most {self._most_bytes:,} bytes.")


def frame(kind: int, payload: bytes) -> bytes:
    r"""Return a frame as a server sends it.

    >>> frame(TEXT, b"hello")
    b'\x81\x05hello'
    """
    length = len(payload)
    if length < 126:
        return bytes((0x80 | kind, length)) + payload
    if length < 1 << 16:
        return bytes((0x80 | kind, 126, length >> 8, length & 0xFF)) + payload
    return bytes((0x80 | kind, 127)) + length.to_bytes(8, "big") + payload


def closing_frame(code: int, reason: str = "") -> bytes:
    """A frame that says why a connection is closed; of a reason there is as much as one may say."""
    return frame(CLOSE, code.to_bytes(2, "big") + reason.encode()[:123].decode(errors="ignore").encode())


def _unmasked(mask: bytes | bytearray, data: bytes | bytearray) -> bytes:
    length = len(data)
    if length < _LONG:
        repeated = (mask * (length // 4 + 1))[:length]
        number = int.from_bytes(data, "little") ^ int.from_bytes(repeated, "little")
        return number.to_bytes(length, "little")
    padded = np.frombuffer(bytes(data) + bytes(-length % 4), np.uint32) ^ np.frombuffer(mask, np.uint32)
    return padded.tobytes()[:length]
