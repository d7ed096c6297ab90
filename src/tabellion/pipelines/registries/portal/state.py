"""The state of the portal: faults to simulate, sessions, wrong passwords, and counts of requests."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tabellion.errors import ConfigurationError
from tabellion.pipelines.registries.portal.data import ALWAYS_LOCKED, PASSWORDS

MOST_WRONG = 3  #: wrong passwords that lock an account


@dataclass
class PortalFaults:
    """Faults to simulate; `POST /_faults` sets them, an empty object clears them."""

    maintenance: list[str] = field(default_factory=list)  #: sites that show their maintenance page
    slow: float = 0.0  #: seconds of delay for every page
    popup: bool = False  #: a notice covers every page until it is closed
    dialog: bool = False  #: every page opens a browser dialog
    session_requests: int = 0  #: requests after which a session ends; 0: never
    broken_download: bool = False  #: downloads are not PDF files
    renamed: bool = False  #: the search button has another id, as on a site that has changed
    locked: list[str] = field(default_factory=list)  #: accounts that are locked

    @classmethod
    def parse(cls, faults: object) -> PortalFaults:
        """Faults from JSON; raises a ConfigurationError that names the known ones."""
        known = {fault.name: type(getattr(cls(), fault.name)) for fault in fields(cls)}
        if not isinstance(faults, Mapping):
            raise ConfigurationError("faults are a JSON object")
        for name, value in faults.items():
            if name not in known:
                raise ConfigurationError(f"unknown fault {name!r}; known: {', '.join(known)}")
            kinds = (int, float) if known[name] is float else known[name]
            if not isinstance(value, kinds):
                raise ConfigurationError(f"{name} must be a {known[name].__name__}")
        return cls(**faults)


@dataclass
class PortalSession:
    """A user who has signed in to a site."""

    site: str
    user: str
    requests: int = 0


class PortalState:
    """Everything that changes while the portal runs."""

    def __init__(self) -> None:
        self.faults = PortalFaults()
        self.sessions: dict[str, PortalSession] = {}
        self.wrong: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()  #: logins, searches and downloads by site, for tests

    def sign_in(self, site: str, user: str, password: str) -> tuple[str, str]:
        """The id of a new session and an empty text, or an empty id and the reason: `wrong` or `locked`."""
        if user in self.faults.locked or user == ALWAYS_LOCKED or self.wrong[user] >= MOST_WRONG:
            self.counts[f"{site}.locked"] += 1
            return "", "locked"
        if not secrets.compare_digest(PASSWORDS.get(user, "").encode(), password.encode()) or user not in PASSWORDS:
            self.wrong[user] += 1
            self.counts[f"{site}.wrong"] += 1
            return "", "wrong"
        self.wrong[user] = 0
        self.counts[f"{site}.logins"] += 1
        id_ = secrets.token_urlsafe(16)
        self.sessions[id_] = PortalSession(site, user)
        return id_, ""

    def session(self, site: str, id_: str | None) -> PortalSession | None:
        """The session of a request, unless it has ended."""
        found = self.sessions.get(id_ or "")
        if found is None or found.site != site:
            return None
        found.requests += 1
        if self.faults.session_requests and found.requests > self.faults.session_requests:
            del self.sessions[id_ or ""]
            return None
        return found

    def expire(self) -> None:
        """Ends every session."""
        self.sessions.clear()

    def to_dict(self) -> dict[str, Any]:
        """The state as JSON, for tests and people."""
        return {"faults": {fault.name: getattr(self.faults, fault.name) for fault in fields(self.faults)},
                "sessions": len(self.sessions), "counts": dict(sorted(self.counts.items()))}  # fmt: skip
