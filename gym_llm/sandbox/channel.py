"""A run's channel, this side of it: messages to and from its supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any, cast

from gym_llm.errors import SandboxError
from gym_llm.sandbox.inside import framing


class Channel:
    """An end of a pair of sockets, of which the supervisor has the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.on_close: Callable[[], Awaitable[None]] | None = None
        self.last_words: Callable[[], str] | None = None

    @classmethod
    async def over(cls, end: socket.socket) -> Channel:
        """Speak over this socket, which is closed with the channel."""
        return cls(*await asyncio.open_connection(sock=end))

    @classmethod
    def loose(cls, end: socket.socket) -> Channel:
        """Speak over this socket from any event loop, one after the other: in a notebook each step has its own."""
        stream = cast(Any, _LooseStream(end))
        return cls(stream, stream)

    async def send(self, header: dict[str, Any], pieces: list[bytes]) -> None:
        """Write a message.

        Raises:
            SandboxError: If the other side is gone.
        """
        try:
            self._writer.write(framing.pack(header, pieces))
            await self._writer.drain()
        except ConnectionError:
            raise self._ended() from None

    async def receive(self, seconds: float) -> framing.Message:
        """Read a message.

        Args:
            seconds: Seconds to wait for it: a last resort, far longer than the run may take.

        Raises:
            SandboxError: If it is missing, or says that the run could not be started.
        """
        try:
            async with asyncio.timeout(seconds):
                (length,) = framing.LENGTH.unpack(await self._reader.readexactly(framing.LENGTH.size))
                if length > framing.HEADER_BYTES:
                    raise ValueError("a header that is too large")
                header = framing.header_of(await self._reader.readexactly(length))
                pieces = [await self._reader.readexactly(size) for size in header["sizes"]]
        except (asyncio.IncompleteReadError, ConnectionError):
            raise self._ended() from None
        except TimeoutError:
            raise SandboxError(f"A sandbox did not answer in {seconds:.0f} seconds.") from None
        except ValueError as error:
            raise SandboxError(f"A sandbox answered with {error}.") from None
        if "failed" in header:
            raise SandboxError(f"A run could not be started in the sandbox: {header['failed']}.")
        return header, pieces

    async def descriptors(self, count: int) -> list[int]:
        """Read open files that come with a byte, over a channel that is `loose`.

        Raises:
            SandboxError: If the other side is gone.
        """
        try:
            return await cast(Any, self._reader).descriptors(count)  # type: ignore[no-any-return]
        except ConnectionError:
            raise self._ended() from None

    def _ended(self) -> SandboxError:
        said = self.last_words() if self.last_words is not None else ""
        why = f"A sandbox ended before it answered{': ' + said if said else ''}."
        return SandboxError(why, failure_kind="kill_shaped")

    async def close(self) -> None:
        """End the run, whatever it is doing."""
        self._writer.close()
        try:
            with contextlib.suppress(ConnectionError):
                await self._writer.wait_closed()
        finally:  # the caller may be cancelled
            if self.on_close is not None:
                on_close, self.on_close = self.on_close, None
                await on_close()


class _LooseStream:
    """A reader and writer for a channel, over a socket without an event loop."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._unsent = b""

    async def readexactly(self, size: int) -> bytes:
        data = bytearray(size)
        view, position = memoryview(data), 0
        while position < size:
            count = await asyncio.get_running_loop().sock_recv_into(self._end, view[position:])
            if count == 0:
                raise asyncio.IncompleteReadError(bytes(data[:position]), size)
            position += count
        return bytes(data)

    async def descriptors(self, count: int) -> list[int]:
        loop = asyncio.get_running_loop()
        while True:
            try:
                data, found, _, _ = socket.recv_fds(self._end, 1, count)
            except BlockingIOError:
                ready = asyncio.Event()
                loop.add_reader(self._end, ready.set)
                try:
                    await ready.wait()
                finally:
                    loop.remove_reader(self._end)
                continue
            if not data:
                raise ConnectionResetError
            return list(found)

    def write(self, data: bytes) -> None:
        self._unsent += data

    async def drain(self) -> None:
        data, self._unsent = self._unsent, b""
        await asyncio.get_running_loop().sock_sendall(self._end, data)

    def close(self) -> None:
        self._end.close()

    async def wait_closed(self) -> None:
        pass
