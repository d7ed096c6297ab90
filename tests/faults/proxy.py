"""A TCP proxy that can cut, freeze or refuse connections, to simulate network faults."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit, urlunsplit

from tests.servers import free_port


class Proxy:
    """A proxy for one database; every method may be called from any thread."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._upstream = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self.port = free_port()
        user = f"{parts.username}@" if parts.username else ""
        self.url = urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{self.port}"))
        self.accepted = 0
        self.loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._refusing = False
        self._swallowing = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._started = threading.Event()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="proxy")
        self._thread.start()
        self._started.wait(10)

    def cut(self) -> None:
        """Break every connection; new ones are allowed."""
        self._do(self._cut)

    def refuse(self, yes: bool = True) -> None:
        """Break every connection and allow none."""

        def change() -> None:
            self._refusing = yes
            if yes:
                self._cut()

        self._do(change)

    def freeze(self) -> None:
        """Half-open: connections stay, new ones are accepted, and nothing passes either way."""
        self._do(self._flowing.clear)

    def thaw(self) -> None:
        """Let everything pass again, including what was held back."""
        self._do(self._flowing.set)

    def swallow(self, yes: bool = True) -> None:
        """Pass requests to the server and lose its answers: commits happen and nobody knows."""

        def change() -> None:
            self._swallowing = yes

        self._do(change)

    def close(self) -> None:
        """Stop the proxy."""
        self._do(lambda: [task.cancel() for task in asyncio.all_tasks(self.loop)])
        self._thread.join(5)
        self.loop.close()

    def _do(self, what: Callable[[], object]) -> None:
        done = threading.Event()

        def call() -> None:
            what()
            done.set()

        self.loop.call_soon_threadsafe(call)
        done.wait(5)

    def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            self.loop.run_until_complete(self._main())

    async def _main(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self._started.set()
        async with server:
            try:
                await server.serve_forever()
            finally:
                self._cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self._refusing:
            writer.transport.abort()
            return
        self._writers.add(writer)
        try:
            await self._flowing.wait()
            up_reader, up_writer = await asyncio.open_connection(*self._upstream)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(up_writer)
        try:
            ways = [
                asyncio.ensure_future(self._pass(reader, up_writer, answers=False)),
                asyncio.ensure_future(self._pass(up_reader, writer, answers=True)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        finally:
            for one in (writer, up_writer):
                one.transport.abort()
                self._writers.discard(one)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        with contextlib.suppress(ConnectionError, OSError):
            while data := await reader.read(65536):
                await self._flowing.wait()
                if answers and self._swallowing:
                    continue
                writer.write(data)
                await writer.drain()


@contextlib.contextmanager
def proxied(url: str) -> Iterator[Proxy]:
    """Run a proxy for this database for the duration of a block."""
    proxy = Proxy(url)
    try:
        yield proxy
    finally:
        proxy.close()
