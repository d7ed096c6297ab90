"""The first key of an installation, in a file that only its owner can read, and a link for the first person."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tabellion.accounts.sessions import Ticket
    from tabellion.engine.store import Store

FILE = "admin.key"


def path_in(data: Path) -> Path:
    """Where it lies."""
    return data / FILE


async def ensure(store: Store, environment: str, data: Path) -> tuple[Path, str | None]:
    """The file of a key that works, and the key itself if it is new.

    A key that was revoked, or that is another database's, is replaced; the file never holds more than one.
    """
    from tabellion.accounts import keys

    path = path_in(data)
    try:
        kept = keys.parse(path.read_text().strip())
    except OSError:
        kept = None
    if kept is not None and kept.environment == environment and await keys.holder(store, kept) is not None:
        return path, None
    try:
        _, text = await keys.create(store, environment, "admin", "admin")
    except keys.NameTaken:  # another installation's on the same database
        _, text = await keys.create(store, environment, "admin", f"admin {secrets.token_hex(3)}")
    _write(path, text)
    return path, text


async def link(store: Store, environment: str) -> Ticket | None:
    """A link that signs somebody in as the first admin, who is made at its use; None: that user is disabled."""
    from tabellion.accounts import links, users

    return await links.make(store, environment, users.FIRST, new_role="admin")


def _write(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, f"{text}\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    os.rename(fresh, path)
