"""Passwords: argon2id, at most two hashed at once, and the same time for an unknown user."""

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
ROUNDS, MEMORY, LANES = 3, 65_536, 1  #: RFC 9106's second choice, in one lane: the machine has other work
SHORTEST, LONGEST = 12, 1000  #: characters
OWN = 6  #: characters that must remain without the user's name, common words and runs
#: Rows of characters that people type along, in either direction.
ROWS = ("01234567890", "abcdefghijklmnopqrstuvwxyz", "qwertyuiop", "qwertzuiop", "azertyuiop", "asdfghjkl", "zxcvbnm")
_EXPECTED = re.compile(
    "password|passwort|passw0rd|motdepasse|kennwort|tabellion|admin|welcome|letmein|iloveyou|secret|changeme|login|test"
)
AT_ONCE = 2  #: each takes 64 MB and some tenths of a second
#: The hash to compare with if the user has none; no password has a hash of zeros.
NOTHING = f"$argon2id$v=19$m={MEMORY},t={ROUNDS},p={LANES}${'A' * 22}${'A' * 43}"


class WeakPassword(TabellionError):  # noqa: N818 - what it is
    """The password is too easy to guess."""


def check_new(password: str, name: str) -> None:
    """Raises WeakPassword for a password that is too short, too long or easy to guess."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise WeakPassword(Message("problem.password_length", n=SHORTEST, limit=LONGEST))
    remaining = password.lower().replace(name.lower(), "") if len(name) > 2 else password.lower()
    remaining = _without_runs(_EXPECTED.sub("", remaining))
    if len(set(password)) < 5 or len(remaining) < OWN:
        raise WeakPassword(Message("problem.password_guessable"))


def _without_runs(password: str) -> str:
    """The password without the third and later characters of runs along the keyboard, the alphabet or the digits."""
    steps = {row[index : index + 2] for row in ROWS for index in range(len(row) - 1)}
    steps |= {step[::-1] for step in steps} | {character * 2 for character in password}
    follows = [password[index - 1 : index + 1] in steps for index in range(1, len(password))]
    return password[:2] + "".join(
        character for index, character in enumerate(password[2:], 2) if not (follows[index - 1] and follows[index - 2])
    )


async def hash_password(password: str) -> str:
    """The hash of a password, to be stored."""
    return await _run_in_thread(_hasher().hash, password)


async def matches(hashed: str | None, password: str) -> bool:
    """Whether this is the password; takes as long where there is no hash."""
    return await _run_in_thread(_verify, hashed, password)


def is_outdated(hashed: str) -> bool:
    """Whether a hash was made with weaker parameters than today's."""
    return _hasher().check_needs_rehash(hashed)


def _verify(hashed: str | None, password: str) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        _hasher().verify(hashed or NOTHING, password)
    except (VerificationError, InvalidHashError):
        return False
    return hashed is not None


@functools.cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=ROUNDS, memory_cost=MEMORY, parallelism=LANES)


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="passwords")


async def _run_in_thread(work: Callable[..., Result], *values: object) -> Result:
    return await asyncio.get_running_loop().run_in_executor(_threads(), work, *values)
