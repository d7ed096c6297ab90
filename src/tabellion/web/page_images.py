"""Pictures of pages: drawn in the sandbox once, kept on disk, given away as PNG."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tabellion.reading.draw import draw
from tabellion.reading.errors import Unreadable
from tabellion.reading.limits import Limits
from tabellion.reading.page import PageSummary
from tabellion.reading.sandbox import Sandbox
from tabellion.web.problems import Problem

#: Pixels across that pages are drawn at; what is asked for is rounded up to one of them.
WIDTHS = (100, 200, 300, 450, 600, 900, 1200, 1400, 1600, 2000, 2500, 3000)
MOST_BYTES = 1 << 30  #: of all pictures together; beyond them those go that nobody has looked at for longest
KEPT_SHARE = 0.8  #: of that, which is left when some had to go: not every picture is to walk through all others
AT_ONCE = 2  #: pages drawn at the same time; the rest waits
#: A page that is looked at is drawn in seconds or not at all.
LIMITS = Limits(seconds=60.0, page_seconds=30.0, cpu_seconds=60.0)


class Pictures:
    """The pictures of one installation."""

    def __init__(self, folder: Path, most: int = MOST_BYTES) -> None:
        self.folder = folder
        self._space = Space(folder, most)
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._sandbox: Sandbox | None = None
        self._drawing: dict[Path, asyncio.Task[None]] = {}

    async def picture(self, source: Path, sha256: str, number: int, width: int, rotation: int) -> Path:
        """The file with page `number`, so many pixels wide, turned as the page was read; drawn if need be."""
        path = self.folder / sha256[:2] / sha256 / f"{number}-{width}-{rotation}.png"
        if _touch(path):
            return path
        task = self._drawing.get(path)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._draw(path, source, number, width, rotation))
            self._drawing[path] = task
            task.add_done_callback(lambda _: self._drawing.pop(path, None))
        await asyncio.shield(task)
        return path

    async def run_in_sandbox(self, look: Callable[[Sandbox], bytes]) -> bytes:
        """What a look at a document gives, in the children that draw: no more at once than there are."""
        async with self._turn:
            self._sandbox = self._sandbox or Sandbox(size=AT_ONCE, limits=LIMITS)
            try:
                return await asyncio.to_thread(look, self._sandbox)
            except Unreadable as error:
                raise _build_problem(error) from None

    async def _draw(self, path: Path, source: Path, number: int, width: int, rotation: int) -> None:
        def look(sandbox: Sandbox) -> bytes:
            return draw(source, number, width=width, rotation=rotation, sandbox=sandbox, limits=LIMITS)

        await asyncio.to_thread(self._space.keep, path, await self.run_in_sandbox(look))

    async def forget(self, sha256: str) -> None:
        """Removes the pictures of a file that is gone."""
        await asyncio.to_thread(_remove, self.folder / sha256[:2] / sha256)

    async def close(self) -> None:
        """Ends the children that draw."""
        if self._sandbox is not None:
            await asyncio.to_thread(self._sandbox.close)
            self._sandbox = None


class Space:
    """The room that pictures take on the disk."""

    def __init__(self, folder: Path, most: int) -> None:
        self.folder, self.most = folder, most
        self._taken: int | None = None  #: None: nobody has looked yet
        self._lock = threading.Lock()

    def keep(self, path: Path, content: bytes) -> None:
        """Writes a picture; the oldest make room for it."""
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
                found = path.lstat()
                if stat.S_ISREG(found.st_mode):
                    yield found.st_mtime, found.st_size, path


def round_width(width: int) -> int:
    """The width that is drawn for one that is asked for."""
    return next((one for one in WIDTHS if one >= width), WIDTHS[-1])


def rotation_of(pages: Sequence[PageSummary], number: int) -> int:
    """How a page was turned when it was read."""
    for page in pages:
        if page.get("number") == number:
            turned = page.get("rotation", 0)
            return turned if turned in (0, 90, 180, 270) else 0
    return 0


def _build_problem(error: Unreadable) -> Problem:
    if error.code == "page_missing":
        return Problem(404, "page_missing", str(error), field="number")
    if error.code == "file_missing":
        return Problem(404, "file_gone")
    return Problem(422, "document_unreadable", str(error), reason=error.code, fix="download the file instead")


def _touch(path: Path) -> bool:
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _write(path: Path, content: bytes) -> None:
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
