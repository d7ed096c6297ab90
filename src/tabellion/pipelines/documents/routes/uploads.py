"""POST /api/documents: a form, a plain body or a URL; files are written to disk as they arrive, then checked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from tabellion.answers import Answer, Doc
from tabellion.delivery import endpoints
from tabellion.messages import Message, Translatable, translatable
from tabellion.net.fetching import FetchFailed, fetch, file_name
from tabellion.net.guard import Blocked, Rules
from tabellion.pipelines.documents.routes.documents import REPLAYED, Word, broken_type, status_url, unknown_value
from tabellion.pipelines.documents.row import Status
from tabellion.pipelines.documents.served import ServedDocuments, served_documents
from tabellion.pipelines.documents.settings import Unknown
from tabellion.pipelines.documents.states import TABLE
from tabellion.pipelines.documents.submit import AlreadyThere, FileGone, submit
from tabellion.reading.sniff import TAIL
from tabellion.reading.types.yamlnode import TypeFileError
from tabellion.storage.blobs import Blobs, Sink, StoredBlob
from tabellion.web import idempotency
from tabellion.web.answers import answer
from tabellion.web.incoming import RAW, SILENT, judge, write_chunk
from tabellion.web.limits import RequestLimits, chunks, too_large
from tabellion.web.multipart import End, FormPart, boundary_of, events
from tabellion.web.openapi import schema_of
from tabellion.web.problems import Problem
from tabellion.web.request_traces import trace_row
from tabellion.web.routing import Guarded
from tabellion.web.validation import Strict, build_media_problem, media_of, parse_body

router = APIRouter(route_class=Guarded, tags=["documents"])
FIELDS = ("file", "type", "model", "webhook")
LONGEST_OPTION = 100  #: characters of an option
EXPECTED = "multipart/form-data with `file`, the file itself (application/pdf, …), or application/json with `url`"


class FromUrl(Strict):
    """A document to fetch."""

    url: str = Field(min_length=1, max_length=2048, description="The URL of the document; http or https, public.")
    name: str | None = Field(default=None, max_length=1000, description="Its file name.")
    type: str | None = Field(default=None, max_length=100, description="The document type; default: detected.")
    model: str | None = Field(default=None, max_length=100, description="The model to read with; `local`: none.")
    webhook: str | None = Field(
        default=None, max_length=100, description="The webhook endpoint to notify when it ends."
    )


def _upload() -> dict[str, Any]:
    binary = {"type": "string", "format": "binary"}
    text = {"type": "string", "minLength": 1, "maxLength": LONGEST_OPTION}
    form = {
        "type": "object", "required": ["file"], "additionalProperties": False,
        "properties": {
            "file": {"type": "array", "items": binary, "minItems": 1, "maxItems": 100},
            "type": text, "model": text, "webhook": text,
        },
    }  # fmt: skip
    content: dict[str, Any] = {
        "multipart/form-data": {"schema": form},
        "application/json": {"schema": schema_of(FromUrl)},
        **{media: {"schema": binary} for media in RAW},
    }
    return {"requestBody": {"required": True, "content": content}}


UPLOAD = _upload()


class UploadedFile(Answer):
    """The outcome of one uploaded file."""

    id: Annotated[str | None, Doc("The id of the document; null if the file was rejected.")]
    status: Status | Literal["rejected"]
    status_url: Annotated[str | None, Doc("The URL of the document; for a rejected duplicate, of the original.")]
    name: str
    duplicate_of: Annotated[str | None, Doc("The document that has the same file.")]
    reason: NotRequired[Annotated[Literal["duplicate_rejected", "file_gone"], Doc("Why it was rejected.")]]
    detail: NotRequired[Annotated[str, Doc("Why it was rejected, as a sentence.")]]
    translatable: NotRequired[Translatable]


class UploadResult(Answer):
    """The documents of one upload, in the order of the files."""

    documents: list[UploadedFile]


@dataclass(slots=True)
class Upload:
    """The contents of one request: files that are on disk but not yet stored, and the options sent with them."""

    sinks: list[Sink] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    link: FromUrl | None = None  #: where the file is, if it must still be fetched

    async def settle(self) -> list[StoredBlob]:
        """Stores every file."""
        return [await sink.finish() for sink in self.sinks]


@router.post(
    "/api/documents", status_code=202, openapi_extra=UPLOAD, response_model=UploadResult,
    summary="Upload documents",
)  # fmt: skip
async def upload(
    request: Request,
    name: Annotated[str | None, Query(max_length=1000, description="The file's name, for a plain body.")] = None,
    type: Annotated[Word | None, Query(description="The document type, for a plain body.")] = None,  # noqa: A002
    model: Annotated[Word | None, Query(description="The model, for a plain body.")] = None,
    webhook: Annotated[Word | None, Query(description="The webhook endpoint, for a plain body.")] = None,
) -> Response:
    """Uploads documents; each is read as soon as a worker is free. The response contains their URLs.

    Of several files, some may be `rejected`: a type with the policy `reject` rejects duplicates. Each rejected file
    is reported separately, and the others are accepted. The status is 409 only if all files are rejected.
    """
    served = served_documents(request)
    key = idempotency.key_of(request.headers.get(idempotency.HEADER))
    query = {"name": name, "type": type, "model": model, "webhook": webhook}
    options = {option: value for option, value in query.items() if value is not None}
    state = request.app.state
    async with _receive(request, served.blobs, state.limits, options) as received:
        _check(served, received)
        await _check_webhook(served, received.options.get("webhook"))
        blobs = await received.settle()
        parts: list[Any] = [
            "POST /api/documents",
            sorted(received.options.items()),
            [[blob.sha256, blob.name] for blob in blobs],
        ]
        if received.link is not None:
            parts.append([received.link.url, received.link.name])
        async with idempotency.reserve_key(
            served.store, request.state.holder.id, key, idempotency.fingerprint(parts), state.limits.fetch_seconds
        ) as reservation:
            if reservation.answer is not None:
                return answer(reservation.answer, 202, {REPLAYED: "true"})
            await _fetch_link(received, served.blobs, state.limits, state.rules)
            blobs = await received.settle()
            taken: list[UploadedFile] = []
            for blob in blobs:
                taken.append(await _submit_file(served, received, blob))
                if (id_ := taken[-1]["id"]) is not None:
                    trace_row(request, TABLE, id_, created=True)
            if all(result["status"] == "rejected" for result in taken):
                raise _build_rejection(taken)
            reservation.given = {"documents": taken}
    address = taken[0]["status_url"] if len(taken) == 1 else None
    return answer(UploadResult(documents=taken), 202, {"Location": address} if address else None)


def _check(served: ServedDocuments, received: Upload) -> None:
    """Rejects an unknown type or model before anything is stored."""
    for name, value in received.options.items():
        if not value or len(value) > LONGEST_OPTION:
            raise Problem(422, "value_invalid", Message("problem.value"), field=f"/{name}",
                          expected=Message("upload.expected_option", n=LONGEST_OPTION),
                          fix=Message("upload.fix_option"))  # fmt: skip
    try:
        kind = received.options.get("type")
        served.settings.choose_model(received.options.get("model"), served.settings.types.get(kind) if kind else None)
    except Unknown as error:
        raise unknown_value(error) from None
    except TypeFileError as error:
        raise broken_type(error) from None


async def _check_webhook(served: ServedDocuments, id: str | None) -> None:  # noqa: A002
    if id is None:
        return
    await endpoints.SCHEMA.prepare(served.store)
    if id not in {endpoint["id"] for endpoint in await endpoints.list_endpoints(served.store)}:
        raise Problem(422, "value_invalid", Message("upload.no_such_webhook"), field="/webhook",
                      expected=Message("upload.expected_webhook"), fix=Message("upload.fix_webhook"))  # fmt: skip


async def _submit_file(served: ServedDocuments, received: Upload, blob: Any) -> UploadedFile:
    """The outcome of one file; a rejected one has the reason, and does not affect the others."""
    options = received.options
    try:
        submitted = await submit(
            served.store, served.settings, blob, type=options.get("type"), model=options.get("model"),
            webhook=options.get("webhook"),
        )  # fmt: skip
    except AlreadyThere as error:
        return {
            "id": None, "status": "rejected", "status_url": status_url(error.original), "name": blob.name,
            "duplicate_of": error.original, "reason": "duplicate_rejected", "detail": str(error),
            **translatable(detail=str(error)),
        }  # fmt: skip
    except FileGone:
        gone = Message("upload.deleted_meanwhile")
        return {
            "id": None, "status": "rejected", "status_url": None, "name": blob.name, "duplicate_of": None,
            "reason": "file_gone", "detail": gone, **translatable(detail=gone),
        }  # fmt: skip
    return {
        "id": submitted.id, "status": submitted.status, "status_url": status_url(submitted.id), "name": blob.name,
        "duplicate_of": submitted.duplicate_of,
    }  # fmt: skip


def _build_rejection(documents: list[UploadedFile]) -> Problem:
    """The problem if every file was rejected: the first file's reason, and all files with their own."""
    first, reason = documents[0], documents[0].get("reason", "file_gone")
    fix = Message("upload.fix_again") if reason == "file_gone" else Message("upload.fix_original")
    return Problem(
        409, reason, first.get("detail", ""), original=first["duplicate_of"], original_url=first["status_url"],
        documents=documents if len(documents) > 1 else None, fix=fix,
    )  # fmt: skip


@asynccontextmanager
async def _receive(
    request: Request, blobs: Blobs, limits: RequestLimits, query: dict[str, str]
) -> AsyncIterator[Upload]:
    """The request's files, checked, or the link to one; if the block raises, nothing of them stays."""
    upload = Upload()
    media = media_of(request)
    try:
        if media == "multipart/form-data":
            if query:
                name = next(iter(query))
                raise Problem(422, "value_unknown", Message("upload.belongs_in_form"), field=name,
                              fix=Message("upload.fix_form_field", name=name))  # fmt: skip
            await _form(request, blobs, limits, upload)
        elif media == "application/json":
            await _parse_link(request, limits, upload, query)
        elif media in RAW:
            await _raw(request, blobs, limits, upload, media, query)
        else:
            raise build_media_problem(media, EXPECTED)
        await _judge_files(upload)
        yield upload
    finally:
        for sink in upload.sinks:
            await sink.discard()


async def _judge_files(upload: Upload) -> None:
    for place, sink in enumerate(upload.sinks):
        judge(sink, f"/file/{place}" if len(upload.sinks) > 1 else "/file", await sink.tail(TAIL))


async def _form(request: Request, blobs: Blobs, limits: RequestLimits, upload: Upload) -> None:
    boundary = boundary_of(request.headers["content-type"])
    stream = chunks(request, limits, limits.request_bytes, "request")
    part: FormPart | None = None
    text = bytearray()
    async for event in events(stream, boundary, limits.parts):
        if isinstance(event, FormPart):
            if upload.sinks and event.file is not None:
                await upload.sinks[-1].suspend()
            part = event
            text.clear()
            _begin(part, blobs, limits, upload)
        elif isinstance(event, End):
            if part is not None and part.file is None:
                upload.options[part.name] = _field(part.name, bytes(text))
        elif part is not None and part.file is None:
            text += event
            if len(text) > limits.field_bytes:
                raise too_large(limits.field_bytes, None, "form_field", f"/{part.name}")
        else:
            await write_chunk(upload.sinks[-1], event, "/file")
    if not upload.sinks:
        raise Problem(422, "value_missing", Message("upload.no_file"), field="/file",
                      fix=Message("upload.fix_file_field"))  # fmt: skip


def _begin(part: FormPart, blobs: Blobs, limits: RequestLimits, upload: Upload) -> None:
    if part.name not in FIELDS:
        raise Problem(
            422, "value_unknown", Message("upload.field_unknown"), field=f"/{part.name[:100]}",
            fix=Message("upload.fix_fields", names=FIELDS),
        )  # fmt: skip
    if (part.file is None) == (part.name == "file"):
        is_file = part.name == "file"
        raise Problem(
            422, "value_invalid", Message("upload.field_wrong_kind"), field=f"/{part.name}",
            expected=Message("upload.expected_file" if is_file else "upload.expected_value"),
            fix=Message("upload.fix_send_file" if is_file else "upload.fix_send_value"),
        )  # fmt: skip
    if part.file is None:
        if part.name in upload.options:
            raise Problem(422, "value_repeated", Message("upload.field_repeated"), field=f"/{part.name}",
                          fix=Message("fix.send_once"))  # fmt: skip
        return
    if len(upload.sinks) >= limits.files:
        raise Problem(413, "too_many_parts", Message("upload.too_many_files", n=limits.files), field="/file",
                      limit=limits.files)  # fmt: skip
    upload.sinks.append(blobs.receive(limits.upload_bytes, name=part.file, media=part.media))


def _field(name: str, raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise Problem(
            422,
            "value_invalid",
            Message("upload.field_not_utf8"),
            field=f"/{name}",
            expected=Message("upload.expected_utf8"),
        ) from None
    if "\x00" in text:
        raise Problem(400, "text_nul", field=f"/{name}")
    return text


async def _raw(
    request: Request, blobs: Blobs, limits: RequestLimits, upload: Upload, media: str, query: dict[str, str]
) -> None:
    name = query.pop("name", "") or file_name(request.headers.get("content-disposition", ""))
    upload.options |= query
    sink = blobs.receive(limits.upload_bytes, name=name, media=media)
    upload.sinks.append(sink)
    async for chunk in chunks(request, limits, limits.upload_bytes, "file"):
        await write_chunk(sink, chunk, "")


async def _parse_link(request: Request, limits: RequestLimits, upload: Upload, query: dict[str, str]) -> None:
    link = upload.link = await parse_body(request, FromUrl, limits)
    if query:
        name = next(iter(query))
        raise Problem(422, "value_unknown", Message("upload.belongs_in_body"), field=name,
                      fix=Message("upload.fix_body_field", name=name))  # fmt: skip
    upload.options |= {
        name: value for name in ("type", "model", "webhook") if (value := getattr(link, name)) is not None
    }


async def _fetch_link(upload: Upload, blobs: Blobs, limits: RequestLimits, rules: Rules) -> None:
    """Fetches the file that the request links to, and checks it."""
    link = upload.link
    if link is None:
        return
    try:
        async with fetch(
            link.url, rules, limit=limits.upload_bytes, deadline=limits.fetch_seconds, media={*RAW, *SILENT}
        ) as response:
            sink = blobs.receive(limits.upload_bytes, name=link.name or response.name, media=response.media)
            upload.sinks.append(sink)
            async for chunk in response.chunks:
                await write_chunk(sink, chunk, "/url")
    except Blocked as error:
        raise Problem(
            422, "url_blocked", str(error), field="/url", reason=error.reason,
            fix=Message("fix.public_url_or_upload"),
        ) from None  # fmt: skip
    except FetchFailed as error:
        if error.code == "too_large":
            raise too_large(limits.upload_bytes, None, "file", "/url") from None
        if error.code == "url_type":
            raise Problem(415, "type_unsupported", str(error), field="/url", fix=Message("upload.fix_link")) from None
        raise Problem(422, "url_failed", str(error), field="/url", fix=Message("upload.fix_file_itself")) from None
    await _judge_files(upload)
