"""Connections: not too many, none that never gets to the point, and what is no HTTP told as a problem."""

from __future__ import annotations

import asyncio
import sys
import uuid
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from tabellion.web.problems import Problem

HEADER_SECONDS = 20.0  #: from its beginning, or from the answer before, until a request has told all its headers
CONNECTIONS = 800  #: at once; programs are commonly given 1,024 open files


class Connection(H11Protocol):
    """One connection. Bytes that drip in do not put its deadline off; only a request does."""

    seconds = HEADER_SECONDS
    most = CONNECTIONS

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._began = self.loop.time()

    @property
    def idle(self) -> bool:
        """Whether no request of its is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has come; with too many, the oldest that asks for nothing goes."""
        super().connection_made(transport)
        self._await_request()
        staying = [one for one in self.connections if isinstance(one, Connection) and not one.transport.is_closing()]
        if len(staying) > self.most:
            waiting = [one for one in staying if one.idle]
            min(waiting, key=lambda one: one._began).refuse(
                Problem(503, "too_many_connections", headers={"Retry-After": "5"})
            )

    def data_received(self, data: bytes) -> None:
        """Some of a request has come."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def refuse(self, problem: Problem) -> None:
        """Answers and hangs up; whoever has said nothing is told nothing."""
        self._stop_waiting()
        if self.transport.is_closing():
            return
        if self.conn.our_state is h11.IDLE and self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._tell(problem)
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """What cannot be understood, or has too much to say before it comes to the point."""
        hint = getattr(sys.exc_info()[1], "error_status_hint", 400)
        problem = Problem(431, "headers_too_large") if hint == 431 else Problem(400, "request_invalid")
        self._stop_waiting()
        self._tell(problem)
        self.transport.close()

    def _tell(self, problem: Problem) -> None:
        request_id = uuid.uuid4().hex
        answer = problem.response(request_id)
        headers = [*answer.raw_headers, (b"x-request-id", request_id.encode()), (b"connection", b"close")]
        told = [h11.Response(status_code=problem.status, headers=headers), h11.Data(data=bytes(answer.body))]
        for event in (*told, h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")

    def _await_request(self) -> None:
        if not self.idle:
            self._stop_waiting()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.seconds, self._too_late)

    def _too_late(self) -> None:
        if self.idle:
            self.refuse(Problem(408, "request_timeout", f"no request within {self.seconds:g} s"))

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
