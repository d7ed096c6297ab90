"""Accounts from variables and a secrets file; never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion.errors import ConfigurationError
from tabellion.pipelines.registries import profile_file
from tabellion.pipelines.registries.accounts import load_accounts, require_accounts
from tabellion.pipelines.registries.profile import Profile

PREFIX = "TABELLION_REGISTRY_REGISTRE_FONCIER_"


@pytest.fixture
def profile() -> Profile:
    """A site with accounts."""
    return profile_file.load("registre-foncier", portal="http://127.0.0.1:1")


def secrets(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    file = tmp_path / "accounts.toml"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_accounts_of_variables_and_of_the_file_are_used_together(profile: Profile, tmp_path: Path) -> None:
    """Each has its own name and gate; its repr has neither the user name nor the password."""
    file = secrets(tmp_path, '[registre-foncier.office]\nusername = "u3"\npassword = "Canari-3"\n')
    variables = {
        f"{PREFIX}USERNAME": "u1", f"{PREFIX}PASSWORD": "Canari-1",
        f"{PREFIX}USERNAME_2": "u2", f"{PREFIX}PASSWORD_2": "Canari-2",
    }  # fmt: skip
    found = load_accounts(profile, file, variables=variables)
    assert [one.gate for one in found] == [
        "registre-foncier:account-1", "registre-foncier:account-2", "registre-foncier:office",
    ]  # fmt: skip
    assert [one.password for one in found] == ["Canari-1", "Canari-2", "Canari-3"]
    assert "Canari" not in repr(found)


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("", 0o640, "chmod 600"),
        ("[registre-foncier.a", 0o600, "not valid TOML"),
        ('[registre-foncier.a]\nusername = "u"\n', 0o600, "must have username and password"),
        ('[registre-foncier.a]\nusername = "u"\npassword = 5\n', 0o600, "must be texts"),
        ('[registre-foncier."a b"]\nusername = "u"\npassword = "Canari"\n', 0o600, "letters, digits"),
    ],
)
def test_a_secrets_file_that_cannot_be_used_says_why(
    profile: Profile, tmp_path: Path, text: str, mode: int, words: str
) -> None:
    """The error has the fix and none of the file's content."""
    with pytest.raises(ConfigurationError, match=words) as raised:
        load_accounts(profile, secrets(tmp_path, text, mode), variables={})
    assert "Canari" not in str(raised.value)


def test_half_an_account_is_an_error(profile: Profile) -> None:
    """The error for a user name without a password names the missing variable."""
    with pytest.raises(ConfigurationError, match=f"{PREFIX}PASSWORD is not: set both"):
        load_accounts(profile, variables={f"{PREFIX}USERNAME": "u"})


def test_a_site_without_an_account_says_where_to_configure_one(profile: Profile) -> None:
    """Only the practice portal has default accounts."""
    with pytest.raises(ConfigurationError, match=f"{PREFIX}USERNAME"):
        require_accounts(profile, load_accounts(profile, variables={}))
    assert len(load_accounts(profile, practice=True, variables={})) == 2


def test_a_public_site_has_sessions() -> None:
    """As many as its profile says."""
    found = load_accounts(profile_file.load("req", portal="http://127.0.0.1:1"), variables={})
    assert [one.name for one in found] == ["session-1", "session-2"]
