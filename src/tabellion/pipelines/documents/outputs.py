"""The outputs of a document that was read: JSON with everything, Parquet with typed columns, and their paths."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tabellion.pipelines.documents import columns
from tabellion.pipelines.documents.columns import moment
from tabellion.pipelines.documents.review.queue import REVIEWED
from tabellion.reading.types.doctype import DocumentType, Output
from tabellion.storage import files
from tabellion.storage.lake import Lake

#: A document for its outputs: a row of `documents`, with the reading as JSON or a dict in `result`, or with its own
#: `fields`, `issues`, `notes` and `page_details`, which take precedence: they include corrections.
Document = Mapping[str, Any]


#: The type of a document that matches no type: it has text but no fields, and goes to review.
UNKNOWN = DocumentType(name="unknown", version="1", fields=())


@dataclass(frozen=True, slots=True)
class Written:
    """The outputs that were written, as columns of the document."""

    json_path: str | None = None
    json_sha256: str | None = None
    parquet_path: str | None = None
    parquet_sha256: str | None = None


def serialize_document(document: Document, doctype: DocumentType | None = None) -> dict[str, Any]:
    """Everything known about a document, always in the same order."""
    result = document.get("result") or {}
    if isinstance(result, str | bytes):
        result = json.loads(result)
    fields = document["fields"] if document.get("fields") is not None else result.get("fields") or {}
    kind = doctype.name if doctype else document.get("found_type") or document.get("type") or result.get("type")
    return {
        "id": document["id"],
        "name": document.get("name"),
        "sha256": document.get("sha256"),
        "type": kind,
        "type_version": doctype.version if doctype else document.get("type_version") or _version(document, kind),
        "model": document.get("model"),
        "verdict": document.get("verdict") or result.get("verdict"),
        "created_at": moment(document["created_at"]).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "version": int(document.get("version") or 1),
        "review": document.get("review"),
        "reviewed": document.get("review") in REVIEWED,
        "locked": [name for name, field in fields.items() if field.get("locked")],
        "fields": fields,
        "issues": document.get("issues") if document.get("issues") is not None else result.get("issues") or [],
        "pages": document.get("page_details") or result.get("pages") or [],
        "notes": document.get("notes") or result.get("notes") or [],
        "cost": document.get("cost") if document.get("cost") is not None else result.get("cost"),
    }


def _version(document: Document, kind: str | None) -> str | None:
    """The version in `type_key`, if it is of the document's own type."""
    name, _, rest = str(document.get("type_key") or "").partition("/")
    version, slash, _ = rest.rpartition("/")
    return version if slash and name == kind else None


def json_bytes(document: Document, doctype: DocumentType | None = None) -> bytes:
    """The document as one line of JSON, in UTF-8; the same bytes for the same document."""
    return json_line(serialize_document(document, doctype))


def json_line(value: Any) -> bytes:
    """A value as one line of JSON that every parser accepts: no NaN, no lone surrogates."""
    try:
        encoded = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        encoded = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return encoded.encode("utf-8", "replace") + b"\n"


def parquet_bytes(document: Document, doctype: DocumentType) -> bytes:
    """The document as a Parquet file of one row; the same bytes for the same document."""
    pa = columns.arrow()
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    table = columns.columns_of(doctype).table([serialize_document(document, doctype)])
    sink = pa.BufferOutputStream()
    # Dictionaries and statistics only make a file of one row larger.
    pq.write_table(
        table, sink, compression=doctype.output.compression,
        use_dictionary=False, write_statistics=False, store_schema=False,
    )  # fmt: skip
    return bytes(sink.getvalue())


def paths(
    doctype: DocumentType,
    id: str,  # noqa: A002 - the column's name
    created_at: datetime | float | str,
    *,
    sha256: str = "",
) -> tuple[str | None, str | None]:
    """The paths of a document's JSON and Parquet in the lake, by its type's templates; None if it is not written."""
    day = moment(created_at)
    values = {
        "yyyy": f"{day:%Y}", "mm": f"{day:%m}", "dd": f"{day:%d}", "id": id, "type": doctype.name,
        "version": re.sub(r"[^A-Za-z0-9._-]|^\.", "_", doctype.version) or "_", "sha256": sha256,
    }  # fmt: skip
    if not sha256 and "{sha256}" in f"{doctype.output.json}{doctype.output.parquet}":
        raise ValueError(f"the templates of {doctype.name} have {{sha256}}: say which")
    json_path, parquet_path = (
        None if template is None else Output.fill_template(template, **values)
        for template in (doctype.output.json, doctype.output.parquet)
    )
    return json_path, parquet_path


def possible_paths(types: Iterable[DocumentType], document: Mapping[str, Any]) -> list[str]:
    """All paths to which an attempt may have written outputs of this document: one that died left no record."""
    found: set[str | None] = set()
    for doctype in (*types, UNKNOWN):
        found.update(paths(doctype, document["id"], document["created_at"], sha256=document["sha256"]))
    return sorted(path for path in found if path is not None)


async def write(lake: Lake, document: Document, doctype: DocumentType) -> Written:
    """Writes both outputs; when it returns they are complete and durable, and their hashes can be stored."""
    locations = paths(doctype, document["id"], document["created_at"], sha256=document.get("sha256") or "")
    contents = await files.in_thread(_render_outputs, document, doctype, locations)
    hashes = await asyncio.gather(*(_put(lake, path, data) for path, data in zip(locations, contents, strict=True)))
    return Written(locations[0], hashes[0], locations[1], hashes[1])


def _render_outputs(
    document: Document, doctype: DocumentType, locations: tuple[str | None, str | None]
) -> tuple[bytes | None, bytes | None]:
    return (
        None if locations[0] is None else json_bytes(document, doctype),
        None if locations[1] is None else parquet_bytes(document, doctype),
    )


async def _put(lake: Lake, path: str | None, data: bytes | None) -> str | None:
    return None if path is None or data is None else await lake.put(path, data)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
