"""The demo of OCR."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion.extractions.tables import SCHEMA
from tabellion.pipelines.ocr import demo
from tabellion.pipelines.ocr.queues import ocr_queues
from tabellion.reading.sample_files import sample_file
from tests.pipelines.ocr.deeds import rows, settings_in
from tests.workers import ask, make_worker, working


def test_samples_are_read_and_reported(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Including those that cannot be read; here only samples that need no OCR."""
    monkeypatch.setattr(demo, "SAMPLES", [one for one in demo.SAMPLES if "scan" not in one[0]])
    settings = settings_in(tmp_path)
    ask(sqlite_url, SCHEMA.prepare)
    with working(make_worker(sqlite_url, *ocr_queues(settings))):
        for _ in range(2):  # the second demo queues the rows of the first again
            text, counts = ask(sqlite_url, lambda store: demo.run(store, settings, live=False))
    assert len(rows(sqlite_url)) == len(demo.SAMPLES)
    assert counts == {"EXTRACTION_COMPLETE": 2, "ERREUR": 1}
    assert "truncated.pdf" in text
    assert {row["document_number"] for row in rows(sqlite_url)} == {name for name, _ in demo.SAMPLES}


def test_the_samples_ship() -> None:
    """Every sample is in the package."""
    assert [name for name, _ in demo.SAMPLES if not sample_file(name).is_file()] == []
