"""The base of models behind HTTP: address, key, prices, one client per event loop, one deadline per call."""

from __future__ import annotations

import asyncio
import importlib
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from tabellion import extras
from tabellion.errors import ConfigurationError
from tabellion.models.base import PICTURES, Ask, Part, Reply, Schema, Usage
from tabellion.models.prices import Prices, cost, table

if TYPE_CHECKING:
    import httpx2

    from tabellion.models.channel import SendLimiter

Client = TypeVar("Client")

ANSWER_LIMIT = 16 * 1024 * 1024


class Remote(ABC, Generic[Client]):
    """A model that is called over our HTTP client, through a provider's SDK or directly."""

    name: str
    module: str  #: imported at the first call: the SDK or the HTTP library
    extra: str  #: the extra that installs its package
    takes: frozenset[str] = PICTURES  #: the media types it reads; without PDF, a PDF is sent as pictures of its pages

    def __init__(
        self, key: str, base_url: str, model: str, *, prices: Prices | None = None,
        headers: Mapping[str, str] | None = None, answer_limit: int = ANSWER_LIMIT,
    ) -> None:  # fmt: skip
        self.model = model
        self.base_url = check_url(self.name, base_url)
        self._key = check_key(self.name, key)
        self._prices = table(prices)
        self._headers = dict(headers or {})
        self._answer_limit = answer_limit
        # Connections belong to the event loop they were opened in; handlers that are plain functions have their own.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[httpx2.AsyncClient, Client, SendLimiter]] = (
            WeakKeyDictionary()
        )
        self._loading: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model} at {urlsplit(self.base_url).netloc.rpartition('@')[2]}>"

    async def call(self, parts: Sequence[Part], schema: Schema | None = None, ask: Ask = Ask()) -> Reply:
        """Sends the parts and returns the reply, or raises one of `tabellion.models.errors`."""
        if not self._clients:
            await self._load_once()
        from tabellion.models.channel import deadline, translate_errors

        http, client, turns = self._get_clients()
        started = time.monotonic()
        with translate_errors(self.name, self._key):
            async with deadline(self.name, ask.deadline), turns.take():
                return await self._call(http, client, parts, schema, ask, started)

    async def close(self) -> None:
        """Closes this loop's connections; a later call opens new ones."""
        if opened := self._clients.pop(asyncio.get_running_loop(), None):
            await opened[0].aclose()

    @abstractmethod
    async def _call(
        self, http: httpx2.AsyncClient, client: Client, parts: Sequence[Part], schema: Schema | None, ask: Ask,
        started: float,
    ) -> Reply:  # fmt: skip
        """Makes one call; the caller handles the deadline, connections and errors around it."""

    @abstractmethod
    def _connect(self, http: httpx2.AsyncClient) -> Client:
        """What `_call` needs besides the HTTP client: the SDK's client, without retries, or the headers of requests."""

    def _cost(self, usage: Usage, billed: object = None) -> float | None:
        """The cost reported by the provider, else computed from the price table."""
        if isinstance(billed, int | float) and not isinstance(billed, bool) and 0 <= billed < 1e6:
            return float(billed)
        return cost(self.model, usage, self._prices)

    def _get_clients(self) -> tuple[httpx2.AsyncClient, Client, SendLimiter]:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            from tabellion.models.channel import SendLimiter, client

            http = client(self.base_url, self._headers, self._answer_limit)
            self._clients[loop] = (http, self._connect(http), SendLimiter())
        return self._clients[loop]

    async def _load_once(self) -> None:
        """Imports the module in a thread, as an SDK takes a second; of many first calls one imports, the others wait.

        A hundred of them would otherwise take every thread of the loop, which others need for their files.
        """
        async with self._loading.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            if not self._clients:
                await asyncio.to_thread(self._load)

    def _load(self) -> None:
        with extras.explain_missing(self.extra):
            importlib.import_module(self.module)
            importlib.import_module("tabellion.models.channel")


def check_url(name: str, base_url: str) -> str:
    """The base URL without its last slash; raises a ConfigurationError where it is not valid."""
    url = base_url.strip()
    try:
        split = urlsplit(url)
        is_valid = split.scheme in ("http", "https") and bool(split.hostname) and (split.port or 1) > 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ConfigurationError(f"{name}: the base URL must be like https://host/path, not {url.rpartition('@')[2]!r}")
    return url.rstrip("/")


def check_key(name: str, key: str) -> str:
    """The key, checked for use in a header: an HTTP library's error about it would quote it."""
    key = key.strip()
    if not key.isascii() or any(mark <= " " or mark == "\x7f" for mark in key):
        raise ConfigurationError(f"{name}: the key contains a space or an invalid character")
    return key


def count(value: object) -> int:
    """A number of tokens from a server; 0 where it is not valid."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40 else 0
