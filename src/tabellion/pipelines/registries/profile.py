"""A profile: the description of how a registry's site is used; `profile_file` reads it from YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Meaning = Literal["retry", "permanent", "no_result", "maintenance", "session_expired", "wrong_password", "locked"]
#: What a text on a page can mean, and what happens to the job.
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
SECRETS = ("username", "password")  #: inputs that only login steps may use


@dataclass(frozen=True, slots=True)
class Step:
    """One action on a page.

    `selector` is the element; `value` the text to write or choose. For a list of results, `selector` matches its rows,
    `next` the link to the next page, and `value` is the text of the row to find; steps after `find` search within that
    row until the page changes.
    """

    kind: StepKind
    line: int  #: in the file
    selector: str = ""
    value: str = ""
    next: str = ""
    only: bool = False  #: whether a single result is accepted although its text differs
    name: str = ""  #: of the value that it reads
    fields: Mapping[str, str] = field(default_factory=dict)
    if_given: str = ""  #: the input without which the step is skipped

    def describe(self) -> str:
        """The step as it is written in a file, without values."""
        return f"{self.kind} {self.selector or self.value or self.name}".strip()


@dataclass(frozen=True, slots=True)
class PageProblem:
    """A text on a page that reports a problem, and its meaning."""

    text: str
    means: Meaning


@dataclass(frozen=True, slots=True)
class Task:
    """One use of a site: its inputs, its steps, and whether no result is a valid answer."""

    name: str
    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    optional: tuple[str, ...] = ()
    sample: Mapping[str, str] = field(default_factory=dict)
    empty_is_done: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """The description of one site."""

    name: str
    title: str
    url: str
    tasks: Mapping[str, Task]
    file: str = ""
    digest: str = ""
    login: tuple[Step, ...] = ()  #: empty: the site is public
    login_form: str = ""  #: a selector that is visible only if nobody is signed in
    dismiss: tuple[str, ...] = ()  #: buttons that close notices covering a page
    problems: tuple[PageProblem, ...] = ()
    timeout: float = TIMEOUT
    pause: float = 0.0  #: seconds between two steps, for sites that limit the rate of requests
    sessions: int = 1  #: of a public site: how many may be open at once on one machine
    wait: float = 300.0  #: seconds until a retry after a maintenance page

    @property
    def needs_account(self) -> bool:
        """Whether the site requires an account."""
        return bool(self.login)
