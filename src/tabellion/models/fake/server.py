"""The fake model's server: its routes, its socket, and how it starts and ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from tabellion.errors import ConfigurationError
from tabellion.models.fake import gemini, openai
from tabellion.models.fake.address import ServerAddress
from tabellion.models.fake.content import Reader
from tabellion.models.fake.control import Control
from tabellion.models.fake.exchange import HTML, JSON, Exchange
from tabellion.models.fake.files import Files
from tabellion.models.fake.log import RequestLog, RequestRecord
from tabellion.models.fake.replies import ErrorResponse
from tabellion.models.fake.wire import BodyTooLarge, dump_json

BACKLOG = 4096
KEEP_ALIVE = 600  # seconds: an idle connection must not be closed while the client sends its next request
MOST_FILES = 65_536
GONE = 499  # the client closed the connection before the answer
Work = Callable[[Request, RequestRecord], Awaitable[Response]]
_logger = logging.getLogger("tabellion.fake")


@dataclass(frozen=True, slots=True)
class Options:
    """How a server is started."""

    port: int = 0
    host: str = "127.0.0.1"
    rate: float | None = None
    latency: float | str | None = None
    knobs: str = ""
    seed: int = 0
    log: str | None = None


class LoggedRoute:
    """One route: answers a request and logs it."""

    def __init__(self, protocol: str, work: Work, control: Control, log: RequestLog) -> None:
        self._protocol, self._work, self._control, self._log = protocol, work, control, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        entry = RequestRecord(self._protocol)
        self._control.begin()
        try:
            reply = await self._reply(Request(scope, receive), entry)
            self._record_entry(entry)  # before it is sent, so that a client with an answer finds its line in the log
            await reply(scope, receive, send)
        except ClientDisconnect:
            entry.status = GONE
            self._record_entry(entry)
        finally:
            self._control.end()

    def _record_entry(self, entry: RequestRecord) -> None:
        self._control.count(entry.status)
        self._log.write(entry)

    async def _reply(self, request: Request, entry: RequestRecord) -> Response:
        entry.status = 200
        try:
            return await self._work(request, entry)
        except ErrorResponse as error:
            entry.status = error.status
            if isinstance(error.body, str):
                return Response(error.body, error.status, error.headers, HTML)
            return Response(dump_json(error.body), error.status, error.headers, JSON)
        except BodyTooLarge:
            entry.status = 413
            return PlainTextResponse("too large\n", 413)
        except ClientDisconnect:
            raise
        except Exception:
            _logger.exception("an internal error of the fake model")
            entry.status = 500
            return PlainTextResponse("internal error of the fake model: see its standard error\n", 500)


def application(control: Control, log: RequestLog) -> Router:
    """Both protocols on one port."""
    reader, files = Reader(), Files()
    google = Exchange(gemini.FakeGemini(reader, files), control)
    chat = Exchange(openai.FakeOpenAI(reader), control)

    def route(path: str, protocol: str, work: Work, method: str = "POST") -> Route:
        return Route(path, LoggedRoute(protocol, work, control, log), methods=[method])

    def either(gemini_work: Work, openai_work: Work) -> Work:
        """The same path in both protocols: the way the key is sent decides which one is meant."""

        def dispatch(request: Request, entry: RequestRecord) -> Awaitable[Response]:
            is_gemini = "x-goog-api-key" in request.headers or "key" in request.query_params
            is_gemini = is_gemini or request.path_params["version"] != "v1"
            entry.protocol = "gemini" if is_gemini else "openai"
            return (gemini_work if is_gemini else openai_work)(request, entry)

        return dispatch

    bases = ("/v1", "", "/v1/openai", "/v1beta/openai")
    return Router(
        [
            route("/{version}/models/{call:path}", "gemini", google.reply),
            *(route(f"{base}/chat/completions", "openai", chat.reply) for base in bases),
            *(route(f"{base}/models", "openai", openai.list_models, "GET") for base in bases if base != "/v1"),
            route("/upload/{version}/files", "gemini", files.upload),
            route("/{version}/files", "gemini", files.list, "GET"),
            route("/{version}/files/{name}", "gemini", files.show, "GET"),
            route("/{version}/files/{name}", "gemini", files.delete, "DELETE"),
            route("/{version}/models", "gemini", either(gemini.list_models, openai.list_models), "GET"),
            route("/{version}/models/{call:path}", "gemini", either(gemini.show_model, openai.show_model), "GET"),
            Route("/fake", _settings(control), methods=["GET", "PUT"]),
        ]
    )


def _settings(control: Control) -> Callable[[Request], Awaitable[Response]]:
    async def settings(request: Request) -> Response:
        """GET returns settings and counts, PUT changes settings at once."""
        if request.method == "PUT":
            try:
                changes = json.loads(await request.body() or b"{}")
                if not isinstance(changes, dict):
                    raise ConfigurationError("send a JSON object with rate, latency or knobs")
                control.change(changes)
            except (ConfigurationError, ValueError) as error:
                return Response(dump_json({"error": str(error)}), 400, media_type=JSON)
        return Response(dump_json(control.report()), media_type=JSON)

    return settings


class _Server(uvicorn.Server):
    """A server that reports when it listens."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[uvicorn.Server], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started(self)


def run(options: Options, on_started: Callable[[ServerAddress, uvicorn.Server], None]) -> None:
    """Serves until a signal or `server.should_exit`; calls `on_started` with its address once it listens."""
    control = Control(rate=options.rate, latency=options.latency, knobs=options.knobs, seed=options.seed)
    listening = _listen(options)
    try:
        log = RequestLog(Path(options.log) if options.log else None)
    except OSError as error:
        listening.close()
        raise ConfigurationError(f"the log {options.log} cannot be written: {error.strerror}") from error
    _raise_file_limit()
    host = f"[{options.host}]" if ":" in options.host else options.host
    address = ServerAddress(f"http://{host}:{listening.getsockname()[1]}", options.log)
    config = uvicorn.Config(
        application(control, log), backlog=BACKLOG, timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=0,
        lifespan="off", log_config=None, log_level="critical", access_log=False, server_header=False, ws="none",
    )  # fmt: skip
    server = _Server(config, lambda started: on_started(address, started))
    try:
        with _quiet_signals():
            asyncio.run(server.serve([listening]))
    finally:
        listening.close()
        log.close()


def _listen(options: Options) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    # The protocol must be named: asyncio turns Nagle's algorithm off only for sockets that say they are TCP, and with
    # it on, headers and body wait for each other 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((options.host, options.port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"cannot listen on {options.host}:{options.port}: {reason}; choose another with --port, or --port 0"
        ) from error
    return listening


def _raise_file_limit() -> None:
    """Raises the limit of open files for thousands of connections, as far as allowed."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
        if soft < limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


@contextlib.contextmanager
def _quiet_signals() -> Iterator[None]:
    """Ignores the signals that uvicorn raises again after it has ended, so that they only end the server."""

    def ignore(*_: Any) -> None:
        pass

    before = {number: signal.signal(number, ignore) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
