"""`tabellion up` with several environments: each has its own keys, users, documents and folder."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.running import CLEAN, Service, running
from tests.models.bills import bill
from tests.servers import free_port
from tests.waiting import eventually

CONFIG = """
[environments]
prod = "{prod}"
staging = "{staging}"
"""


def write_config(folder: Path, prod: str, staging: str) -> dict[str, str]:
    """Write a configuration with two environments; return the variables that lead to it."""
    (folder / "tabellion.toml").write_text(CONFIG.format(prod=prod, staging=staging))
    return {"TABELLION_CONFIG": str(folder / "tabellion.toml")}


def as_admin(service: Service, environment: str) -> dict[str, str]:
    """Return the header with the admin key of an environment."""
    places = {one["name"]: one for one in service.wait_for_line("started")["environments"]}
    return {"Authorization": f"Bearer {Path(places[environment]['key_file']).read_text().strip()}"}


def upload(service: Service, content: bytes, environment: str) -> str:
    """Upload a file; return the id of its document."""
    headers = {"Content-Type": "application/octet-stream"} | as_admin(service, environment)
    status, answer = service.ask("POST", "/api/documents?name=bill.pdf", content, **headers)
    assert status == 202, answer
    return str(answer["documents"][0]["id"])


def read(service: Service, id: str, environment: str) -> tuple[int, Any]:  # noqa: A002
    """Return the answer about a document once it has ended."""
    return service.ask("GET", f"/api/documents/{id}?wait=60", None, **as_admin(service, environment))


def test_all_environments_are_served_and_worked(tmp_path: Path, url: str) -> None:
    """A key for each, valid in its own only; workers read the documents of both; files are in separate folders."""
    variables = write_config(tmp_path, url, f"sqlite:///{tmp_path}/staging.db")
    with running(tmp_path / "data", **variables) as service:
        prod, staging = service.wait_for_line("started")["environments"]
        assert (prod["name"], staging["name"]) == ("prod", "staging")
        assert prod["key"] != staging["key"]
        assert Path(prod["key_file"]) == tmp_path / "data" / "admin.key"
        assert Path(staging["key_file"]) == tmp_path / "data" / "staging" / "admin.key"
        assert stat.S_IMODE(Path(staging["key_file"]).stat().st_mode) == 0o600
        assert staging["sign_in"].startswith(f"{service.url}/enter#staging:")
        ids = {name: upload(service, bill(f"For {name}"), name) for name in ("prod", "staging")}
        for mine, other in (("prod", "staging"), ("staging", "prod")):
            status, document = read(service, ids[mine], mine)
            assert (status, document["status"]) == (200, "completed")
            assert read(service, ids[mine], other)[0] == 404
        assert [path.name for path in (tmp_path / "data").glob("*/blobs")] == ["blobs"]
        assert service.ask("GET", "/readyz")[1]["status"] == "ready"
        assert service.stop() == 0
    with running(tmp_path / "data", **variables) as service:
        assert all("key" not in one for one in service.wait_for_line("started")["environments"])
        assert service.stop(signal.SIGTERM) == 0


def test_workers_in_separate_processes_work_all(tmp_path: Path) -> None:
    """As the thread of one process does."""
    variables = write_config(tmp_path, f"sqlite:///{tmp_path}/prod.db", f"sqlite:///{tmp_path}/staging.db")
    with running(tmp_path / "data", "--workers", "2", **variables) as service:
        ids = {name: upload(service, bill(f"For {name}"), name) for name in ("prod", "staging")}
        assert {read(service, id_, name)[1]["status"] for name, id_ in ids.items()} == {"completed"}
        assert service.stop() == 0


def test_an_option_limits_them(tmp_path: Path) -> None:
    """The others are neither served nor touched."""
    variables = write_config(tmp_path, f"sqlite:///{tmp_path}/prod.db", f"sqlite:///{tmp_path}/staging.db")
    with running(tmp_path / "data", "--environment", "staging", **variables) as service:
        [staging] = service.wait_for_line("started")["environments"]
        assert staging["name"] == "staging"
        assert read(service, upload(service, bill("One"), "staging"), "staging")[1]["status"] == "completed"
        assert service.stop() == 0
    assert not (tmp_path / "prod.db").exists()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(CLEAN)}
    refused = subprocess.run(
        [sys.executable, "-m", "tabellion", "up", "--environment", "prd"], env=kept | variables, text=True,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (refused.returncode, "unknown environment 'prd'" in refused.stderr) == (3, True)


def test_a_database_that_does_not_answer_keeps_no_other_from_being_served(tmp_path: Path) -> None:
    """It is named at the start and by /readyz; with all of them silent, the start fails."""
    silent = f"postgresql://nobody@127.0.0.1:{free_port()}/none"
    variables = write_config(tmp_path, f"sqlite:///{tmp_path}/prod.db", silent)
    with running(tmp_path / "data", "--host", "0.0.0.0", **variables) as service:
        prod, staging = service.wait_for_line("started")["environments"]
        assert ("problem" in prod, "problem" in staging) == (False, True)
        assert read(service, upload(service, bill("One"), "prod"), "prod")[1]["status"] == "completed"
        status, ready = service.ask("GET", "/readyz")
        assert (status, [one["database"] for one in ready["environments"]]) == (503, ["ok", "unreachable"])
        assert service.ask("GET", "/readyz?for=requests")[0] == 200
        assert service.stop() == 0
    variables = write_config(tmp_path, silent, silent.replace("none", "other"))
    with running(tmp_path / "other", **variables) as service:
        assert service.wait() == 4
        assert "prod: " in service.errors
        assert "staging: " in service.errors


def test_everything_is_done_when_all_environments_are(tmp_path: Path) -> None:
    """`--until-done` waits for each of them; a watched folder is the first's."""
    variables = write_config(tmp_path, f"sqlite:///{tmp_path}/prod.db", f"sqlite:///{tmp_path}/staging.db")
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "bill.pdf").write_bytes(bill("Two"))
    with running(tmp_path / "data", "--workers", "0", **variables) as service:
        id_ = upload(service, bill("One"), "staging")
        assert service.stop() == 0
    with running(tmp_path / "data", "--until-done", "--consume", str(tmp_path / "inbox"), **variables) as service:
        assert service.wait(90) == 0
    assert (tmp_path / "inbox" / "consumed" / "bill.pdf").exists()
    with running(tmp_path / "data", "--workers", "0", **variables) as service:
        assert read(service, id_, "staging")[1]["status"] == "completed"
        _, listed = service.ask("GET", "/api/documents", None, **as_admin(service, "prod"))
        assert [one["name"] for one in listed["documents"]] == ["bill.pdf"]


def test_environments_that_share_a_database_are_refused(tmp_path: Path) -> None:
    """Their keys would open both."""
    variables = write_config(tmp_path, f"sqlite:///{tmp_path}/one.db", f"sqlite:///{tmp_path}/one.db")
    with running(tmp_path / "data", **variables) as service:
        assert service.wait() == 3
        assert "share a database" in service.errors
    eventually(lambda: not (tmp_path / "data" / ".up.lock").read_text())
