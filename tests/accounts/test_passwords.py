"""Passwords: argon2id, not too easy, and as slow for unknown users as for known ones."""

from __future__ import annotations

import asyncio

import pytest

from tabellion.accounts import passwords

pytestmark = pytest.mark.usefixtures("full_effort")


def test_a_password_is_stored_as_argon2id() -> None:
    """With the intended cost; the right one matches and a wrong one does not."""
    kept = asyncio.run(passwords.hash_password("correct horse battery"))
    assert kept.startswith("$argon2id$v=19$m=65536,t=3,p=1$")
    assert asyncio.run(passwords.matches(kept, "correct horse battery"))
    assert not asyncio.run(passwords.matches(kept, "correct horse batterx"))
    assert kept != asyncio.run(passwords.hash_password("correct horse battery"))
    assert not passwords.is_outdated(kept)
    assert passwords.is_outdated(kept.replace("t=3", "t=2"))


@pytest.mark.parametrize("kept", [None, "", "nonsense", "$argon2id$v=19$m=65536,t=3,p=1$AAAA$AAAA"])
def test_without_a_hash_nothing_matches(kept: str | None) -> None:
    """Not even an empty password."""
    assert not asyncio.run(passwords.matches(kept, ""))
    assert not asyncio.run(passwords.matches(kept, "correct horse battery"))


def test_the_comparison_for_an_unknown_user_takes_the_same_effort() -> None:
    """It has the current parameters, and the lengths of a real hash."""
    kept = asyncio.run(passwords.hash_password("correct horse battery"))
    assert not passwords.is_outdated(passwords.NOTHING)
    assert [len(part) for part in passwords.NOTHING.split("$")] == [len(part) for part in kept.split("$")]


@pytest.mark.parametrize(
    "weak",
    [
        "short",
        "x" * 11,
        "aaaaaaaaaaaaaaa",
        "ababababababab",
        "annaannaannaanna",
        "y" * 1001,
        "123456789012",
        "qwertzuiop12",
        "Password1234",
        "abcdefghijkl",
        "987654321abc",
        "motdepasse123",
        "AdminAdmin2026",
    ],
)
def test_a_weak_password_is_rejected(weak: str) -> None:
    """Too short, too long, too few letters, the name repeated, common words and keyboard rows."""
    with pytest.raises(passwords.WeakPassword):
        passwords.check_new(weak, "anna")


def test_a_long_password_needs_no_special_characters() -> None:
    """Length is what counts."""
    passwords.check_new("four words in a row", "anna")
    passwords.check_new("motdepasse très long", "anna")
    passwords.check_new("831906274459", "anna")
