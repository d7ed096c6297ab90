"""What is remembered of an account: refusals until its password changes, and turns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tabellion.messages import Message
from tabellion.pipelines.registries.account_files import AccountFile
from tabellion.pipelines.registries.accounts import SiteAccount

ACCOUNT = SiteAccount("registre-foncier", "office", "someone", "Canari-1")


def test_a_refusal_lasts_until_the_password_changes(tmp_path: Path) -> None:
    """It is kept as a message, without the password; a new password or an unlock ends it."""
    file = AccountFile(tmp_path / "registries", ACCOUNT)
    file.mark_refused(Message("registry.locked", site="the site", text="closed"))
    kept = file.refusal()
    assert kept == "the site has locked the account: it says closed"
    assert isinstance(kept, Message)
    assert AccountFile(tmp_path / "registries", replace(ACCOUNT, password="Canari-2")).refusal() is None
    for path in (tmp_path / "registries").rglob("*.json"):
        assert "Canari" not in path.read_text()
        assert path.stat().st_mode & 0o077 == 0
    assert file.clear_refusal()
    assert file.refusal() is None
    assert not file.clear_refusal()


def test_visits_of_one_account_take_turns(tmp_path: Path) -> None:
    """While one has the account, nobody else gets it."""
    one, other = AccountFile(tmp_path, ACCOUNT), AccountFile(tmp_path, ACCOUNT)
    with one.try_lock() as first, other.try_lock() as second:
        assert (first, second) == (True, False)
    with other.try_lock() as later:
        assert later


def test_another_user_name_has_another_session(tmp_path: Path) -> None:
    """The cookies of one user are never those of another."""
    assert (
        AccountFile(tmp_path, ACCOUNT).state_path
        != AccountFile(tmp_path, replace(ACCOUNT, username="other")).state_path
    )
