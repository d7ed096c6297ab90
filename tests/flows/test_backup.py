"""A SQLite installation is backed up while it runs, lost, and restored with the commands of the guide."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.cli.running import CLEAN, running
from tests.models.bills import bill
from tests.workers import ROOT


def run_block(name: str, folder: Path, backup: Path) -> str:
    """Run a block of the guide; return what it printed."""
    guide = (ROOT / "docs" / "how-to" / "backup.md").read_text()
    [block] = re.findall(rf"```sh\n# {name}\n(.*?)```", guide, re.DOTALL)
    (folder / "bin").mkdir(exist_ok=True)
    command = folder / "bin" / "tabellion"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tabellion "$@"\n')
    command.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(CLEAN)}
    kept |= {"PATH": f"{folder / 'bin'}:{kept['PATH']}", "BACKUP": str(backup),
             "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}  # fmt: skip
    done = subprocess.run(
        ["bash", "-c", re.sub(r"(?m)^tabellion up .*\n", "", block)], cwd=folder, env=kept, capture_output=True,
        text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_running_installation_is_backed_up_and_restored(tmp_path: Path) -> None:
    """What was acknowledged before the backup is there afterwards: documents, results, files, keys, the audit chain."""
    if shutil.which("sqlite3") is None:
        pytest.skip("sqlite3 is not on this machine")
    data, backup = tmp_path / "tabellion-data", tmp_path / "backup"
    with running(data) as service:
        papers = {}
        for number in range(4):
            papers[service.upload(bill(f"Invoice number: A-{number}"), f"{number}.pdf")["id"]] = number
        for id_ in papers:
            assert service.ask("GET", f"/api/documents/{id_}?wait=60")[1]["status"] == "completed"
        gone = service.upload(bill("to be deleted"), "gone.pdf")["id"]
        service.ask("GET", f"/api/documents/{gone}?wait=60")
        assert service.ask("DELETE", f"/api/documents/{gone}")[0] == 204
        results = {id_: service.ask("GET", f"/api/documents/{id_}")[1]["fields"] for id_ in papers}
        stopping = threading.Event()

        def keep_uploading() -> None:
            number = 100
            while not stopping.is_set():
                service.upload(bill(f"Invoice number: A-{number}"), "more.pdf")
                number += 1

        uploads = threading.Thread(target=keep_uploading)
        uploads.start()
        try:
            assert "ok" in run_block("back up", tmp_path, backup)
            assert not [path for path in backup.iterdir() if path.stat().st_mode & 0o077], "others may read the key"
        finally:
            stopping.set()
            uploads.join(60)
        key = service.key
        service.kill()
    shutil.rmtree(data)
    assert "all unchanged" in run_block("restore", tmp_path, backup)
    with running(data, "--until-done") as service:
        assert service.wait(100) == 0
    with running(data, "--workers", "0") as service:
        assert service.key == key
        for id_, number in papers.items():
            status, document = service.ask("GET", f"/api/documents/{id_}")
            assert (status, document["status"], document["fields"]) == (200, "completed", results[id_])
            assert service.ask("GET", f"/api/documents/{id_}/file") == (200, bill(f"Invoice number: A-{number}"))
            assert (data / document["outputs"]["json"]).exists()
        assert service.ask("GET", f"/api/documents/{gone}")[0] == 404
        every = service.ask("GET", "/api/documents?limit=100")[1]["documents"]
        assert {one["status"] for one in every} == {"completed"}
        assert service.stop() == 0
