"""Passwords: argon2id, at most two at once, and the same time for a user who is none."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from tabellion.engine.errors import TabellionError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

Result = TypeVar("Result")
ROUNDS, MEMORY, LANES = 3, 65_536, 1  #: RFC 9106's second choice, in one lane: others wait for this machine too
SHORTEST, LONGEST = 12, 1000  #: characters
AT_ONCE = 2  #: each takes 64 MB and some tenths of a second
#: What is compared where there is nothing to compare with; no password gives a hash of zeros.
NOTHING = f"$argon2id$v=19$m={MEMORY},t={ROUNDS},p={LANES}${'A' * 22}${'A' * 43}"


class WeakPassword(TabellionError):  # noqa: N818 - what it is
    """The password is too easy to guess."""


def check_new(password: str, name: str) -> None:
    """Refuses what would be guessed; length is what counts."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise WeakPassword(f"a password has {SHORTEST} to {LONGEST:,} characters")
    if len(set(password)) < 5 or password.lower() in (name * LONGEST)[: len(password)]:
        raise WeakPassword("this password is too easy to guess: use a few words that nobody would expect together")


async def hashed(password: str) -> str:
    """What is kept of a password."""
    return await _elsewhere(_hasher().hash, password)


async def matches(kept: str | None, password: str) -> bool:
    """Whether this is the password; without one it takes as long to say no."""
    return await _elsewhere(_verify, kept, password)


def is_outdated(kept: str) -> bool:
    """Whether it was hashed with less than today's effort."""
    return _hasher().check_needs_rehash(kept)


def _verify(kept: str | None, password: str) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        _hasher().verify(kept or NOTHING, password)
    except (VerificationError, InvalidHashError):
        return False
    return kept is not None


@functools.cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=ROUNDS, memory_cost=MEMORY, parallelism=LANES)


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="passwords")


async def _elsewhere(work: Callable[..., Result], *values: object) -> Result:
    return await asyncio.get_running_loop().run_in_executor(_threads(), work, *values)
