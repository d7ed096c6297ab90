"""The demo: reads sample files, or those that another demo has fetched, and tells how each of them was read."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tabellion.engine.log import printable
from tabellion.errors import Busy, Unreachable
from tabellion.extractions.lookup import ExtractionTable, load_metadata
from tabellion.extractions.row import FoundExtraction
from tabellion.extractions.states import ExtractionStatus
from tabellion.reading.sample_files import sample_file

if TYPE_CHECKING:
    from tabellion.engine.store import Store
    from tabellion.pipelines.ocr.settings import OcrSettings

#: Samples that ship: with a text layer, scanned, with several pages, and a broken one.
SAMPLES = (
    ("en-invoice-two-pages.pdf", "actes"), ("fr-scan.pdf", "actes"), ("qc-scan.jpg", "index"),
    ("qc-invoice-1.pdf", "plans_cadastraux"), ("truncated.pdf", "index"),
)  # fmt: skip
ENDED = (ExtractionStatus.EXTRACTION_COMPLETE, ExtractionStatus.ERREUR)
FETCHED = (ExtractionStatus.COMPLETE, ExtractionStatus.OCR_PROCESSING, ExtractionStatus.EXTRACTION_COMPLETE)
SOURCES = {"text": "with a text layer", "ocr": "by OCR", "model": "read by a model", "failed": "not readable"}
MOST = 50  #: rows that are looked at
EVERY = 0.2  #: seconds between two polls


async def run(store: Store, settings: OcrSettings, *, live: bool) -> tuple[str, Mapping[str, Any]]:
    """Reads the files that another pipeline's demo has fetched, or else sample files; unless the service keeps running,
    waits until each has ended."""
    started = time.monotonic()
    table = await ExtractionTable.open(store, settings.columns)
    samples = {name: await _save(settings, name) for name, _ in SAMPLES}
    newest, _ = await table.list_rows({}, None, MOST)
    fetched = [row for row in newest if row["status_id"] in FETCHED]
    ids = [row["id"] for row in fetched if row.get("file_address") not in samples.values()]
    if not ids:
        ids = [await _submit(table, name, kind, samples[name], newest) for name, kind in SAMPLES]
    rows = await _look(table, ids)
    while not live and not all(row["status_id"] in ENDED for row in rows):
        await asyncio.sleep(EVERY)
        with contextlib.suppress(Busy, Unreachable):
            rows = await _look(table, ids)
    counts = Counter(ExtractionStatus(row["status_id"]).name for row in rows)
    summary = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    lines = [_line(row) for row in rows]
    return "\n".join([*lines, f"{len(ids)} files: {summary} ({time.monotonic() - started:.1f} s)"]), dict(counts)


async def _save(settings: OcrSettings, name: str) -> str:
    return await settings.files.save(sample_file(name))


async def _submit(table: ExtractionTable, name: str, kind: str, address: str, newest: Sequence[FoundExtraction]) -> str:
    """Queues a sample; a row of an earlier demo is queued again, so that none accumulate."""
    for row in newest:
        if row.get("file_address") == address and row["status_id"] in ENDED:
            await table.queue_again(row["id"], ExtractionStatus.COMPLETE)
            return str(row["id"])
    column = table.columns.address if table.columns is not None else "storage_path"
    return await table.insert(
        {"status_id": int(ExtractionStatus.COMPLETE), column: address, "document_type": kind, "document_number": name}
    )


async def _look(table: ExtractionTable, ids: Sequence[str]) -> list[FoundExtraction]:
    return [row for key in ids if (row := await table.get(key)) is not None]


def _line(row: FoundExtraction) -> str:
    """The status of a file, what it is, and where its text came from or why there is none."""
    known = [str(row[name]) for name in ("document_type", "circonscription", "lot", "document_number") if row.get(name)]
    pages = (load_metadata(row) or {}).get("pages") or []
    sources = Counter(SOURCES.get(page["source"], page["source"]) for page in pages)
    about = ", ".join(f"{count} {source}" for source, count in sources.items())
    result = row.get("ocr_error") or (f"pages: {about}" if about else "")
    return printable(f"  {ExtractionStatus(row['status_id']).name:<20}  {', '.join(known):<48}  {result}").rstrip()
