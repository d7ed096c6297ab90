"""A document's history: its attempts, its review item, and its output files."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from starlette.responses import Response

from tabellion.answers import Answer, Doc
from tabellion.engine import sql
from tabellion.engine.timestamps import iso
from tabellion.messages import Message, Translatable, load_form
from tabellion.pipelines.documents.lookup import problem
from tabellion.pipelines.documents.queues import reading_queue_names
from tabellion.pipelines.documents.review import items
from tabellion.pipelines.documents.routes.documents import Document, find_document
from tabellion.pipelines.documents.row import DocumentFailure
from tabellion.pipelines.documents.served import ServedDocuments, served_documents
from tabellion.storage.lake import NoSuchLakeFile
from tabellion.web.answers import answer
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.serving import BINARY, SAME, STRANGE, Responses, disposition, is_not_modified

router = APIRouter(route_class=Guarded, tags=["documents"])
FOLLOWERS = "followers"  #: the queue of duplicates
MOST = 100  #: newest attempts shown
MEDIA = {"json": "application/json", "parquet": "application/vnd.apache.parquet"}
OUTPUT: Responses = {
    200: {
        "content": {MEDIA["json"]: {"schema": {"type": "object"}}, MEDIA["parquet"]: BINARY},
        "description": "The file.",
    },
    **SAME,
}


class Attempt(Answer):
    """One attempt of a worker."""

    queue: str
    attempt: int
    worker: str
    outcome: Annotated[str | None, Doc("null: in progress.")]
    error: DocumentFailure | None
    note: str | None
    translatable: Translatable | None
    cost: float | None
    claimed_at: str
    lease_until: str
    settled_at: str | None
    retry_at: str | None


class ReviewOf(Answer):
    """The review item of a document."""

    id: str
    status: str
    reviewer: str | None
    assigned_to: str | None
    url: str


class DocumentAttempts(Answer):
    """The history of a document."""

    attempts: list[Attempt]
    review: ReviewOf | None


@router.get("/api/documents/{id}/work", response_model=DocumentAttempts, summary="List the attempts at a document")
async def work(request: Request, id: str) -> Response:  # noqa: A002
    """Every attempt at the document, newest first, and its review item."""
    served = served_documents(request)
    document = await find_document(served, id)
    return answer(DocumentAttempts(attempts=await _attempts(served, id), review=await _review(served, document)))


@router.get(
    "/api/documents/{id}/outputs/{kind}", responses=OUTPUT, response_class=Response, summary="Download a result"
)
async def output(request: Request, id: str, kind: Literal["json", "parquet"]) -> Response:  # noqa: A002
    """The stored result as a download."""
    served = served_documents(request)
    document = await find_document(served, id)
    path, digest = document["outputs"][kind], document["hashes"][kind]
    if path is None:
        raise Problem(404, "not_found", Message("documents_api.no_output_yet", kind=kind), field="kind")
    tag = f'"{digest}"'
    name = f"{PurePath(document['name']).stem or 'document'}.{kind}"
    headers = STRANGE | {"ETag": tag, "Content-Disposition": disposition(name)}
    if is_not_modified(request, tag):
        return Response(status_code=304, headers=headers)
    try:
        content = await served.settings.lake.get(path)
    except NoSuchLakeFile:
        raise Problem(
            404, "file_gone", Message("documents_api.result_gone"), fix=Message("documents_api.fix_read_again")
        ) from None
    return Response(content, headers=headers, media_type=MEDIA[kind])


async def _attempts(served: ServedDocuments, id: str) -> list[Attempt]:  # noqa: A002
    d = served.store.dialect
    queues = [*reading_queue_names(served.settings), FOLLOWERS]
    marks = ", ".join(f"${place}" for place in range(2, len(queues) + 2))
    times = ", ".join(
        f"{sql.epoch(column, d)} AS {column}" for column in ("claimed_at", "lease_until", "settled_at", "retry_at")
    )
    rows = await served.store.database.fetch(
        f"""SELECT queue, attempt, worker, outcome, error, note, note_form, cost, {times} FROM tabellion_attempts AS a
WHERE key = $1 AND queue IN ({marks}) ORDER BY a.claimed_at DESC, n DESC LIMIT {MOST}""",
        id, *queues,
    )  # fmt: skip
    return [
        {
            "queue": row["queue"], "attempt": row["attempt"], "worker": row["worker"], "outcome": row["outcome"],
            "error": problem(row["error"], row["attempt"]), "note": row["note"],
            "translatable": _note_form(row), "cost": row["cost"],
            "claimed_at": iso(row["claimed_at"]), "lease_until": iso(row["lease_until"]),
            "settled_at": iso(row["settled_at"]), "retry_at": iso(row["retry_at"]),
        }
        for row in rows
    ]  # fmt: skip


def _note_form(row: Any) -> Translatable | None:
    """The form of the note, for translation, while the attempt is in progress."""
    form = load_form(row["note_form"]) if row["settled_at"] is None else None
    return {"note": form} if form else None


async def _review(served: ServedDocuments, document: Document) -> ReviewOf | None:
    """The review item; a duplicate has that of its original."""
    rows: list[ReviewOf] = await served.store.database.fetch(
        items.of_document("id, status, reviewer, assigned_to"), document["duplicate_of"] or document["id"]
    )
    return {**rows[0], "url": f"/review/{rows[0]['id']}"} if rows else None
