"""`tabellion up`: one command that serves, works, watches, and stops cleanly."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.cli.running import CLEAN, descendants, running
from tests.pipelines.documents.samples import samples
from tests.table_owner import owning
from tests.waiting import eventually

SAMPLES = {one.name: one for one in samples(scans=False)}
LETTER = SAMPLES["en-invoice-1.pdf"]


def alive(pid: int) -> bool:
    """Return whether there is such a process, zombies not counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_first_start_a_document_and_a_clean_stop(tmp_path: Path) -> None:
    """A private folder, a key shown once, a document read through the API, and Ctrl-C ends everything with 0."""
    data = tmp_path / "data"
    with running(data) as service:
        started = service.wait_for_line("started")
        assert stat.S_IMODE(data.stat().st_mode) == 0o700
        assert stat.S_IMODE((data / "admin.key").stat().st_mode) == 0o600
        assert started["key"] == service.key
        assert started["sign_in"].startswith(f"{started['url']}/enter#default:")
        submitted = service.upload(LETTER.content, LETTER.name)
        status, document = service.ask("GET", f"/api/documents/{submitted['id']}?wait=60")
        assert (status, document["status"]) == (200, "completed"), document
        assert document["fields"]["total"]["value"] == LETTER.truth["total"]
        assert service.ask("GET", "/readyz")[1]["status"] == "ready"
        assert f"GET /api/documents/{submitted['id']} 200 " in service.errors  # the access log, without what was asked
        assert "wait=60" not in service.errors
        children = descendants(service.process.pid)
        assert service.stop() == 0
        assert [line["event"] for line in service.lines] == ["started", "stopping", "stopped"]
        eventually(lambda: not [pid for pid in children if alive(pid)])  # the last ones end with their parents
        assert service.key not in service.errors
    assert stat.S_IMODE((data / "tabellion.db").stat().st_mode) == 0o600
    (data / "tabellion.db").chmod(0o644)  # as an earlier version made it
    with running(data) as service:
        started = service.wait_for_line("started")
        assert {stat.S_IMODE(file.stat().st_mode) for file in data.glob("tabellion.db*")} == {0o600}
        assert "key" not in started
        assert Path(started["key_file"]).read_text().strip() == service.key
        assert service.ask("GET", f"/api/documents/{submitted['id']}")[1]["status"] == "completed"
        assert service.stop(signal.SIGTERM) == 0


def test_the_default_model(tmp_path: Path) -> None:
    """`--model` is used for uploads that name none; an unknown name ends the start with a sentence."""
    with running(tmp_path / "data", "--model", "local") as service:
        submitted = service.upload(LETTER.content, LETTER.name)
        assert service.ask("GET", f"/api/documents/{submitted['id']}?wait=60")[1]["model"] == "local"
        assert service.stop() == 0
    command = [sys.executable, "-m", "tabellion", "up", "--data", str(tmp_path / "other"), "--model", "gemniy"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(CLEAN)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=kept, check=False)
    assert done.returncode == 3
    assert "unknown model 'gemniy'" in done.stderr


def test_a_request_in_flight_is_answered_before_the_stop(tmp_path: Path) -> None:
    """A client waiting for a document gets an answer, and the server is gone afterwards."""
    with running(tmp_path / "data", "--workers", "0") as service:
        submitted = service.upload(LETTER.content, LETTER.name)
        connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=60)
        connection.request(
            "GET", f"/api/documents/{submitted['id']}?wait=60", headers={"Authorization": f"Bearer {service.key}"}
        )
        service.process.send_signal(signal.SIGINT)
        response = connection.getresponse()
        assert (response.status, b'"queued"' in response.read()) == (200, True)
        connection.close()
        assert service.wait() == 0


def test_a_second_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    """Documents in progress are released, and the exit code says so."""
    with running(tmp_path / "data", TABELLION_GRACE="300") as service:
        many = [service.upload(one.content, one.name) for one in SAMPLES.values() if one.ending == "completed"]
        service.process.send_signal(signal.SIGINT)
        service.wait_for_line("stopping")
        service.process.send_signal(signal.SIGINT)
        assert service.wait(30) == 130
    with running(tmp_path / "data", "--until-done") as service:
        assert service.wait(90) == 0
    with running(tmp_path / "data", "--workers", "0") as service:
        for made in many:
            assert service.ask("GET", f"/api/documents/{made['id']}")[1]["status"] == "completed"


def test_a_port_in_use_and_a_folder_in_use(tmp_path: Path) -> None:
    """One sentence and exit code 3, and nothing was created."""

    def tried(*words: str) -> tuple[int, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(CLEAN)}
        done = subprocess.run(
            [sys.executable, "-m", "tabellion", "up", *words], capture_output=True, text=True, check=False, env=kept,
            timeout=60,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, message = tried("--port", port, "--data", str(tmp_path / "new"))
        assert code == 3
        assert message.startswith(f"error: cannot listen on 127.0.0.1:{port}: Address already in use")
        assert not (tmp_path / "new").exists()
    with running(tmp_path / "data") as service:
        service.wait_for_line("started")
        code, message = tried("--port", "0", "--data", str(tmp_path / "data"))
        assert code == 3
        assert "another `tabellion up` is using" in message
        assert service.stop() == 0
    (tmp_path / "file").touch()
    assert tried("--port", "0", "--data", str(tmp_path / "file"))[0] == 3
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    code, message = tried("--port", "0", "--data", str(tmp_path / "open"))
    assert code == 3
    assert f"chmod 700 {tmp_path}/open" in message
    assert not list((tmp_path / "open").iterdir())


def test_an_invalid_type_is_reported_at_the_start(tmp_path: Path) -> None:
    """By the service and by a worker: file, line and column, exit code 3, and nothing was created."""
    (tmp_path / "types").mkdir()
    (tmp_path / "types" / "slip.yaml").write_text('name: slip\nversion: "1"\nfields:\n  total: {type: mony}\n')
    kept = {name: value for name, value in os.environ.items() if not name.startswith(CLEAN)}
    for words in (["up", "--port", "0", "--data", str(tmp_path / "data")], ["--with", "documents", "worker"]):
        done = subprocess.run(
            [sys.executable, "-m", "tabellion", *words], capture_output=True, text=True, check=False, timeout=60,
            env=kept | {"TABELLION_TYPES": str(tmp_path / "types"), "DATABASE_URL": f"sqlite:///{tmp_path}/w.db"},
        )  # fmt: skip
        assert (done.returncode, "Traceback" in done.stderr) == (3, False)
        assert f"{tmp_path}/types/slip.yaml:4:17: " in done.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"types", "w.db"}


def test_the_demo_ends_by_itself_on_request(tmp_path: Path) -> None:
    """Samples of every kind end, and `--until-done` ends the command with 0."""
    with running(tmp_path / "data", "--demo", "--until-done") as service:
        assert service.wait(110) == 0
        assert service.wait_for_line("demo") == {
            "event": "demo", "completed": 31, "duplicate": 4, "failed": 3, "rejected": 2,
        }  # fmt: skip


def test_a_short_database_outage_ends_nothing(tmp_path: Path, pg_url: str) -> None:
    """The check for the end is repeated, and the end comes when everything is done."""
    name = urlsplit(pg_url).path.lstrip("/")
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()"
    with running(tmp_path / "data", "--workers", "0", DATABASE_URL=pg_url) as service:
        submitted = service.upload(LETTER.content, LETTER.name)
        assert service.stop() == 0
    with (
        owning(pg_url.replace(f"/{name}", "/postgres"), create=False) as owner,
        running(tmp_path / "data", "--until-done", "--workers", "0", DATABASE_URL=pg_url) as service,
    ):
        assert service.url
        owner(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        owner(others, name)
        eventually(lambda: service.ask("GET", "/readyz")[1]["environments"][0]["database"] == "unreachable")
        time.sleep(1)  # three looks at what is left, none of which gets an answer
        owner(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        with owning(pg_url, create=False) as worker:
            worker("UPDATE tabellion_documents SET status = 'completed' WHERE id = $1", submitted["id"])
        assert service.wait() == 0


def test_a_watched_folder(tmp_path: Path) -> None:
    """Files in it are read and moved; a file that cannot be read has its reason beside it."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "letter.pdf").write_bytes(LETTER.content)
    (inbox / "locked.pdf").write_bytes(SAMPLES["locked.pdf"].content)
    (inbox / "notes.txt").write_text("notes")
    with running(tmp_path / "data", "--consume", str(inbox)) as service:
        eventually(lambda: (inbox / "consumed" / "letter.pdf").exists(), within=60)
        eventually(lambda: (inbox / "failed" / "locked.pdf.reason.json").exists(), within=60)
        eventually(lambda: (inbox / "failed" / "notes.txt.reason.json").exists(), within=60)
        assert service.stop() == 0
        assert {line["file"] for line in service.lines if line["event"] == "file_failed"} == {"locked.pdf", "notes.txt"}
    (inbox / "another.pdf").write_bytes(SAMPLES["fr-invoice-1.pdf"].content)
    with running(tmp_path / "data", "--consume", str(inbox), "--until-done") as service:
        assert service.wait(60) == 0
    assert (inbox / "consumed" / "another.pdf").exists()


def test_a_signal_during_the_start_ends_it(tmp_path: Path) -> None:
    """It has its folder and not yet its server: it still stops cleanly."""
    for number in range(3):
        data = tmp_path / f"data-{number}"
        with running(data) as service:
            eventually(lambda data=data: (data / "tabellion.db").exists(), every=0.001)  # type: ignore[misc]
            assert service.stop(signal.SIGTERM) == 0
            assert service.lines[-1]["event"] == "stopped"


def test_a_closed_output_does_not_matter(tmp_path: Path) -> None:
    """A closed pipe, as with `tabellion up | head -1`, affects neither the service nor its clean stop."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(CLEAN)}
    command = [sys.executable, "-m", "tabellion", "up", "--data", str(tmp_path / "data"), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=kept) as process:
        try:
            assert process.stdout
            assert process.stdout.readline()
            process.stdout.close()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_workers_in_separate_processes(tmp_path: Path) -> None:
    """Two of them read; all end with the command, and also when it is killed."""
    with running(tmp_path / "data", "--workers", "2") as service:
        submitted = service.upload(LETTER.content, LETTER.name)
        assert service.ask("GET", f"/api/documents/{submitted['id']}?wait=60")[1]["status"] == "completed"
        children = descendants(service.process.pid)
        assert len(children) >= 3
        assert service.stop() == 0
        eventually(lambda: not [pid for pid in children if alive(pid)])  # the last ones end with their parents
    with running(tmp_path / "data", "--workers", "2") as service:
        service.wait_for_line("started")
        children = eventually(lambda: descendants(service.process.pid))
        service.process.kill()
        service.process.wait(10)
        eventually(lambda: not [pid for pid in children if alive(pid)], within=60)


def test_a_killed_service_continues_where_it_was(tmp_path: Path) -> None:
    """Documents in progress when it died are read by the next one, without waiting for a lease."""
    with running(tmp_path / "data") as service:
        submitted = [service.upload(one.content, one.name) for one in list(SAMPLES.values())[:8]]
        service.ask("GET", f"/api/documents/{submitted[0]['id']}?wait=30")
        service.kill()
    with running(tmp_path / "data", "--until-done") as service:
        assert service.wait(50) == 0
    with running(tmp_path / "data", "--workers", "0") as service:
        statuses = {service.ask("GET", f"/api/documents/{one['id']}")[1]["status"] for one in submitted}
    assert statuses == {"completed"}


def test_a_lost_key_is_replaced(tmp_path: Path) -> None:
    """Without the file, or with an invalid key, a new one is created and shown."""
    data = tmp_path / "data"
    with running(data) as service:
        first = service.key
        assert service.stop() == 0
    (data / "admin.key").unlink()
    with running(data) as service:
        assert service.wait_for_line("started")["key"] != first
        assert service.ask("GET", "/api/documents")[0] == 200
        assert service.stop() == 0


def test_a_service_whose_output_is_logged_prints_no_secret(tmp_path: Path) -> None:
    """With --no-admin, no key and no link are created; on a public address one must exist."""
    with running(tmp_path / "data", "--no-admin") as service:
        started = service.wait_for_line("started")
        assert not {"key", "key_file", "sign_in"} & {*started, *started["environments"][0]}
        assert not (tmp_path / "data" / "admin.key").exists()
        assert service.stop() == 0
    with running(tmp_path / "data", "--no-admin", "--host", "0.0.0.0") as service:
        assert service.wait() == 3
        assert "has no API key yet: run `tabellion keys create" in service.errors
    with owning(f"sqlite:///{tmp_path}/data/tabellion.db", create=False) as owner:
        assert owner("SELECT hash FROM tabellion_sign_in_links") == []


def test_an_option_of_a_pipeline_that_is_not_selected_is_rejected(tmp_path: Path) -> None:
    """Nothing would see it: the error says whose it is."""
    refused = subprocess.run(
        [sys.executable, "-m", "tabellion", "--with", "ocr", "up", "--port", "0", "--consume", "inbox"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert refused.returncode == 2
    assert "add --with documents, or omit it" in " ".join(refused.stderr.replace("│", " ").split())
    assert not list(tmp_path.iterdir())
