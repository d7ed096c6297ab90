"""What is remembered of accounts between visits, in private files: the browser's session, and that it was refused."""

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
from tabellion.storage import files

BUSY = 0.2  #: seconds between two looks at an account that another visit uses


class AccountFile:
    """The file of one account. Its lock makes visits take turns, in all processes of this machine."""

    def __init__(self, folder: Path, account: SiteAccount) -> None:
        self.account = account
        self._root = folder
        self._path = folder / account.site / f"{account.name}.json"

    @contextlib.contextmanager
    def try_lock(self) -> Iterator[bool]:
        """Holds the account for the length of a block; False: another visit uses it."""
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
            os.close(handle)  # the lock ends with it, also where the process is killed

    @property
    def state_path(self) -> Path:
        """Where the browser's session is stored: another file for another user name."""
        user = hashlib.sha256(self.account.username.encode()).hexdigest()[:16]
        return self._path.with_suffix(f".{user}.state")

    @property
    def has_state(self) -> bool:
        """Whether an earlier visit has left its session."""
        return self.state_path.is_file()

    def refusal(self) -> str | None:
        """Why the site refused this user name and password; None: it did not, or they have changed since."""
        mark = self._read().get("refused")
        if not mark or mark["digest"] != self._digest(bytes.fromhex(mark["salt"])):
            return None
        return str(restore_text(mark, "why"))

    def mark_refused(self, why: str) -> None:
        """Keeps that the site refused the account: trying again and again is what locks accounts."""
        salt = secrets.token_bytes(16)
        mark = {"why": str(why), "salt": salt.hex(), "digest": self._digest(salt), **translatable(why=why)}
        self.state_path.unlink(missing_ok=True)
        self._write({**self._read(), "refused": mark})

    def clear_refusal(self) -> bool:
        """Forgets a refusal; whether there was one."""
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
    """A moment, after which another visit may have ended."""
    await asyncio.sleep(BUSY)
