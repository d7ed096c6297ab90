"""Shared secrets: one value for all machines of an environment."""

from __future__ import annotations

import asyncio

from tabellion.accounts.shared_secrets import BYTES, get_secret
from tabellion.engine.store import Store
from tests.workers import ask


def test_everyone_gets_the_same_secret(url: str) -> None:
    """Also those who ask at the same moment; another name has another secret."""

    async def story(_: Store) -> tuple[list[bytes], bytes]:
        async def one() -> bytes:
            async with Store(url) as store:
                return await get_secret(store, "cursors")

        found = await asyncio.gather(*(one() for _ in range(8)))
        async with Store(url) as store:
            return found, await get_secret(store, "other")

    found, other = ask(url, story)
    assert len(set(found)) == 1
    assert len(found[0]) == BYTES
    assert other != found[0]
