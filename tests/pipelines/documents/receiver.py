"""A receiver of webhooks on loopback: answers as scripted and keeps what it received."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOOPBACK = ("127.0.0.0/8",)


@dataclass
class Script:
    """How the receiver answers: each answer once, the last one forever."""

    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=lambda: [(200, {}, b"ok")])
    hanging: threading.Event = field(default_factory=threading.Event)  #: set once the test is over
    hangs: bool = False


class Receiver:
    """One server; `got` has every request as (path, headers in lower case, body)."""

    def __init__(self) -> None:
        self.script = Script()
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                """Keep the request and answer as scripted."""
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                with outer._lock:
                    outer.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                    answers = outer.script.answers
                    status, headers, content = answers.pop(0) if len(answers) > 1 else answers[0]
                if outer.script.hangs:
                    outer.script.hanging.wait(30)
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)

            do_GET = do_POST  # noqa: N815 - a redirect that is followed may come as one

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def answers(self, *answers: int | tuple[int, dict[str, str], bytes]) -> None:
        """Set the answers from now on."""
        self.script.answers = [one if isinstance(one, tuple) else (one, {}, b"") for one in answers]

    def close(self) -> None:
        """Stop the server."""
        self.script.hanging.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver for the duration of a block."""
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()
