"""A row of `extraction_queue`, as the database returns it."""

from __future__ import annotations

from typing import Any, TypedDict


class ExtractionRow(TypedDict, total=False):
    """The columns that `migrate` creates; a table made by hand may lack some and have others."""

    id: Any  #: a UUID as text; in tables made by hand also a UUID or a number
    status_id: int
    document_type: str  #: index, actes, plans_cadastraux
    document_number: str | None  #: of the deed or plan
    lot: str | None
    cadastre: str | None
    circonscription: str | None
    designation_secondaire: str | None
    worker_id: str | None
    processing_started_at: Any
    error_message: str | None
    storage_path: str | None  #: the address of its file: see `storage`
    ocr_worker_id: str | None
    ocr_started_at: Any
    ocr_attempts: int
    ocr_max_attempts: int
    ocr_error: str | None
    ocr_text: str | None  #: all pages, separated by form feeds
    ocr_metadata: Any  #: JSON: see `metadata`
    created_at: Any
    updated_at: Any


class _Added(TypedDict):
    note: str | None  #: the progress of its worker
    forms: dict[str, Any]  #: for translation, of `note` and of columns with errors


class FoundExtraction(ExtractionRow, _Added, total=False):
    """A row as it is listed: columns with inputs by their usual names, times in seconds since 1970."""

    file_address: str | None
    has_text: int  #: 0 or 1; only without `text`
    text: str | None
    metadata: str | None  #: JSON
