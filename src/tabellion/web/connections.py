"""HTTP connections: their number and time are limited, and requests that are not HTTP get a problem."""

from __future__ import annotations

import asyncio
import sys
import uuid
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from tabellion.messages import Message
from tabellion.web.problems import Problem

HEADER_SECONDS = 20.0  #: from the start, or the last answer, until a request has sent its headers
CONNECTIONS = 800  #: at once; processes commonly may open 1,024 files


class Connection(H11Protocol):
    """One connection. Only a complete request extends its deadline, not single bytes."""

    seconds = HEADER_SECONDS
    most = CONNECTIONS

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._began = self.loop.time()

    @property
    def idle(self) -> bool:
        """Whether it has no request in progress."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accepts a client; if there are too many, the oldest idle connection is closed."""
        super().connection_made(transport)
        self._await_request()
        open_connections = [
            connection
            for connection in self.connections
            if isinstance(connection, Connection) and not connection.transport.is_closing()
        ]
        if len(open_connections) > self.most:
            idle_connections = [connection for connection in open_connections if connection.idle]
            min(idle_connections, key=lambda connection: connection._began).refuse(
                Problem(503, "too_many_connections", headers={"Retry-After": "5"})
            )

    def data_received(self, data: bytes) -> None:
        """Receives part of a request."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._await_request()

    def on_response_complete(self) -> None:
        """Waits for the next request, also where the client has not sent all of the last one."""
        super().on_response_complete()
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has disconnected."""
        self._stop_waiting()
        super().connection_lost(exc)

    def refuse(self, problem: Problem) -> None:
        """Sends a problem, if the client has sent anything, and closes the connection."""
        self._stop_waiting()
        if self.transport.is_closing():
            return
        if self.conn.our_state is h11.IDLE and self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._send_problem(problem)
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answers a request that is not valid HTTP, or has too large headers."""
        hint = getattr(sys.exc_info()[1], "error_status_hint", 400)
        problem = Problem(431, "headers_too_large") if hint == 431 else Problem(400, "request_invalid")
        self._stop_waiting()
        self._send_problem(problem)
        self.transport.close()

    def _send_problem(self, problem: Problem) -> None:
        request_id = uuid.uuid4().hex
        answer = problem.response(request_id)
        headers = [*answer.raw_headers, (b"x-request-id", request_id.encode()), (b"connection", b"close")]
        events = [h11.Response(status_code=problem.status, headers=headers), h11.Data(data=bytes(answer.body))]
        for event in (*events, h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")

    def _await_request(self) -> None:
        if not self.idle:
            self._stop_waiting()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.seconds, self._too_late)

    def _too_late(self) -> None:
        if self.idle:
            self.refuse(Problem(408, "request_timeout", Message("problem.no_request", n=self.seconds)))

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
