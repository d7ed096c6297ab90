"""The lake in a local folder: every file is written under a temporary name, forced to disk, then renamed."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from tabellion.engine.failpoints import failpoint
from tabellion.messages import Message
from tabellion.storage import files
from tabellion.storage.lake_backend import LakeEntries, LakeEntry, LakeFileExists, LakeFileTooLarge, NoSuchLakeFile

ASIDE = ".aside"  #: where a file is moved while it is removed; it is moved back if its content differs
LOCK = ".lock"
PATIENCE = 0.05  #: seconds between two attempts to take a lock


class Folder:
    """A folder of atomically written files."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    async def put(self, path: str, data: bytes, create: bool) -> None:
        """Writes a file atomically."""
        await files.in_thread(self._put, path, data, create)

    async def put_file(self, path: str, file: Path, create: bool) -> None:
        """Moves a staged file in."""
        await files.in_thread(self._put_file, path, file, create)

    async def get(self, path: str, limit: int | None = None) -> bytes:
        """The content of a file."""
        try:
            return await files.in_thread(self._get, path, limit)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise NoSuchLakeFile(Message("storage.absent", path=str(self.root / path))) from None

    async def stat(self, path: str) -> LakeEntry:
        """A file's entry."""
        entry = await files.in_thread(self._entry, path)
        if entry is None:
            raise NoSuchLakeFile(Message("storage.absent", path=str(self.root / path)))
        return entry

    async def list(self, prefix: str) -> list[LakeEntry]:
        """The entries below a folder."""
        return await files.in_thread(self._list, prefix)

    async def delete(self, paths: Sequence[str]) -> int:
        """Removes files."""
        return await files.in_thread(lambda: sum(files.remove(self.root / path) for path in paths))

    async def delete_exact(self, path: str, sha256: str) -> bool:
        """Removes a file if it has this content."""
        return await files.in_thread(self._delete_exact, path, sha256)

    def staging_folder(self) -> Path:
        """The folder itself, so that a staged file can be renamed."""
        files.make_folder(self.root, self.root)
        return self.root

    @contextlib.asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Waits until no other process on this machine holds the lock, which ends with its holder's process."""
        await files.in_thread(files.make_folder, self.root, self.root)
        handle = os.open(self.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, files.PRIVATE_FILE)
        try:
            while not files.try_lock(handle):
                await asyncio.sleep(PATIENCE)
            await files.in_thread(self._put_back)
            yield
        finally:
            os.close(handle)

    async def sweep_temps(self, older: float) -> int:
        """Removes temporary files."""
        return len(await files.in_thread(files.sweep_temps, self.root, older))

    def check(self) -> None:
        """Raises if files cannot be written now."""
        files.check_folder(self.root)

    def _get(self, path: str, limit: int | None) -> bytes:
        with (self.root / path).open("rb") as file:
            if limit is not None and os.fstat(file.fileno()).st_size > limit:
                raise LakeFileTooLarge(Message("storage.too_large", path=str(self.root / path), n=limit))
            return file.read()

    def _put(self, path: str, data: bytes, create: bool) -> None:
        staged = files.StagedFile((self.root / path).parent, self.root)
        try:
            staged.write(data)
            self._name(staged, path, create)
        finally:
            staged.discard()

    def _put_file(self, path: str, file: Path, create: bool) -> None:
        staged = files.StagedFile.adopt(file, self.root)
        try:
            self._name(staged, path, create)
        finally:
            staged.discard()

    def _name(self, staged: files.StagedFile, path: str, create: bool) -> None:
        try:
            staged.name(self.root / path, new=create)
        except files.FileNameTaken:
            raise LakeFileExists(Message("storage.exists", path=str(self.root / path))) from None

    def _entry(self, path: str) -> LakeEntry | None:
        try:
            status = (self.root / path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return LakeEntry(
            path, status.st_size, status.st_mtime, f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
        )

    def _list(self, prefix: str) -> LakeEntries:
        entries = []
        for folder, subfolders, names in os.walk(self.root / prefix):
            subfolders[:] = [name for name in subfolders if not name.startswith(".")]
            relative = Path(folder).relative_to(self.root).as_posix()
            for name in names:
                path = name if relative == "." else f"{relative}/{name}"
                if not name.startswith(".") and (entry := self._entry(path)) is not None:
                    entries.append(entry)
        return entries

    def _delete_exact(self, path: str, sha256: str) -> bool:
        """Moves the file aside first, so that nobody can replace it while its content is checked."""
        aside = self.root / ASIDE / f"{path}.{secrets.token_hex(4)}"
        with files.translate_errors(self.root / path):
            files.make_folder(aside.parent, self.root)
            try:
                os.rename(self.root / path, aside)
            except FileNotFoundError:
                return False
            failpoint("compact.mid_remove")
            if hashlib.sha256(aside.read_bytes()).hexdigest() != sha256:
                self._back(aside)
                return False
            aside.unlink()  # not forced to disk: a removal that a crash undoes is done again
        return True

    def _put_back(self) -> None:
        """Undoes removals that a crash interrupted: the content may not have been checked yet."""
        for folder, _, names in os.walk(self.root / ASIDE):
            for name in names:
                self._back(Path(folder, name))

    def _back(self, aside: Path) -> None:
        """Moves a file back, unless a newer one has its name."""
        original = self.root / aside.relative_to(self.root / ASIDE).with_suffix("")
        files.make_folder(original.parent, self.root)
        with contextlib.suppress(FileExistsError):
            os.link(aside, original)
        files.sync_folder(original.parent)
        aside.unlink()
