"""`tabellion website`: a report from one command, alone or beside a service."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabellion.net.guard import Blocked, Rules
from tabellion.pipelines.websites.commands.following import local_rules
from tests.cli.running import CLEAN, running
from tests.pipelines.websites.loopback import served
from tests.pipelines.websites.sites import rows


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """A website on loopback."""
    with served(tmp_path / "site") as url:
        yield url


def tabellion(folder: Path, *words: str, retries: int = 3, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(CLEAN)}
    quick = {"TABELLION_CONFIG": str(folder / "tabellion.toml")} | variables
    (folder / "tabellion.toml").write_text(f"[websites]\npause = 0.01\nretries = {retries}\n")
    command = [sys.executable, "-m", "tabellion", "--data", str(folder / "data"), *words]
    return subprocess.run(command, cwd=folder, env=kept | quick, capture_output=True, text=True, timeout=120)


def test_one_command_makes_a_report(tmp_path: Path, site: str) -> None:
    """No key, no database, no service: what was found on standard output, progress beside it, one HTML file."""
    ran = tabellion(tmp_path, "website", site, "--type", "trust", "--report", "out/report.html")
    assert ran.returncode == 0, ran.stderr
    assert "Certificates: ISO 9001" in ran.stdout
    assert "✓ There is a privacy policy" in ran.stdout
    assert "note: the site does not encrypt its connections (http)" in ran.stdout
    assert "website-analysis" in ran.stderr
    report = (tmp_path / "out" / "report.html").read_text()
    assert "ISO 9001" in report
    assert "<script" not in report
    again = tabellion(tmp_path, "website", site, "--type", "trust", "--language", "fr", "--json")
    [outcome] = json.loads(again.stdout)
    assert (outcome["status"], outcome["language"], len(outcome["analyses"])) == ("completed", "fr", 1)


def test_what_cannot_be_analysed_is_told_and_the_rest_is_done(tmp_path: Path, site: str) -> None:
    """Exit code 6 if some failed, 5 if all did, 3 for an unknown type; several reports go into a folder."""
    some = tabellion(tmp_path, "website", site, "http://10.0.0.1/", "--report", "reports", "--json")
    assert some.returncode == 6, some.stderr
    assert [one["status"] for one in json.loads(some.stdout)] == ["completed", "failed"]
    assert len(list((tmp_path / "reports").iterdir())) == 1
    none = tabellion(tmp_path, "website", "ftp://a.example")
    assert (none.returncode, "only http and https" in none.stderr) == (5, True)
    unknown = tabellion(tmp_path, "website", site, "--type", "nonsense")
    assert (unknown.returncode, "known: profile, seo, trust" in unknown.stderr) == (3, True)
    usage = tabellion(tmp_path, "website", site, site, "--report", "one.html")
    assert (usage.returncode, "name a folder" in usage.stderr) == (2, True)


def test_a_site_that_is_down_is_told_in_one_sentence(tmp_path: Path) -> None:
    """Without a traceback: nothing is wrong with this program."""
    ran = tabellion(tmp_path, "website", "http://127.0.0.1:1/", retries=1)
    assert ran.returncode == 5
    assert "http://127.0.0.1:1/ could not be read: the server does not accept connections" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "SiteFailed" not in ran.stderr


def test_a_running_service_does_the_work(tmp_path: Path, site: str) -> None:
    """Its workers take the job; the command only follows it."""
    with running(tmp_path / "data", "--with", "websites", TABELLION_ALLOW="127.0.0.0/8") as service:
        assert service.url
        ran = tabellion(tmp_path, "website", site, "--json")
        assert ran.returncode == 0, ran.stderr
        [row] = rows(f"sqlite:///{tmp_path}/data/tabellion.db")
        assert not row["info_worker"].startswith("website-")


def test_only_the_named_address_of_this_machine_is_opened() -> None:
    """Not its other ports, not other private addresses, and nothing for a public site."""
    rules = local_rules(Rules(), ["http://127.0.0.1:8000/", "localhost:9000", "http://10.0.0.1/", "example.com"])
    here = ipaddress.ip_address("127.0.0.1")
    rules.check(here, 8000)
    rules.check(here, 9000)
    for address, port in ((here, 22), (ipaddress.ip_address("10.0.0.1"), 80)):
        with pytest.raises(Blocked):
            rules.check(address, port)
