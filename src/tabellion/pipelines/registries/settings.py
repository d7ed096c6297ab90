"""How registries are used in one environment: profiles, accounts, folders, and the columns of tables made by hand."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tabellion.engine.gates.state import GateSettings
from tabellion.errors import ConfigurationError
from tabellion.net.guard import Rules
from tabellion.pipelines.registries import profile_file
from tabellion.pipelines.registries.accounts import SiteAccount, load_accounts
from tabellion.pipelines.registries.columns import SearchColumns
from tabellion.pipelines.registries.profile import Profile

if TYPE_CHECKING:
    from tabellion.config import Config

PORTAL = "http://127.0.0.1:8077"
#: The queues, and the profile that each uses unless another is configured.
PROFILES = {"extraction": "registre-foncier", "companies": "req", "rights": "rdprm"}
#: Sites are used slowly: one visit is many requests.
RETRY_BASE = 10.0
GATE = GateSettings(rate=2.0, min_rate=0.05, max_rate=5.0)


@dataclass(frozen=True)
class RegistrySettings:
    """What handlers and routes need to know."""

    profiles: Mapping[str, Profile]  #: by queue
    accounts: Mapping[str, tuple[SiteAccount, ...]]  #: by profile
    folder: Path  #: for accounts' files and screenshots
    portal: str
    rules: Rules
    columns: SearchColumns
    retry_base: float = RETRY_BASE  #: seconds before the first retry

    def accounts_of(self, queue: str) -> tuple[SiteAccount, ...]:
        """The accounts with which a queue's site is used."""
        return self.accounts[self.profiles[queue].name]

    def gates(self) -> dict[str, GateSettings]:
        """The gate before each account."""
        return {account.gate: GATE for found in self.accounts.values() for account in found}


def settings_of(config: Config) -> RegistrySettings:
    """The settings as they are configured; every mistake names its key."""
    given = config.section("registries")
    portal = str(given.get("portal", PORTAL)).rstrip("/")
    profiles = {queue: load_profile(config, str(given.get(queue, name))) for queue, name in PROFILES.items()}
    secrets = Path(str(given["secrets"])).expanduser() if "secrets" in given else None
    accounts = {one.name: load_accounts(one, secrets, practice=is_practice(one, portal)) for one in profiles.values()}
    return RegistrySettings(
        profiles, accounts, config.data / "registries", portal, rules_of(config, portal, profiles),
        SearchColumns(given.get("columns"), config.section("extractions").get("address_column")),
    )  # fmt: skip


def load_profile(config: Config, name: str) -> Profile:
    """A profile as it is configured."""
    given = config.section("registries")
    folders = given.get("profiles", [str(profile_file.FOLDER)])
    if not all(isinstance(one, str) and one for one in folders):
        raise ConfigurationError('registries.profiles: write folders, e.g. profiles = ["registries"]')
    portal = str(given.get("portal", PORTAL)).rstrip("/")
    return profile_file.load(name, [Path(one).expanduser() for one in folders], portal)


def is_practice(profile: Profile, portal: str) -> bool:
    """Whether a profile leads to the practice portal, whose accounts are no secret."""
    return profile.url == portal or profile.url.startswith(f"{portal}/")


def rules_of(config: Config, portal: str, profiles: Mapping[str, Profile]) -> Rules:
    """Which addresses the browser may reach: public ones, those that are allowed, and the portal where it is used."""
    allow = [*config.allow]
    host = urlsplit(portal).hostname or ""
    if any(is_practice(one, portal) for one in profiles.values()):
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            pass  # a name: the networks that it may lead to are configured in server.allow
        else:
            if address.is_loopback:
                allow.append(f"{address}/{address.max_prefixlen}")
    return Rules.of(allow)
