"""Private files with the state of each account between visits: the browser session, and whether it was refused."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tabellion.messages import restore_text, translatable
from tabellion.pipelines.registries.accounts import SiteAccount
from tabellion.pipelines.registries.waiting_line import Place, join_line
from tabellion.storage import files

BUSY = 0.2  #: seconds between two tries for an account that is in use
WAIT_SECONDS = 60.0  #: that a visit waits for an account at most


class AccountFile:
    """The file of one account. Its lock serializes visits across all processes of this machine."""

    def __init__(self, folder: Path, account: SiteAccount) -> None:
        self.account = account
        self._root = folder
        self._path = folder / account.site / f"{account.name}.json"

    @contextlib.contextmanager
    def try_lock(self) -> Iterator[bool]:
        """Locks the account within a block; yields False if another visit uses it."""
        files.make_folder(self._path.parent, self._root)
        handle = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(handle)  # releases the lock, as does the end of the process

    @contextlib.contextmanager
    def join_line(self) -> Iterator[Place]:
        """A place in the line of visits that wait for the account, for the length of a block."""
        folder = self._path.with_suffix(".line")
        files.make_folder(folder, self._root)
        with join_line(folder) as place:
            yield place

    @property
    def state_path(self) -> Path:
        """The file with the browser's session, one per user name."""
        user = hashlib.sha256(self.account.username.encode()).hexdigest()[:16]
        return self._path.with_suffix(f".{user}.state")

    @property
    def has_state(self) -> bool:
        """Whether an earlier visit stored its session."""
        return self.state_path.is_file()

    def refusal(self) -> str | None:
        """Why the site refused this user name and password; None if it did not, or if they have changed since."""
        mark = self._read().get("refused")
        if not mark or mark["digest"] != self._digest(bytes.fromhex(mark["salt"])):
            return None
        return str(restore_text(mark, "why"))

    def mark_refused(self, why: str) -> None:
        """Remembers that the site refused the account: repeated tries would lock it."""
        salt = secrets.token_bytes(16)
        mark = {"why": str(why), "salt": salt.hex(), "digest": self._digest(salt), **translatable(why=why)}
        self.state_path.unlink(missing_ok=True)
        self._write({**self._read(), "refused": mark})

    def clear_refusal(self) -> bool:
        """Forgets a refusal, and returns whether there was one."""
        saved = self._read()
        if not saved.pop("refused", None):
            return False
        self._write(saved)
        return True

    def _digest(self, salt: bytes) -> str:
        secret = f"{self.account.username}\0{self.account.password}".encode()
        return hashlib.scrypt(secret, salt=salt, n=2**12, r=8, p=1, dklen=16).hex()

    def _read(self) -> dict[str, Any]:
        try:
            saved: dict[str, Any] = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return saved

    def _write(self, saved: Mapping[str, Any]) -> None:
        files.write_whole(self._path, json.dumps(saved).encode(), self._root)


async def wait_turn() -> None:
    """Waits a moment, in which another visit may end."""
    await asyncio.sleep(BUSY)
