"""Secrets and document texts do not leak, whatever goes wrong with a model call."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tabellion.models.fake.serving import serving
from tests.table_owner import Owner
from tests.waiting import eventually
from tests.workers import ask

ROOT = Path(__file__).parents[2]
KEY, TEXT = "canary-key-5e1f", "canary sentence of the deed"
KNOBS = [
    "",
    "400",
    "401",
    "403",
    "404",
    "429=0.1",
    "500",
    "503",
    "truncate",
    "html",
    "schema",
    "repeat",
    "block",
    "reset",
]
QUEUES = """
from tabellion import Job
from tabellion.models.catalog import make
from tabellion.models.gated import GatedModel
from tests.table_owner import jobs_queue

queue = jobs_queue(max_attempts=2)
FIELDS = {"vendor": {"type": "string"}, "total": {"type": "number"}}
SCHEMA = {"type": "object", "properties": FIELDS, "required": ["vendor"]}

@queue.handler
async def read(job: Job) -> None:
    knob = KNOBS[job.key]
    for name in ("gemini", "openai"):
        # A gate of its own for each kind of trouble, so that one does not hide the next.
        model = GatedModel(make(name, {"model": f"any-model@{knob}" if knob else "any-model"}), gate=f"{name} {knob}")
        await model.call([TEXT + " " + knob, "Extract the fields."], SCHEMA)
"""


def test_no_key_and_no_document_text_leaks(url: str, owner: Owner, tmp_path: Path) -> None:
    """Through every failure of both protocols: neither in a log line, nor in any column except that of memos."""
    owner.insert(*range(len(KNOBS)))
    ask(url, lambda store: store.migrate())
    program = f"KNOBS, TEXT = {KNOBS!r}, {TEXT!r}\n{QUEUES}"
    (tmp_path / "canaries.py").write_text(program)
    with serving() as fake:
        environ = os.environ | fake.environment | {
            "PYTHONPATH": str(ROOT), "GEMINI_API_KEY": KEY, "OPENAI_API_KEY": KEY, "DATABASE_URL": url,
            "TABELLION_POLL": "0.1", "TABELLION_LOG_LEVEL": "debug",
        }  # fmt: skip
        command = [sys.executable, "-m", "tabellion", "--queues", str(tmp_path / "canaries.py"), "worker", "--json"]
        worker = subprocess.Popen(command, env=environ, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        settled = "SELECT count(DISTINCT key) AS n FROM tabellion_attempts WHERE settled_at IS NOT NULL"
        try:
            eventually(lambda: owner(settled)[0]["n"] == len(KNOBS), within=60)
        finally:
            worker.terminate()
            printed = worker.communicate(timeout=30)[0].decode()
        requests = fake.log.read_text()
    assert "claimed" in printed
    columns = "queue, key, worker, outcome, error, note"
    register = owner(f"SELECT {columns} FROM tabellion_attempts")
    assert any(row["error"] for row in register)
    written = {
        "the log": printed,
        "the register": str(register),
        "the gates": str(owner("SELECT name, state FROM tabellion_gates")),
        "the table": str(owner("SELECT * FROM jobs")),
        "the workers": str(owner("SELECT id, host, queues, ending FROM tabellion_workers")),
        "the fake's log": requests,
    }
    for place, text in written.items():
        assert KEY not in text, place
        assert TEXT not in text, place
    memos = owner("SELECT key, model, queue, row_key, token, hint, reply, raw FROM tabellion_memos")
    assert KEY not in str(memos)
    assert TEXT not in str([{**memo, "reply": "", "raw": ""} for memo in memos])
