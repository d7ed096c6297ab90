"""The demo: runs searches on the practice portal and summarizes their results."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tabellion.errors import Busy, Unreachable
from tabellion.extractions import tables as extractions
from tabellion.extractions.states import ExtractionStatus
from tabellion.pipelines.registries import choosing, lookup, submit, tables
from tabellion.pipelines.registries.portal.server import run_portal
from tabellion.pipelines.registries.settings import portal_place, settings_of
from tabellion.pipelines.registries.states import RightsStatus, SessionStatus

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.store import Store

EVERY = 0.3  #: seconds between two polls
DOCUMENTS: tuple[Mapping[str, str], ...] = (
    {"document_type": "index", "circonscription": "Montréal", "cadastre": "Cadastre du Québec", "lot": "1 234 567"},
    {"document_type": "actes", "circonscription": "Québec", "document_number": "21 103 111"},
    {"document_type": "plans_cadastraux", "circonscription": "Québec", "lot": "3 456 789"},
    {"document_type": "index", "circonscription": "Laval", "lot": "9 999 999"},
)
COMPANIES = ("Gestion Laframboise inc.", "Le Four à pain", "Beaulieu")
OPEN = {
    extractions.TABLE: ("status_id", (ExtractionStatus.EN_ATTENTE, ExtractionStatus.EN_TRAITEMENT)),
    tables.SESSIONS: ("status", (SessionStatus.PENDING_COMPANY_SELECTION, SessionStatus.SCRAPING_COMPANY_DATA)),
    tables.RIGHTS: ("status", (RightsStatus.PENDING, RightsStatus.IN_PROGRESS)),
}


async def run(store: Store, config: Config, opened: contextlib.ExitStack) -> tuple[str, Mapping[str, Any]]:
    """Starts the portal, submits searches, chooses every name that was found, and waits until all have ended."""
    started = time.monotonic()
    settings = settings_of(config)
    host, port = portal_place(config)
    fix = "set registries.portal or TABELLION_REGISTRIES_PORTAL to another address"
    opened.enter_context(run_portal(port, host, fix=fix))
    for inputs in DOCUMENTS:
        await submit.add_extraction(store, settings, inputs)
    sessions = [await submit.add_session(store, settings, company) for company in COMPANIES]
    await _wait_for(store, extractions.TABLE, tables.SESSIONS)
    for session in sessions:
        found = await lookup.get_session(store, settings, session)
        if found is not None and found["names"]:
            await choosing.choose_names(store, settings, session, [entry["name"] for entry in found["names"]])
    await _wait_for(store, tables.RIGHTS)
    counts = {table: await _count(store, table) for table in OPEN}
    seconds = time.monotonic() - started
    lines = [f"the practice portal: {settings.portal}"]
    for title, table in (("documents", extractions.TABLE), ("companies", tables.SESSIONS), ("rights", tables.RIGHTS)):
        summary = ", ".join(f"{number} {status}" for status, number in counts[table].items())
        lines.append(f"{title}: {summary}")
    return "\n".join([*lines, f"({seconds:.1f} s)"]), {"counts": counts, "seconds": seconds}


async def _wait_for(store: Store, *names: str) -> None:
    while True:
        with contextlib.suppress(Unreachable, Busy):  # retried: the database may not answer for a moment
            if not sum([await _open_rows(store, name) for name in names]):
                return
        await asyncio.sleep(EVERY)


async def _open_rows(store: Store, table: str) -> int:
    column, states = OPEN[table]
    values = ", ".join(
        str(int(state)) if isinstance(state, ExtractionStatus) else f"'{state.value}'" for state in states
    )
    rows = await store.database.fetch(f"SELECT count(*) AS n FROM {table} WHERE {column} IN ({values})")
    return int(rows[0]["n"])


async def _count(store: Store, table: str) -> dict[str, int]:
    column = OPEN[table][0]
    rows = await store.database.fetch(f"SELECT {column} AS s, count(*) AS n FROM {table} GROUP BY {column} ORDER BY 1")
    return {ExtractionStatus(row["s"]).name if table == extractions.TABLE else row["s"]: row["n"] for row in rows}
