"""The queues of the pipeline, together and in several environments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tabellion import Environment, Worker
from tabellion.pipelines.documents.queues import documents_queues
from tabellion.pipelines.documents.settings import Settings
from tests.pipelines.documents.papers import document, settings_in, submitted
from tests.working import drain


def test_queues_go_together(settings: Settings) -> None:
    """One for each model behind its own gate, and the four that look after the rest."""
    rich = replace(settings, models={"gemini": "gemini", "my.models:Own": "own"})
    assert {queue.name: queue.uses for queue in documents_queues(rich)} == {
        "documents": None, "documents_gemini": "gemini", "documents_my_models_Own": "own", "followers": None,
        "failures": None, "reviewed": None, "superseded": None,
    }  # fmt: skip


def test_environments_keep_their_files_apart(sqlite_url: str, pg_url: str, tmp_path: Path) -> None:
    """One worker for both; each document is read from, and written to, the folders of its own."""
    prod, dev = settings_in(tmp_path / "prod"), settings_in(tmp_path / "dev")
    [one], [two] = submitted(sqlite_url, prod, 0, type="invoice"), submitted(pg_url, dev, 1, type="invoice")
    places = [Environment("prod", sqlite_url), Environment("dev", pg_url)]
    drain(Worker(places, documents_queues(prod, {"dev": dev}), poll=0.05))
    assert (document(sqlite_url, one.id)["status"], document(pg_url, two.id)["status"]) == ("completed",) * 2
    for settings, key in ((prod, one.id), (dev, two.id)):
        assert [path.stem for path in Path(settings.lake.url).rglob("*.json")] == [key]
