"""Roles: what a key or a person may do."""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, cast

RoleWord = Literal["viewer", "reviewer", "operator", "admin"]  #: a role of a person, as it is written


class Role(IntEnum):
    """What a key or a person may do; each role includes those below it."""

    METRICS = 0  #: reads the metrics and nothing else; only for keys
    VIEWER = 1
    REVIEWER = 2
    OPERATOR = 3
    ADMIN = 4

    @property
    def word(self) -> RoleWord:
        """The role's name in keys, API answers and on the command line."""
        return cast("RoleWord", self.name.lower())


ROLES: dict[str, Role] = {role.word: role for role in Role}  #: of keys
PERSON_ROLES: dict[str, Role] = {role.word: role for role in Role if role is not Role.METRICS}
