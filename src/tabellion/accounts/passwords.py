"""Passwords: argon2id, at most two at once, and the same time for a user who is none."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from tabellion.errors import TabellionError
from tabellion.messages import Message

if TYPE_CHECKING:
    from argon2 import PasswordHasher

Result = TypeVar("Result")
ROUNDS, MEMORY, LANES = 3, 65_536, 1  #: RFC 9106's second choice, in one lane: others wait for this machine too
SHORTEST, LONGEST = 12, 1000  #: characters
OWN = 6  #: characters that are left when the user's name, expected words and runs are taken away
#: Along these, in either direction, everybody types.
ROWS = ("01234567890", "abcdefghijklmnopqrstuvwxyz", "qwertyuiop", "qwertzuiop", "azertyuiop", "asdfghjkl", "zxcvbnm")
_EXPECTED = re.compile(
    "password|passwort|passw0rd|motdepasse|kennwort|tabellion|admin|welcome|letmein|iloveyou|secret|changeme|login|test"
)
AT_ONCE = 2  #: each takes 64 MB and some tenths of a second
#: What is compared where there is nothing to compare with; no password gives a hash of zeros.
NOTHING = f"$argon2id$v=19$m={MEMORY},t={ROUNDS},p={LANES}${'A' * 22}${'A' * 43}"


class WeakPassword(TabellionError):  # noqa: N818 - what it is
    """The password is too easy to guess."""


def check_new(password: str, name: str) -> None:
    """Refuses what would be guessed; length is what counts."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise WeakPassword(Message("problem.password_length", n=SHORTEST, limit=LONGEST))
    rest = password.lower().replace(name.lower(), "") if len(name) > 2 else password.lower()
    rest = _without_runs(_EXPECTED.sub("", rest))
    if len(set(password)) < 5 or len(rest) < OWN:
        raise WeakPassword(Message("problem.password_guessable"))


def _without_runs(password: str) -> str:
    """The password without every third and later character in a row of the keyboard, the alphabet or the digits."""
    steps = {row[place : place + 2] for row in ROWS for place in range(len(row) - 1)}
    steps |= {step[::-1] for step in steps} | {sign * 2 for sign in password}
    follows = [password[place - 1 : place + 1] in steps for place in range(1, len(password))]
    return password[:2] + "".join(
        sign for place, sign in enumerate(password[2:], 2) if not (follows[place - 1] and follows[place - 2])
    )


async def hash_password(password: str) -> str:
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
