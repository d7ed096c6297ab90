"""The settings of registries: profiles, accounts, folders, and the columns of tables made by hand."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tabellion.engine.gates.state import GateSettings
from tabellion.errors import ConfigurationError
from tabellion.net.guard import STANDARD, Rules
from tabellion.pipelines.registries import profile_file
from tabellion.pipelines.registries.accounts import SiteAccount, load_accounts
from tabellion.pipelines.registries.columns import SearchColumns
from tabellion.pipelines.registries.profile import Profile

if TYPE_CHECKING:
    from tabellion.config import Config

PORTAL = "http://127.0.0.1:8077"
FOLDER = "registries"  #: of the data folder, for accounts' files
#: The queues, and the profile that each uses unless another is configured.
PROFILES = {"extraction": "registre-foncier", "companies": "req", "rights": "rdprm"}
#: Low rates: one visit is many requests.
RETRY_BASE = 10.0
GATE = GateSettings(rate=2.0, min_rate=0.05, max_rate=5.0)


@dataclass(frozen=True)
class RegistrySettings:
    """The settings that handlers and routes use."""

    profiles: Mapping[str, Profile]  #: by queue
    accounts: Mapping[str, tuple[SiteAccount, ...]]  #: by profile
    folder: Path  #: for accounts' files and screenshots
    portal: str
    rules: Mapping[str, Rules]  #: by profile
    columns: SearchColumns
    retry_base: float = RETRY_BASE  #: seconds before the first retry

    def accounts_of(self, queue: str) -> tuple[SiteAccount, ...]:
        """The accounts for a queue's site."""
        return self.accounts[self.profiles[queue].name]

    def gates(self) -> dict[str, GateSettings]:
        """The gate of each account."""
        return {account.gate: GATE for accounts in self.accounts.values() for account in accounts}


def settings_of(config: Config) -> RegistrySettings:
    """The configured settings; an error names the key that is wrong."""
    section = config.section("registries")
    portal = str(section.get("portal", PORTAL)).rstrip("/")
    profiles = {queue: load_profile(config, str(section.get(queue, name))) for queue, name in PROFILES.items()}
    secrets = Path(str(section["secrets"])).expanduser() if "secrets" in section else None
    accounts = {
        profile.name: load_accounts(profile, secrets, practice=is_practice(profile, portal))
        for profile in profiles.values()
    }
    rules = {profile.name: rules_of(config, portal, profile) for profile in profiles.values()}
    return RegistrySettings(
        profiles, accounts, config.data / FOLDER, portal, rules,
        SearchColumns(section.get("columns"), config.section("extractions").get("address_column")),
    )  # fmt: skip


def portal_place(config: Config) -> tuple[str, int]:
    """The host and port at which this machine serves the practice portal."""
    address = str(config.section("registries").get("portal", PORTAL))
    parts = urlsplit(address)
    if parts.hostname not in ("127.0.0.1", "::1", "localhost") or parts.scheme != "http" or parts.port is None:
        raise ConfigurationError(f"registries.portal: {address} is not http://127.0.0.1:PORT: the portal starts there")
    return "127.0.0.1" if parts.hostname == "localhost" else parts.hostname, parts.port


def load_profile(config: Config, name: str) -> Profile:
    """A profile by its name or path, from the configured folders."""
    section = config.section("registries")
    folders = section.get("profiles", [str(profile_file.FOLDER)])
    if not all(isinstance(folder, str) and folder for folder in folders):
        raise ConfigurationError('registries.profiles: write folders, e.g. profiles = ["registries"]')
    portal = str(section.get("portal", PORTAL)).rstrip("/")
    return profile_file.load(name, [Path(folder).expanduser() for folder in folders], portal)


def is_practice(profile: Profile, portal: str) -> bool:
    """Whether a profile uses the practice portal, whose accounts are not secret."""
    return profile.url == portal or profile.url.startswith(f"{portal}/")


def rules_of(config: Config, portal: str, profile: Profile) -> Rules:
    """The addresses that visits of a site may reach: public and configured ones, and the portal if it is that site."""
    rules = Rules.of(config.allow)
    parts = urlsplit(portal)
    if not is_practice(profile, portal):
        return rules
    try:
        address = ipaddress.ip_address(parts.hostname or "")
    except ValueError:
        return rules  # a host name: server.allow lists the networks that it may resolve to
    if not address.is_loopback:
        return rules
    # Only its port: other programs on this machine must not be reachable from a page.
    port = parts.port or STANDARD.get(parts.scheme, 80)
    return replace(rules, services=frozenset({(address, port)}))
