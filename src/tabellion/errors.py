"""Every exception of the engine, as one tree.

TabellionError
├── ConfigurationError      a setting is missing or wrong
├── DeclarationError        a queue cannot work as declared
├── GateClosed (RateLimited) this model may not be called now
├── LeaseLost               the claim behind this call is no longer ours
├── Permanent               raised by a handler: never retry this job
├── RateLimited             raised by a handler: retry later, without spending the attempt
└── StoreError              the database rejected a statement
    ├── Busy                the row is locked; the same call may succeed later
    ├── Forbidden           the role lacks a right
    ├── NotMigrated         the register is missing or of another version
    ├── Unreachable         no answer now; the same call may succeed later
    │   └── Full            its disk is full
    └── ValueRefused        a value does not fit its column
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tabellion.messages import Message, quote_value


class TabellionError(Exception):
    """Something of ours went wrong."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class ConfigurationError(TabellionError):
    """A setting is missing or wrong."""


@dataclass(frozen=True, slots=True)
class DeclarationProblem:
    """One problem of a declaration, and the line or SQL that fixes it."""

    what: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.what}\n   fix: {self.fix}" if self.fix else self.what


class DeclarationError(TabellionError):
    """Raised when a queue cannot work as declared; lists every problem at once."""

    def __init__(self, subject: str, problems: Iterable[DeclarationProblem]) -> None:
        self.subject = subject
        self.problems = tuple(problems)
        lines = [f"{number}. {problem}" for number, problem in enumerate(self.problems, 1)]
        count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
        super().__init__("\n".join([f"{subject} cannot work as declared ({count}):", *lines]))


class LeaseLost(TabellionError):  # noqa: N818 - a public name, and what happened
    """The claim is no longer ours: it expired, was cancelled, or the row's owner changed the row."""


class Permanent(TabellionError):  # noqa: N818 - handlers raise it as a verdict
    """The job can never succeed: it goes to `failed` without another try."""


class RateLimited(TabellionError):  # noqa: N818 - handlers raise it as a verdict
    """The outside asked us to wait: the job goes back to `ready` and the attempt is not spent."""

    def __init__(self, after: float = 30.0, message: str = "") -> None:
        self.after = float(after)
        super().__init__(message or Message("attempt.rate_limited", n=self.after))


class GateClosed(RateLimited):
    """No call may go to this model now: it is down, refuses our key, or today's money is spent."""

    def __init__(self, gate: str, why: str, after: float = 30.0) -> None:
        self.gate = gate
        super().__init__(after, Message("gate.closed", value=quote_value(gate), detail=why))


TableRule = Literal["check", "unique", "reference", "null", "trigger", ""]


class StoreError(TabellionError):
    """The database refused what was asked."""

    rule: TableRule = ""  #: the kind of rule of the table that rejected it, if the database names it
    constraint: str = ""  #: the constraint's name
    function: str = ""  #: the trigger's function that raised it

    @property
    def words(self) -> str:
        """The database's message, without the row's values that it adds."""
        return str(self).partition("\nDETAIL:")[0]


class Busy(StoreError):  # noqa: N818 - a state, not a failure
    """Someone else holds the row; the same call may succeed later."""


class Forbidden(StoreError):  # noqa: N818 - what the database said
    """The database role lacks a right."""

    by_policy: bool = False  #: whether it has the right, and a policy of the table refuses this row


class NotMigrated(StoreError):  # noqa: N818 - a state, not a failure
    """The register is not in this database: run `tabellion migrate`."""


class Unreachable(StoreError):  # noqa: N818 - a state, not a failure
    """The database does not answer; it is asked again later."""


class Full(Unreachable):
    """The database's disk is full: free some space."""


class ValueRefused(StoreError):  # noqa: N818 - what the database said
    """A value does not fit its column."""


#: Errors that are not about the statement: the same call may succeed later.
AWAY = (Unreachable, NotMigrated, Forbidden, Busy)
