"""The admin key of an installation, in a file only its owner can read, and the first sign-in link."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tabellion.accounts.sessions import Ticket
    from tabellion.engine.store import Store

FILE = "admin.key"


def path_in(folder: Path) -> Path:
    """The path of the key file in the folder of an environment."""
    return folder / FILE


async def ensure(store: Store, environment: str, path: Path) -> str | None:
    """Makes sure that a file has a valid admin key; returns the key if it is new.

    A key that was revoked or belongs to another database is replaced.
    """
    from tabellion.accounts import keys

    try:
        stored = keys.parse(path.read_text().strip())
    except OSError:
        stored = None
    if stored is not None and stored.environment == environment and await keys.holder(store, stored) is not None:
        return None
    try:
        _, text = await keys.create(store, environment, "admin", "admin")
    except keys.NameTaken:  # another installation uses the same database
        _, text = await keys.create(store, environment, "admin", f"admin {secrets.token_hex(3)}")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    _write(path, text)
    return text


async def link(store: Store, environment: str) -> Ticket | None:
    """A sign-in link for the first admin, whom its use creates; None if that user is disabled."""
    from tabellion.accounts import links, users

    return await links.make(store, environment, users.FIRST, new_role="admin")


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, f"{text}\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    os.rename(temporary, path)
