"""Pictures of pages: drawn in the sandbox once, kept on disk, given away as PNG."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tabellion.reading.draw import draw
from tabellion.reading.errors import Unreadable
from tabellion.reading.limits import Limits
from tabellion.reading.sandbox import Sandbox
from tabellion.web.problems import Problem

AT_ONCE = 2  #: pages drawn at the same time; the rest waits
#: A page that is looked at is drawn in seconds or not at all.
LIMITS = Limits(seconds=60.0, page_seconds=30.0, cpu_seconds=60.0)


class Pictures:
    """The pictures of one installation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._sandbox: Sandbox | None = None
        self._drawing: dict[Path, asyncio.Task[None]] = {}

    async def picture(self, source: Path, sha256: str, number: int, width: int, rotation: int) -> Path:
        """The file with page `number`, so many pixels wide, turned as the page was read; drawn if need be."""
        path = self.folder / sha256[:2] / sha256 / f"{number}-{width}-{rotation}.png"
        if path.exists():
            return path
        task = self._drawing.get(path)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._draw(path, source, number, width, rotation))
            self._drawing[path] = task
            task.add_done_callback(lambda _: self._drawing.pop(path, None))
        await asyncio.shield(task)
        return path

    async def looked(self, look: Callable[[Sandbox], bytes]) -> bytes:
        """What a look at a document gives, in the children that draw: no more at once than there are."""
        async with self._turn:
            self._sandbox = self._sandbox or Sandbox(size=AT_ONCE, limits=LIMITS)
            try:
                return await asyncio.to_thread(look, self._sandbox)
            except Unreadable as error:
                raise _told(error) from None

    async def _draw(self, path: Path, source: Path, number: int, width: int, rotation: int) -> None:
        def look(sandbox: Sandbox) -> bytes:
            return draw(source, number, width=width, rotation=rotation, sandbox=sandbox, limits=LIMITS)

        await asyncio.to_thread(_keep, path, await self.looked(look))

    async def forget(self, sha256: str) -> None:
        """Removes the pictures of a file that is gone."""
        await asyncio.to_thread(_remove, self.folder / sha256[:2] / sha256)

    async def close(self) -> None:
        """Ends the children that draw."""
        if self._sandbox is not None:
            await asyncio.to_thread(self._sandbox.close)
            self._sandbox = None


def rotation_of(pages: list[Mapping[str, Any]], number: int) -> int:
    """How a page was turned when it was read."""
    for page in pages:
        if page.get("number") == number:
            turned = page.get("rotation", 0)
            return turned if turned in (0, 90, 180, 270) else 0
    return 0


def _told(error: Unreadable) -> Problem:
    if error.code == "page_missing":
        return Problem(404, "page_missing", str(error), field="number")
    if error.code == "file_missing":
        return Problem(404, "file_gone")
    return Problem(422, "document_unreadable", str(error), reason=error.code, fix="download the file instead")


def _keep(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.parent / f".{path.name}.{secrets.token_hex(6)}"
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    fresh.replace(path)


def _remove(folder: Path) -> None:
    if folder.is_dir():
        for file in folder.iterdir():
            file.unlink(missing_ok=True)
        folder.rmdir()
