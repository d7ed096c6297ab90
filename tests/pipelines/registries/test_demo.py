"""The demo of registries and OCR together, as `make registries` runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.chromium import why_not
from tests.cli.running import running
from tests.servers import free_port

DOCUMENTS = {"COMPLETE", "OCR_PROCESSING", "EXTRACTION_COMPLETE", "ERREUR"}


def test_both_pipelines_are_shown_and_a_second_run_adds_nothing(tmp_path: Path) -> None:
    """What the portal has is fetched, and then read; the second demo runs the rows of the first again."""
    if sentence := why_not():
        pytest.skip(sentence)
    portal = f"http://127.0.0.1:{free_port()}"
    for _ in range(2):
        with running(
            tmp_path / "data", "--demo", "--until-done", "--with", "registries", "--with", "ocr",
            TABELLION_REGISTRIES_PORTAL=portal,
        ) as service:  # fmt: skip
            assert service.wait(110) == 0, service.errors
            registries, ocr = [line for line in service.lines if line["event"] == "demo"]
        counts = registries["counts"]
        assert set(counts["extraction_queue"]) <= DOCUMENTS
        assert (sum(counts["extraction_queue"].values()), counts["extraction_queue"]["ERREUR"]) == (4, 1)
        assert counts["search_sessions"] == {"pending_name_selection": 2, "failed": 1}
        assert counts["rdprm_searches"] == {"completed": 6}
        assert {name: count for name, count in ocr.items() if name != "event"} == {"EXTRACTION_COMPLETE": 3}
    with running(tmp_path / "data", "--with", "registries", "--with", "ocr", "--workers", "0") as service:
        _, listed = service.ask("GET", "/api/extractions")
        assert len(listed["extractions"]) == 4
        assert len(service.ask("GET", "/api/search-sessions")[1]["search_sessions"]) == 3
        [scan] = [one for one in listed["extractions"] if one["document_type"] == "plans_cadastraux"]
        _, whole = service.ask("GET", f"/api/extractions/{scan['id']}")
        assert [page["source"] for page in whole["metadata"]["pages"]] == ["ocr"]
        assert "412,6" in service.ask("GET", f"/api/extractions/{scan['id']}/text")[1]["text"]
