"""A worker with a real browser on the portal: states, files, accounts, sessions, a browser that dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tabellion.engine.gates.state import GateSettings
from tabellion.net.guard import Rules
from tabellion.pipelines.registries import visits as visiting
from tabellion.pipelines.registries.account_files import AccountFile
from tabellion.pipelines.registries.portal.data import PASSWORDS
from tabellion.pipelines.registries.portal.state import PortalFaults
from tests.pipelines.registries.visiting import QUICK, LocalInstallation, Visiting
from tests.servers import free_port

INDEX = {"document_type": "index", "circonscription": "Montréal", "lot": "1 234 567"}


def errors(installation: LocalInstallation, outcome: str) -> list[dict[str, Any]]:
    return installation.fetch("SELECT * FROM tabellion_attempts WHERE outcome = $1", outcome)


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_the_three_tables_are_worked(
    visits: Visiting, tmp_path: Path, database: str, request: pytest.FixtureRequest
) -> None:
    """A document, a company and a name end in their tables' own states, with their results."""
    url = request.getfixturevalue("pg_url") if database == "postgresql" else ""
    installation = LocalInstallation.open(visits, tmp_path / "data", url)
    installation.add("extraction_queue", **INDEX)
    installation.add("extraction_queue", document_type="plans_cadastraux", circonscription="Laval", lot="0 000 000")
    installation.add("search_sessions", company="1140001234")
    installation.add("rdprm_searches", name="Laframboise Immobilier")
    installation.add("rdprm_searches", name="Personne de ce nom")
    installation.work()
    done, missing = installation.rows("extraction_queue")
    assert (done["status_id"], done["error_message"]) == (3, None)
    assert (installation.config.data / done["storage_path"]).read_bytes().startswith(b"%PDF")
    assert (missing["status_id"], missing["storage_path"]) == (4, None)
    assert "no result" in missing["error_message"]
    [session] = installation.rows("search_sessions")
    assert (session["status"], bool(session["req_completed"])) == ("pending_name_selection", True)
    [company] = installation.fetch("SELECT * FROM tabellion_registry_companies")
    assert (company["search_session_id"], company["neq"]) == (str(session["id"]), "1140001234")
    assert "Les Immeubles Laframboise" in [one["name"] for one in json.loads(company["names"])]
    rights = installation.rows("rdprm_searches")
    assert [one["status"] for one in rights] == ["completed", "completed"]
    assert all(one["completed_at"] for one in rights)
    found = {one["rdprm_search_id"]: one for one in installation.fetch("SELECT * FROM tabellion_registry_statements")}
    statement, nothing = found[str(rights[0]["id"])], found[str(rights[1]["id"])]
    assert (installation.config.data / statement["storage_path"]).is_file()
    assert bool(nothing["is_empty"])
    assert nothing["storage_path"] is None
    assert visits.state.counts["foncier.logins"] <= 2  # once for each account


def test_a_session_that_ends_is_opened_again(installation: LocalInstallation) -> None:
    """An account signs in once for many jobs, and again when its session has expired in the middle of one."""
    state = installation.shared.state
    for _ in range(4):
        installation.add("extraction_queue", **INDEX)
    state.faults = PortalFaults(session_requests=6)
    installation.work()
    assert [one["status_id"] for one in installation.rows("extraction_queue")] == [3] * 4
    assert not errors(installation, "retried")
    assert state.counts["foncier.logins"] > 2
    assert len(installation.files()) == 1  # the same content is stored once


def test_a_stored_session_is_used_by_the_next_worker(installation: LocalInstallation) -> None:
    """A worker that starts later does not sign in again."""
    state = installation.shared.state
    for _ in range(2):
        installation.add("rdprm_searches", name="Le Four à pain")
        installation.work()
    assert state.counts["rdprm.downloads"] == 2
    assert state.counts["rdprm.logins"] <= 2
    files = list(installation.settings.folder.rglob("*.state"))
    assert files
    assert all(one.stat().st_mode & 0o077 == 0 for one in files)


def test_a_locked_account_is_skipped_and_the_others_continue(installation: LocalInstallation) -> None:
    """The site locks one account: its gate closes, it is not tried again, and no job spends an attempt on it."""
    state = installation.shared.state
    state.faults = PortalFaults(locked=["etude-tremblay"])
    for _ in range(5):
        installation.add("extraction_queue", **INDEX)
    installation.work()
    assert [one["status_id"] for one in installation.rows("extraction_queue")] == [3] * 5
    assert state.counts["foncier.locked"] == 1
    assert not errors(installation, "retried")
    [locked] = [one for one in installation.settings.accounts["registre-foncier"] if one.name == "etude-tremblay"]
    assert "verrouillé" in str(AccountFile(installation.settings.folder, locked).refusal())
    [gate] = [one for one in installation.fetch("SELECT * FROM tabellion_gates") if one["name"] == locked.gate]
    breaker = json.loads(gate["state"])["breaker"]
    assert breaker["state"] == "open"
    assert "tabellion registry unlock registre-foncier etude-tremblay" in breaker["reason"]
    assert "test call" not in breaker["reason"]


def test_workers_that_share_an_account_take_turns(visits: Visiting, tmp_path: Path) -> None:
    """Two workers with one account visit the site in the order in which they claimed: no job waits for younger ones."""
    installation = one_account(visits, tmp_path)
    for _ in range(10):
        installation.add("extraction_queue", **INDEX)

    async def together() -> None:
        async with asyncio.timeout(120):
            await asyncio.gather(*(installation.worker().serve(until_idle=True) for _ in range(2)))

    visits.run(together())
    claimed = installation.fetch("SELECT token, worker FROM tabellion_attempts ORDER BY claimed_at")
    done = [one["token"] for one in installation.fetch("SELECT token FROM tabellion_attempts ORDER BY settled_at")]
    assert len({one["worker"] for one in claimed}) == 2
    # Two jobs that were claimed at the same moment may enter the line in either order.
    assert max(abs(place - done.index(one["token"])) for place, one in enumerate(claimed)) <= 1


def test_a_job_that_gets_no_account_spends_no_attempt(
    visits: Visiting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another program uses the only account, the job says that it waits, and goes back to ready after a while."""
    monkeypatch.setattr(visiting, "WAIT_SECONDS", 0.3)
    monkeypatch.setattr(visiting, "BUSY_SECONDS", 0.1)
    installation = one_account(visits, tmp_path)
    installation.add("extraction_queue", **INDEX)
    [account] = installation.settings.accounts["registre-foncier"]
    notes: set[str | None] = set()

    async def go() -> None:
        serving = asyncio.create_task(installation.worker().serve(until_idle=True))
        async with asyncio.timeout(60), installation.environment.store() as store:
            with AccountFile(installation.settings.folder, account).try_lock() as is_ours:
                assert is_ours
                while not any(event.name == "limited" for event in installation.events) or not notes - {None}:
                    rows = await store.database.fetch("SELECT note FROM tabellion_attempts")
                    notes.update(row["note"] for row in rows)
                    await asyncio.sleep(0.02)
            await serving

    visits.run(go())
    [row] = installation.rows("extraction_queue")
    assert row["status_id"] == 3
    assert "waiting for an account" in notes
    [done] = errors(installation, "done")
    assert done["attempt"] == 1
    assert "all accounts of" in errors(installation, "limited")[0]["error"]


def one_account(visits: Visiting, folder: Path) -> LocalInstallation:
    """An installation with one account of the land registry."""
    return LocalInstallation.open(
        visits, folder / "data",
        TABELLION_REGISTRY_REGISTRE_FONCIER_USERNAME="etude-gagnon",
        TABELLION_REGISTRY_REGISTRE_FONCIER_PASSWORD=PASSWORDS["etude-gagnon"],
    )  # fmt: skip


def test_a_wrong_password_is_tried_once(visits: Visiting, tmp_path: Path) -> None:
    """With one account and a wrong password, rows wait; the site sees one try, and nothing has the password."""
    installation = LocalInstallation.open(
        visits, tmp_path / "data",
        TABELLION_REGISTRY_REGISTRE_FONCIER_USERNAME="etude-gagnon",
        TABELLION_REGISTRY_REGISTRE_FONCIER_PASSWORD="Canari-Faux-1",
    )  # fmt: skip
    for _ in range(3):
        installation.add("extraction_queue", **INDEX)

    async def for_a_while() -> None:
        worker = installation.worker({"registre-foncier:account-1": GateSettings(rate=50, max_rate=100, recovery=0.2)})
        serving = asyncio.create_task(worker.serve())
        async with asyncio.timeout(60):
            while not visits.state.counts["foncier.wrong"]:
                await asyncio.sleep(0.05)
            for _ in range(10):
                await asyncio.sleep(0.1)
        worker.stop()
        await serving

    visits.run(for_a_while())
    assert visits.state.counts["foncier.wrong"] == 1
    assert {one["status_id"] for one in installation.rows("extraction_queue")} == {1}
    written = json.dumps(installation.fetch("SELECT * FROM tabellion_attempts"), default=str)
    assert "Canari-Faux-1" not in written + "".join(
        one.read_text("latin-1") for one in installation.settings.folder.rglob("*") if one.is_file()
    )


def test_a_login_that_fails_logs_no_password(
    visits: Visiting, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A password step that does not match its page: neither the log nor the stored error contains the password."""
    installation = LocalInstallation.open(
        visits, tmp_path / "data",
        TABELLION_REGISTRY_REGISTRE_FONCIER_USERNAME="etude-gagnon",
        TABELLION_REGISTRY_REGISTRE_FONCIER_PASSWORD="Canari-Journal-1",
    )  # fmt: skip
    profile = installation.settings.profiles["extraction"]
    login = tuple(replace(step, selector="form") if step.value == "{password}" else step for step in profile.login)
    profiles = {**installation.settings.profiles, "extraction": replace(profile, login=login)}
    installation.settings = replace(installation.settings, profiles=profiles)
    installation.add("extraction_queue", **INDEX)
    with caplog.at_level(logging.DEBUG, "tabellion"):
        installation.work()
    [row] = installation.rows("extraction_queue")
    assert "Locator.fill" in caplog.text
    assert "Locator.fill" in row["error_message"]
    written = json.dumps(installation.fetch("SELECT * FROM tabellion_attempts"), default=str)
    assert "Canari-Journal-1" not in caplog.text + row["error_message"] + written


def test_maintenance_spends_no_attempt(installation: LocalInstallation) -> None:
    """A maintenance page puts jobs off until the site is back."""
    state = installation.shared.state
    installation.add("search_sessions", company="1140001234")
    state.faults = PortalFaults(maintenance=["req"])

    async def go() -> None:
        worker = installation.worker()
        serving = asyncio.create_task(worker.serve(until_idle=True))
        async with asyncio.timeout(60):
            while not any(event.name == "limited" for event in installation.events):
                await asyncio.sleep(0.05)
            state.faults = PortalFaults()
            await serving

    installation.shared.run(go())
    [session] = installation.rows("search_sessions")
    assert session["status"] == "pending_name_selection"
    [done] = errors(installation, "done")
    assert done["attempt"] == 1


def test_a_site_that_does_not_answer_closes_its_gate(visits: Visiting, tmp_path: Path) -> None:
    """Failures in a row open the breaker: rows wait for the site, and no more attempts are spent than the threshold."""
    closed = free_port()
    installation = LocalInstallation.open(
        visits, tmp_path / "data", TABELLION_REGISTRIES_PORTAL=f"http://127.0.0.1:{closed}"
    )
    for _ in range(6):
        installation.add("search_sessions", company="1140001234")

    async def for_a_while() -> None:
        quick = GateSettings(rate=50, max_rate=100, threshold=3)
        worker = installation.worker(dict.fromkeys(installation.settings.gates(), quick))
        serving = asyncio.create_task(worker.serve())
        async with asyncio.timeout(60):
            while sum(event.name == "limited" for event in installation.events) < 2:
                await asyncio.sleep(0.05)
        worker.stop()
        await serving

    visits.run(for_a_while())
    assert {one["status"] for one in installation.rows("search_sessions")} == {"pending_company_selection"}
    assert 0 < len(errors(installation, "retried")) <= 6  # two sessions, each with its gate and a threshold of three


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_site_whose_name_does_not_resolve_is_tried_again(
    installation: LocalInstallation, caplog: pytest.LogCaptureFixture, scheme: str
) -> None:
    """DNS fails for a moment: the row is retried, and its error names the host without a line of our source."""

    async def fail(_host: str, _port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    settings = installation.settings
    profile = replace(settings.profiles["companies"], url=f"{scheme}://registry.example")
    installation.settings = replace(
        settings,
        profiles={**settings.profiles, "companies": profile},
        rules={**settings.rules, "req": Rules(resolver=fail)},
    )
    installation.add("search_sessions", company="1140001234")
    lenient = GateSettings(rate=50, max_rate=100, threshold=50)
    with caplog.at_level(logging.DEBUG, "tabellion"):
        installation.work(dict.fromkeys(settings.gates(), lenient))
    assert [one["attempt"] for one in errors(installation, "retried")] == [1, 2, 3]
    [last] = errors(installation, "failed")
    assert "registry.example cannot be reached: its name cannot be resolved now" in last["error"]
    assert ".py" not in last["error"]
    assert "Traceback" not in caplog.text


def test_a_browser_that_dies_costs_one_attempt(installation: LocalInstallation) -> None:
    """Killed in the middle of a visit, the browser is started again and the job is done at its next attempt."""
    installation.add("extraction_queue", **INDEX)
    installation.shared.state.faults = PortalFaults(slow=0.3)

    async def go() -> None:
        serving = asyncio.create_task(installation.worker().serve(until_idle=True))
        async with asyncio.timeout(90):
            while not installation.shared.state.counts["foncier.logins"]:
                await asyncio.sleep(0.02)
            for pid in browser_processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await serving

    installation.shared.run(go())
    [row] = installation.rows("extraction_queue")
    assert row["status_id"] == 3
    assert len(errors(installation, "retried")) == 1


def browser_processes() -> list[int]:
    """The main processes of browsers that this process has started."""
    found, parents = [], {os.getpid()}
    stats = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            stats.append((int(entry.name), int(words[1]), command))
    for _ in range(6):
        parents |= {pid for pid, parent, _ in stats if parent in parents}
    for pid, _, command in stats:
        program = command.partition(b"\0")[0]
        if pid in parents and b"chrom" in program and b"--type=" not in command and b"python" not in program:
            found.append(pid)
    return found


def test_a_repeated_attempt_leaves_one_file(installation: LocalInstallation) -> None:
    """A file is stored under its hash: repeating an attempt that was lost after storing adds nothing."""
    installation.add("extraction_queue", **INDEX)
    installation.work()
    installation.fetch("UPDATE extraction_queue SET status_id = 1")
    installation.work()
    assert [one["status_id"] for one in installation.rows("extraction_queue")] == [3]
    assert len(installation.files()) == 1


def test_an_error_page_sent_as_a_file_is_retried(installation: LocalInstallation) -> None:
    """A file that is not a PDF is never stored."""
    state = installation.shared.state
    state.faults = PortalFaults(broken_download=True)
    installation.add("extraction_queue", **INDEX)
    installation.work(dict.fromkeys(installation.settings.gates(), QUICK))
    [row] = installation.rows("extraction_queue")
    assert (row["status_id"], row["storage_path"]) == (4, None)
    assert "not a PDF" in row["error_message"]
    assert installation.files() == []
