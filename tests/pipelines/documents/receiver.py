"""A receiver of webhooks on loopback: answers as scripted and keeps what it received."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.http_server import QuietHandler, serving_http

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
        self.url = ""

    def answers(self, *answers: int | tuple[int, dict[str, str], bytes]) -> None:
        """Set the answers from now on."""
        self.script.answers = [one if isinstance(one, tuple) else (one, {}, b"") for one in answers]


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver for the duration of a block."""
    receiver, lock = Receiver(), threading.Lock()
    script = receiver.script

    class Handler(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802 - the name of the library
            """Keep the request and answer as scripted."""
            body = self.body()
            with lock:
                receiver.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                status, headers, content = script.answers.pop(0) if len(script.answers) > 1 else script.answers[0]
            if script.hangs:
                script.hanging.wait(30)
            self.answer(status, content, headers)

        do_GET = do_POST  # noqa: N815 - a redirect that is followed may come as one

    with serving_http(Handler) as url:
        receiver.url = f"{url}/hook"
        try:
            yield receiver
        finally:
            script.hanging.set()
