"""`tabellion registry`: check and list profiles, list and unlock accounts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabellion.pipelines.registries import checking, profile_file
from tabellion.pipelines.registries.account_files import AccountFile
from tabellion.pipelines.registries.accounts import SiteAccount
from tabellion.pipelines.registries.portal.data import PASSWORDS
from tabellion.pipelines.registries.portal.server import RunningPortal, run_portal
from tabellion.pipelines.registries.portal.state import PortalFaults
from tests.browser.chromium import why_not
from tests.cli.project import Project


@pytest.fixture
def portal(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningPortal]:
    """A running practice portal."""
    with run_portal() as running:
        monkeypatch.setenv("TABELLION_REGISTRIES_PORTAL", running.url)
        yield running


def test_check_walks_a_profile_and_names_the_step_that_fails(
    lite: Project, portal: RunningPortal, tmp_path: Path
) -> None:
    """All steps match, until the site changes: then the line, the page and a screenshot are reported."""
    if sentence := why_not():
        pytest.skip(sentence)
    text = (profile_file.SHIPPED / "req.yaml").read_text().replace("timeout: 30", "timeout: 3")
    (tmp_path / "req.yaml").write_text(text)
    right = lite.run("registry", "check", str(tmp_path / "req.yaml"))
    assert (right.exit_code, "all tasks match" in right.output) == (0, True), right.output
    portal.state.faults = PortalFaults(renamed=True)
    picture = tmp_path / "page.png"
    changed = lite.run("registry", "check", str(tmp_path / "req.yaml"), "--screenshot", str(picture), "--json")
    assert changed.exit_code == 5
    failed = json.loads(changed.stdout)["failed"]
    assert text.splitlines()[failed["line"] - 1].strip() == '- click: "#rechercher"'
    assert failed["url"].endswith("/req")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_check_tries_a_wrong_password_once(
    lite: Project, portal: RunningPortal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four checks with a wrong password are one try at the site; workers know of it, and `unlock` allows another."""
    if sentence := why_not():
        pytest.skip(sentence)
    monkeypatch.setenv("TABELLION_REGISTRY_RDPRM_USERNAME", "etude-gagnon")
    monkeypatch.setenv("TABELLION_REGISTRY_RDPRM_PASSWORD", "Canari-Faux-2")
    command = ("--data", str(tmp_path / "data"), "registry", "check", "rdprm", "--screenshot", str(tmp_path / "a.png"))
    first = lite.run(*command)
    assert first.exit_code == 5
    assert "rejected the user name or password" in first.output
    for _ in range(3):
        again = lite.run(*command)
        assert again.exit_code == 3
        assert "tabellion registry unlock rdprm account-1" in str(again.exception)
    assert portal.state.counts["rdprm.wrong"] == 1
    account = SiteAccount("rdprm", "account-1", "etude-gagnon", "Canari-Faux-2")
    assert AccountFile(tmp_path / "data" / "registries", account).refusal()


def test_check_waits_for_an_account_in_use(
    lite: Project, portal: RunningPortal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One session per account: while a worker uses it, no check signs in."""
    if sentence := why_not():
        pytest.skip(sentence)
    monkeypatch.setattr(checking, "WAIT_SECONDS", 0.1)
    data, name = tmp_path / "data", "etude-gagnon"
    with AccountFile(data / "registries", SiteAccount("rdprm", name, name, PASSWORDS[name])).try_lock() as is_ours:
        assert is_ours
        busy = lite.run("--data", str(data), "registry", "check", "rdprm", "--account", name)
    assert busy.exit_code == 3
    assert "is in use by a worker" in str(busy.exception)
    assert portal.state.counts["rdprm.logins"] == 0


def test_check_lists_errors_first(lite: Project, tmp_path: Path) -> None:
    """A profile with errors is not run."""
    (tmp_path / "bad.yaml").write_text("name: bad\nurl: https://a.example\ncolour: red\n")
    result = lite.run("registry", "check", str(tmp_path / "bad.yaml"))
    assert result.exit_code == 3
    assert "tasks is missing" in result.output
    assert "\\n" not in result.output
    assert len([line for line in result.output.splitlines() if "bad.yaml:" in line]) > 1


def test_the_portal_starts_where_profiles_expect_it(lite: Project, portal: RunningPortal) -> None:
    """Without --port it takes that of registries.portal, here one in use; the error names the option."""
    result = lite.run("registry", "portal")
    assert result.exit_code == 3
    assert portal.url.removeprefix("http://") in str(result.exception)
    assert "choose another --port" in str(result.exception)


def test_accounts_are_listed_and_unlocked(lite: Project, portal: RunningPortal, tmp_path: Path) -> None:
    """A refused account is shown with the site's words, never with its password, and used again after `unlock`."""
    name = "etude-gagnon"
    data = tmp_path / "data"
    file = AccountFile(data / "registries", SiteAccount("rdprm", name, name, PASSWORDS[name]))
    file.mark_refused("the site says no")
    shown = lite.run("--data", str(data), "registry", "accounts", "--json")
    [refused] = [one for one in json.loads(shown.stdout) if one["refused"]]
    assert (refused["gate"], refused["refused"]) == (f"rdprm:{name}", "the site says no")
    assert PASSWORDS[name] not in shown.output
    unlocked = lite.run("--data", str(data), "registry", "unlock", "rdprm", name)
    assert (unlocked.exit_code, file.refusal()) == (0, None), unlocked.output
    unknown = lite.run("--data", str(data), "registry", "unlock", "rdprm", "nobody")
    assert unknown.exit_code == 3
    assert "known: etude-tremblay, etude-gagnon" in str(unknown.exception)


def test_profiles_are_listed(lite: Project) -> None:
    """The shipped profiles are for three sites."""
    shown = lite.run("registry", "list", "--json")
    assert {one["profile"] for one in json.loads(shown.stdout)} == {"rdprm", "registre-foncier", "req"}
