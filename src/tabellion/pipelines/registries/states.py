"""The states of companies and rights: the words that other programs use in these tables."""

from __future__ import annotations

from enum import StrEnum

from tabellion.engine.queue import QueueStates
from tabellion.extractions.states import ExtractionStatus


class SessionStatus(StrEnum):
    """The values of `search_sessions.status`."""

    PENDING_COMPANY_SELECTION = "pending_company_selection"  #: waiting for a worker while `req_completed` is false
    SCRAPING_COMPANY_DATA = "scraping_company_data"  #: the enterprise register is being searched
    PENDING_NAME_SELECTION = "pending_name_selection"  #: waiting for a person to choose names
    FAILED = "failed"


class RightsStatus(StrEnum):
    """The values of `rdprm_searches.status`."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


#: OCR fails into ERREUR too, with a text in `ocr_error`. Extraction empties it: the text is about an earlier file, and
#: the row would be counted and retried as OCR's.
EXTRACTION: QueueStates = {
    "ready": ExtractionStatus.EN_ATTENTE, "running": ExtractionStatus.EN_TRAITEMENT,
    "done": ExtractionStatus.COMPLETE, "failed": {"status_id": ExtractionStatus.ERREUR, "ocr_error": None},
}  # fmt: skip
COMPANIES: QueueStates = {
    "ready": {"status": SessionStatus.PENDING_COMPANY_SELECTION.value, "req_completed": False},
    "running": SessionStatus.SCRAPING_COMPANY_DATA,
    "done": {"status": SessionStatus.PENDING_NAME_SELECTION.value, "req_completed": True},
    "failed": SessionStatus.FAILED,
}
RIGHTS: QueueStates = {
    "ready": RightsStatus.PENDING, "running": RightsStatus.IN_PROGRESS, "done": RightsStatus.COMPLETED,
    "failed": RightsStatus.FAILED,
}  # fmt: skip
DOCUMENT_TYPES = ("index", "actes", "plans_cadastraux")
