"""The states of companies and rights, by the words that their tables' users know."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from tabellion.extractions.states import ExtractionStatus


class SessionStatus(StrEnum):
    """What `search_sessions.status` says."""

    PENDING_COMPANY_SELECTION = "pending_company_selection"  #: waits for a worker, while `req_completed` is false
    SCRAPING_COMPANY_DATA = "scraping_company_data"  #: the enterprise register is being searched
    PENDING_NAME_SELECTION = "pending_name_selection"  #: waits for a person who chooses names
    FAILED = "failed"


class RightsStatus(StrEnum):
    """What `rdprm_searches.status` says."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


EXTRACTION: dict[str, Any] = {
    "ready": ExtractionStatus.EN_ATTENTE, "running": ExtractionStatus.EN_TRAITEMENT,
    "done": ExtractionStatus.COMPLETE, "failed": ExtractionStatus.ERREUR,
}  # fmt: skip
COMPANIES: dict[str, Any] = {
    "ready": {"status": SessionStatus.PENDING_COMPANY_SELECTION.value, "req_completed": False},
    "running": SessionStatus.SCRAPING_COMPANY_DATA,
    "done": {"status": SessionStatus.PENDING_NAME_SELECTION.value, "req_completed": True},
    "failed": SessionStatus.FAILED,
}
RIGHTS: dict[str, Any] = {
    "ready": RightsStatus.PENDING, "running": RightsStatus.IN_PROGRESS, "done": RightsStatus.COMPLETED,
    "failed": RightsStatus.FAILED,
}  # fmt: skip
DOCUMENT_TYPES = ("index", "actes", "plans_cadastraux")
