"""Serves the application: one process, an end that ends streams too, and never to strangers without a key."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn

from tabellion.accounts import keys
from tabellion.engine.store import Store
from tabellion.errors import ConfigurationError
from tabellion.web.connections import Connection
from tabellion.web.limits import HEADER_BYTES

if TYPE_CHECKING:
    from fastapi import FastAPI

GRACE = 10  #: seconds that open requests get when the server is told to stop
BACKLOG = 512  #: connections that wait in the system until they are accepted
#: Connections accepted in one turn of the event loop. Each has a descriptor before the limit on connections can be
#: applied to it, and asyncio answers a lack of descriptors with a traceback for each further one that it tries.
ACCEPTED = 32


class Server(uvicorn.Server):
    """Uvicorn, which tells the application at the first signal: streams would otherwise hold it until they end."""

    def __init__(self, app: FastAPI, **options: Any) -> None:
        self._app = app
        super().__init__(
            uvicorn.Config(
                app, log_config=None, access_log=False, server_header=False, date_header=True, lifespan="on",
                timeout_graceful_shutdown=GRACE, timeout_keep_alive=15, backlog=ACCEPTED, http=Connection,
                h11_max_incomplete_event_size=HEADER_BYTES, ws="none", proxy_headers=False, **options,
            )
        )  # fmt: skip
        # It logs whole queries, where people search for names; ours logs paths, and under the request's id.
        logging.getLogger("uvicorn.access").disabled = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens with a longer queue than asyncio was told, which accepts as many at once as the queue may hold."""
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(BACKLOG)

    def stop(self) -> None:
        """Ends it; from within its own event loop."""
        self._app.state.closing.set()
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Passes the news on before uvicorn waits for open connections."""
        self._app.state.closing.set()
        super().handle_exit(sig, frame)


def listening(host: str, port: int) -> socket.socket:
    """A socket on this address; a port in use is a sentence, not a traceback."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small writes at once only where the protocol is told; else each answer waits 40 ms for its reader.
    one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((host, port))
    except OSError as error:
        one.close()
        raise ConfigurationError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    one.set_inheritable(True)
    return one


async def serve(
    app: FastAPI, host: str, port: int, *, started: Callable[[str], None] | None = None, signals: bool = True
) -> None:
    """Serves until told to stop; `started` hears the address. Without `signals` it is the caller who stops it.

    Refuses an address that others can reach while nobody holds a key.
    """
    await check_listening(
        host, [(environment.name, environment.store) for environment in app.state.auth.environments.values()]
    )
    server = Server(app)
    with listening(host, port) as one:
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{one.getsockname()[1]}"
        if started is not None:
            asyncio.get_running_loop().create_task(_tell(server, started, address))
        app.state.server = server
        if signals:
            await server.serve(sockets=[one])
        else:
            await server._serve(sockets=[one])


async def _tell(server: Server, started: Callable[[str], None], address: str) -> None:
    while not server.started and not server.should_exit:
        await asyncio.sleep(0.01)
    if server.started:
        started(address)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def check_listening(host: str, places: Iterable[tuple[str, Store]]) -> None:
    """Refuses to be reached by others before there is a key: whoever came first would have to make one."""
    if is_loopback(host):
        return
    for environment, store in places:
        if not await keys.any_alive(store, environment):
            raise ConfigurationError(
                f"{host} can be reached from other machines, but environment {environment!r} has no API key yet: "
                f"run `tabellion keys create --environment {environment} --role admin` first, or listen on 127.0.0.1"
            )
