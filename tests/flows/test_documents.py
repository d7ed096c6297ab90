"""Thirty documents, a model that is paid per call, and workers that are killed again and again."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from tabellion.models.fake.serving import Serving, serving
from tabellion.pipelines.documents.reprocess import reprocess
from tabellion.pipelines.documents.settings import Settings
from tests.pipelines.documents.papers import document, rows, settings_in, submit_bills, submit_file
from tests.waiting import eventually
from tests.workers import ROOT, ask

DISTINCT, TWICE, BROKEN = 16, 4, 2
#: Where workers die: in the middle of whatever they do, then at the places that matter most.
PLACES = (
    "", "", "settle.pre_commit:kill@3", "put.mid_write:kill@5", "put.post_rename:kill@4", "handler.post_call:kill@2",
)  # fmt: skip
ENDED = "SELECT count(*) AS n FROM tabellion_documents WHERE status IN ('completed', 'failed', 'duplicate')"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(settings_in(tmp_path), models={"gemini": "gemini"})


@pytest.fixture
def fake() -> Iterator[Serving]:
    with serving(latency="0.05-0.2") as running:
        yield running


def start_worker(url: str, folder: Path, fake: Serving, failpoints: str) -> subprocess.Popen[bytes]:
    """Start a worker in its own process group, so that its children die with it."""
    environ = os.environ | fake.environment
    environ |= {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "GEMINI_API_KEY": "k", "TABELLION_FAILPOINTS": failpoints}
    command = [sys.executable, "-m", "tests.pipelines.documents.reader", url, str(folder)]
    return subprocess.Popen(command, env=environ, cwd=folder)


def calls(fake: Serving) -> int:
    """Return how often the model was called, once no request is in flight."""
    eventually(lambda: fake.report()["open"] == 0)
    return int(fake.report()["requests"])


def remembered(url: str) -> int:
    return int(rows(url, "SELECT count(*) AS n FROM tabellion_memos WHERE reply IS NOT NULL")[0]["n"])


def run_to_end(url: str, folder: Path, fake: Serving, count: int) -> None:
    """Run one more worker until every document has ended."""
    worker = start_worker(url, folder, fake, "")
    try:
        eventually(lambda: rows(url, ENDED)[0]["n"] == count, within=60)
    finally:
        worker.terminate()
        worker.wait(30)


def test_killed_workers_lose_no_document_and_pay_once(
    url: str, settings: Settings, fake: Serving, tmp_path: Path
) -> None:
    """Each ends completed, duplicate or failed with a reason; outputs are complete; no answer is bought twice."""
    submitted = submit_bills(url, settings, *range(DISTINCT), *range(TWICE), type="invoice", model="gemini")
    broken = [submit_file(url, settings, b"%%PDF-1.7\n%d" % n, type="invoice", model="gemini") for n in range(BROKEN)]
    everything = len(submitted) + len(broken)
    for number, place in enumerate(PLACES):
        before = fake.report()["requests"]
        worker = start_worker(url, tmp_path, fake, place)
        try:
            if not place:
                eventually(lambda before=before: fake.report()["requests"] >= before + 3)  # type: ignore[misc]
                worker.send_signal(signal.SIGKILL)
            assert worker.wait(60) == -signal.SIGKILL, f"worker {number} was to die"
        finally:
            worker.kill()
            worker.wait()
    lost = calls(fake) - remembered(url)  # answers that died with whoever asked
    run_to_end(url, tmp_path, fake, everything)

    found = {one.id: document(url, one.id) for one in submitted}
    for key in broken:
        assert document(url, key)["error"]["code"] == "pdf_damaged"
    # A document that two workers in a row died over is set aside with the evidence, and its duplicates with it.
    aside = [one for one in found.values() if one["status"] == "failed"]
    assert {one["error"]["code"] for one in aside} <= {"worker_crashed"}
    for one in aside:
        if one["duplicate_of"] is None:
            ask(url, lambda store, one=one: reprocess(store, settings, one["id"]))  # type: ignore[misc]
    run_to_end(url, tmp_path, fake, everything)

    found = {one.id: document(url, one.id) for one in submitted}
    states = Counter(one["status"] for one in found.values())
    assert states == {"completed": DISTINCT, "duplicate": TWICE}
    for key, shown in found.items():
        for kind in ("json", "parquet"):
            data = asyncio.run(settings.lake.get(shown["outputs"][kind]))
            assert hashlib.sha256(data).hexdigest() == shown["hashes"][kind]
        assert pq.read_table(Path(settings.lake.url) / shown["outputs"]["parquet"]).num_rows == 1
        assert (shown["duplicate_of"] or key) in shown["outputs"]["json"]
        assert shown["fields"]["total"]["value"] == "120.00"
    assert remembered(url) == DISTINCT
    assert calls(fake) == DISTINCT + lost
    originals = {key for key, shown in found.items() if shown["status"] == "completed"}
    assert {path.stem for path in Path(settings.lake.url).rglob("*.json")} == originals
    items = [one["document_id"] for one in rows(url, "SELECT document_id FROM tabellion_review_items")]
    assert len(items) == len(set(items))
