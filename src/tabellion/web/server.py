"""Serves the application in one process; stopping ends streams, and public addresses require an API key."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn

from tabellion.accounts import keys
from tabellion.engine.store import Store
from tabellion.errors import Busy, ConfigurationError, Unreachable
from tabellion.net.guard import is_loopback
from tabellion.web.connections import Connection
from tabellion.web.limits import HEADER_BYTES

if TYPE_CHECKING:
    from fastapi import FastAPI

GRACE = 10  #: seconds that open requests get when the server stops
BACKLOG = 512  #: connections that wait in the system until they are accepted
#: Connections accepted in one turn of the event loop. Each has a descriptor before the limit on connections applies to
#: it, and when asyncio runs out of descriptors it logs a traceback for each further attempt.
ACCEPTED = 32


class Server(uvicorn.Server):
    """Uvicorn that informs the application of the first signal: open streams would otherwise delay the end."""

    def __init__(self, app: FastAPI, **options: Any) -> None:
        self._app = app
        super().__init__(
            uvicorn.Config(
                app, log_config=None, access_log=False, server_header=False, date_header=True, lifespan="on",
                timeout_graceful_shutdown=GRACE, timeout_keep_alive=15, backlog=ACCEPTED, http=Connection,
                h11_max_incomplete_event_size=HEADER_BYTES, ws="none", proxy_headers=False, **options,
            )
        )  # fmt: skip
        # It logs complete queries, which contain names people search for; ours logs paths, with the request's id.
        logging.getLogger("uvicorn.access").disabled = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Sets a longer backlog: asyncio was given a small one, because it accepts a whole backlog at once."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)

    def stop(self) -> None:
        """Stops the server; call it in its event loop."""
        self._app.state.closing.set()
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Informs the application before uvicorn waits for open connections."""
        self._app.state.closing.set()
        super().handle_exit(sig, frame)


def listening(host: str, port: int) -> socket.socket:
    """A bound socket; raises ConfigurationError if the port is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm only if the protocol is given; else each answer would wait 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigurationError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    listener.set_inheritable(True)
    return listener


async def serve(
    app: FastAPI, host: str, port: int, *, started: Callable[[str], None] | None = None, signals: bool = True
) -> None:
    """Serves until stopped; `started` is called with the URL. Without `signals` the caller stops it.

    Raises if other machines can reach the address and there is no API key.
    """
    await check_listening(
        host, [(environment.name, environment.store) for environment in app.state.auth.environments.values()]
    )
    server = Server(app)
    with listening(host, port) as listener:
        url_host = f"[{host}]" if ":" in host else host
        address = f"http://{url_host}:{listener.getsockname()[1]}"
        if started is not None:
            asyncio.get_running_loop().create_task(_report_start(server, started, address))
        app.state.server = server
        if signals:
            await server.serve(sockets=[listener])
        else:
            await server._serve(sockets=[listener])


async def _report_start(server: Server, started: Callable[[str], None], address: str) -> None:
    while not server.started and not server.should_exit:
        await asyncio.sleep(0.01)
    if server.started:
        started(address)


async def check_listening(host: str, places: Sequence[tuple[str, Store]]) -> None:
    """Raises if other machines could reach an environment that has no API key yet. One of several whose database does
    not answer is passed over: without its database no request to it is answered either."""
    if is_loopback(host):
        return
    for environment, store in places:
        try:
            has_key = await keys.any_alive(store, environment)
        except (Unreachable, Busy):
            if len(places) == 1:
                raise
            continue
        if not has_key:
            raise ConfigurationError(
                f"{host} can be reached from other machines, but environment {environment!r} has no API key yet: "
                f"run `tabellion keys create --environment {environment} --role admin` first, or listen on 127.0.0.1"
            )
