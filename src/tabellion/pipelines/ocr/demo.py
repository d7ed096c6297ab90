"""The demo: queues sample files, waits until they are read, and summarizes the results."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tabellion.engine.log import printable
from tabellion.errors import Busy, Unreachable
from tabellion.extractions.lookup import ExtractionTable
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
EVERY = 0.2  #: seconds between two polls


async def run(store: Store, settings: OcrSettings, *, live: bool) -> tuple[str, Mapping[str, Any]]:
    """Queues the samples; unless the service keeps running, waits until each has ended."""
    started = time.monotonic()
    table = await ExtractionTable.open(store, settings.columns)
    ids = {await _submit(table, settings, name, kind): name for name, kind in SAMPLES}
    rows = await _look(table, list(ids))
    while not live and not all(row["status_id"] in ENDED for row in rows):
        await asyncio.sleep(EVERY)
        with contextlib.suppress(Busy, Unreachable):
            rows = await _look(table, list(ids))
    lines = [_line(row, ids[row["id"]]) for row in rows]
    counts = Counter(ExtractionStatus(row["status_id"]).name for row in rows)
    summary = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    return "\n".join([*lines, f"{len(ids)} sample files: {summary} ({time.monotonic() - started:.1f} s)"]), dict(counts)


async def _submit(table: ExtractionTable, settings: OcrSettings, name: str, kind: str) -> str:
    address = await settings.files.save(sample_file(name))
    column = table.columns.address if table.columns is not None else "storage_path"
    return await table.insert(
        {"status_id": int(ExtractionStatus.COMPLETE), column: address, "document_type": kind, "document_number": name}
    )


async def _look(table: ExtractionTable, ids: list[str]) -> list[dict[str, Any]]:
    return [row for key in ids if (row := await table.get(key)) is not None]


def _line(row: dict[str, Any], name: str) -> str:
    return f"{ExtractionStatus(row['status_id']).name:<20}  {name:<26}  {printable(row['ocr_error'] or '')}".rstrip()
