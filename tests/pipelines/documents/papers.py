"""What tests of the document pipeline submit, and where."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tabellion import Store
from tabellion.accounts import audit
from tabellion.accounts.audit import AuditEntry
from tabellion.delivery import endpoints
from tabellion.pipelines.documents import states
from tabellion.pipelines.documents.lookup import get
from tabellion.pipelines.documents.queues import documents_queues
from tabellion.pipelines.documents.settings import Settings, Types
from tabellion.pipelines.documents.submit import SubmittedDocument, submit
from tabellion.storage.blobs import Blobs, StoredBlob
from tabellion.storage.lake import Lake
from tests.models.bills import LINES, bill
from tests.table_owner import owning
from tests.workers import ask, drain, make_worker


def settings_in(folder: Path, **changes: Any) -> Settings:
    """Settings whose files are below a folder, with the shipped types and those in `types`."""
    given: dict[str, Any] = {
        "blobs": Blobs(folder / "blobs"), "lake": Lake(folder / "lake"), "types": Types([folder / "types"]),
    }  # fmt: skip
    return Settings(**(given | changes))


def submit_bills(url: str, settings: Settings, *numbers: int, **how: Any) -> list[SubmittedDocument]:
    """Submit bills one after the other."""

    async def go(store: Store) -> list[SubmittedDocument]:
        return [await submit(store, settings, put(settings, number), **how) for number in numbers]

    return ask(url, go)


def submit_file(url: str, settings: Settings, data: bytes, **how: Any) -> str:
    """Submit a file and return its id."""
    return ask(url, lambda store: submit(store, settings, put(settings, data=data), **how)).id


def add_endpoint(url: str) -> None:
    """Let somebody else's server be told of everything."""

    async def add(store: Store) -> None:
        await endpoints.SCHEMA.prepare(store)
        await endpoints.add(store, "https://example.com/hook")

    ask(url, add)


def process_all(url: str, settings: Settings, **options: Any) -> None:
    """Work until every document has ended."""
    drain(make_worker(url, *documents_queues(settings), **options))


def document(url: str, key: str) -> Any:
    """Return a document as it is now."""
    found = ask(url, lambda store: get(store, key))
    assert found is not None
    return found


def rows(url: str, text: str, *values: Any) -> list[dict[str, Any]]:
    """Return the rows as the owner of the database sees them."""
    with owning(url, create=False) as owner:
        return owner(text, *values)


def edit_field(url: str, key: str, name: str, value: Any, state: str = "corrected", by: str = "anna") -> None:
    """Correct a field as a person, mark it absent, or confirm it."""
    now = "julianday('now') * 86400" if url.startswith("sqlite") else "now()"
    locked = state != "confirmed"
    rows(
        url,
        f"""INSERT INTO tabellion_extracted_fields AS f
  (document_id, name, place, value, confidence, source, reasons, locked,
  state, manually_corrected, corrected_by, corrected_at)
VALUES ($1, $2, 99, $3, 1.0, 'person', '[]', $4, $5, $4, $6, {now})
ON CONFLICT (document_id, name) DO UPDATE SET old_value = f.value, locked = excluded.locked, state = excluded.state,
  value = CASE WHEN excluded.locked THEN excluded.value ELSE f.value END,
  corrected_by = excluded.corrected_by, corrected_at = excluded.corrected_at
RETURNING name""",
        key, name, json.dumps(value), locked, state, by,
    )  # fmt: skip


def finish_review(url: str, key: str, status: str = "corrected") -> None:
    """Finish the review of a document as a person."""

    async def end(store: Store) -> None:
        action = "rejected" if status == "rejected" else "approved"
        item = "UPDATE tabellion_review_items SET status = $2, reviewer = 'anna' WHERE document_id = $1"
        entry = audit.bind_entry(store.dialect, AuditEntry(action, "anna", key, after=status))
        rewrite = audit.bind_statement(*states.rewrite(key))
        await store.database.transact([(item, (key, status)), rewrite, entry])

    ask(url, end)


def put(settings: Settings, number: int = 0, name: str = "bill.pdf", data: bytes | None = None) -> StoredBlob:
    """Store a bill in the files, a different one for every number; or any other file."""
    content = paper(number) if data is None else data
    sha256 = hashlib.sha256(content).hexdigest()
    path = settings.blobs.path(sha256)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return StoredBlob(sha256, len(content), path, name, "application/pdf")


def paper(number: int = 0) -> bytes:
    """Return the bytes of a bill, different for every number."""
    return bill(*LINES[:2], f"Invoice number: A-{77 + number}", *LINES[3:])


TYPE = """\
name: {name}
version: "1"
fields:
  vendor: {{type: name, required: true, threshold: 0.5}}
  total: {{type: money, required: true, threshold: 0.5}}
{rest}"""


def write_type(settings: Settings, name: str, rest: str = "") -> None:
    """Write a custom type among those of the test."""
    folder = Path(settings.types.folders[0])
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(TYPE.format(name=name, rest=rest))
