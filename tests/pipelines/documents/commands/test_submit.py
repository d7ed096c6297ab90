"""`tabellion submit`: files, folders and patterns; over HTTP or directly; exit codes for scripts."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tabellion import Environment
from tabellion.config import Config
from tabellion.engine.worker import heartbeat
from tabellion.engine.worker.heartbeat import WorkerRecord
from tabellion.pipelines.documents.commands.client import DirectClient
from tests.cli.running import CLEAN, Service, running
from tests.pipelines.documents.samples import samples
from tests.table_owner import owning

SAMPLES = {one.name: one for one in samples(scans=False)}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with two letters, a copy of one, a locked one, and another file."""
    folder = tmp_path / "files"
    (folder / "below").mkdir(parents=True)
    (folder / "a.pdf").write_bytes(SAMPLES["en-invoice-1.pdf"].content)
    (folder / "again.pdf").write_bytes(SAMPLES["en-invoice-1.pdf"].content)
    (folder / "below" / "b.pdf").write_bytes(SAMPLES["fr-invoice-1.pdf"].content)
    (folder / "locked.pdf").write_bytes(SAMPLES["locked.pdf"].content)
    (folder / "notes.txt").write_text("notes")
    return folder


def submit(data: Path, *words: str, **variables: str) -> tuple[int, Any, str]:
    """Run the command with --json; return exit code, output and errors."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(CLEAN)}
    done = subprocess.run(
        [sys.executable, "-m", "tabellion", "submit", "--data", str(data), "--json", *words], capture_output=True,
        text=True, check=False, env=kept | variables, timeout=100,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def test_submitting_directly_to_the_database(tmp_path: Path, files: Path) -> None:
    """Without a server the rows are written for a later worker; copies are recognised at once."""
    code, results, _ = submit(tmp_path / "data", str(files))
    assert code == 0
    assert [Path(one["file"]).name for one in results] == ["a.pdf", "again.pdf", "b.pdf", "locked.pdf"]
    assert {one["status"] for one in results} == {"queued"}
    assert sum(one["duplicate_of"] is not None for one in results) == 1
    with owning(f"sqlite:///{tmp_path}/data/tabellion.db", create=False) as owner:
        rows = owner("SELECT name, status, model FROM tabellion_documents ORDER BY name")
    assert [row["name"] for row in rows] == ["a.pdf", "again.pdf", "b.pdf", "locked.pdf"]


def test_waiting_reports_how_each_one_ended(tmp_path: Path, files: Path) -> None:
    """Directly, beside a running service: exit code 6 if some failed, 0 if none did."""
    with running(tmp_path / "data") as service:
        service.wait_for_line("started")
        code, results, _ = submit(tmp_path / "data", "--wait", str(files))
        assert code == 6
        by_name = {Path(one["file"]).name: one for one in results}
        assert sorted(one["status"] for one in results) == ["completed", "completed", "duplicate", "failed"]
        assert by_name["locked.pdf"]["error"]["code"] == "pdf_encrypted"
        assert submit(tmp_path / "data", "--wait", str(files / "a.pdf"))[0] == 0
        assert service.stop() == 0


@pytest.mark.parametrize(
    ("queues", "model", "missing"),
    [
        (["documents"], None, ""),
        (["documents_openai"], "openai", ""),
        (["documents_openai_type_invoice"], "openai", ""),
        (["documents_openai"], None, "documents"),
        (["documents"], "openai", "documents_openai"),
        ([], None, "documents"),
    ],
)
def test_a_missing_worker_is_named_by_its_queue(
    tmp_path: Path, files: Path, queues: list[str], model: str | None, missing: str
) -> None:
    """The worker that counts is that of the model that reads the submitted files."""
    home = Environment("home", f"sqlite:///{tmp_path}/tabellion.db")
    models = {"openai": {"key": "k"}}
    config = Config(
        environments=(home,), has_own_database=True, gates_at=home, models=models, data=tmp_path, lake=str(tmp_path)
    )

    async def go() -> str:
        async with DirectClient(config) as client, home.store() as store:
            for queue in queues:
                await heartbeat.enlist(store, WorkerRecord("w", "h", 1, "b", "1", f"{queue},followers", 4))
            assert "id" in await client.submit(files / "a.pdf", "invoice", model)
            return await client.warning()

    warning = asyncio.run(go())
    assert warning.startswith(f"no worker serves the queue {missing}:") if missing else warning == ""


def test_submitting_over_http(tmp_path: Path, files: Path) -> None:
    """With the key of the data folder or of the environment; the server's errors are shown; patterns are expanded."""
    with running(tmp_path / "data") as service:
        code, results, _ = submit(tmp_path / "data", "--url", service.url, "--wait", str(files / "[ab]*.pdf"))
        assert code == 0
        assert sorted(one["status"] for one in results) == ["completed", "duplicate"]
        code, results, _ = submit(
            tmp_path / "elsewhere", "--url", service.url, str(files / "notes.txt"), TABELLION_KEY=service.key
        )
        assert (code, results[0]["status"], results[0]["error"]["code"]) == (5, "rejected", "type_unsupported")
        code, _, errors = submit(tmp_path / "elsewhere", "--url", service.url, str(files), TABELLION_KEY="tab_no")
        assert (code, "rejected the key" in errors) == (3, True)
        _unknown_type(service, tmp_path, files)
        assert service.stop() == 0


def _unknown_type(service: Service, tmp_path: Path, files: Path) -> None:
    for words in ((), ("--url", service.url)):
        code, results, _ = submit(tmp_path / "data", *words, "--type", "poem", str(files / "a.pdf"))
        assert (code, results[0]["status"]) == (5, "rejected"), words


def test_no_server_and_no_key(tmp_path: Path, files: Path) -> None:
    """One sentence each, exit code 3."""
    code, _, errors = submit(tmp_path / "data", "--url", "http://127.0.0.1:1", str(files), TABELLION_KEY="x")
    assert (code, "no server responds at http://127.0.0.1:1" in errors) == (3, True)
    code, _, errors = submit(tmp_path / "data", "--url", "http://127.0.0.1:1", str(files))
    assert (code, "requires an API key" in errors) == (3, True)


def test_missing_files_and_unsupported_files(tmp_path: Path, files: Path) -> None:
    """Some rejected is 6, all rejected is 5, nothing to submit is a usage error."""
    code, results, _ = submit(
        tmp_path / "data", str(files / "a.pdf"), str(files / "none.pdf"), str(files / "notes.txt")
    )
    assert code == 6
    assert [one.get("error", {}).get("code") for one in results] == [None, "file_missing", "type_unsupported"]
    assert submit(tmp_path / "data", str(files / "none.pdf"))[0] == 5
    (tmp_path / "empty").mkdir()
    assert submit(tmp_path / "data", str(tmp_path / "empty"))[0] == 2
