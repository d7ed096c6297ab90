"""HTTP servers on loopback that a test writes itself."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class QuietHandler(BaseHTTPRequestHandler):
    """Answers whole bodies, and writes nothing to standard error."""

    def body(self) -> bytes:
        """Return what was sent."""
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def answer(self, status: int, content: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Answer, unless the one who asked has gone."""
        with contextlib.suppress(OSError):
            self.send_response(status)
            for name, value in {**(headers or {}), "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def serving_http(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on loopback within a block; yields the URL, without a path."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
