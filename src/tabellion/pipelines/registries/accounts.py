"""Accounts of registry sites: from environment variables or a secrets file, never shown and never logged."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tabellion.errors import ConfigurationError
from tabellion.pipelines.registries.portal.data import ALWAYS_LOCKED, PASSWORDS
from tabellion.pipelines.registries.profile import Profile

VARIABLE = "TABELLION_REGISTRY_{site}_{what}"  #: with the profile's name in capitals; `_2`, `_3` for further accounts
MOST = 50
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
TOO_OPEN = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class SiteAccount:
    """One account of one site; a public site has accounts without a password, one for each session."""

    site: str
    name: str  #: how people tell accounts apart, in gates and reports
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @property
    def gate(self) -> str:
        """The gate before this account."""
        return f"{self.site}:{self.name}"


def load_accounts(
    profile: Profile, secrets: Path | None = None, *, practice: bool = False,
    variables: Mapping[str, str] | None = None,
) -> tuple[SiteAccount, ...]:  # fmt: skip
    """The accounts of a site, those of the variables first; `practice`: the portal's own where none is configured."""
    if not profile.needs_account:
        return tuple(SiteAccount(profile.name, f"session-{number}") for number in range(1, profile.sessions + 1))
    variables = os.environ if variables is None else variables
    found = [*_from_variables(profile.name, variables), *(_from_file(profile.name, secrets) if secrets else ())]
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"the account {name!r} of {profile.name} is configured twice: keep one")
    if not found and practice:
        found = [
            SiteAccount(profile.name, name, name, word) for name, word in PASSWORDS.items() if name != ALWAYS_LOCKED
        ]
    return tuple(found)


def require_accounts(profile: Profile, accounts: tuple[SiteAccount, ...]) -> None:
    """Raises a ConfigurationError that says where an account can be configured."""
    if not accounts:
        user, word = (_variable(profile.name, what) for what in ("USERNAME", "PASSWORD"))
        raise ConfigurationError(
            f"the profile {profile.name} has no account: set {user} and {word}, or name a file with "
            f"[{profile.name}.ACCOUNT] tables in registries.secrets"
        )


def _variable(site: str, what: str, number: int = 1) -> str:
    name = VARIABLE.format(site=re.sub(r"[^A-Za-z0-9]", "_", site).upper(), what=what)
    return name if number == 1 else f"{name}_{number}"


def _from_variables(site: str, variables: Mapping[str, str]) -> list[SiteAccount]:
    found = []
    for number in range(1, MOST + 1):
        user, word = _variable(site, "USERNAME", number), _variable(site, "PASSWORD", number)
        if not variables.get(user):
            if variables.get(word):
                raise ConfigurationError(f"{word} is set and {user} is not: set both")
            continue
        if not variables.get(word):
            raise ConfigurationError(f"{user} is set and {word} is not: set both")
        found.append(SiteAccount(site, f"account-{number}", variables[user], variables[word]))
    return found


def _from_file(site: str, path: Path) -> list[SiteAccount]:
    """Accounts of a TOML file that nobody else may read; errors never quote its content."""
    try:
        mode = path.stat().st_mode
        if mode & TOO_OPEN:
            raise ConfigurationError(
                f"registries.secrets: {path} can be read by others (mode {stat.S_IMODE(mode):o}): run chmod 600 {path}"
            )
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"registries.secrets: {path}: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        raise ConfigurationError(f"registries.secrets: {path} is not valid TOML") from None
    found = []
    for name, entry in dict(document.get(site, {})).items():
        where = f"registries.secrets: {path}: [{site}.{name}]"
        if not NAME.fullmatch(name):
            raise ConfigurationError(f"{where}: an account's name has letters, digits, dots, hyphens and underscores")
        if not isinstance(entry, dict) or set(entry) != {"username", "password"}:
            raise ConfigurationError(f"{where} must have username and password, and nothing else")
        if not all(isinstance(value, str) and value for value in entry.values()):
            raise ConfigurationError(f"{where}: username and password must be texts")
        found.append(SiteAccount(site, name, entry["username"], entry["password"]))
    return found
