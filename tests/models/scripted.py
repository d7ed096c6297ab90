"""A server that answers exactly what a test says, and records what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class RecordedRequest:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass
class Answer:
    """What to send back."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """Return the answer on the wire."""
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        headers = {"content-type": "application/json", "content-length": str(len(body)), **self.headers}
        lines = [f"HTTP/1.1 {self.status} X", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        return "\r\n".join(lines).encode() + body


class ScriptedServer:
    """A running one: `url`, and every request it was `asked`."""

    def __init__(self, script: Callable[[RecordedRequest], Answer]) -> None:
        self.script = script
        self.asked: list[RecordedRequest] = []
        self.connections = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection until it ends, or until an answer has the status 0."""
        self.connections += 1
        try:
            while head := await _head(reader):
                first, *lines = head.decode().split("\r\n")
                method, path, _ = first.split(" ")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                asked = RecordedRequest(method, path, headers, body)
                self.asked.append(asked)
                answer = self.script(asked)
                writer.write(answer.encoded() if answer.status else b"")
                await writer.drain()
                if not answer.status:
                    break
        finally:
            writer.close()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return (await reader.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


@asynccontextmanager
async def scripted(script: Callable[[RecordedRequest], Answer] | list[Answer]) -> AsyncIterator[ScriptedServer]:
    """Serve a function from request to answer, or a list of answers in turn."""
    if isinstance(script, list):
        answers = iter(script)
        running = ScriptedServer(lambda asked: next(answers))
    else:
        running = ScriptedServer(script)
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0)
    running.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield running
    finally:
        server.close()
