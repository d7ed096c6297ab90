"""Roles: what a key or a person may do."""

from __future__ import annotations

from enum import IntEnum


class Role(IntEnum):
    """What a key or a person may do; each role may all that those below it may."""

    VIEWER = 1
    REVIEWER = 2
    OPERATOR = 3
    ADMIN = 4

    @property
    def word(self) -> str:
        """As it is written in keys, answers and on the command line."""
        return self.name.lower()


ROLES = {role.word: role for role in Role}
