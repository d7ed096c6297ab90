"""/api/extractions: list and get extractions, their texts, files and page images; submit a file for OCR."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Annotated, Any, Literal, NotRequired

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from tabellion.answers import Answer, Doc
from tabellion.errors import StoreError, ValueRefused
from tabellion.extractions.columns import INPUTS
from tabellion.extractions.lookup import format_times, load_metadata
from tabellion.extractions.row import FoundExtraction
from tabellion.extractions.row_values import TextTooLong
from tabellion.extractions.served import ServedExtractions, served_extractions
from tabellion.extractions.states import ExtractionStatus
from tabellion.messages import Message, Translatable
from tabellion.net.guard import Blocked, HostUnreachable, vet_url
from tabellion.reading.errors import Unreadable
from tabellion.reading.sniff import TAIL, sniff
from tabellion.web import cursors
from tabellion.web.answers import answer
from tabellion.web.incoming import MEDIA, RAW, judge, write_chunk
from tabellion.web.limits import chunks
from tabellion.web.openapi import schema_of
from tabellion.web.page_images import PICTURE, Width, rotation_of
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded
from tabellion.web.serving import BINARY, STRANGE, disposition, file_answer, file_responses
from tabellion.web.validation import Strict, Whole, build_media_problem, media_of, parse_body

router = APIRouter(route_class=Guarded, tags=["extractions"])
StatusName = Literal["EN_ATTENTE", "EN_TRAITEMENT", "COMPLETE", "ERREUR", "EXTRACTION_COMPLETE", "OCR_PROCESSING"]
Word = Annotated[str, Field(min_length=1, max_length=100)]
EXPECTED = "the file itself (application/pdf, …), or application/json with `url`"


class Extraction(Answer):
    """One row of the extraction queue."""

    id: str
    status: Annotated[StatusName | str, Doc("The name of its status.")]
    status_id: int
    document_type: str | None
    inputs: Annotated[dict[str, str], Doc("What was searched for.")]
    worker: Annotated[str | None, Doc("The worker that has it, or had it last.")]
    note: Annotated[str | None, Doc("The progress of its worker.")]
    error_message: Annotated[str | None, Doc("Why its extraction failed, last.")]
    ocr_error: Annotated[str | None, Doc("Why reading its text failed, last.")]
    ocr_attempts: int | None
    ocr_max_attempts: int | None
    pages: Annotated[int | None, Doc("How many pages were read.")]
    has_file: bool
    has_text: bool
    created_at: str | None
    updated_at: str | None
    processing_started_at: str | None
    ocr_started_at: str | None
    status_url: str
    translatable: NotRequired[Translatable]


class ExtractionDetail(Extraction):
    """An extraction with how its text was made."""

    metadata: Annotated[dict[str, Any] | None, Doc("Pages, model, cost and confidence; null if unknown.")]


class Extractions(Answer):
    """One page of a list, newest first."""

    extractions: list[Extraction]
    next: Annotated[str | None, Doc("The cursor of the next page; null: this is the last page.")]


class ExtractionText(Answer):
    """The text of an extraction."""

    id: str
    text: Annotated[str, Doc("All pages, separated by form feeds.")]
    pages: Annotated[list[str], Doc("The text of each page.")]


class ExtractionAccepted(Answer):
    """A file that will be read."""

    id: str
    status: StatusName
    status_url: str


class OcrRequest(Strict):
    """A file to be read."""

    url: str = Field(min_length=1, max_length=2048, description="The URL of the file; http or https, public.")
    document_type: Word | None = Field(default=None, description="What kind of document it is.")
    document_number: Word | None = Field(default=None, description="Its number.")


def _body() -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": schema_of(OcrRequest)}}
    return {"requestBody": {"required": True, "content": content | dict.fromkeys(RAW, BINARY)}}


def status_url(id: str) -> str:  # noqa: A002
    """The URL of an extraction in the API."""
    return f"/api/extractions/{id}"


def brief(row: FoundExtraction) -> Extraction:
    """A row in the format of the API."""
    about = load_metadata(row) or {}
    pages = about.get("pages")
    times = format_times(row)
    in_ocr = row["status_id"] > ExtractionStatus.EN_TRAITEMENT
    extraction: Extraction = {
        "id": row["id"], "status": status_name(row["status_id"]), "status_id": row["status_id"],
        "document_type": row.get("document_type"),
        "inputs": {name: str(value) for name, value in row.items() if name in INPUTS and value},
        "worker": (in_ocr and row.get("ocr_worker_id")) or row.get("worker_id"), "note": row["note"],
        "error_message": row.get("error_message"), "ocr_error": row.get("ocr_error"),
        "ocr_attempts": row.get("ocr_attempts"), "ocr_max_attempts": row.get("ocr_max_attempts"),
        "pages": len(pages) if isinstance(pages, list) else None, "has_file": bool(row.get("file_address")),
        "has_text": bool(row.get("has_text") or row.get("text")),
        "created_at": times["created_at"], "updated_at": times["updated_at"],
        "processing_started_at": times["processing_started_at"], "ocr_started_at": times["ocr_started_at"],
        "status_url": status_url(row["id"]),
    }  # fmt: skip
    if row["forms"]:
        extraction["translatable"] = row["forms"]
    return extraction


def status_name(number: int) -> str:
    """The name of a status; an unknown number as it is."""
    try:
        return ExtractionStatus(number).name
    except ValueError:
        return str(number)


async def find_extraction(served: ServedExtractions, id: str, *, text: bool = False) -> FoundExtraction:  # noqa: A002
    """A row of this environment; raises a 404 problem if there is none."""
    row = await (await served.table()).get(id, text=text)
    if row is None:
        raise Problem(404, "not_found", Message("extractions_api.not_found"), field="id")
    return row


@router.get("/api/extractions", response_model=Extractions, summary="List extractions")
async def list_extractions(
    request: Request,
    status: Annotated[StatusName | None, Query(description="Only those with this status.")] = None,
    type: Annotated[Word | None, Query(description="Only those of this document type.")] = None,  # noqa: A002
    cursor: Annotated[str | None, Query(description="The `next` value of the previous page.")] = None,
    limit: Annotated[Whole, Query(ge=1, le=200, description="Extractions per page.")] = 50,
) -> Response:
    """Extractions without their texts, newest first."""
    served = served_extractions(request)
    number = ExtractionStatus[status].value if status is not None else None
    filters = {name: value for name, value in (("status_id", number), ("document_type", type)) if value is not None}
    question = {name: str(value) for name, value in filters.items()}
    key = await cursors.signing_key(request)
    start = cursors.place(key, served.name, question, cursor) if cursor is not None else None
    rows, following = await (await served.table()).list_rows(filters, start, limit)
    onward = cursors.make_cursor(key, served.name, question, following) if following else None
    return answer(Extractions(extractions=[brief(row) for row in rows], next=onward))


@router.post(
    "/api/extractions/ocr", status_code=202, response_model=ExtractionAccepted, openapi_extra=_body(),
    summary="Submit a file to be read",
)  # fmt: skip
async def submit(
    request: Request,
    name: Annotated[str | None, Query(max_length=1000, description="The file's name, for a plain body.")] = None,
    document_type: Annotated[Word | None, Query(description="What kind of document it is, for a plain body.")] = None,
    document_number: Annotated[Word | None, Query(description="Its number, for a plain body.")] = None,
) -> Response:
    """Queues a file for OCR: the body itself, or a URL that a worker fetches."""
    served, media = served_extractions(request), media_of(request)
    table = await served.table()
    if table.columns is None:
        raise Problem(409, "queue_unusable", Message("extractions_api.columns_unknown"),
                      fix=Message("extractions_api.fix_columns"))  # fmt: skip
    inputs = {"document_type": document_type, "document_number": document_number}
    is_new = False
    if media == "application/json":
        body = await parse_body(request, OcrRequest, request.app.state.limits)
        inputs |= {"document_type": body.document_type, "document_number": body.document_number}
        address = await _vet(request, body.url)
    elif media in RAW:
        address, is_new = await _receive(request, served, media, name or "")
    else:
        raise build_media_problem(media, EXPECTED)
    try:
        id_ = await table.insert(
            {"status_id": int(ExtractionStatus.COMPLETE), table.columns.address: address, **inputs}
        )
    except (StoreError, TextTooLong) as error:
        if is_new and not await table.has_file(address):
            await served.files.remove(address)
        if isinstance(error, TextTooLong):
            field = f"/{error.field}" if media == "application/json" else error.field
            raise too_long(error, field) from None
        if not error.rule and not isinstance(error, ValueRefused):
            raise
        raise row_refused(error) from None
    accepted = ExtractionAccepted(id=id_, status="COMPLETE", status_url=status_url(id_))
    return answer(accepted, 202, {"Location": accepted["status_url"]})


async def _vet(request: Request, url: str) -> str:
    try:
        await vet_url(url, request.app.state.rules)
    except Blocked as error:
        raise Problem(
            422, "url_blocked", str(error), field="/url", reason=error.reason,
            fix=Message("fix.public_url_or_upload"),
        ) from None  # fmt: skip
    except HostUnreachable as error:
        raise Problem(
            422, "url_failed", str(error), field="/url",
            fix=Message("fix.check_host_or_upload"),
        ) from None  # fmt: skip
    return url


def too_long(error: TextTooLong, field: str) -> Problem:
    """The problem of a text that is longer than its column."""
    return Problem(
        422, "value_invalid", str(error), field=field, expected=Message("expected.max_length", n=error.limit)
    )


def row_refused(error: StoreError) -> Problem:
    """The problem of a row that the table does not accept."""
    detail = Message("problem.row_refused", text=error.words)
    return Problem(409, "queue_unusable", detail, fix=Message("fix.table_requires"))


async def _receive(request: Request, served: ServedExtractions, media: str, name: str) -> tuple[str, bool]:
    """Stores the request's body; returns its address, and whether no such file was stored before."""
    limits = request.app.state.limits
    async with served.uploads.receive(limits.upload_bytes, name=name, media=media) as sink:
        async for chunk in chunks(request, limits, limits.upload_bytes, "file"):
            await write_chunk(sink, chunk, "")
        judge(sink, "", await sink.tail(TAIL))
    try:
        return await served.files.save_new(sink.blob.path, sink.name)
    finally:
        await served.uploads.remove(sink.blob.sha256)


@router.get("/api/extractions/{id}", response_model=ExtractionDetail, summary="Get an extraction")
async def show(request: Request, id: str) -> Response:  # noqa: A002
    """An extraction with everything but its text."""
    row = await find_extraction(served_extractions(request), id)
    return answer(ExtractionDetail(**brief(row), metadata=load_metadata(row)))


@router.get("/api/extractions/{id}/text", response_model=ExtractionText, summary="Get the text of an extraction")
async def text(request: Request, id: str) -> Response:  # noqa: A002
    """The text, also page by page."""
    row = await find_extraction(served_extractions(request), id, text=True)
    if (body := row.get("text")) is None:
        raise Problem(404, "not_found", Message("extractions_api.no_text"), field="id")
    return answer(ExtractionText(id=row["id"], text=body, pages=str(body).split("\f")))


@router.get(
    "/api/extractions/{id}/file", responses=file_responses(), response_class=Response,
    summary="Download the extracted file",
)  # fmt: skip
async def file(request: Request, id: str) -> Response:  # noqa: A002
    """The file as a download; `Range` requests a part of it."""
    served = served_extractions(request)
    row = await find_extraction(served, id)
    path, name = await _open(served, row)
    with path.open("rb") as opened:
        head = opened.read(4096)
    try:
        kind = sniff(head)
        media, ending = MEDIA[kind], f".{kind.value}"
    except Unreadable:
        media, ending = "application/octet-stream", FilePath(str(row["file_address"])).suffix[:10]
    headers = STRANGE | {"Content-Disposition": disposition(f"{row.get('document_number') or row['id']}{ending}")}
    return file_answer(request, path, f'"{name}"', media, headers)


@router.get(
    "/api/extractions/{id}/pages/{number}.png", responses=PICTURE, response_class=Response,
    summary="Get a page of the extracted file as an image",
)  # fmt: skip
async def page(
    request: Request,
    id: str,  # noqa: A002
    number: Annotated[Whole, Path(ge=1, le=100_000, description="The page number, starting at 1.")],
    width: Width = 1200,
) -> Response:
    """A page as a PNG, rotated upright."""
    served = served_extractions(request)
    row = await find_extraction(served, id)
    pages = (load_metadata(row) or {}).get("pages")
    turned = rotation_of(pages if isinstance(pages, list) else [], number)
    path, name = await _open(served, row)
    return await served.pictures.answer(request, path, name, number, width, turned)


async def _open(served: ServedExtractions, row: FoundExtraction) -> tuple[FilePath, str]:
    if not row.get("file_address"):
        raise Problem(404, "file_gone", Message("extractions_api.no_file"), field="id")
    about = load_metadata(row) or {}
    return await served.open_file(str(row["file_address"]), str(about.get("sha256") or ""))
