"""A profile: how one registry's site is used, as values; the YAML files are read by `profile_file`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Meaning = Literal["retry", "permanent", "no_result", "maintenance", "session_expired", "wrong_password", "locked"]
#: What a text on a page can mean, and what becomes of the job then.
MEANINGS: dict[Meaning, str] = {
    "retry": "the job is tried again after a while",
    "permanent": "the job fails",
    "no_result": "there is no such document: the job fails, or is done with nothing found where the task allows it",
    "maintenance": "the job waits and no attempt is spent",
    "session_expired": "the account signs in again and the task starts over",
    "wrong_password": "the account is not used until its password changes",
    "locked": "the account is not used until its password changes or `tabellion registry unlock`",
}
StepKind = Literal["goto", "fill", "select", "check", "click", "wait_for", "find", "download", "read", "collect"]
TIMEOUT = 30.0  #: seconds that one step may take
MOST_PAGES = 50  #: of one list of results
PLACEHOLDER = re.compile(r"\{(\w+)\}")
SECRETS = ("username", "password")  #: what only the steps of a login may use


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is done on a page.

    `selector` is what it is done to; `value` what is written or chosen. A list of results has rows (`selector`), a
    link to its next page (`next`) and a text by which one row is known (`value`); what follows `find` is looked for in
    the row that was found, until a page is left.
    """

    kind: StepKind
    line: int  #: in the file
    selector: str = ""
    value: str = ""
    next: str = ""
    only: bool = False  #: whether a single result is the right one though its text differs
    name: str = ""  #: of what it reads
    fields: Mapping[str, str] = field(default_factory=dict)
    if_given: str = ""  #: the input without which the step is left out

    def describe(self) -> str:
        """As people write it, without values."""
        return f"{self.kind} {self.selector or self.value or self.name}".strip()


@dataclass(frozen=True, slots=True)
class PageProblem:
    """A text that a page shows when something is wrong, and what that means."""

    text: str
    means: Meaning


@dataclass(frozen=True, slots=True)
class Task:
    """One thing that a site is used for: what it needs, the steps, and whether finding nothing is an answer."""

    name: str
    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    optional: tuple[str, ...] = ()
    sample: Mapping[str, str] = field(default_factory=dict)
    empty_is_done: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """How one site is used."""

    name: str
    title: str
    url: str
    tasks: Mapping[str, Task]
    file: str = ""
    digest: str = ""
    login: tuple[Step, ...] = ()  #: none: the site is public
    login_form: str = ""  #: a selector: where it is seen, nobody is signed in
    dismiss: tuple[str, ...] = ()  #: buttons that close what lies over a page
    problems: tuple[PageProblem, ...] = ()
    timeout: float = TIMEOUT
    pause: float = 0.0  #: seconds between two steps, for sites that mind haste
    sessions: int = 1  #: of a public site: how many may be open at once
    wait: float = 300.0  #: seconds until the next try after a maintenance page

    @property
    def needs_account(self) -> bool:
        """Whether the site is used by accounts."""
        return bool(self.login)
