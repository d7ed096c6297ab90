"""A row of `extraction_queue`, as the database returns it."""

from __future__ import annotations

from typing import Any, TypedDict


class ExtractionRow(TypedDict, total=False):
    """The columns of the table as `migrate` makes it; one made by hand may lack some, and have others."""

    id: Any  #: a UUID as text; in tables made by hand also a UUID, a number
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
    ocr_text: str | None  #: page after page, with a form feed between two
    ocr_metadata: Any  #: JSON: see `metadata`
    created_at: Any
    updated_at: Any
