"""An environment: a name and its database."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

from tabellion.engine.store import Store
from tabellion.errors import ConfigurationError


class Environment:
    """A name and its database; a worker polls its environments in list order.

    `share` is a weight against starvation: an environment that has work keeps its share of the slots, however
    busy the ones before it in the list are.
    """

    def __init__(self, name: str, url: str, *, share: float | None = None, deadline: float | None = None) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
            raise ConfigurationError(f"environment name {name!r}: use letters, digits, - _ and . only")
        if share is not None and share <= 0:
            raise ConfigurationError(f"environment {name!r}: share={share!r} must be above zero")
        self.name = name
        self.url = url
        self.share = share
        self._deadline = deadline

    def store(self, *, read_only: bool = False) -> Store:
        """A new Store on this environment's database; a `read_only` one changes nothing there."""
        if self._deadline is None:
            return Store(self.url, read_only=read_only)
        return Store(self.url, deadline=self._deadline, read_only=read_only)

    @contextlib.asynccontextmanager
    async def connect(self, *, read_only: bool = True) -> AsyncIterator[Store]:
        """A new Store for the duration of a block, which creates no register."""
        store = self.store(read_only=read_only)
        try:
            yield store
        finally:
            await store.close()

    def missing_file(self) -> str | None:
        """The path of a SQLite file that does not exist; opening it would create an empty one."""
        if not self.url.startswith("sqlite"):
            return None
        path = self.url.partition("://")[2].removeprefix("/")
        return path if path and path != ":memory:" and not Path(path).exists() else None

    @property
    def address(self) -> str:
        """The URL without its secrets, for people and logs."""
        if self.url.startswith("sqlite"):
            return self.url
        try:
            parts = urlsplit(self.url)
            port = f":{parts.port}" if parts.port else ""
            return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
        except ValueError:
            return "a URL that cannot be parsed"

    def __repr__(self) -> str:
        return f"Environment({self.name!r}, {self.address!r})"
