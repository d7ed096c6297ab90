"""A process that watches a folder and may be killed: `python -m tests.pipelines.documents.consuming FOLDER URL …`."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from tabellion import Store
from tabellion.pipelines.documents.consume import Consumer, endings
from tabellion.pipelines.documents.local_files import submit_local
from tabellion.pipelines.documents.settings import Settings
from tabellion.storage.blobs import Blobs
from tabellion.storage.lake import Lake


def consumer(folder: Path, store: Store, data: Path, limit: int | None = None, **options: object) -> Consumer:
    """A consumer of this folder into this store."""
    settings = Settings(blobs=Blobs(data / "blobs"), lake=Lake(data / "lake"))

    async def submit(path: Path, name: str) -> str:
        return (await submit_local(store, settings, path, name=name, limit=limit)).id

    return Consumer(folder, submit, lambda ids: endings(store, ids), **options)  # type: ignore[arg-type]


async def main(folder: str, url: str, data: str) -> None:
    """Watches until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Store(url) as store:
        await consumer(Path(folder), store, Path(data), every=0.02).run(stop)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
