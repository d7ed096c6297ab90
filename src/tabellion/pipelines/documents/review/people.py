"""People who review: the caller, and who can be assigned items."""

from __future__ import annotations

from dataclasses import dataclass

REVIEWER, OPERATOR = 2, 3  #: roles, with the numbers of the web's policy
REVIEWING = ("reviewer", "operator", "admin")  #: roles that are assigned items

#: Enabled users who may review and are not marked as away.
AVAILABLE = f"u.available AND u.disabled_at IS NULL AND u.role IN {REVIEWING}"


@dataclass(frozen=True, slots=True)
class Person:
    """The caller: a user by name, or a key as `key:NAME`."""

    name: str
    role: int

    @property
    def operates(self) -> bool:
        """Whether they may act on items of others."""
        return self.role >= OPERATOR
