"""Sample files for tests of the OCR pipeline, and helpers that queue, read and list rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tabellion import Store
from tabellion.extractions.storage import ExtractionFiles
from tabellion.extractions.tables import SCHEMA
from tabellion.models.catalog import make
from tabellion.models.fake.serving import Serving
from tabellion.models.gated import GatedModel
from tabellion.pipelines.ocr.queues import ocr_queues
from tabellion.pipelines.ocr.settings import OcrSettings
from tabellion.storage.lake import Lake
from tests.pipelines.documents.pdf_writer import Paper
from tests.workers import ask, drain, make_worker

LINE = "This deed was registered on page {number} of the land register of the city"


def deed(pages: int = 1, *, mark: str = "") -> bytes:
    """Return a PDF with a text layer, different on each page."""
    paper = Paper()
    for number in range(1, pages + 1):
        if number > 1:
            paper.page()
        for row in range(4):
            paper.text(60, 80 + 20 * row, f"{LINE.format(number=number)}, line {row} {mark}".strip(), 11)
    return paper.to_bytes()


def plan(pages: int = 1, *, mark: int = 0) -> bytes:
    """Return a PDF of drawn lines without a text layer; each page looks different."""
    paper = Paper()
    for number in range(1, pages + 1):
        if number > 1:
            paper.page()
        paper.line(50, 50, 100 + 20 * number, 300 + mark, 3)
        paper.box(200, 400 + 10 * number, 50 + mark, 50, 0.3)
    return paper.to_bytes()


def settings_in(folder: Path, **changes: Any) -> OcrSettings:
    """Return settings whose files are below a folder."""
    options: dict[str, Any] = {
        "files": ExtractionFiles(Lake(folder / "lake"), opened=[str(folder)]), "retry_base": 0.05,
    }  # fmt: skip
    return OcrSettings(**(options | changes))


def by_gemini(folder: Path, fake: Serving, **changes: Any) -> OcrSettings:
    """Return the same, with pages read by a model."""
    options = {"model": "gemini", "gate": "gemini", "boost": "never"} | changes
    settings = {"key": "k", "base_url": fake.url}
    return settings_in(folder, make_model=lambda name: GatedModel(make(name, settings)), **options)


def queue_files(
    url: str, folder: Path, *contents: bytes, prepare: bool = True, column: str = "storage_path", first: int = 0
) -> list[str]:
    """Store files, add rows whose extraction is complete, and return their keys."""

    async def go(store: Store) -> list[str]:
        if prepare:
            await SCHEMA.prepare(store)
        keys = []
        for number, content in enumerate(contents, first):
            path = folder / f"deed-{number}.pdf"
            path.write_bytes(content)
            insert = f"INSERT INTO extraction_queue (id, status_id, {column}) VALUES ($1, 3, $2) RETURNING id"
            # UUIDs as text fit both kinds of keys.
            key = f"00000000-0000-4000-8000-{number:012}"
            await store.database.fetch(insert, key, str(path))
            keys.append(key)
        return keys

    return ask(url, go)


def run_worker(url: str, settings: OcrSettings, **options: Any) -> None:
    """Run a worker until every file has been read."""
    drain(make_worker(url, *ocr_queues(settings), **options))


def rows(url: str, text: str = "SELECT * FROM extraction_queue ORDER BY id", *values: Any) -> list[dict[str, Any]]:
    """Return the rows of the table, with metadata parsed."""

    async def go(store: Store) -> list[dict[str, Any]]:
        return [dict(row) for row in await store.database.fetch(text, *values)]

    found = ask(url, go)
    for row in found:
        if isinstance(row.get("ocr_metadata"), str):
            row["ocr_metadata"] = json.loads(row["ocr_metadata"])
    return found
