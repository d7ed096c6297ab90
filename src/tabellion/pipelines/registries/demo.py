"""The demo: runs searches on the practice portal and tells how each of them ended, and why."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabellion.engine.log import printable
from tabellion.errors import Busy, Unreachable
from tabellion.extractions import tables as extractions
from tabellion.extractions.columns import ColumnChoice
from tabellion.extractions.lookup import ExtractionTable
from tabellion.extractions.row_values import mark
from tabellion.extractions.states import ExtractionStatus
from tabellion.pipelines.registries import choosing, lookup, submit, tables
from tabellion.pipelines.registries.portal.server import run_portal
from tabellion.pipelines.registries.settings import portal_place, settings_of
from tabellion.pipelines.registries.states import RightsStatus, SessionStatus
from tabellion.storage import files

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.store import Store
    from tabellion.extractions.row import FoundExtraction
    from tabellion.pipelines.registries.lookup import SearchSession
    from tabellion.pipelines.registries.settings import RegistrySettings

EVERY = 0.3  #: seconds between two polls
#: Documents with what is special about them.
DOCUMENTS: tuple[tuple[Mapping[str, str], str], ...] = (
    (
        {"document_type": "index", "circonscription": "Montréal", "cadastre": "Cadastre du Québec", "lot": "1 234 567"},
        "",
    ),
    ({"document_type": "actes", "circonscription": "Québec", "document_number": "21 103 111"}, ""),
    ({"document_type": "plans_cadastraux", "circonscription": "Laval", "lot": "4 567 890"}, "a scan without text"),
    (
        {"document_type": "index", "circonscription": "Laval", "lot": "9 999 999"},
        "fails on purpose: no such lot",
    ),
)
COMPANIES = (
    ("Gestion Laframboise inc.", ""),
    ("Le Four à pain", ""),
    ("Beaulieu", "fails on purpose: several match, a person has to choose"),
)
REMEMBERED = "demo.json"  #: the rows of the last demo, which the next one runs again
_AGAIN = {
    extractions.TABLE: ("status_id = 1", "status_id IN (3, 4, 5)"),
    tables.SESSIONS: (
        f"status = '{SessionStatus.PENDING_COMPANY_SELECTION.value}', req_completed = FALSE",
        f"status IN ('{SessionStatus.PENDING_NAME_SELECTION.value}', '{SessionStatus.FAILED.value}')",
    ),
    tables.RIGHTS: (
        f"status = '{RightsStatus.PENDING.value}', completed_at = NULL",
        f"status IN ('{RightsStatus.COMPLETED.value}', '{RightsStatus.FAILED.value}')",
    ),
}


async def run(store: Store, config: Config, opened: contextlib.ExitStack) -> tuple[str, Mapping[str, Any]]:
    """Starts the portal, submits searches, chooses every name that was found, and waits until all have ended."""
    started = time.monotonic()
    settings = settings_of(config)
    host, port = portal_place(config)
    fix = "set registries.portal or TABELLION_REGISTRIES_PORTAL to another address"
    opened.enter_context(run_portal(port, host, fix=fix))
    documents, sessions = await _submit(store, settings)
    table = await ExtractionTable.open(store, ColumnChoice())
    rows = await _wait_for_documents(table, documents)
    found = await _wait_for_sessions(store, settings, sessions)
    for session in found:
        if session["names"]:
            for search in session["rights"]:
                await _run_again(store, tables.RIGHTS, search["id"])
            names = [entry["name"] for entry in session["names"]]
            await choosing.choose_names(store, settings, session["id"], names)
    found = await _wait_for_sessions(store, settings, sessions, rights=True)
    searches = [search for session in found for search in session["rights"]]
    counts = {
        extractions.TABLE: Counter(ExtractionStatus(row["status_id"]).name for row in rows),
        tables.SESSIONS: Counter(session["status"] for session in found),
        tables.RIGHTS: Counter(search["status"] for search in searches),
    }
    seconds = time.monotonic() - started
    lines = [f"the practice portal: {settings.portal}", "documents"]
    for row, (inputs, note) in zip(rows, DOCUMENTS, strict=True):
        named = ", ".join(value for name, value in inputs.items() if name != "cadastre")
        lines.append(_line(ExtractionStatus(row["status_id"]).name, named, note, row.get("error_message")))
    lines.append("companies")
    for session, (company, note) in zip(found, COMPANIES, strict=True):
        about = note or f"names: {len(session['names'])}"
        lines.append(_line(session["status"], company, about, session["error"]))
    lines.append("rights")
    for search in searches:
        about = "nothing is registered" if search["is_empty"] else f"registrations: {len(search['registrations'])}"
        lines.append(_line(search["status"], search["name"] or "", about, search["error"]))
    return "\n".join([*lines, f"({seconds:.1f} s)"]), {"counts": counts, "seconds": seconds}


def _line(status: str, name: str, note: str, error: str | None) -> str:
    line = printable(f"  {status:<23}  {name:<40}  {note}").rstrip()
    failed = status in (ExtractionStatus.ERREUR.name, SessionStatus.FAILED.value)
    return f"{line}\n      {printable(error)}" if failed and error else line


async def _submit(store: Store, settings: RegistrySettings) -> tuple[list[str], list[str]]:
    """The ids of the demo's documents and sessions: rows of the last demo run again, so that none accumulate."""
    path = settings.folder / REMEMBERED
    known = _recall(path)
    documents = [
        await _run_again(store, extractions.TABLE, known.get(f"document {number}"))
        or await submit.add_extraction(store, settings, inputs)
        for number, (inputs, _) in enumerate(DOCUMENTS)
    ]
    sessions = [
        await _run_again(store, tables.SESSIONS, known.get(f"company {company}"))
        or await submit.add_session(store, settings, company)
        for company, _ in COMPANIES
    ]
    remembered = {f"document {number}": id_ for number, id_ in enumerate(documents)}
    remembered |= {f"company {company}": id_ for (company, _), id_ in zip(COMPANIES, sessions, strict=True)}
    files.write_whole(path, json.dumps(remembered).encode(), settings.folder)
    return documents, sessions


def _recall(path: Path) -> dict[str, str]:
    try:
        known = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


async def _run_again(store: Store, table: str, id_: str | None) -> str | None:
    """Puts a row of the last demo back to ready; returns its id, or None if there is no such row."""
    if id_ is None:
        return None
    changes, ended = _AGAIN[table]
    is_row = f"id = {mark(1, (await tables.require_table(store, table)).columns['id'], store.dialect)}"
    await store.database.fetch(f"UPDATE {table} SET {changes} WHERE {is_row} AND {ended} RETURNING 1 AS n", id_)
    await store.database.wake()
    return id_ if await store.database.fetch(f"SELECT 1 AS n FROM {table} WHERE {is_row}", id_) else None


async def _wait_for_documents(table: ExtractionTable, ids: Sequence[str]) -> list[FoundExtraction]:
    """The rows of the documents, once none waits for its extraction."""
    running = (ExtractionStatus.EN_ATTENTE, ExtractionStatus.EN_TRAITEMENT)
    while True:
        with contextlib.suppress(Unreachable, Busy):  # retried: the database may not answer for a moment
            rows = [row for id_ in ids if (row := await table.get(id_)) is not None]
            if not any(row["status_id"] in running for row in rows):
                return rows
        await asyncio.sleep(EVERY)


async def _wait_for_sessions(
    store: Store, settings: RegistrySettings, ids: Sequence[str], *, rights: bool = False
) -> list[SearchSession]:
    """The sessions, once no company is looked up any more, and if `rights` is set, no name either."""
    running = {
        SessionStatus.PENDING_COMPANY_SELECTION.value, SessionStatus.SCRAPING_COMPANY_DATA.value,
        RightsStatus.PENDING.value, RightsStatus.IN_PROGRESS.value,
    }  # fmt: skip
    while True:
        with contextlib.suppress(Unreachable, Busy):
            found = [one for id_ in ids if (one := await lookup.get_session(store, settings, id_)) is not None]
            searches = [search["status"] for session in found for search in session["rights"] if rights]
            if not running & {*searches, *(session["status"] for session in found)}:
                return found
        await asyncio.sleep(EVERY)
