"""A transaction pooler: the minimum that behaves like PgBouncer's transaction mode, as strictly as allowed.

Between two transactions of a client its server connection goes back to the pool, and the next transaction gets
another one: session state, LISTEN and named prepared statements do not survive, as with a real pooler.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections import deque
from collections.abc import Iterator
from urllib.parse import urlsplit

from tests.servers import free_port

POOL = 3


class _Server:
    """One connection to PostgreSQL, logged in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    kind = await reader.readexactly(1)
    (length,) = struct.unpack("!I", await reader.readexactly(4))
    return kind, await reader.readexactly(length - 4)


def _packed(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


class Pooler:
    """Listens on its own port and lends out POOL server connections, one transaction at a time."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.upstream_port = parts.hostname or "127.0.0.1", parts.port or 5432
        self.database = parts.path.lstrip("/")
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/{self.database}"
        self.transactions = 0
        self.greeting = b""
        self._idle: deque[_Server] = deque()
        self._open: list[asyncio.StreamWriter] = []
        self._lent = asyncio.Semaphore(POOL)

    async def connect(self) -> _Server:
        """Open a server connection."""
        reader, writer = await asyncio.open_connection(self.host, self.upstream_port)
        self._open.append(writer)
        body = struct.pack("!I", 196608) + b"user\0postgres\0database\0" + self.database.encode() + b"\0\0"
        writer.write(struct.pack("!I", len(body) + 4) + body)
        greeting = b""
        while True:
            kind, answer = await _message(reader)
            if kind == b"S":
                greeting += _packed(kind, answer)
            if kind == b"E":
                raise ConnectionError(answer.decode("utf-8", "replace"))
            if kind == b"Z":
                self.greeting = greeting
                return _Server(reader, writer)

    async def close(self) -> None:
        """Close every connection, those in use too."""
        for writer in self._open:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in self._open), return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client."""
        self._open.append(writer)
        try:
            await self._welcome(reader, writer)
            while True:
                first = await _message(reader)
                if first[0] == b"X":
                    return
                async with self._lent:
                    server = self._idle.popleft() if self._idle else await self.connect()
                    self.transactions += 1
                    if not await self._transaction(first, reader, writer, server):
                        server.writer.close()
                        return
                    self._idle.append(server)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            (length,) = struct.unpack("!I", await reader.readexactly(4))
            body = await reader.readexactly(length - 4)
            (code,) = struct.unpack("!I", body[:4])
            if code == 196608:
                break
            if code == 80877102:
                raise ConnectionError("a cancel request")
            writer.write(b"N")
        if not self.greeting:
            self._idle.append(await self.connect())
        # The process id is ours, as a pooler's is: it names no server process.
        key = _packed(b"K", struct.pack("!II", 1, 1))
        writer.write(_packed(b"R", struct.pack("!I", 0)) + self.greeting + key + _packed(b"Z", b"I"))
        await writer.drain()

    async def _transaction(
        self,
        first: tuple[bytes, bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server: _Server,
    ) -> bool:
        """Pass messages until the server is idle; return False when the client disconnected in between."""
        server.writer.write(_packed(*first))
        upward = asyncio.create_task(self._upward(reader, server))
        try:
            while True:
                kind, body = await _message(server.reader)
                writer.write(_packed(kind, body))
                if kind == b"Z":
                    await writer.drain()
                    if body == b"I":
                        break
        finally:
            gone = upward.done()
            upward.cancel()
            with contextlib.suppress(asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
                await upward
        return not gone

    async def _upward(self, reader: asyncio.StreamReader, server: _Server) -> None:
        while True:
            # Peeking would lose a message when cancelled in the middle: readexactly is only cancelled between them.
            kind, body = await _message(reader)
            if kind == b"X":
                raise ConnectionError("the client left in the middle of a transaction")
            server.writer.write(_packed(kind, body))


@contextlib.contextmanager
def pooler(url: str) -> Iterator[str]:
    """Run a pooler for this database for the duration of a block; yield the URL to use instead."""
    loop = asyncio.new_event_loop()
    started = threading.Event()
    running: list[Pooler] = []

    async def main() -> None:
        one = Pooler(url)
        running.append(one)
        server = await asyncio.start_server(one.serve, "127.0.0.1", one.port)
        started.set()
        try:
            async with server:
                await server.serve_forever()
        finally:
            await one.close()

    def run() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(main())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    started.wait(10)
    try:
        yield running[0].url
    finally:
        for task in asyncio.all_tasks(loop):
            loop.call_soon_threadsafe(task.cancel)
        thread.join(5)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
