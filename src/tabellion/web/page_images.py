"""Images of pages: drawn in the sandbox once, cached on disk, served as PNG."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from tabellion.messages import Message
from tabellion.reading.draw import draw
from tabellion.reading.errors import Unreadable
from tabellion.reading.limits import Limits
from tabellion.reading.page import PageSummary
from tabellion.reading.sandbox import Sandbox
from tabellion.storage.blobs import Blobs
from tabellion.web.problems import Problem
from tabellion.web.serving import BINARY, KEPT, SAME, Responses, file_answer, is_not_modified
from tabellion.web.validation import Whole

#: Widths in pixels; a requested width is rounded up to one of them.
WIDTHS = (100, 200, 300, 450, 600, 900, 1200, 1400, 1600, 2000, 2500, 3000)
SIZES = ", ".join(map(str, WIDTHS))
Width = Annotated[Whole, Query(ge=16, le=3000, description=f"Width in pixels, raised to one of {SIZES}.")]
PICTURE: Responses = {200: {"content": {"image/png": BINARY}, "description": "The page."}, **SAME}
MOST_BYTES = 1 << 30  #: of all images together; beyond that, the least recently used are deleted
KEPT_SHARE = 0.8  #: of that is kept after a deletion, so that not every new image scans all others
AT_ONCE = 2  #: pages drawn at the same time; the rest wait
#: A page is drawn within seconds or not at all.
LIMITS = Limits(seconds=60.0, page_seconds=30.0, cpu_seconds=60.0)


class Pictures:
    """The images of one installation."""

    def __init__(self, folder: Path, most: int = MOST_BYTES) -> None:
        self.folder = folder
        self._space = Space(folder, most)
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._sandbox: Sandbox | None = None
        self._drawing: dict[Path, asyncio.Task[None]] = {}

    async def picture(self, source: Path | Blobs, sha256: str, number: int, width: int, rotation: int) -> Path:
        """The image file of page `number` with this width, rotated as the page was read; drawn if necessary."""
        path = self.folder / sha256[:2] / sha256 / f"{number}-{width}-{rotation}.png"
        if _touch(path):
            return path
        task = self._drawing.get(path)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._draw(path, source, sha256, number, width, rotation))
            self._drawing[path] = task
            task.add_done_callback(lambda _: self._drawing.pop(path, None))
        await asyncio.shield(task)
        return path

    async def answer(
        self, request: Request, source: Path | Blobs, sha256: str, number: int, width: int, rotation: int
    ) -> Response:
        """The image as a response; it is not drawn for a client that has it."""
        width = round_width(width)
        tag = f'"{sha256}-{number}-{width}-{rotation}"'
        headers = KEPT | {"ETag": tag}
        if is_not_modified(request, tag):
            return Response(status_code=304, headers=headers)
        path = await self.picture(source, sha256, number, width, rotation)
        return file_answer(request, path, tag, "image/png", headers)

    async def run_in_sandbox(self, look: Callable[[Sandbox], bytes]) -> bytes:
        """Runs `look` in the sandbox that draws pages, at most AT_ONCE at a time."""
        async with self._turn:
            self._sandbox = self._sandbox or Sandbox(size=AT_ONCE, limits=LIMITS)
            try:
                return await asyncio.to_thread(look, self._sandbox)
            except Unreadable as error:
                raise _build_problem(error) from None

    async def _draw(
        self, path: Path, source: Path | Blobs, sha256: str, number: int, width: int, rotation: int
    ) -> None:
        if isinstance(source, Blobs):
            async with source.open(sha256) as file:
                await self._draw_file(path, file, number, width, rotation)
        else:
            await self._draw_file(path, source, number, width, rotation)

    async def _draw_file(self, path: Path, source: Path, number: int, width: int, rotation: int) -> None:
        def look(sandbox: Sandbox) -> bytes:
            return draw(source, number, width=width, rotation=rotation, sandbox=sandbox, limits=LIMITS)

        await asyncio.to_thread(self._keep, path, source, await self.run_in_sandbox(look))

    def _keep(self, path: Path, source: Path, content: bytes) -> None:
        """Stores an image, unless its file was deleted meanwhile: `forget` may have run before there was an image."""
        try:
            self._space.keep(path, content)
        finally:
            if not source.exists():
                _remove(path.parent)
                raise Problem(404, "file_gone") from None

    async def forget(self, sha256: str) -> None:
        """Removes the images of a file that is gone."""
        await asyncio.to_thread(remove_pictures, self.folder, sha256)

    async def hashes(self) -> list[str]:
        """The hashes of the files that have images here."""
        return await asyncio.to_thread(lambda: [folder.name for folder in self.folder.glob("[0-9a-f][0-9a-f]/*")])

    async def close(self) -> None:
        """Stops the processes that draw."""
        if self._sandbox is not None:
            await asyncio.to_thread(self._sandbox.close)
            self._sandbox = None


class Space:
    """The disk space of images."""

    def __init__(self, folder: Path, most: int) -> None:
        self.folder, self.most = folder, most
        self._taken: int | None = None  #: None: not measured yet
        self._lock = threading.Lock()

    def keep(self, path: Path, content: bytes) -> None:
        """Stores an image; the least recently used make room for it."""
        _write(path, content)
        with self._lock:
            if self._taken is None:
                self._taken = sum(size for _, size, _ in self._all())
            else:
                self._taken += len(content)
            if self._taken > self.most:
                self._taken = self._make_room()

    def _make_room(self) -> int:
        left = sorted(self._all(), reverse=True)
        taken = sum(size for _, size, _ in left)
        while left and taken > self.most * KEPT_SHARE:
            _, size, path = left.pop()
            path.unlink(missing_ok=True)
            taken -= size
        return taken

    def _all(self) -> Iterator[tuple[float, int, Path]]:
        for path in self.folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    yield status.st_mtime, status.st_size, path


def round_width(width: int) -> int:
    """The width that is drawn for a requested one."""
    return next((known for known in WIDTHS if known >= width), WIDTHS[-1])


def rotation_of(pages: Sequence[PageSummary], number: int) -> int:
    """The rotation with which a page was read."""
    for page in pages:
        if page.get("number") == number:
            rotation = page.get("rotation", 0)
            return rotation if rotation in (0, 90, 180, 270) else 0
    return 0


def _build_problem(error: Unreadable) -> Problem:
    if error.code == "page_missing":
        return Problem(404, "page_missing", str(error), field="number")
    if error.code == "file_missing":
        return Problem(404, "file_gone")
    return Problem(422, "document_unreadable", str(error), reason=error.code, fix=Message("fix.download"))


def _touch(path: Path) -> bool:
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(6)}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    temporary.replace(path)


def remove_pictures(folder: Path, sha256: str) -> None:
    """Removes the images of a file from the folder of an installation."""
    _remove(folder / sha256[:2] / sha256)


def _remove(folder: Path) -> None:
    """Removes the images in a folder; one that arrives meanwhile is removed by the task that drew it."""
    with contextlib.suppress(FileNotFoundError):
        for file in folder.iterdir():
            file.unlink(missing_ok=True)
        try:
            folder.rmdir()
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
