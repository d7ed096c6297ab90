"""The document service as people run it: a session with curl, and a service that is killed again and again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from tabellion.models.fake.serving import Serving, serving
from tabellion.testing import verify
from tests.cli.running import CLEAN, Service, running
from tests.pipelines.documents.receiver import receiving
from tests.pipelines.documents.samples import Sample, many, samples
from tests.servers import valkey
from tests.table_owner import owning
from tests.waiting import eventually
from tests.workers import ROOT

#: `make chaos-documents` runs the whole of it: 200 documents, killed a dozen times.
DOCUMENTS = int(os.environ.get("TABELLION_CHAOS_DOCUMENTS", "20"))
KILLS = int(os.environ.get("TABELLION_CHAOS_KILLS", "3"))
SEED = int(os.environ.get("TABELLION_CHAOS_SEED", "1"))
PATIENCE = 60.0 + DOCUMENTS
SETTINGS = """
[models.gemini]
key = "k"
[gates.gemini]
rate = 200
min_rate = 200
max_rate = 200
"""


#: The command that the docs print, and the same service with its work done through Celery.
STARTS = {
    "embedded": "tabellion up &",
    "up --celery": "tabellion up --celery &",
    "worker --celery": """tabellion up --workers 0 &
until curl -sf http://127.0.0.1:8080/healthz > /dev/null; do sleep 0.2; done
tabellion --data tabellion-data worker --celery &""",
}


@pytest.mark.parametrize(
    ("page", "start"),
    [("README.md", start) for start in STARTS] + [("docs/how-to/run-the-service.md", "embedded")],
)
@pytest.mark.timeout(200)
def test_the_curl_session_of_the_docs(page: str, start: str, tmp_path: Path) -> None:
    """Upload, status, result, export: the printed commands do what they say, also with Celery."""
    blocks = re.findall(r"```sh\n(# a session\n.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks, f"{page} has no session"
    if not shutil.which("curl") or not shutil.which("jq"):
        pytest.skip("curl and jq are not on this machine")
    letter = samples(scans=False)[0]
    (tmp_path / "invoice.pdf").write_bytes(letter.content)
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "tabellion"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tabellion "$@"\n')
    command.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    session = blocks[0].replace("tabellion up &", STARTS[start]).replace("kill %1; wait", "kill $(jobs -p); wait")
    script = "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n" + session.replace("8080", port)
    assert port in script
    assert STARTS[start].splitlines()[0] in script
    kept = {name: value for name, value in os.environ.items() if not name.startswith(CLEAN)}
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    kept |= {"PATH": f"{tmp_path / 'bin'}:{kept['PATH']}", "TABELLION_PORT": port, "PYTHONPATH": paths}
    with valkey() if start != "embedded" else contextlib.nullcontext("") as redis:
        kept |= {"REDIS_URL": redis} if redis else {}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=kept, capture_output=True, text=True,
            timeout=150, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"status":"completed"' in done.stdout.replace('": "', '":"')
    assert letter.truth["total"] in done.stdout
    table = (tmp_path / "documents.csv").read_text()
    assert letter.truth["invoice_number"] in table
    assert letter.truth["vendor"] in table


def run_command(data: Path, *words: str) -> Any:
    """Run a command beside the service; return its JSON output."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(CLEAN)}
    done = subprocess.run(
        [sys.executable, "-m", "tabellion", *words, "--json"], env=kept | {"TABELLION_DATA": str(data)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_ending_is_delivered(tmp_path: Path) -> None:
    """Completed, failed and duplicate, signed; an unreachable receiver gets everything afterwards."""
    data = tmp_path / "data"
    letter, locked = (one for one in samples(scans=False) if one.name in ("en-invoice-1.pdf", "locked.pdf"))
    with receiving() as receiver, running(data, TABELLION_ALLOW="127.0.0.0/8") as service:
        body = json.dumps({"url": receiver.url}).encode()
        status, endpoint = service.ask("POST", "/api/webhooks", body, **{"Content-Type": "application/json"})
        assert status == 201, endpoint
        receiver.answers(410)
        first = service.upload(letter.content, letter.name)["id"]
        eventually(lambda: run_command(data, "webhooks", "list")[0]["failed"] == 1, within=60, every=0.5)
        assert "410" in run_command(data, "webhooks", "list")[0]["disabled_why"]
        receiver.answers(204)
        run_command(data, "webhooks", "enable", endpoint["id"])
        assert run_command(data, "retry", "webhooks", "--all") == {"queue": "webhooks", "retried": 1}
        second = service.upload(letter.content, "copy.pdf")["id"]
        third = service.upload(locked.content, locked.name)["id"]
        eventually(lambda: len(receiver.got) == 4, within=60)
        assert service.stop() == 0
        assert endpoint["secret"] not in service.errors + json.dumps(service.lines)
    gone, *messages = (verify(headers, content, endpoint["secret"]) for _, headers, content in receiver.got)
    assert gone == messages[0]
    assert {(one["type"], one["data"]["id"]) for one in messages} == {
        ("document.completed", first), ("document.duplicate", second), ("document.failed", third),
    }  # fmt: skip
    assert messages[0]["data"]["fields"]["total"]["value"] == letter.truth["total"]
    [failed] = (one["data"] for one in messages if one["type"] == "document.failed")
    assert failed["error"]["code"] == "pdf_encrypted"


@pytest.fixture
def fake() -> Iterator[Serving]:
    """A slow model."""
    with serving(latency="0.05-0.3") as one:
        yield one


def calls(fake: Serving) -> int:
    """Return how often the model was called, once no request is in flight."""
    eventually(lambda: fake.report()["open"] == 0)
    return int(fake.report()["requests"])


def rows(data: Path, question: str) -> list[dict[str, Any]]:
    """Return rows of the database."""
    with owning(f"sqlite:///{data}/tabellion.db", create=False) as owner:
        return owner(question)


def remembered(data: Path) -> int:
    """Return the stored answers."""
    return int(rows(data, "SELECT count(*) AS n FROM tabellion_memos WHERE reply IS NOT NULL")[0]["n"])


def try_upload(service: Service, sample: Sample) -> str | None:
    """Return the document's id; None when the service died meanwhile."""
    try:
        return str(service.upload(sample.content, sample.name, model="gemini", type="invoice")["id"])
    except (OSError, HTTPException, ValueError):
        return None


@pytest.mark.timeout(PATIENCE * 4)
def test_a_service_killed_again_and_again_loses_nothing(tmp_path: Path, fake: Serving) -> None:
    """Every accepted document ends, outputs are complete, and no received answer is paid for twice."""
    chance = random.Random(SEED)
    data = tmp_path / "data"
    (tmp_path / "tabellion.toml").write_text(SETTINGS)
    variables = fake.environment | {"TABELLION_CONFIG": str(tmp_path / "tabellion.toml"), "TABELLION_CONCURRENCY": "8"}
    todo = list(many(DOCUMENTS, SEED))
    taken: dict[str, Sample] = {}
    lost = 0
    for _ in range(KILLS):
        with running(data, **variables) as service:
            service.wait_for_line("started")
            death = threading.Timer(chance.uniform(0.2, 3.0), service.kill)  # in the middle of whatever it does
            death.start()
            while todo and (document := try_upload(service, todo[0])):
                taken[document] = todo.pop(0)
            death.join()
        now = calls(fake) - remembered(data)
        assert now >= lost
        lost = now
    with running(data, **variables) as service:
        while todo:
            document = try_upload(service, todo[0])
            assert document is not None
            taken[document] = todo.pop(0)
        eventually(lambda: _open(data) == 0, within=PATIENCE)
        documents = {one: service.ask("GET", f"/api/documents/{one}")[1] for one in taken}
        _assert_whole(data, documents)
        for one, sample in taken.items():
            _assert_ended(documents[one], sample)
        assert service.stop() == 0

    states = Counter(one["status"] for one in documents.values())
    assert sum(states.values()) == DOCUMENTS
    assert (
        rows(data, "SELECT count(*) AS n FROM tabellion_documents")[0]["n"] <= DOCUMENTS + KILLS
    )  # one may have gone unanswered
    assert states["completed"] > DOCUMENTS // 2
    # A call that was under way when its asker was killed is lost with it; nothing else is paid for twice.
    paid = {one["sha256"] for one in documents.values() if one["status"] in ("completed", "duplicate")}
    assert calls(fake) - lost == remembered(data) >= len(paid)
    assert remembered(data) <= len({one.content for one in taken.values() if one.ending != "failed"})


def _open(data: Path) -> int:
    [row] = rows(data, "SELECT count(*) AS n FROM tabellion_documents WHERE status IN ('queued', 'processing')")
    return int(row["n"])


def _assert_ended(document: dict[str, Any], sample: Sample) -> None:
    if sample.ending == "failed":
        assert (document["status"], document["error"]["code"]) == ("failed", sample.why)
    elif document["status"] == "failed":
        # Two workers in a row died over it: set aside, with the evidence.
        assert document["error"]["code"] == "worker_crashed"
        assert document["error"]["message"]
    else:
        assert document["status"] in ("completed", "duplicate")
        assert document["fields"]["total"]["value"] == sample.truth["total"]


def _assert_whole(data: Path, documents: dict[str, dict[str, Any]]) -> None:
    """Assert that every output exists, matches its row, and that there is no other."""
    named = set()
    for one in documents.values():
        if one["status"] not in ("completed", "duplicate"):
            continue
        for kind in ("json", "parquet"):
            path = data / one["outputs"][kind]
            named.add(path)
            assert hashlib.sha256(path.read_bytes()).hexdigest() == one["hashes"][kind]
        body = json.loads((data / one["outputs"]["json"]).read_text())
        assert body["sha256"] == one["sha256"]
        assert pq.read_table(data / one["outputs"]["parquet"]).num_rows == 1
    orphans = {path for kind in ("json", "parquet") for path in (data / kind).rglob("*.*")} - named
    crashed = {id_ for id_, one in documents.items() if one["status"] == "failed"}
    assert {path.stem for path in orphans if not path.name.startswith(".")} <= crashed
