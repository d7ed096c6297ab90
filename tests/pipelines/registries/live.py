"""A running application with the pipeline of registries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tabellion.engine.store import Store
from tabellion.pipelines.registries.pipeline import PIPELINE
from tabellion.web.app import make_app, serve_environment
from tabellion.web.server import serve
from tests.web.live import Live


class LiveRegistries(Live):
    """The same application, with registries in place of documents."""

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        environments = []
        for name, url in self.urls.items():
            store = Store(url, durable=False)
            await PIPELINE.prepare(store)
            environments.append(serve_environment(self.config, [PIPELINE], name, store))
        self.app = make_app(self.config, environments, [PIPELINE], limits=self.limits)
        try:
            await serve(self.app, "127.0.0.1", 0, started=self._started, signals=False)
        finally:
            for one in environments:
                await one.store.close()


@contextmanager
def live_registries(folder: Path, urls: Mapping[str, str], **changes: Any) -> Iterator[LiveRegistries]:
    """It, for the length of a block."""
    one = LiveRegistries(folder, urls, **changes)
    try:
        one.start()
        yield one
    finally:
        one.stop()
